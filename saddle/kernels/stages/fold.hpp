// A batch norm that comes last before scores a <q,k> moves into the queries, and keys stay as they are:
// a <(q - beta mu)/s, (k - beta mu)/s> = a <q'',k> + r with q'' = (q - beta mu)/s^2 and r = -a beta <q'',mu>.
#pragma once

#include "saddle/kernels/stages/statistics.hpp"
#include "saddle/kernels/stages/visible_keys.hpp"

namespace saddle::kernels::stages {

// What both kinds of folding need on the way back: dq [N,D] comes in with respect to q'' and leaves with respect to q,
// drow [N] with respect to r (null: none), dk [K,D] (null: not wanted) is added to.
template <class T>
struct FoldGradient {
  Rows<T> dq, dk;
  const T* drow = nullptr;
  double dbeta = 0;  // added to
};

// The same statistics for all queries.
template <class T>
class GlobalFold {
 public:
  GlobalFold(KeyStatistics statistics, double beta, double a);

  // beta mu and 1/s^2 [D]
  const T* shift() const { return shift_.data(); }
  const T* factor() const { return factor_.data(); }
  // q [N,D] before the fold -> r [N]
  void row_terms(Reader<T>& q, Index N, T* row) const;
  void pullback(Reader<T>& q, Index N, Reader<T>& k, Index K, Kept keep, FoldGradient<T>& gradient) const;

 private:
  KeyStatistics statistics_;
  double beta_, a_;
  std::vector<T> shift_, factor_;
};

// Every query has the statistics of the keys that it sees; a query that sees none is left as it is.
struct QueryFold {
  primal::BatchNorm bn;
  double beta = 1, a = 1;

  // q [N,D], k [K,D] -> q'' [N,D] and r [N] (null: not wanted)
  template <class T>
  void apply(Reader<T>& q, Index N, Reader<T>& k, Index K, Kept keep, VisibleKeys visible, Rows<T> out, T* row) const;
  template <class T>
  void pullback(Reader<T>& q, Index N, Reader<T>& k, Index K, Kept keep, VisibleKeys visible,
                FoldGradient<T>& gradient) const;
};

}  // namespace saddle::kernels::stages

// Which keys a query sees, as spans, for statistics that differ between queries.
#pragma once

#include <algorithm>

#include "saddle/kernels/stages/rows.hpp"
#include "saddle/primal/call.hpp"

namespace saddle::kernels::stages {

// Keys begin <= j < end.
struct Span {
  Index begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

// Sorted and disjoint.
using Spans = std::vector<Span>;

// Key sets and masks of one head, before and after pooling. Keys that do not exist may lie inside spans: the reader
// leaves them out.
class VisibleKeys {
 public:
  // keep_tokens [M] must outlive this. K keys, pooled by a factor larger than 1 where `pooled`.
  VisibleKeys(const primal::Call& call, Index b, Index h, Kept keep_tokens, Index K, bool pooled);

  void of(Index i, Spans& spans);

 private:
  void tokens_of(Index i, Spans& spans);
  void pool_span(Span tokens, Spans& spans) const;
  void pool_spans(Spans& spans);

  const primal::Call& call_;
  Index b_, h_, M_, K_, factor_;
  Kept keep_tokens_;
  bool pooled_;
  primal::Visibility rule_ = primal::Visibility::any;
  primal::Windows windows_;           // unless one span gives one span
  std::vector<std::uint8_t> tokens_;  // [M] visible and kept
  Spans part_, other_;
};

// Calls visit(j) for the keys of one list that are not in the other.
template <class Visit>
void for_each_difference(const Spans& from, const Spans& without, Visit&& visit) {
  std::size_t at = 0;
  for (const Span& span : from) {
    Index j = span.begin;
    while (j < span.end) {
      while (at < without.size() && without[at].end <= j) ++at;
      const Index stop = at < without.size() ? std::min(span.end, without[at].begin) : span.end;
      for (; j < stop; ++j) visit(j);
      if (at < without.size()) j = std::max(j, std::min(span.end, without[at].end));
    }
  }
}

}  // namespace saddle::kernels::stages

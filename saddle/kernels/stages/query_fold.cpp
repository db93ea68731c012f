#include <cmath>

#include "saddle/kernels/stages/fold.hpp"
#include "saddle/kernels/stages/row_loops.hpp"

namespace saddle::kernels::stages {

namespace {

template <class T>
bool all_finite(const T* x, Index n) {
  T zero{};
#pragma omp simd reduction(+ : zero)
  for (Index d = 0; d < n; ++d) zero += x[d] * T{};
  return zero == 0;
}

// The statistics of query after query. Neighbours see nearly the same keys, so sums are kept and only the keys that
// come and go are added and subtracted.
template <class T>
class RunningStatistics {
 public:
  RunningStatistics(const primal::BatchNorm& bn, Reader<T>& k, Index K, Kept keep, VisibleKeys visible)
      : k_(k),
        keep_(keep),
        visible_(std::move(visible)),
        D_(k.columns()),
        eps_(bn.eps),
        scaled_(bn.scale == primal::ScaleMode::std),
        sum_(D_, 0.0),
        squares_(scaled_ ? D_ : 0, 0.0),
        mean_(D_, 0.0),
        square_(D_, 1.0) {
    // Sums are taken around the mean of all keys, or squares of far-off data would cancel.
    key_mean(k, K, keep, centre_);
    finite_ = all_finite(centre_.data(), D_);
    for (double& c : centre_)
      if (!scaled_ || !std::isfinite(c)) c = 0;
  }

  // Moves on to query i = 0, 1, .. and returns how many keys it sees. Keys that come or go are announced before.
  template <class Vanish, class Arrive>
  Index next(Index i, Vanish&& vanish, Arrive&& arrive) {
    visible_.of(i, now_);
    bool restart = false;
    for_each_difference(before_, now_, [&](Index j) {
      if (!kept_at(keep_, j)) return;
      vanish(j);
      restart = restart || (!finite_ && !all_finite(k_.row(j), D_));
      add(j, -1);
      --n_;
      ++removed_;
    });
    for_each_difference(now_, before_, [&](Index j) {
      if (!kept_at(keep_, j)) return;
      arrive(j);
      add(j, 1);
      ++n_;
    });
    // What was subtracted leaves rounding errors behind; starting again now and then costs no more than subtracting.
    if (restart || removed_ > 2 * n_ + 256) start_again();
    std::swap(now_, before_);
    if (n_ > 0) finish();
    return n_;
  }

  const Spans& spans() const { return before_; }  // of the current query
  bool scaled() const { return scaled_; }
  const double* mean() const { return mean_.data(); }
  const double* square() const { return square_.data(); }
  const double* centre() const { return centre_.data(); }

 private:
  void add(Index j, double sign) {
    const T* key = k_.row(j);
    double* __restrict sum = sum_.data();
    const double* __restrict centre = centre_.data();
    if (!scaled_) {
#pragma omp simd
      for (Index d = 0; d < D_; ++d) sum[d] += sign * static_cast<double>(key[d]);
      return;
    }
    double* __restrict squares = squares_.data();
#pragma omp simd
    for (Index d = 0; d < D_; ++d) {
      const double x = static_cast<double>(key[d]) - centre[d];
      sum[d] += sign * x;
      squares[d] += sign * (x * x);
    }
  }

  void start_again() {
    std::fill(sum_.begin(), sum_.end(), 0.0);
    std::fill(squares_.begin(), squares_.end(), 0.0);
    removed_ = 0;
    for (const Span& span : now_)
      for (Index j = span.begin; j < span.end; ++j)
        if (kept_at(keep_, j)) add(j, 1);
  }

  void finish() {
    const double inverse = 1 / static_cast<double>(n_);
    double* __restrict mean = mean_.data();
    const double* __restrict sum = sum_.data();
    const double* __restrict centre = centre_.data();
    for (Index d = 0; d < D_; ++d) mean[d] = centre[d] + sum[d] * inverse;
    if (!scaled_) return;
    double* __restrict square = square_.data();
    const double* __restrict squares = squares_.data();
    for (Index d = 0; d < D_; ++d) {
      const double off = sum[d] * inverse, moment = squares[d] * inverse, variance = moment - off * off;
      // What is left of equal numbers is rounding.
      square[d] = (variance < 1e-13 * moment ? 0.0 : variance) + eps_;
    }
    for (Index d = 0; d < D_; ++d) {
      const double inverse_of = 1 / square[d];
      square[d] = square[d] == 0 ? 0.0 : inverse_of;
    }
  }

  Reader<T>& k_;
  Kept keep_;
  VisibleKeys visible_;
  Index D_;
  double eps_;
  bool scaled_, finite_ = true;
  Index n_ = 0, removed_ = 0;
  std::vector<double> centre_, sum_, squares_, mean_, square_;
  Spans before_, now_;
};

constexpr auto ignore = [](Index) {};

}  // namespace

template <class T>
void QueryFold::apply(Reader<T>& q, Index N, Reader<T>& k, Index K, Kept keep, VisibleKeys visible, Rows<T> out,
                      T* row) const {
  const Index D = q.columns();
  RunningStatistics<T> statistics(bn, k, K, keep, std::move(visible));
  std::vector<T> shifts(D);
  T* __restrict shift = shifts.data();
  for (Index i = 0; i < N; ++i) {
    const T* __restrict x = q.row(i);
    T* __restrict y = out[i];
    if (row != nullptr) row[i] = 0;
    if (statistics.next(i, ignore, ignore) == 0) {
      std::copy_n(x, D, y);
      continue;
    }
    const double *mean = statistics.mean(), *square = statistics.square();
    for (Index d = 0; d < D; ++d) shift[d] = static_cast<T>(beta * mean[d]);
    if (statistics.scaled())
      for (Index d = 0; d < D; ++d) y[d] = (x[d] - shift[d]) * static_cast<T>(square[d]);
    else
      for (Index d = 0; d < D; ++d) y[d] = x[d] - shift[d];
    if (row != nullptr) row[i] = static_cast<T>(-a) * dot<T>(y, shift, D);
  }
}

// As in GlobalFold, with statistics per query: key j receives the sum of dmu_i/n_i + 2 dvariance_i (k_j - mu_i)/n_i
// over the queries that see it. Those are runs of i, so the sum is a difference of running totals. A query with a
// gradient that is not finite would spoil the totals and is added to its keys directly.
template <class T>
void QueryFold::pullback(Reader<T>& q, Index N, Reader<T>& k, Index K, Kept keep, VisibleKeys visible,
                         FoldGradient<T>& gradient) const {
  const Index D = q.columns();
  RunningStatistics<T> statistics(bn, k, K, keep, std::move(visible));
  const bool scaled = statistics.scaled();
  std::vector<double> total(2 * D, 0.0), own(2 * D, 0.0);  // of terms and of those that multiply k_j - centre
  const Index width = scaled ? 2 * D : D, keys = gradient.dk ? K : 0;
  Buffer<double> sums(keys, width);
  std::fill_n(sums.data(), keys * width, 0.0);
  const auto add_to_key = [&](Index j, const std::vector<double>& terms, double sign) {
    double* __restrict sum = sums.rows()[j];
    const double* __restrict term = terms.data();
    for (Index d = 0; d < width; ++d) sum[d] += sign * term[d];
  };
  const auto vanish = [&](Index j) {
    if (gradient.dk) add_to_key(j, total, 1);
  };
  const auto arrive = [&](Index j) {
    if (gradient.dk) add_to_key(j, total, -1);
  };
  const auto for_each_seen = [&](const auto& visit) {
    for (const Span& span : statistics.spans())
      for (Index j = span.begin; j < span.end; ++j)
        if (kept_at(keep, j)) visit(j);
  };
  for (Index i = 0; i < N; ++i) {
    const Index n = statistics.next(i, vanish, arrive);
    if (n == 0) continue;
    const T* x = q.row(i);
    T* g = gradient.dq[i];
    const double slope = gradient.drow == nullptr ? 0 : static_cast<double>(gradient.drow[i]);
    const double *mean = statistics.mean(), *square = statistics.square(), *centre = statistics.centre();
    const double inverse = 1 / static_cast<double>(n);
    double dbeta = 0;
    double* __restrict constant = own.data(), * __restrict factor = own.data() + D;
#pragma omp simd reduction(- : dbeta)
    for (Index d = 0; d < D; ++d) {
      const double shifted = static_cast<double>(x[d]) - beta * mean[d];
      const double dq = static_cast<double>(g[d]) - a * beta * slope * mean[d];
      const double u = square[d] * (dq + a * slope * shifted);
      dbeta -= u * mean[d];
      constant[d] = -beta * u * inverse;
      factor[d] = -2 * square[d] * square[d] * dq * shifted * inverse;  // 2 dvariance/n
      g[d] = static_cast<T>(dq * square[d]);
    }
    if (scaled)
      for (Index d = 0; d < D; ++d) constant[d] -= factor[d] * (mean[d] - centre[d]);
    gradient.dbeta += dbeta;
    if (!gradient.dk) continue;
    if (all_finite(own.data(), width))
      for (Index d = 0; d < width; ++d) total[d] += own[d];
    else
      for_each_seen([&](Index j) { add_to_key(j, own, 1); });
  }
  if (!gradient.dk) return;
  for_each_seen(vanish);
  for (Index j = 0; j < K; ++j) {
    if (!kept_at(keep, j)) continue;
    const double* sum = sums.rows()[j];
    const T* key = k.row(j);
    T* dk = gradient.dk[j];
    for (Index d = 0; d < D; ++d) {
      double term = sum[d];
      if (scaled && sum[D + d] != 0) term += sum[D + d] * (static_cast<double>(key[d]) - statistics.centre()[d]);
      dk[d] += static_cast<T>(term);
    }
  }
}

template void QueryFold::apply(Reader<float>&, Index, Reader<float>&, Index, Kept, VisibleKeys, Rows<float>,
                               float*) const;
template void QueryFold::apply(Reader<double>&, Index, Reader<double>&, Index, Kept, VisibleKeys, Rows<double>,
                               double*) const;
template void QueryFold::pullback(Reader<float>&, Index, Reader<float>&, Index, Kept, VisibleKeys,
                                  FoldGradient<float>&) const;
template void QueryFold::pullback(Reader<double>&, Index, Reader<double>&, Index, Kept, VisibleKeys,
                                  FoldGradient<double>&) const;

}  // namespace saddle::kernels::stages

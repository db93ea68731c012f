#include "saddle/kernels/circular/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace saddle::kernels::circular::reference {

namespace {

// f(b, h, n) for every head of every sequence of length n.
template <class Call, class F>
void for_each_head(const Call& call, const F& f) {
  for (Index b = 0; b < call.shape.B; ++b)
    for (Index h = 0; h < call.shape.H; ++h) f(b, h, call.lengths ? call.lengths[b] : call.shape.N);
}

template <int Rank>
void clear(const View<double, Rank>& x) {
  if (!x) return;
  if constexpr (Rank == 1) {
    for (Index i = 0; i < x.shape[0]; ++i) x[i] = 0;
  } else {
    for (Index i = 0; i < x.shape[0]; ++i) clear(x[i]);
  }
}

// Which element of w joins y_i and v_j.
Index offset(Direction direction, Index i, Index j, Index n) {
  return (direction == Direction::convolution ? i - j + n : j - i + n) % n;
}

// weights [n] of query i over the offsets; all 0 if no score is finite.
std::vector<double> prefix_softmax(const View<const double, 1>& z, Index i) {
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (Index d = 0; d <= i; ++d) top = std::max(top, z[d]);
  std::vector<double> w(static_cast<std::size_t>(i + 1), 0.0);
  if (top == -std::numeric_limits<double>::infinity()) return w;
  for (Index d = 0; d <= i; ++d) sum += w[d] = std::exp(z[d] - top);
  for (double& x : w) x /= sum;
  return w;
}

}  // namespace

void forward(const CircularCall<double>& call, const View<double, 4>& y) {
  clear(y);
  for_each_head(call, [&](Index b, Index h, Index n) {
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; ++j)
        for (Index d = 0; d < call.shape.D; ++d)
          y(b, h, i, d) += call.w(b, h, offset(call.direction, i, j, n), d) * call.v(b, h, j, d);
  });
}

void backward(const CircularCall<double>& call, const View<const double, 4>& dy, const View<double, 4>& dw,
              const View<double, 4>& dv) {
  clear(dw);
  clear(dv);
  for_each_head(call, [&](Index b, Index h, Index n) {
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; ++j)
        for (Index d = 0; d < call.shape.D; ++d) {
          const Index m = offset(call.direction, i, j, n);
          if (dw) dw(b, h, m, d) += dy(b, h, i, d) * call.v(b, h, j, d);
          if (dv) dv(b, h, j, d) += dy(b, h, i, d) * call.w(b, h, m, d);
        }
  });
}

void causal_forward(const CausalCall<double>& call, const View<double, 4>& y) {
  clear(y);
  for_each_head(call, [&](Index b, Index h, Index n) {
    for (Index i = 0; i < n; ++i) {
      const std::vector<double> w = prefix_softmax(call.z[b][h], i);
      for (Index m = 0; m <= i; ++m)
        for (Index d = 0; d < call.shape.D; ++d) y(b, h, i, d) += w[m] * call.v(b, h, i - m, d);
    }
  });
}

void causal_backward(const CausalCall<double>& call, const View<const double, 4>& dy, const View<double, 3>& dz,
                     const View<double, 4>& dv) {
  clear(dz);
  clear(dv);
  for_each_head(call, [&](Index b, Index h, Index n) {
    for (Index i = 0; i < n; ++i) {
      const std::vector<double> w = prefix_softmax(call.z[b][h], i);
      std::vector<double> dw(w.size(), 0.0);
      double mean = 0;
      for (Index m = 0; m <= i; ++m) {
        for (Index d = 0; d < call.shape.D; ++d) {
          dw[m] += dy(b, h, i, d) * call.v(b, h, i - m, d);
          if (dv) dv(b, h, i - m, d) += w[m] * dy(b, h, i, d);
        }
        mean += w[m] * dw[m];
      }
      if (dz)
        for (Index m = 0; m <= i; ++m) dz(b, h, m) += w[m] * (dw[m] - mean);
    }
  });
}

}  // namespace saddle::kernels::circular::reference

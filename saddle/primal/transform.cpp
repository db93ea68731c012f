#include "saddle/primal/transform.hpp"

#include <algorithm>
#include <cmath>

namespace saddle::primal {

namespace {

// Mean, variance and 1/s of the kept keys, each [D]; n = 0 means there is nothing to normalise by.
struct KeyStatistics {
  Index n = 0;
  std::vector<double> mean, variance, inverse;
};

KeyStatistics statistics(const BatchNorm& bn, const Matrix& k, std::span<const std::uint8_t> keep) {
  const auto [M, D] = k.shape();
  KeyStatistics s;
  s.mean.assign(D, 0.0);
  s.variance = s.mean;
  s.inverse.assign(D, 1.0);
  for (Index j = 0; j < M; ++j) s.n += keep[j] != 0;
  if (s.n == 0) return s;
  for (Index d = 0; d < D; ++d) {
    for (Index j = 0; j < M; ++j)
      if (keep[j]) s.mean[d] += k(j, d);
    s.mean[d] /= static_cast<double>(s.n);
    for (Index j = 0; j < M; ++j)
      if (keep[j]) s.variance[d] += (k(j, d) - s.mean[d]) * (k(j, d) - s.mean[d]);
    s.variance[d] /= static_cast<double>(s.n);
    if (bn.scale != ScaleMode::std) continue;
    const double square = s.variance[d] + bn.eps;
    s.inverse[d] = square > 0 ? 1 / std::sqrt(square) : 0;  // a feature in which all keys agree tells nothing
  }
  return s;
}

// |x|, also where the squares would leave the range of double.
double norm(std::span<const double> x) {
  double top = 0, sum = 0;
  for (double value : x) top = std::max(top, std::fabs(value));
  if (!(top > 0) || std::isinf(top)) return top;
  for (double value : x) sum += (value / top) * (value / top);
  return top * std::sqrt(sum);
}

// The index set of y(r,c) = sum_f c(f) x(r + fr - Pr, c + fc - Pc), zero outside the grid. Both passes walk it.
struct GridConvolution {
  Grid grid, size;

  template <class Visit>  // visit(output index, kernel index, input index)
  void for_each(Visit&& visit) const {
    for (Index r = 0; r < grid.rows; ++r)
      for (Index c = 0; c < grid.columns; ++c)
        for (Index fr = 0; fr < size.rows; ++fr)
          for (Index fc = 0; fc < size.columns; ++fc) {
            const Index ir = r + fr - (size.rows - 1) / 2, ic = c + fc - (size.columns - 1) / 2;
            if (ir < 0 || ir >= grid.rows || ic < 0 || ic >= grid.columns) continue;
            visit(r * grid.columns + c, fr * size.columns + fc, ir * grid.columns + ic);
          }
  }
};

bool kept_at(std::span<const std::uint8_t> keep, Index i) { return keep.empty() || keep[i]; }

// Calls visit(output token, output feature, kernel index, input token, input feature) for every product of the
// convolution over x [n,D]; missing tokens are zero, so they are left out.
template <class Visit>
void for_each_product(Axis axis, const GridConvolution& convolution, std::span<const std::uint8_t> keep, Index n,
                      Index D, Visit&& visit) {
  if (axis == Axis::feature) {
    convolution.for_each([&](Index out, Index f, Index in) {
      for (Index i = 0; i < n; ++i) visit(i, out, f, i, in);
    });
    return;
  }
  convolution.for_each([&](Index out, Index f, Index in) {
    if (!kept_at(keep, in)) return;
    for (Index d = 0; d < D; ++d) visit(out, d, f, in, d);
  });
}

// The grid the convolution runs over: the features of a token, or the tokens of a sequence.
GridConvolution over(const Conv1d& conv, Index n, Index D) {
  return {{1, conv.axis == Axis::feature ? D : n}, {1, conv.size}};
}

GridConvolution over(const Conv2d& conv, Index n, Index D) {
  return {conv.grid.empty() ? most_square_grid(conv.axis == Axis::feature ? D : n) : conv.grid, conv.size};
}

template <class Conv>
void convolve(const Conv& conv, Tokens& tokens, const Kept& kept, std::span<const double> theta) {
  const auto apply = [&](Matrix& x, std::span<const std::uint8_t> keep) {
    const auto [n, D] = x.shape();
    Matrix y(x.shape());
    for_each_product(conv.axis, over(conv, n, D), keep, n, D,
                     [&](Index i, Index d, Index f, Index j, Index e) { y(i, d) += theta[f] * x(j, e); });
    x = std::move(y);
  };
  apply(tokens.q, kept.queries);
  apply(tokens.k, kept.keys);
}

template <class Conv>
void convolve_pullback(const Conv& conv, const Tokens& input, const Kept& kept, std::span<const double> theta,
                       Tokens& gradient, std::span<double> dtheta) {
  const auto pull = [&](const Matrix& x, std::span<const std::uint8_t> keep, Matrix& dy) {
    const auto [n, D] = x.shape();
    Matrix dx(x.shape());
    for_each_product(conv.axis, over(conv, n, D), keep, n, D, [&](Index i, Index d, Index f, Index j, Index e) {
      dx(j, e) += theta[f] * dy(i, d);
      dtheta[f] += x(j, e) * dy(i, d);
    });
    dy = std::move(dx);
  };
  pull(input.q, kept.queries, gradient.q);
  pull(input.k, kept.keys, gradient.k);
}

}  // namespace

void BatchNorm::apply(Tokens& tokens, const Kept& kept, std::span<const double> theta) const {
  const KeyStatistics s = statistics(*this, tokens.k, kept.keys);
  if (s.n == 0) return;
  for (Matrix* x : {&tokens.q, &tokens.k})
    for (Index i = 0; i < x->shape()[0]; ++i)
      for (Index d = 0; d < x->shape()[1]; ++d) {
        (*x)(i, d) = ((*x)(i, d) - theta[0] * s.mean[d]) * s.inverse[d];
      }
}

// Both inputs feel the mean and the deviation, which only the kept keys form.
void BatchNorm::pullback(const Tokens& input, const Kept& kept, std::span<const double> theta, Tokens& gradient,
                         std::span<double> dtheta) const {
  const KeyStatistics s = statistics(*this, input.k, kept.keys);
  if (s.n == 0) return;
  const auto [M, D] = input.k.shape();
  for (Index d = 0; d < D; ++d) {
    const double mean = s.mean[d], r = s.inverse[d];
    double sum = 0, dr = 0;  // sums over rows of dx' and dx' (x - beta mu)
    const auto accumulate = [&](const Matrix& x, Matrix& dx) {
      for (Index i = 0; i < x.shape()[0]; ++i) {
        sum += dx(i, d);
        dr += dx(i, d) * (x(i, d) - theta[0] * mean);
        dx(i, d) *= r;
      }
    };
    accumulate(input.q, gradient.q);
    accumulate(input.k, gradient.k);
    dtheta[0] -= sum * r * mean;
    const double dmean = -theta[0] * sum * r;
    const double dvariance = scale == ScaleMode::std ? -0.5 * dr * r * r * r : 0;  // r = (var + eps)^(-1/2)
    for (Index j = 0; j < M; ++j)
      if (kept.keys[j]) gradient.k(j, d) += (dmean + 2 * dvariance * (input.k(j, d) - mean)) / static_cast<double>(s.n);
  }
}

void L2::apply(Tokens& tokens, const Kept&, std::span<const double>) const {
  for (Matrix* x : {&tokens.q, &tokens.k})
    for (Index i = 0; i < x->shape()[0]; ++i) {
      const double length = norm(row(*x, i));
      for (double& value : row(*x, i)) value = length > 0 ? value / length : 0;
    }
}

// dx = (dy - u (u.dy))/|x| with u = x/|x|.
void L2::pullback(const Tokens& input, const Kept&, std::span<const double>, Tokens& gradient,
                  std::span<double>) const {
  const auto pull = [](const Matrix& x, Matrix& dx) {
    for (Index i = 0; i < x.shape()[0]; ++i) {
      const double length = norm(row(x, i));
      double dot = 0;
      for (Index d = 0; d < x.shape()[1]; ++d) dot += length > 0 ? x(i, d) / length * dx(i, d) : 0;
      for (Index d = 0; d < x.shape()[1]; ++d) dx(i, d) = length > 0 ? (dx(i, d) - x(i, d) / length * dot) / length : 0;
    }
  };
  pull(input.q, gradient.q);
  pull(input.k, gradient.k);
}

std::vector<double> Conv1d::initial() const {
  std::vector<double> impulse(size, 0.0);
  impulse[impulse.size() / 2] = 1;
  return impulse;
}

std::vector<double> Conv2d::initial() const {
  std::vector<double> impulse(size.size(), 0.0);
  impulse[impulse.size() / 2] = 1;
  return impulse;
}

void Conv1d::apply(Tokens& tokens, const Kept& kept, std::span<const double> theta) const {
  convolve(*this, tokens, kept, theta);
}
void Conv2d::apply(Tokens& tokens, const Kept& kept, std::span<const double> theta) const {
  convolve(*this, tokens, kept, theta);
}
void Conv1d::pullback(const Tokens& input, const Kept& kept, std::span<const double> theta, Tokens& gradient,
                      std::span<double> dtheta) const {
  convolve_pullback(*this, input, kept, theta, gradient, dtheta);
}
void Conv2d::pullback(const Tokens& input, const Kept& kept, std::span<const double> theta, Tokens& gradient,
                      std::span<double> dtheta) const {
  convolve_pullback(*this, input, kept, theta, gradient, dtheta);
}

bool mixes_tokens(const Transform& transform) {
  if (const auto* conv = std::get_if<Conv1d>(&transform)) return conv->axis == Axis::token;
  if (const auto* conv = std::get_if<Conv2d>(&transform)) return conv->axis == Axis::token;
  return false;
}

Grid most_square_grid(Index size) {
  auto rows = static_cast<Index>(std::sqrt(static_cast<double>(size)));
  while (rows > 1 && size % rows != 0) --rows;
  return {std::max<Index>(rows, 1), size / std::max<Index>(rows, 1)};
}

}  // namespace saddle::primal

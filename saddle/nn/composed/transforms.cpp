#include "saddle/nn/composed/heads.hpp"

namespace saddle::nn::composed {

namespace {

using primal::Axis;

// The convolution over a row-major grid of n cells as a matrix [1|G,n,n]: entry (out,in) is the tap between them.
Tensor convolution_matrix(const Tensor& taps, primal::Grid grid, primal::Grid size) {
  const Index n = grid.size();
  const Tensor cell = torch::arange(n, torch::dtype(torch::kInt64).device(taps.device()));
  const Tensor row = cell.div(grid.columns, "floor"), column = cell.remainder(grid.columns);
  const Tensor r = row.unsqueeze(0) - row.unsqueeze(1) + (size.rows - 1) / 2;
  const Tensor c = column.unsqueeze(0) - column.unsqueeze(1) + (size.columns - 1) / 2;
  const Tensor apart = (r < 0) | (r >= size.rows) | (c < 0) | (c >= size.columns);
  const Tensor tap = (r * size.columns + c).masked_fill(apart, 0);
  return taps.flatten(1).index_select(1, tap.flatten()).view({taps.size(0), n, n}).masked_fill(apart, 0);
}

primal::Grid grid_of(const primal::Conv1d&, Index n) { return {1, n}; }
primal::Grid grid_of(const primal::Conv2d& conv, Index n) {
  return conv.grid.empty() ? primal::most_square_grid(n) : conv.grid;
}
primal::Grid size_of(const primal::Conv1d& conv) { return {1, conv.size}; }
primal::Grid size_of(const primal::Conv2d& conv) { return conv.size; }

// counted [B|1,G|1,R|N,K]: the keys that give the statistics. theta [1|G]
void apply(const primal::BatchNorm& bn, const Tensor& counted, const Tensor& theta, Heads& heads) {
  const Tensor mean = mean_over(heads.k, counted);  // [B,G,R,D]
  Tensor inverse = torch::ones({}, mean.options());
  if (bn.scale == primal::ScaleMode::std) {
    const Tensor square = mean_over((heads.k - mean.unsqueeze(-2)).square(), counted) + bn.eps;
    const Tensor flat = square <= 0;  // a feature in which all keys agree tells nothing
    inverse = square.masked_fill(flat, 1).rsqrt().masked_fill(flat, 0);
  }
  const Tensor centre = theta.view({-1, 1, 1}) * mean;
  heads.q = (heads.q - centre) * inverse;
  heads.k = (heads.k - centre.unsqueeze(-2)) * (inverse.dim() > 0 ? inverse.unsqueeze(-2) : inverse);
}

// Relative to its largest entry a row has squares of ordinary size; x/|x| does not feel the factor.
Tensor unit(const Tensor& x) {
  const Tensor top = x.detach().abs().amax(-1, true);
  const Tensor zero = top == 0;
  const Tensor y = x / top.masked_fill(zero, 1);
  return (y * y.square().sum(-1, true).masked_fill(zero, 1).rsqrt()).masked_fill(zero, 0);
}

void apply(const primal::L2&, const Tensor&, const Tensor&, Heads& heads) {
  heads.q = unit(heads.q);
  heads.k = unit(heads.k);
}

// Missing tokens are zero to their neighbours. theta = kernel [1|G,..]
template <class Conv>
void convolve(const Conv& conv, const Tensor& theta, Heads& heads) {
  if (conv.axis == Axis::feature) {
    const Tensor matrix = convolution_matrix(theta, grid_of(conv, heads.q.size(-1)), size_of(conv)).transpose(1, 2);
    heads.q = heads.q.matmul(matrix);
    heads.k = heads.k.matmul(matrix.unsqueeze(1));
    return;
  }
  const auto over_tokens = [&](const Tensor& x, const Tensor& keep) {  // [B,G,n,D], [B|1,1,n]
    const Tensor kept = keep.defined() ? x.masked_fill(~keep.unsqueeze(-1), 0) : x;
    return convolution_matrix(theta, grid_of(conv, x.size(2)), size_of(conv)).matmul(kept);
  };
  heads.q = over_tokens(heads.q, heads.keep_queries);
  heads.k = over_tokens(heads.k.squeeze(2), heads.keep).unsqueeze(2);
}

void apply(const primal::Conv1d& conv, const Tensor&, const Tensor& theta, Heads& heads) {
  convolve(conv, theta, heads);
}
void apply(const primal::Conv2d& conv, const Tensor&, const Tensor& theta, Heads& heads) {
  convolve(conv, theta, heads);
}

}  // namespace

void transform_heads(const primal::Attention& value, std::size_t t, const Tensor& theta, Heads& heads) {
  const bool per_query = t >= primal::first_per_query_transform(value);
  const Tensor counted = per_query ? heads.visible : heads.keep.unsqueeze(2);
  std::visit([&](const primal::TransformPart auto& part) { apply(part, counted, theta, heads); }, value.transforms[t]);
}

}  // namespace saddle::nn::composed

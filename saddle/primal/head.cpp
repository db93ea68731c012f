#include "saddle/primal/head.hpp"

#include <algorithm>

namespace saddle::primal {

namespace {

// Sample b, head h of a tensor [B,H,n,C] as [n,C].
TensorView slice(const TensorView& tensor, Index b, Index h) {
  TensorView part = tensor;
  part.data = static_cast<std::byte*>(tensor.data) +
              (b * tensor.stride[0] + h * tensor.stride[1]) * static_cast<Index>(size_of(tensor.dtype));
  part.shape.erase(part.shape.begin(), part.shape.begin() + 2);
  part.stride.erase(part.stride.begin(), part.stride.begin() + 2);
  return part;
}

Matrix read(const TensorView& tensor, Index b, Index h) { return to_double<2>(slice(tensor, b, h)); }

std::vector<std::uint8_t> read_key_mask(const Call& call, Index b, Index M) {
  std::vector<std::uint8_t> keep(M, 1);
  if (!call.key_mask) return keep;
  for (Index j = 0; j < M; ++j)
    keep[j] = load(call.key_mask, b * call.key_mask.stride[0] + j * call.key_mask.stride[1]) != 0;
  return keep;
}

// What a key that does not exist holds must not matter, not even to gradients: 0 times NaN would be NaN.
void clear_missing(Matrix& x, std::span<const std::uint8_t> keep) {
  for (Index j = 0; j < x.shape()[0]; ++j)
    if (!keep[static_cast<std::size_t>(j)]) std::fill_n(x.data() + j * x.shape()[1], x.shape()[1], 0.0);
}

// Whether query i sees key j, before pooling.
bool visible_token(const Call& call, const Head& head, Index i, Index j) {
  if (!head.keep_tokens[j] || !sees(call.attention.keys, head.head, i, j)) return false;
  if (!call.mask) return true;
  const auto& stride = call.mask.stride;
  return load(call.mask, head.sample * stride[0] + head.head * stride[1] + i * stride[2] + j * stride[3]) != 0;
}

// A pooled key is seen when any, or all, of the kept tokens of its window are.
bool visible_window(const Call& call, const Head& head, Index i, const std::vector<Index>& window, Visibility rule) {
  bool any = false, all = true;
  for (Index t : window) {
    if (!head.keep_tokens[t]) continue;
    const bool seen = visible_token(call, head, i, t);
    any |= seen;
    all &= seen;
  }
  return any && (rule == Visibility::any || all);
}

void run(const Transform& transform, Tokens& tokens, const Kept& kept, const std::vector<double>& theta) {
  std::visit([&](const TransformPart auto& part) { part.apply(tokens, kept, theta); }, transform);
}

void run_back(const Transform& transform, const Tokens& input, const Kept& kept, const std::vector<double>& theta,
              Tokens& gradient, std::vector<double>& dtheta) {
  std::visit([&](const TransformPart auto& part) { part.pullback(input, kept, theta, gradient, dtheta); }, transform);
}

void pool_head(const Call& call, Head& head) {
  const Pooling& pooling = *call.attention.pooling;
  head.windows = pooling_windows(pooling, factor_of(call.attention, call.dims(), head.head), head.tokens.k.shape()[0]);
  head.tokens.k = pool(head.windows, head.tokens.k, head.keep_tokens);
  head.v = pool(head.windows, head.v, head.keep_tokens);
  head.keep.clear();
  for (const auto& window : head.windows)
    head.keep.push_back(std::any_of(window.begin(), window.end(), [&](Index t) { return head.keep_tokens[t] != 0; }));
}

void find_visible(const Call& call, Head& head) {
  const Index N = head.tokens.q.shape()[0], K = head.tokens.k.shape()[0];
  head.visible = Array<std::uint8_t, 2>({N, K});
  const Visibility rule =
      call.attention.pooling ? visibility_of(call.attention, *call.attention.pooling) : Visibility::any;
  for (Index i = 0; i < N; ++i)
    for (Index j = 0; j < K; ++j)
      head.visible(i, j) = call.attention.pooling ? visible_window(call, head, i, head.windows[j], rule)
                                                  : visible_token(call, head, i, j);
}

// The keys query i sees, as a keep list for its own statistics.
std::span<const std::uint8_t> seen_by(const Head& head, Index i) {
  const Index K = head.visible.shape()[1];
  return {head.visible.data() + i * K, static_cast<std::size_t>(K)};
}

}  // namespace

Head prepare_head(const Call& call, Index b, Index h) {
  Head head;
  head.sample = b;
  head.head = h;
  head.tokens = {read(call.q, b, h), read(call.k, b, h)};
  head.v = read(call.v, b, h);
  head.keep = head.keep_tokens = read_key_mask(call, b, head.tokens.k.shape()[0]);
  clear_missing(head.tokens.k, head.keep_tokens);
  clear_missing(head.v, head.keep_tokens);
  if (call.key_mask && call.dims().N == call.dims().M) head.keep_queries = head.keep_tokens;
  if (call.attention.pooling) pool_head(call, head);
  find_visible(call, head);

  const auto& transforms = call.attention.transforms;
  for (const Transform& transform : transforms)
    head.theta.push_back(
        parameter_of(call, std::visit([](const auto& part) { return std::string(part.parameter); }, transform), h));
  head.per_query = first_per_query_transform(call.attention);
  for (std::size_t t = 0; t < head.per_query; ++t) {
    head.inputs.push_back(head.tokens);
    run(transforms[t], head.tokens, {head.keep, head.keep_queries}, head.theta[t]);
  }
  return head;
}

HeadGradient zero_gradient(const Head& head) {
  HeadGradient gradient{{Matrix(head.tokens.q.shape()), Matrix(head.tokens.k.shape())}, Matrix(head.v.shape()), {}};
  for (const auto& theta : head.theta) gradient.theta.emplace_back(theta.size(), 0.0);
  return gradient;
}

void pullback_head(const Call& call, const Head& head, HeadGradient& gradient) {
  for (std::size_t t = head.per_query; t-- > 0;)
    run_back(call.attention.transforms[t], head.inputs[t], {head.keep, head.keep_queries}, head.theta[t],
             gradient.tokens, gradient.theta[t]);
  if (!call.attention.pooling) return;
  const auto M = static_cast<Index>(head.keep_tokens.size());
  gradient.tokens.k = pool_pullback(head.windows, gradient.tokens.k, head.keep_tokens, M);
  gradient.v = pool_pullback(head.windows, gradient.v, head.keep_tokens, M);
}

QueryTokens per_query_tokens(const Call& call, const Head& head, Index i) {
  const Index D = head.tokens.q.shape()[1];
  QueryTokens query{{Matrix({1, D}), head.tokens.k}, {}};
  for (Index d = 0; d < D; ++d) query.tokens.q(0, d) = head.tokens.q(i, d);
  for (std::size_t t = head.per_query; t < call.attention.transforms.size(); ++t) {
    query.inputs.push_back(query.tokens);
    run(call.attention.transforms[t], query.tokens, {seen_by(head, i), {}}, head.theta[t]);
  }
  return query;
}

void per_query_pullback(const Call& call, const Head& head, Index i, const QueryTokens& query, Tokens dtokens,
                        HeadGradient& gradient) {
  for (std::size_t t = call.attention.transforms.size(); t-- > head.per_query;)
    run_back(call.attention.transforms[t], query.inputs[t - head.per_query], {seen_by(head, i), {}}, head.theta[t],
             dtokens, gradient.theta[t]);
  for (Index d = 0; d < dtokens.q.shape()[1]; ++d) gradient.tokens.q(i, d) += dtokens.q(0, d);
  std::transform(dtokens.k.begin(), dtokens.k.end(), gradient.tokens.k.begin(), gradient.tokens.k.begin(),
                 std::plus<>());
}

void write_head(const Call& call, const Head& head, const Matrix& y, const TensorView& out) {
  Matrix total = y;
  if (call.attention.bias) {
    const auto bias = parameter_of(call, "bias", head.head);
    for (Index i = 0; i < y.shape()[0]; ++i)
      for (Index e = 0; e < y.shape()[1]; ++e) total(i, e) += bias[e];
  }
  if (call.attention.residual) {
    const Matrix skip = read(call.skip, head.sample, head.head);
    std::transform(total.begin(), total.end(), skip.begin(), total.begin(), std::plus<>());
  }
  from_double(total, slice(out, head.sample, head.head));
}

Matrix read_dy(const Gradients& gradients, Index b, Index h) { return read(gradients.dy, b, h); }

void write_gradients(const Call& call, const std::vector<HeadGradient>& heads, const Gradients& gradients) {
  const Dims dims = call.dims();
  for (Index b = 0; b < dims.B; ++b)
    for (Index h = 0; h < dims.H; ++h) {
      const HeadGradient& head = heads[b * dims.H + h];
      if (gradients.dq) from_double(head.tokens.q, slice(gradients.dq, b, h));
      if (gradients.dk) from_double(head.tokens.k, slice(gradients.dk, b, h));
      if (gradients.dv) from_double(head.v, slice(gradients.dv, b, h));
      if (gradients.dskip) from_double(read_dy(gradients, b, h), slice(gradients.dskip, b, h));
    }
  for (const auto& [name, tensor] : gradients.parameters) {
    const Index leading = tensor.shape[0], width = element_count(tensor.shape) / leading;
    std::vector<double> sum(leading * width, 0.0);
    const auto add = [&](Index h, std::span<const double> values) {
      for (std::size_t c = 0; c < values.size(); ++c) sum[(leading == 1 ? 0 : h) * width + c] += values[c];
    };
    for (Index b = 0; b < dims.B; ++b)
      for (Index h = 0; h < dims.H; ++h) {
        if (name == "bias") {
          const Matrix dy = read_dy(gradients, b, h);
          for (Index i = 0; i < dims.N; ++i) add(h, row(dy, i));
          continue;
        }
        for (std::size_t t = 0; t < call.attention.transforms.size(); ++t)
          if (name == std::visit([](const auto& part) { return part.parameter; }, call.attention.transforms[t]))
            add(h, heads[b * dims.H + h].theta[t]);
      }
    saddle::detail::copy_from_double(sum.data(), tensor);
  }
}

}  // namespace saddle::primal

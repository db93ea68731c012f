#include "saddle/primal/layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/primal/reference.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::primal {

namespace {

// The layer opened up: sizes, weights as matrices, projected tokens.
struct Open {
  Index B, N, X, H, D, E;
  Matrix x;  // [B*N,X]
  Matrix wq, wk, wv, wo;
  Tensor q, k, v;  // [B,H,N,D|E]
  Call call;
};

Matrix matrix(const Layer& layer, const std::string& name) {
  const auto found = layer.parameters.find(name);
  if (found == layer.parameters.end())
    throw InvalidArgument(fmt::format("[{}] the layer has no parameter '{}'", to_text(layer.attention), name));
  return to_double<2>(found->second.view());
}

std::vector<double> bias(const Layer& layer, const std::string& name, Index size) {
  const auto found = layer.parameters.find(name);
  if (found == layer.parameters.end()) return std::vector<double>(size, 0.0);
  if (found->second.shape() != Shape{size})
    throw InvalidArgument(fmt::format("[{}] parameter {} has shape {} but must be ({})", to_text(layer.attention), name,
                                      to_string(found->second.shape()), size));
  const Vector values = to_double<1>(found->second.view());
  return {values.begin(), values.end()};
}

// x [n,I], w [O,I], b [O] -> [n,O]
Matrix affine(const Matrix& x, const Matrix& w, const std::vector<double>& b) {
  const Index n = x.shape()[0], in = x.shape()[1], out = w.shape()[0];
  Matrix y({n, out});
  for (Index i = 0; i < n; ++i)
    for (Index o = 0; o < out; ++o) {
      double sum = b[o];
      for (Index c = 0; c < in; ++c) sum += w(o, c) * x(i, c);
      y(i, o) = sum;
    }
  return y;
}

// dy [n,O] -> dx [n,I] +=, dw [O,I], db [O]
void affine_pullback(const Matrix& x, const Matrix& w, const Matrix& dy, Matrix& dx, Matrix& dw, Vector& db) {
  const Index n = x.shape()[0], in = x.shape()[1], out = w.shape()[0];
  dw = Matrix({out, in});
  db = Vector({out});
  for (Index i = 0; i < n; ++i)
    for (Index o = 0; o < out; ++o) {
      db(o) += dy(i, o);
      for (Index c = 0; c < in; ++c) {
        dw(o, c) += dy(i, o) * x(i, c);
        dx(i, c) += dy(i, o) * w(o, c);
      }
    }
}

// [B*N,H*C] <-> [B,H,N,C]
Tensor split_heads(const Matrix& x, Index B, Index H) {
  const Index N = x.shape()[0] / B, C = x.shape()[1] / H;
  Tensor y(DType::f64, {B, H, N, C});
  for (Index b = 0; b < B; ++b)
    for (Index h = 0; h < H; ++h)
      for (Index i = 0; i < N; ++i)
        for (Index c = 0; c < C; ++c) y.set(((b * H + h) * N + i) * C + c, x(b * N + i, h * C + c));
  return y;
}

Matrix join_heads(const Tensor& x) {
  const Index B = x.shape()[0], H = x.shape()[1], N = x.shape()[2], C = x.shape()[3];
  Matrix y({B * N, H * C});
  for (Index b = 0; b < B; ++b)
    for (Index h = 0; h < H; ++h)
      for (Index i = 0; i < N; ++i)
        for (Index c = 0; c < C; ++c) y(b * N + i, h * C + c) = x.at(((b * H + h) * N + i) * C + c);
  return y;
}

Matrix flatten(const Tensor& x) {
  const auto cube = to_double<3>(x.view());
  Matrix y({cube.shape()[0] * cube.shape()[1], cube.shape()[2]});
  std::copy(cube.begin(), cube.end(), y.begin());
  return y;
}

void require(bool ok, const Layer& layer, const std::string& name, const Matrix& w, const std::string& expected) {
  if (!ok)
    throw InvalidArgument(fmt::format("[{}] parameter {} has shape ({},{}) but must be {}", to_text(layer.attention),
                                      name, w.shape()[0], w.shape()[1], expected));
}

Open open(const Layer& layer, const Tensor& x, const TensorView& key_mask, const TensorView& mask) {
  if (x.shape().size() != 3 || x.shape()[0] < 1)
    throw InvalidArgument(fmt::format("[{}] the input has shape {} but must be (B,N,X) with B at least 1",
                                      to_text(layer.attention), to_string(x.shape())));
  if (layer.heads < 1)
    throw InvalidArgument(
        fmt::format("[{}] the layer has H = {} heads: at least 1 is needed", to_text(layer.attention), layer.heads));
  Open o{x.shape()[0],
         x.shape()[1],
         x.shape()[2],
         layer.heads,
         0,
         0,
         flatten(x),
         matrix(layer, "wq"),
         matrix(layer, "wk"),
         matrix(layer, "wv"),
         matrix(layer, "wo"),
         {},
         {},
         {},
         {}};
  const std::string width = fmt::format("(a multiple of H = {}, X = {})", o.H, o.X);
  require(o.wq.shape()[0] % o.H == 0 && o.wq.shape()[1] == o.X, layer, "wq", o.wq, width);
  require(o.wk.shape() == o.wq.shape(), layer, "wk", o.wk, "that of wq");
  require(o.wv.shape()[0] % o.H == 0 && o.wv.shape()[1] == o.X, layer, "wv", o.wv, width);
  require(o.wo.shape() == std::array{o.X, o.wv.shape()[0]}, layer, "wo", o.wo,
          fmt::format("({},{})", o.X, o.wv.shape()[0]));
  o.D = o.wq.shape()[0] / o.H;
  o.E = o.wv.shape()[0] / o.H;
  o.q = split_heads(affine(o.x, o.wq, bias(layer, "bq", o.H * o.D)), o.B, o.H);
  o.k = split_heads(affine(o.x, o.wk, bias(layer, "bk", o.H * o.D)), o.B, o.H);
  o.v = split_heads(affine(o.x, o.wv, bias(layer, "bv", o.H * o.E)), o.B, o.H);
  o.call.attention = layer.attention;
  o.call.attention.residual.reset();  // added behind the output projection, not per head
  o.call.q = o.q.view();
  o.call.k = o.k.view();
  o.call.v = o.v.view();
  o.call.key_mask = key_mask;
  o.call.mask = mask;
  std::vector<std::string> known{"wq", "bq", "wk", "bk", "wv", "bv", "wo", "bo"};
  for (const auto& info : parameters(layer.attention, o.call.dims())) known.push_back(info.name);
  for (const auto& [name, tensor] : layer.parameters)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw InvalidArgument(fmt::format("[{}] the layer has no use for a parameter '{}', it takes {}",
                                        to_text(layer.attention), name, join(known)));
  for (const auto& info : parameters(layer.attention, o.call.dims()))
    if (const auto given = layer.parameters.find(info.name); given != layer.parameters.end())
      o.call.parameters[info.name] = given->second.view();
  validate(o.call);
  return o;
}

Tensor run_heads(const Open& o, const LayerKernel& kernel) {
  Tensor heads(DType::f64, {o.B, o.H, o.N, o.E});
  kernel.forward(o.call, {heads.view(), {}, {}, {}});
  return heads;
}

}  // namespace

LayerKernel reference_kernel() { return {reference_forward, reference_backward}; }

LayerForward layer_forward(const Layer& layer, const Tensor& x, const TensorView& key_mask, const TensorView& mask,
                           const LayerKernel& kernel) {
  const Open o = open(layer, x, key_mask, mask);
  LayerForward result{Tensor(DType::f64, x.shape()), run_heads(o, kernel), 0};
  Matrix y = affine(join_heads(result.heads), o.wo, bias(layer, "bo", o.X));
  if (layer.attention.residual) std::transform(y.begin(), y.end(), o.x.begin(), y.begin(), std::plus<>());
  saddle::detail::copy_from_double(y.data(), result.y.view());
  result.head_distance = head_distance(result.heads);
  return result;
}

std::map<std::string, Tensor> layer_backward(const Layer& layer, const Tensor& x, const TensorView& key_mask,
                                             const TensorView& mask, const Tensor& dy, const LayerKernel& kernel) {
  if (dy.shape() != x.shape())
    throw InvalidArgument(fmt::format("[{}] dy has shape {} but the output {}", to_text(layer.attention),
                                      to_string(dy.shape()), to_string(x.shape())));
  const Open o = open(layer, x, key_mask, mask);
  std::map<std::string, Tensor> gradients;
  const auto keep = [&](const std::string& w, const Matrix& dw, const std::string& b, const Vector& db) {
    gradients[w] = to_tensor(dw);
    if (layer.parameters.contains(b)) gradients[b] = to_tensor(db);
  };
  Matrix dw, dx({o.B * o.N, o.X}), dheads({o.B * o.N, o.H * o.E});
  Vector db;
  const Matrix dout = flatten(dy);
  affine_pullback(join_heads(run_heads(o, kernel)), o.wo, dout, dheads, dw, db);
  keep("wo", dw, "bo", db);
  if (layer.attention.residual) dx = dout;

  const Tensor dh = split_heads(dheads, o.B, o.H);
  Tensor dq(DType::f64, o.q.shape()), dk(DType::f64, o.k.shape()), dv(DType::f64, o.v.shape());
  Gradients inner;
  inner.dy = dh.view();
  inner.dq = dq.view();
  inner.dk = dk.view();
  inner.dv = dv.view();
  for (const auto& [name, tensor] : o.call.parameters) {
    gradients[name] = Tensor(DType::f64, tensor.shape);
    inner.parameters[name] = gradients[name].view();
  }
  kernel.backward(o.call, inner);
  affine_pullback(o.x, o.wq, join_heads(dq), dx, dw, db);
  keep("wq", dw, "bq", db);
  affine_pullback(o.x, o.wk, join_heads(dk), dx, dw, db);
  keep("wk", dw, "bk", db);
  affine_pullback(o.x, o.wv, join_heads(dv), dx, dw, db);
  keep("wv", dw, "bv", db);
  gradients["x"] = Tensor(DType::f64, x.shape());
  saddle::detail::copy_from_double(dx.data(), gradients["x"].view());
  return gradients;
}

double head_distance(const Tensor& heads) {
  const auto y = to_double<4>(heads.view());
  const auto [B, H, N, E] = y.shape();
  double sum = 0;
  Index count = 0;
  for (Index b = 0; b < B; ++b)
    for (Index s = 0; s < H; ++s)
      for (Index t = s + 1; t < H; ++t)
        for (Index i = 0; i < N; ++i, ++count) {
          double square = 0;
          for (Index e = 0; e < E; ++e) square += (y(b, s, i, e) - y(b, t, i, e)) * (y(b, s, i, e) - y(b, t, i, e));
          sum += std::sqrt(square);
        }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

}  // namespace saddle::primal

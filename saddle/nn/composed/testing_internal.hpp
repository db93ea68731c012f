// Support for the tests of the composed path: calls of a written form, run by torch and by the double reference.
#pragma once

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "saddle/mechanisms/registry.hpp"
#include "saddle/nn/composed.hpp"
#include "saddle/nn/tensor.hpp"
#include "saddle/primal/testing_internal.hpp"

namespace saddle::nn::composed::testing {

using primal::testing::add_key_mask;
using primal::testing::add_mask;
using primal::testing::message_of;
using primal::testing::Sample;
using Named = std::map<std::string, Tensor>;

inline constexpr double infinity = std::numeric_limits<double>::infinity();

inline Tensor to_torch(const saddle::Tensor& tensor) {
  return torch::from_blob(tensor.view().data, tensor.shape(), scalar_type(tensor.dtype())).clone();
}

// What the call brings besides its tensors.
enum class Masks { none, keys, rows, both };

inline Sample make_sample(const std::string& text, const Dims& dims, Masks masks, std::uint64_t seed = 1) {
  Sample s = primal::testing::sample(primal::to_text(mechanisms::parse(text)), dims, seed);
  if (masks == Masks::keys || masks == Masks::both) add_key_mask(s, true);
  if (masks == Masks::rows || masks == Masks::both) add_mask(s);
  return s;
}

inline AttentionInputs inputs_of(const Sample& s) {
  AttentionInputs inputs;
  inputs.q = to_torch(s.q).requires_grad_();
  inputs.k = to_torch(s.k).requires_grad_();
  inputs.v = to_torch(s.v).requires_grad_();
  if (s.key_mask.size() > 1) inputs.key_mask = to_torch(s.key_mask);
  if (s.mask.size() > 1) inputs.mask = to_torch(s.mask);
  if (s.attention.residual) inputs.skip = to_torch(s.skip).requires_grad_();
  for (const auto& [name, tensor] : s.parameters) inputs.parameters[name] = to_torch(tensor).requires_grad_();
  return inputs;
}

// The tensors that a gradient is wanted of, by name.
inline Named leaves(const AttentionInputs& inputs) {
  Named named = inputs.parameters;
  named["q"] = inputs.q;
  named["k"] = inputs.k;
  named["v"] = inputs.v;
  if (inputs.skip.defined()) named["skip"] = inputs.skip;
  return named;
}

inline Tensor random_like(const Tensor& like, std::uint64_t seed = 4) {
  Stream stream(seed, "cotangent");
  return to_torch(primal::testing::random_tensor(like.sizes().vec(), stream)).to(like.scalar_type());
}

inline bool has_lse(const primal::Attention& value) {
  return std::holds_alternative<primal::RowSum>(value.normaliser) && sign_of(value.kernel) != primal::Sign::changing;
}

// y, weights, column sums, log-sum-exp where it exists; gradients of <dy,y> as "d" and the name.
inline Named run(const primal::Attention& value, const AttentionInputs& inputs) {
  const AttentionOutputs out = composed_attention(value, inputs, {true, has_lse(value), true});
  Named result{{"y", out.y}, {"weights", out.weights}, {"column_sums", out.column_sums}};
  if (out.lse.defined()) result["lse"] = out.lse;
  std::vector<Tensor> wanted;
  for (const auto& [name, tensor] : leaves(inputs)) wanted.push_back(tensor);
  const auto found = torch::autograd::grad({out.y}, wanted, {random_like(out.y)}, {}, false, true);
  std::size_t at = 0;
  for (const auto& [name, tensor] : leaves(inputs)) {
    result["d" + name] = found[at].defined() ? found[at] : torch::zeros_like(tensor);
    ++at;
  }
  return result;
}

// The same by the reference.
inline Named expected(const Sample& s, const primal::Dropout& dropout = {}) {
  primal::Call call = s.call();
  call.dropout = dropout;
  validate(call);
  const Dims d = call.dims();
  const Index K = primal::weight_columns(call.attention, d);
  Named result{{"y", torch::zeros({d.B, d.H, d.N, d.E}, torch::kFloat64)},
               {"weights", torch::zeros({d.B, d.H, d.N, K}, torch::kFloat64)},
               {"column_sums", torch::zeros({d.B, d.H, K}, torch::kFloat64)}};
  if (has_lse(call.attention)) result["lse"] = torch::zeros({d.B, d.H, d.N}, torch::kFloat64);
  primal::reference_forward(
      call, {view_of(result["y"]), view_of(result["weights"]), view_of(result["lse"]), view_of(result["column_sums"])});
  if (!has_lse(call.attention)) result.erase("lse");
  const Tensor dy = random_like(result["y"]);
  const auto fresh = [&](const std::string& name, const saddle::Tensor& like) {
    return view_of(result["d" + name] = torch::zeros(like.shape(), torch::kFloat64));
  };
  primal::Gradients g;
  g.dy = view_of(dy);
  g.dq = fresh("q", s.q);
  g.dk = fresh("k", s.k);
  g.dv = fresh("v", s.v);
  if (call.attention.residual) g.dskip = fresh("skip", s.skip);
  for (const auto& [name, tensor] : s.parameters) g.parameters[name] = fresh(name, tensor);
  primal::reference_backward(call, g);
  return result;
}

// max|a-b| / max(1, max|b|) over the finite entries; the others must be the same.
inline double error_of(const Tensor& a, const Tensor& b) {
  if (!a.sizes().equals(b.sizes())) return infinity;
  const Tensor finite = b.isfinite(), x = a.to(torch::kFloat64), y = b.to(torch::kFloat64);
  if (b.numel() == 0) return 0;
  if (!torch::equal(x.masked_fill(finite, 0), y.masked_fill(finite, 0))) return infinity;
  const Tensor zeroed = y.masked_fill(~finite, 0);
  const double error = (x.masked_fill(~finite, 0) - zeroed).abs().max().item<double>();
  return std::isnan(error) ? infinity : error / std::max(1.0, zeroed.abs().max().item<double>());
}

inline void expect_equal(const Named& computed, const Named& reference, double tolerance) {
  ASSERT_EQ(computed.size(), reference.size());
  for (const auto& [name, tensor] : reference) EXPECT_LE(error_of(computed.at(name), tensor), tolerance) << name;
}

// B,H,N,M,D,E
inline const std::vector<Dims> shapes{{2, 3, 4, 5, 3, 2}, {2, 2, 6, 6, 6, 5}, {2, 4, 7, 7, 4, 3}, {2, 2, 3, 13, 2, 2}};

}  // namespace saddle::nn::composed::testing

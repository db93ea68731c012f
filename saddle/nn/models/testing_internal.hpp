// Support for the tests of models: the same computations out of plain torch operations, from the model's weights.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "saddle/base/error.hpp"
#include "saddle/nn/models/model.hpp"

namespace saddle::nn::testing {

inline double difference(const Tensor& found, const Tensor& expected) {
  EXPECT_EQ(found.sizes(), expected.sizes());
  const Tensor a = found.detach().to(torch::kFloat64), b = expected.detach().to(torch::kFloat64);
  return ((a - b).abs().max() / b.abs().max().clamp_min(1e-30)).item<double>();
}

// What f throws.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// Parameters become large enough to matter, and no two alike.
inline void randomise(torch::nn::Module& module) {
  const torch::NoGradGuard guard;
  for (Tensor& parameter : module.parameters()) parameter.normal_(0, 0.3).add_(parameter.dim() == 1 ? 0.5 : 0);
  for (Tensor& buffer : module.buffers())
    if (buffer.dim() == 1) buffer.uniform_(0.5, 1.5);
}

// Layers by hand, with the tensors of a model under a prefix.
class Plain {
 public:
  explicit Plain(const torch::nn::Module& module, std::string prefix = "") : prefix_(std::move(prefix)) {
    for (const auto& list : {module.named_parameters(), module.named_buffers()})
      for (const auto& item : list) tensors_[item.key()] = item.value();
  }
  Plain under(const std::string& name) const {
    Plain part = *this;
    part.prefix_ += name + ".";
    return part;
  }
  const Tensor& operator[](const std::string& name) const { return tensors_.at(prefix_ + name); }

  Tensor linear(const std::string& name, const Tensor& x) const {
    return torch::matmul(x, (*this)[name + ".weight"].t()) + (*this)[name + ".bias"];
  }
  Tensor layer_norm(const std::string& name, const Tensor& x, double eps = 1e-5) const {
    const Tensor shifted = x - x.mean(-1, true);
    const Tensor scaled = shifted / (shifted.square().mean(-1, true) + eps).sqrt();
    return scaled * (*this)[name + ".weight"] + (*this)[name + ".bias"];
  }
  // x [B,N,X], by the statistics of the batch or the running ones.
  Tensor batch_norm(const std::string& name, const Tensor& x, bool training) const {
    const Tensor mean = training ? x.mean(std::vector<int64_t>{0, 1}) : (*this)[name + ".running_mean"];
    const Tensor variance =
        training ? (x - mean).square().mean(std::vector<int64_t>{0, 1}) : (*this)[name + ".running_var"];
    return (x - mean) / (variance + 1e-5).sqrt() * (*this)[name + ".weight"] + (*this)[name + ".bias"];
  }
  // Softmax attention of H heads, queries and keys less beta times the mean key; hidden [..,N,N] true where a query
  // does not look.
  Tensor attention(const Tensor& x, int64_t H, const Tensor& hidden = {}, double beta = 0) const {
    const auto parts = linear("qkv", x).chunk(3, -1);
    const auto heads = [&](const Tensor& t) { return t.unflatten(-1, {H, -1}).transpose(1, 2); };
    const Tensor mean = heads(parts[1]).mean(2, true), q = heads(parts[0]) - beta * mean,
                 k = heads(parts[1]) - beta * mean;
    Tensor scores = torch::matmul(q, k.transpose(-1, -2)) / std::sqrt(static_cast<double>(q.size(-1)));
    if (hidden.defined()) scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
    return linear("proj", torch::matmul(scores.softmax(-1), heads(parts[2])).transpose(1, 2).flatten(2));
  }
  Tensor mlp(const Tensor& x) const {
    const Tensor h = linear("fc1", x);
    return linear("fc2", 0.5 * h * (1 + torch::erf(h / std::sqrt(2.0))));
  }
  // One pre-norm block.
  Tensor block(const Tensor& x, int64_t H, const Tensor& hidden = {}, double eps = 1e-5, double beta = 0) const {
    const Tensor y = x + under("attn").attention(layer_norm("norm1", x, eps), H, hidden, beta);
    return y + under("mlp").mlp(layer_norm("norm2", y, eps));
  }

 private:
  std::map<std::string, Tensor> tensors_;
  std::string prefix_;
};

// mask [B,N] true where a token exists -> [B,1,1,N] true where it does not.
inline Tensor hidden_keys(const Tensor& mask) { return mask.logical_not().unsqueeze(1).unsqueeze(1); }

inline Tensor plain_gelu(const Tensor& x) { return 0.5 * x * (1 + torch::erf(x / std::sqrt(2.0))); }

// Lengths -> [B,N].
inline Tensor mask_of(const std::vector<int64_t>& lengths, int64_t N) {
  return torch::arange(N).unsqueeze(0).lt(torch::tensor(lengths).unsqueeze(1));
}

}  // namespace saddle::nn::testing

#include <torch/nn/modules.h>

#include "saddle/nn/attention.hpp"
#include "saddle/nn/multihead_attention.hpp"
#include "tests/onnx/cases.hpp"

namespace saddle::nn::onnx_cases {

namespace {

using torch::Tensor;
using Options = MultiheadAttentionOptions;

// Self-attention on x [B,9,12], or [9,B,12].
Case self_attention(const std::string& name, const Options& options) {
  MultiheadAttention module(options);
  const bool first = module->options.batch_first();
  Case one;
  one.name = "MultiheadAttention " + name;
  one.inputs = {"x"};
  one.sample = [first](Index B) {
    const Tensor x = torch::randn({B, 9, 12});
    return std::vector<Tensor>{first ? x : x.transpose(0, 1).contiguous()};
  };
  one.batch_dimensions = {first ? 0 : 1};
  one.function = [module](const std::vector<Tensor>& x) mutable {
    return std::vector<Tensor>{std::get<0>(module->forward(x[0], x[0], x[0], {}, false))};
  };
  one.module = module.ptr();
  return one;
}

Case padded(const std::string& attention) {
  MultiheadAttention module(Options(12, 4).attention(attention).batch_first(true));
  Case one;
  one.name = "MultiheadAttention padded " + attention;
  one.inputs = {"x", "padding"};
  one.sample = [](Index B) { return std::vector<Tensor>{torch::randn({B, 9, 12}), ~sample_key_mask(B, 9)}; };
  one.function = [module](const std::vector<Tensor>& x) mutable {
    return std::vector<Tensor>{std::get<0>(module->forward(x[0], x[0], x[0], x[1], false))};
  };
  one.module = module.ptr();
  return one;
}

// Queries look at other tokens, of another width, not at all of them; the weights are asked for.
Case across() {
  MultiheadAttention module(Options(12, 4).kdim(5).vdim(7).batch_first(true));
  Case one;
  one.name = "MultiheadAttention of two sequences with weights";
  one.inputs = {"query", "key", "value"};
  one.sample = [](Index B) {
    return std::vector<Tensor>{torch::randn({B, 6, 12}), torch::randn({B, 9, 5}), torch::randn({B, 9, 7})};
  };
  const Tensor hidden = torch::rand({6, 9}) > 0.6;
  one.function = [module, hidden](const std::vector<Tensor>& x) mutable {
    const auto [y, weights] = module->forward(x[0], x[1], x[2], {}, true, hidden);
    return std::vector<Tensor>{y, weights};
  };
  one.outputs = {"y", "weights"};
  one.module = module.ptr();
  return one;
}

// A sequence of layers on x [B, sizes..].
Case layers(const std::string& name, const std::vector<Index>& sizes, const torch::nn::Sequential& module) {
  Case one;
  one.name = name;
  one.inputs = {"x"};
  one.sample = [sizes](Index B) {
    std::vector<Index> all{B};
    all.insert(all.end(), sizes.begin(), sizes.end());
    return std::vector<Tensor>{torch::randn(all)};
  };
  one.function = [own = module](const std::vector<Tensor>& x) mutable {
    return std::vector<Tensor>{own->forward(x[0])};
  };
  one.module = module.ptr();
  return one;
}

// Moves the statistics of a batch norm away from 0 and 1.
torch::nn::BatchNorm1d warm_batch_norm(Index channels) {
  torch::nn::BatchNorm1d norm(channels);
  norm->forward(torch::randn({64, channels}) * 2 + 1);
  return norm;
}

Case plain(const std::string& name, const std::vector<Index>& sizes,
           const std::function<Tensor(const Tensor&)>& function) {
  Case one = layers(name, sizes, torch::nn::Sequential());
  one.module = nullptr;
  one.function = [function](const std::vector<Tensor>& x) { return std::vector<Tensor>{function(x[0])}; };
  return one;
}

}  // namespace

std::vector<Case> module_cases() {
  using namespace torch::nn;  // NOLINT: names of layers
  std::vector<Case> cases;
  for (const char* attention : {"softmax", "softmax+bn(beta=0.6,learn=head)", "softmax+sh(1,1,2,2)",
                                "softmax+bn+sh(3,2,3,1)", "softmax+sh(1,2,2,1,pool=2d,grid=3x3)", "linear(elu1)",
                                "softmax+causal", "softmax+conv1d(3)", "softmax+residual"})
    cases.push_back(self_attention(attention, Options(12, 4).attention(attention).batch_first(true)));
  cases.push_back(self_attention("batch second", Options(12, 4)));
  cases.push_back(self_attention("without bias", Options(12, 4).bias(false).batch_first(true)));
  cases.push_back(self_attention("with other widths", Options(12, 4).key_width(5).value_width(2).batch_first(true)));
  for (const char* attention : {"softmax", "softmax+bn", "softmax+sh(1,1,2,4)", "linear(relu)"})
    cases.push_back(padded(attention));
  cases.push_back(across());

  cases.push_back(layers("linear gelu", {5, 8}, Sequential(Linear(8, 6), GELU(), Linear(6, 3))));
  cases.push_back(layers("gelu by tanh", {8}, Sequential(GELU(GELUOptions().approximate("tanh")))));
  cases.push_back(layers("layer norm", {5, 8}, Sequential(LayerNorm(LayerNormOptions({8})), ReLU(), Dropout(0.5))));
  cases.push_back(layers("batch norm", {7}, Sequential(warm_batch_norm(7), SiLU())));
  cases.push_back(layers("batch norm of channels", {7, 5}, Sequential(warm_batch_norm(7), Sigmoid(), Flatten())));
  cases.push_back(layers("convolutions", {3, 8, 8},
                         Sequential(Conv2d(Conv2dOptions(3, 6, 3).padding(1).groups(3)), ELU(), Flatten(), Tanh())));
  cases.push_back(plain("pieces", {6, 8}, [](const Tensor& x) {
    const auto halves = x.chunk(2, 1), thirds = x.split(3, 2), rows = x.unbind(1);
    return torch::cat({halves[1].flatten(1), thirds[2].flatten(1), rows[4], x.slice(1, 1, 6, 2).flatten(1)}, 1);
  }));
  cases.push_back(plain("two halves of a doubled batch", {6}, [](const Tensor& x) {
    const auto halves = torch::cat({x, x * 2}, 0).chunk(2, 0);
    return halves[0] * halves[1] + torch::cat({x, -x}, 0).narrow(0, x.size(0), x.size(0));
  }));
  cases.push_back(plain("filled and repeated", {6}, [](const Tensor& x) {
    const Tensor filled = torch::full({x.size(0), 2}, 1.5), repeated = torch::arange(3.0).repeat({x.size(0), 2});
    return torch::cat({x, filled, repeated, torch::zeros_like(x), torch::ones({1, 2}).expand({x.size(0), 2})}, 1);
  }));
  cases.push_back(plain("reductions", {4, 6}, [](const Tensor& x) {
    return torch::stack({x.mean(2), x.amax(2), x.amin({2}), x.logsumexp(2), x.softmax(2).select(2, 1),
                         x.log_softmax(2).select(2, 0), x.cumsum(2).select(2, 3), x.argmax(2).to(torch::kFloat32),
                         x.gt(0).any(2).to(torch::kFloat32), x.gt(-1).all(2).to(torch::kFloat32)},
                        1);
  }));
  return cases;
}

}  // namespace saddle::nn::onnx_cases

// Memory that layers are predicted to take, against what torch allocates while their modules run.
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <cmath>
#include <cstdlib>

#include "saddle/mechanisms/registry.hpp"
#include "saddle/nn/blocks/self_attention.hpp"
#include "saddle/nn/layer.hpp"

namespace saddle::nn {
namespace {

// Counts the bytes of all tensors on the CPU. Sizes stand in front of the memory.
class Counting final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) const override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &release, cpu};
    char* const memory = static_cast<char*>(std::aligned_alloc(space, (bytes + 2 * space - 1) / space * space));
    if (memory == nullptr) throw std::bad_alloc();
    *reinterpret_cast<std::int64_t*>(memory) = static_cast<std::int64_t>(bytes);
    const std::int64_t total = now += static_cast<std::int64_t>(bytes);
    for (std::int64_t before = peak; before < total && !peak.compare_exchange_weak(before, total);) {
    }
    return {memory + space, memory + space, &release, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  static inline std::atomic<std::int64_t> now{0}, peak{0};

 private:
  static constexpr std::size_t space = 64;
  static void release(void* pointer) {
    if (pointer == nullptr) return;
    char* const memory = static_cast<char*>(pointer) - space;
    now -= *reinterpret_cast<std::int64_t*>(memory);
    std::free(memory);
  }
};

class LayerMemory : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    before_ = c10::GetCPUAllocator();
    static Counting counting;
    c10::SetCPUAllocator(&counting, 255);
  }
  void TearDown() override { c10::SetCPUAllocator(before_, 255); }

 private:
  c10::Allocator* before_ = nullptr;
};

struct Place {
  Index B, N, X, H;
};

mechanisms::LayerPlace place_of(const Place& p) {
  mechanisms::LayerPlace place;
  place.X = p.X;
  place.H = p.H;
  place.N = p.N;
  if (const auto side = static_cast<Index>(std::lround(std::sqrt(static_cast<double>(p.N)))); side * side == p.N)
    place.grid = {side, side};
  return place;
}

// What one pass takes at most at once beyond x, y and the weights.
double measured(const std::string& text, const Place& p, bool training) {
  torch::manual_seed(0);
  const auto module = make_layer(*mechanisms::find_layer(text), place_of(p));
  module->train(training);
  const torch::AutoGradMode gradients(training);
  const Tensor x = torch::randn({p.B, p.N, p.X}).requires_grad_(training), dy = torch::randn({p.B, p.N, p.X});
  const auto forget = [&] {
    x.mutable_grad() = Tensor();
    for (Tensor& weight : module->parameters()) weight.mutable_grad() = Tensor();
  };
  const auto run = [&] {
    forget();
    ExtraLosses losses;
    const Tensor y = module->forward(x, {});
    if (!training) return;
    const Tensor loss = losses.mean();
    torch::autograd::variable_list roots{y}, cotangents{dy};
    if (loss.defined()) {
      roots.push_back(loss);
      cotangents.push_back(torch::ones_like(loss));
    }
    torch::autograd::backward(roots, cotangents);
  };
  run();  // whatever is made once is made now
  forget();
  const std::int64_t before = Counting::now;
  Counting::peak = before;
  run();
  return static_cast<double>(Counting::peak - before) - 4.0 * static_cast<double>(p.B * p.N * p.X);
}

TEST_P(LayerMemory, IsNotMoreThanPredicted) {
  const auto layer = mechanisms::find_layer(GetParam());
  for (const Place& p :
       {Place{1, 256, 64, 4}, {1, 1024, 64, 4}, {1, 256, 128, 4}, {1, 256, 64, 16}, {4, 256, 64, 4}, {2, 64, 128, 8}})
    for (const bool training : {false, true}) {
      const auto pass = training ? primal::Pass::backward : primal::Pass::forward;
      const double predicted = layer->cost(place_of(p), p.B, pass, DType::f32).memory;
      const double found = measured(GetParam(), p, training);
      // Scalars and index tables are not counted.
      EXPECT_LE(found, predicted + 16e3) << "B=" << p.B << " N=" << p.N << " X=" << p.X << " H=" << p.H
                                         << (training ? ", training" : "");
      EXPECT_GE(found, 0.4 * predicted) << "B=" << p.B << " N=" << p.N << " X=" << p.X << " H=" << p.H
                                        << (training ? ", training" : "");
    }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, LayerMemory,
    ::testing::Values("cat", "cat(variant=qkv)", "cat(variant=q)", "cat(variant=v)", "cat_causal", "primal_attention",
                      "primal_attention(form=causal)", "primal_attention(rank=2,trace=with_x)", "rpc_attention",
                      "rpc_attention(num_iter=1)", "rpc_attention(num_iter=8)", "rpc_attention(variant=sym)",
                      "rpc_attention(variant=scaled_s)", "rpc_attention(variant=scaled_alpha)", "hyla",
                      "hyla(normalize_qk=true,relative_bias=true)",
                      "hyla(attention_norm=softmax,target_network=default)",
                      "hyla(attention_norm=none,target_network=default)", "mixed_attention",
                      "mixed_attention(window=4)", "spiking", "spiking(steps=1)", "spiking(constraint=softmax)",
                      "spiking(variant=spikformer)", "spiking(variant=spikformer,steps=8)",
                      "spiking(variant=spikingformer)", "spiking(variant=qkformer_token)", "spiking(variant=sdsa)"),
    [](const auto& each) {
      std::string name;
      for (const char* c = each.param; *c != 0; ++c)
        name += std::isalnum(static_cast<unsigned char>(*c)) != 0 ? *c : '_';
      return name;
    });

}  // namespace
}  // namespace saddle::nn

#include "saddle/nn/optim/lamb.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "places.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/io/safetensors.hpp"
#include "saddle/mechanisms/golden_tape.hpp"
#include "saddle/mechanisms/npt/optimiser.hpp"

namespace saddle::nn {
namespace {

using torch::Tensor;

Tensor tensor_of(const tape::Value& value) {
  return torch::tensor(value.data(), torch::kFloat64)
      .view(std::vector<int64_t>(value.shape().begin(), value.shape().end()));
}

double distance(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

// The recorded trace, with the rates that stand in it.
void follow(const std::string& name) {
  const auto file = io::read_safetensors(SADDLE_SOURCE_DIR "/tests/golden/npt/" + name + ".safetensors");
  const auto inputs = mechanisms::tape_inputs(file);
  const auto number = [&](const char* key) { return std::stod(file.metadata.at(key)); };
  for (const std::string which : {"weight", "bias"}) {
    const Tensor p = tensor_of(inputs.at("param." + which + "0")).clone().requires_grad_();
    const Tensor gradients = tensor_of(inputs.at("in.grad_" + which));
    const Tensor expected = tensor_of(tape::Value(file.tensors.at("out." + which)));
    const Tensor rates = tensor_of(tape::Value(file.tensors.at("out.lr")));
    Lamb lamb(std::vector<Tensor>{p}, LambOptions(0.1).weight_decay(number("weight_decay")));
    Lookahead lookahead({p}, static_cast<int64_t>(number("lookahead_k")), number("lookahead_alpha"));
    for (int64_t t = 0; t < gradients.size(0); ++t) {
      static_cast<LambOptions&>(lamb.param_groups()[0].options()).lr(rates[t].item<double>());
      p.mutable_grad() = gradients[t].clone();
      lamb.step();
      lookahead.after_step(t + 1);
      EXPECT_LT(distance(p, expected[t]), 1e-10) << name << " " << which << " behind step " << t;
    }
  }
}

TEST(Lamb, FollowsTheRecordedTraces) {
  follow("optim_t20");
  follow("optim_wd");
}

TEST(Lamb, IsThePlainFormulaOverManyChunks) {
  const int64_t size = 50'001;
  torch::manual_seed(3);
  const Tensor start = torch::randn({size}, torch::kFloat64);
  mechanisms::npt::LambOptions plain;
  plain.weight_decay = 0.02;
  mechanisms::npt::Lamb reference(plain);
  std::vector<double> weights(start.data_ptr<double>(), start.data_ptr<double>() + size);
  const Tensor p = start.clone().requires_grad_(), small = start.to(torch::kFloat32).requires_grad_();
  Lamb lamb(std::vector<Tensor>{p, small}, LambOptions(0.01).weight_decay(0.02));
  Lookahead lookahead({p, small});
  for (int64_t t = 1; t <= 20; ++t) {
    const Tensor g = torch::randn({size}, torch::kFloat64);
    p.mutable_grad() = g;
    small.mutable_grad() = g.to(torch::kFloat32);
    lamb.step();
    lookahead.after_step(t);
    reference.step(weights, std::vector<double>(g.data_ptr<double>(), g.data_ptr<double>() + size), 0.01);
  }
  const Tensor expected = torch::tensor(weights, torch::kFloat64);
  EXPECT_LT(distance(p, expected), 1e-12);
  EXPECT_LT(distance(small.to(torch::kFloat64), expected), 1e-5);
}

TEST(Lamb, HasTheSameBitsOnAnyNumberOfThreads) {
  const auto run = [](int count) {
    const int before = threads();
    set_threads(count);
    torch::manual_seed(1);
    const Tensor p = torch::randn({300, 201}).requires_grad_();
    Lamb lamb(std::vector<Tensor>{p}, LambOptions(0.1));
    for (int t = 0; t < 3; ++t) {
      p.mutable_grad() = torch::randn({300, 201});
      lamb.step();
    }
    set_threads(before);
    return p.detach();
  };
  EXPECT_TRUE(torch::equal(run(1), run(3)));
}

TEST(Lamb, TakesParametersOfAnyLayoutAndCountsVersions) {
  const Tensor base = torch::ones({3, 4});
  const Tensor p = base.t().detach().requires_grad_(), q = base.t().contiguous().requires_grad_();
  Lamb lamb(std::vector<Tensor>{p, q}, LambOptions(0.1));
  const auto version = p._version();
  for (const Tensor& each : {p, q}) each.mutable_grad() = torch::arange(12.0).view({4, 3});
  lamb.step();
  EXPECT_TRUE(torch::equal(p, q));
  EXPECT_GT(p._version(), version);
  EXPECT_NE(p[1][1].item<float>(), 1.0F);
}

TEST(Lamb, StateGoesThroughAnArchive) {
  const Tensor p = torch::tensor({1.0, -2.0}).requires_grad_(), q = p.detach().clone().requires_grad_();
  Lamb a(std::vector<Tensor>{p}, LambOptions(0.1)), b(std::vector<Tensor>{q}, LambOptions(0.1));
  const auto step = [](Lamb& lamb, const Tensor& w) {
    w.mutable_grad() = w.detach() * 2;
    lamb.step();
  };
  step(a, p);
  std::stringstream archive;
  torch::save(a, archive);
  torch::load(b, archive);
  q.data().copy_(p);
  step(a, p);
  step(b, q);
  EXPECT_TRUE(torch::equal(p, q));
}

TEST(Lamb, RefusesWhatMakesNoSense) {
  const Tensor p = torch::ones({2}).requires_grad_();
  EXPECT_THROW(Lamb(std::vector<Tensor>{p}, LambOptions(-1)), InvalidArgument);
  EXPECT_THROW(Lamb(std::vector<Tensor>{p}, LambOptions(1).betas({0.9, 1.0})), InvalidArgument);
  EXPECT_THROW(Lookahead({p}, 0), InvalidArgument);
  EXPECT_THROW(Lookahead({p}, 6, 1.5), InvalidArgument);
  const Tensor half = torch::ones({2}, torch::kHalf).requires_grad_();
  half.mutable_grad() = torch::ones({2}, torch::kHalf);
  Lamb lamb(std::vector<Tensor>{half});
  EXPECT_THROW(lamb.step(), InvalidArgument);
}

}  // namespace
}  // namespace saddle::nn

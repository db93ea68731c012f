#include "saddle/nn/models/spiking_vit.hpp"

#include <ATen/autocast_mode.h>

#include "saddle/mechanisms/spiking/energy.hpp"
#include "saddle/nn/models/multiply_adds.hpp"
#include "saddle/nn/models/registry.hpp"
#include "saddle/nn/models/testing_internal.hpp"

namespace saddle::nn {
namespace {

using testing::difference;
using testing::message_of;
using testing::Plain;

SpikingVitOptions small(const std::string& attention = "spiking") {
  return SpikingVitOptions(3).image({8, 12}).patch(4).channels(2).width(12).heads(3).depth(2).attention(attention);
}

SpikingVit made(const SpikingVitOptions& options) {
  torch::manual_seed(1);
  return SpikingVit(options);
}

Tensor images() {
  torch::manual_seed(2);
  return torch::randn({5, 2, 8, 12});
}

std::vector<std::string> forms() {
  return {"spiking",
          "spiking(variant=spikformer)",
          "spiking(variant=spikingformer)",
          "spiking(variant=qkformer_ssa)",
          "spiking(variant=qkformer_token,steps=2)",
          "spiking(variant=sdsa)"};
}

// The neuron of SpikingJelly with tau = 2, step by step.
Tensor lif(const Tensor& x, double threshold = 1) {
  Tensor v = torch::zeros_like(x[0]);
  std::vector<Tensor> spikes;
  for (int64_t t = 0; t < x.size(0); ++t) {
    const Tensor u = v + (x[t] - v) / 2;
    spikes.push_back(u.ge(threshold).to(x.scalar_type()));
    v = u * (1 - spikes.back());
  }
  return torch::stack(spikes);
}

// BN(x W^T + b) of x [T,B,N,X], by the statistics of the batch.
Tensor mapped(const Plain& plain, const std::string& name, const Tensor& x, bool bias = true) {
  const Tensor y = bias ? plain.linear(name, x) : torch::matmul(x, plain[name + ".weight"].t());
  return plain.batch_norm(name + "_bn", y.flatten(0, 1), true).view(y.sizes());
}

TEST(SpikingVit, IsThePlainComposition) {
  SpikingVit model = made(small("spiking(variant=spikingformer)").depth(1));
  model->to(torch::kFloat64);
  const torch::NoGradGuard guard;
  for (Tensor& parameter : model->parameters()) parameter.add_(torch::randn_like(parameter), 0.3);
  const Plain plain(*model);
  const Tensor x = images().to(torch::kFloat64);
  const Tensor patches =
      torch::conv2d(x, plain["patch_embed.proj.weight"], plain["patch_embed.proj.bias"], 4).flatten(2).transpose(1, 2);
  const Tensor spikes = lif(plain.batch_norm("bn", patches, true).expand({4, 5, 6, 12}));
  const Tensor maps = spikes.flatten(0, 1).transpose(1, 2).reshape({20, 12, 2, 3});
  const Tensor around = torch::conv2d(maps, plain["rpe.weight"], {}, 1, 1).flatten(2).transpose(1, 2);
  Tensor y = spikes + plain.batch_norm("rpe_bn", around, true).view({4, 5, 6, 12});

  const Plain attn = plain.under("blocks.0.attn"), mlp = plain.under("blocks.0.mlp");
  const Tensor in = lif(y);
  const auto heads = [](const Tensor& t) { return t.unflatten(3, {3, 4}).transpose(2, 3); };
  const Tensor q = heads(lif(mapped(attn, "q", in, false))), k = heads(lif(mapped(attn, "k", in, false))),
               v = heads(lif(mapped(attn, "v", in, false)));
  const Tensor o = 0.125 * torch::matmul(torch::matmul(q, k.transpose(-1, -2)), v);
  y = y + mapped(attn, "proj", lif(o.transpose(2, 3).flatten(3), 0.5));
  y = y + mapped(mlp, "fc2", lif(mapped(mlp, "fc1", lif(y))));
  EXPECT_LT(difference(model->features(x), y), 1e-10);
  EXPECT_LT(difference(model(x), plain.linear("head", y.mean(std::vector<int64_t>{0, 2}))), 1e-10);
}

TEST(SpikingVit, SendsGradientsToAllParameters) {
  for (const std::string& form : forms()) {
    SCOPED_TRACE(form);
    SpikingVit model = made(small(form));
    model(images()).square().sum().backward();
    for (const auto& item : model->named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
    }
    EXPECT_GT(model->named_parameters()["blocks.0.attn.q.weight"].grad().abs().max().item<double>(), 0) << form;
  }
}

TEST(SpikingVit, Learns) {
  for (const std::string& form : forms())
    for (const bool half : {false, true}) {
      SCOPED_TRACE(form + (half ? ", bfloat16" : ""));
      SpikingVit model = made(small(form).width(24));
      torch::optim::Adam optimiser(model->parameters(), 3e-3);
      const Tensor x = images(), labels = torch::arange(5).remainder(3);
      double first = 0, last = 0;
      for (int step = 0; step < 25; ++step) {
        at::autocast::set_cpu_enabled(half);
        const Tensor loss = torch::nn::functional::cross_entropy(model(x), labels);
        optimiser.zero_grad();
        loss.backward();
        at::autocast::clear_cache();
        at::autocast::set_cpu_enabled(false);
        optimiser.step();
        (step == 0 ? first : last) = loss.item<double>();
      }
      EXPECT_LT(last, 0.8 * first);
    }
}

TEST(SpikingVit, ClonesAndIsMadeAgainFromItsDescription) {
  SpikingVit model = made(small());
  model(images());  // moves the running statistics
  model->eval();
  const Tensor y = model(images());
  EXPECT_TRUE(std::dynamic_pointer_cast<SpikingVitImpl>(model->clone())->forward(images()).equal(y));
  torch::manual_seed(1);
  const auto again = model_from_json(describe(*model));
  EXPECT_EQ(describe(*again), describe(*model));
  EXPECT_EQ(again->name(), "spiking_vit");
  ASSERT_EQ(again->attentions().size(), 2u);
  EXPECT_EQ(again->attentions()[1].attention, "spiking");
  EXPECT_EQ(again->named_parameters().keys(), model->named_parameters().keys());
}

TEST(SpikingVit, ReportsItsEnergy) {
  SpikingVit model = made(small());
  model(images());
  const auto report = model->energy(images());
  EXPECT_TRUE(model->is_training());
  // patch_embed, rpe, head, and of each block q, k, v, product, proj, fc1, fc2
  ASSERT_EQ(report.layers.size(), 3u + 2 * 7);
  EXPECT_EQ(report.layers[0].name, "patch_embed");
  EXPECT_EQ(report.layers[0].operations.macs, 4.0 * 6 * 12 * 32);  // steps, tokens, width, pixels of a patch
  EXPECT_EQ(report.layers.back().operations.macs, 36);
  double acs = 0, shifts = 0;
  for (const auto& layer : report.layers) {
    EXPECT_GE(layer.firing_rate, 0);
    EXPECT_LE(layer.firing_rate, 1);
    acs += layer.operations.acs;
    shifts += layer.operations.shifts;
  }
  EXPECT_GT(acs, 0);
  EXPECT_EQ(shifts, 2 * 4.0 * 6 * 6 * 12);  // layers, steps, pairs of tokens, width
  EXPECT_NEAR(report.total().picojoules(), 4.6 * report.total().macs + 0.9 * acs + 0.045 * shifts, 1e-6);
  EXPECT_NE(report.text().find("blocks.1.mlp.fc2"), std::string::npos);
}

TEST(SpikingVit, CountsItsMultiplyAdds) {
  const auto count = [](const std::string& form) { return multiply_adds(*made(small(form))); };
  const double T = 4, N = 6, X = 12, outside = N * 32 * X + T * N * 9 * X * X + 3 * X, mlp = 8 * T * N * X * X;
  EXPECT_EQ(count("spiking(variant=spikingformer)"), outside + 2 * (mlp + 4 * T * N * X * X + 2 * T * N * X * 4));
  EXPECT_EQ(count("spiking"), outside + 2 * (mlp + 4 * T * N * X * X + 2 * T * N * X * N));
  EXPECT_EQ(count("spiking(variant=sdsa)"), outside + 2 * (mlp + 4 * T * N * X * X + 2 * T * N * X));
}

TEST(SpikingVit, SaysWhatItCannotBe) {
  const auto said = [](const SpikingVitOptions& options) { return message_of([&] { SpikingVit model(options); }); };
  EXPECT_EQ(said(small("softmax")), "[SpikingVit] the attention is 'softmax': spiking neurons need one of spikes");
  EXPECT_EQ(said(small("spiking").last_attention("spiking(steps=2)")),
            "[SpikingVit] the first layer has 4 time steps, another one 2");
  EXPECT_EQ(said(small("spiking").last_attention("spiking(variant=spikformer)")),
            "[SpikingVit] 'spiking(variant=spikformer)' stands among attentions whose residual stream is another");
  EXPECT_EQ(said(small().heads(5)), "[spiking] width 12 cannot be cut into 5 heads");
  EXPECT_EQ(said(small().classes(0)), "[SpikingVit] classes is 0: it must be at least 1");
  SpikingVit model = made(small());
  EXPECT_THROW(model->logits({images(), torch::ones({5, 6}, torch::kBool), {}, {}}), InvalidArgument);
  EXPECT_THROW(model(torch::randn({1, 2, 8, 8})), InvalidArgument);
}

}  // namespace
}  // namespace saddle::nn

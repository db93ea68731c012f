#include "saddle/nn/models/model.hpp"

#include <ATen/autocast_mode.h>

#include <optional>

#include "saddle/nn/models/registry.hpp"
#include "saddle/nn/models/testing_internal.hpp"
#include "saddle/nn/models/time_series.hpp"
#include "saddle/nn/plain.hpp"

namespace saddle::nn {
namespace {

using testing::difference;

struct Case {
  const char* name;
  OptionTexts options;
  Batch batch;
};

// One of each kind, with attentions that have parameters of their own.
std::vector<Case> cases() {
  torch::manual_seed(13);
  const OptionTexts common{{"width", "16"},
                           {"hidden", "24"},
                           {"heads", "2"},
                           {"depth", "2"},
                           {"attention", "softmax+bn(learn=head),softmax+bias"}};
  const auto with = [&](OptionTexts own) {
    own.insert(common.begin(), common.end());
    return own;
  };
  const auto tokens = [](int64_t n) { return torch::randint(1, 20, {4, n}, torch::kInt64); };
  const Tensor series = torch::randn({4, 10, 3}), mask = testing::mask_of({10, 8, 3, 10}, 10);
  const OptionTexts shape{{"dims", "3"}, {"max_len", "10"}, {"classes", "4"}};
  return {{"mvts", with(shape), {series, mask, {}, {}}},
          {"flowformer", with(shape), {series, mask, {}, {}}},
          {"lra_listops", with({{"max_len", "12"}}), {tokens(12), {}, {}, {}}},
          {"lra_retrieval", with({{"max_len", "12"}}), {tokens(12), {}, tokens(7), {}}},
          {"deit_tiny_distilled_patch16_224",
           with({{"image", "16x24"}, {"patch", "8"}}),
           {torch::randn({4, 3, 16, 24}), {}, {}, {}}},
          {"vision_transformer",
           with({{"image", "16"}, {"patch", "4"}, {"pooling", "average"}}),
           {torch::randn({4, 3, 16, 16}), {}, {}, {}}},
          {"vision_language",
           with({{"vocab", "20"}, {"max_len", "6"}, {"classes", "3"}, {"image", "8x12"}}),
           {tokens(6), testing::mask_of({6, 4, 1, 6}, 6), {}, {}, {}, torch::randn({4, 3, 8, 12})}},
          {"language_model", with({{"vocab", "20"}, {"max_len", "12"}}), {tokens(12), {}, {}, {}}}};
}

std::shared_ptr<Model> made(const Case& which) {
  torch::manual_seed(14);
  auto model = make_model(which.name, which.options);
  model->eval();
  return model;
}

// The logits and the gradients of all parameters, for one fixed direction.
std::vector<Tensor> results(Model& model, const Batch& batch) {
  const Tensor y = model.logits(batch);
  torch::manual_seed(15);
  const Tensor dy = torch::randn(y.sizes(), y.options().requires_grad(false));
  std::vector<Tensor> list{y};
  for (const Tensor& gradient : torch::autograd::grad({y}, model.parameters(), {dy}, false, false, true))
    list.push_back(gradient);
  return list;
}

TEST(Model, SendsGradientsToAllParameters) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    const auto model = made(each);
    testing::randomise(*model);
    const auto found = results(*model, each.batch);
    const auto names = model->named_parameters().keys();
    for (std::size_t i = 0; i < names.size(); ++i) {
      ASSERT_TRUE(found[i + 1].defined()) << names[i];
      EXPECT_GT(found[i + 1].abs().max().item<double>(), 1e-6) << names[i];
    }
    EXPECT_TRUE(model->named_parameters().contains("blocks.0.attn.beta"));
    EXPECT_TRUE(model->named_parameters().contains("blocks.1.attn.bias"));
  }
}

TEST(Model, GivesTheSameOutOfPlainOperations) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    const auto model = made(each);
    const auto found = results(*model, each.batch);
    const PlainOperations plain;
    const auto expected = results(*model, each.batch);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_LT(difference(found[i], expected[i]), 2e-5) << i;
  }
}

struct Autocast {
  Autocast() { at::autocast::set_cpu_enabled(true); }
  ~Autocast() {
    at::autocast::clear_cache();
    at::autocast::set_cpu_enabled(false);
  }
};

// A ReLU near zero may go either way in bfloat16 and takes its whole gradient along: those of heads get a bias that
// keeps them away from there.
void settle_relus(Model& model) {
  const torch::NoGradGuard guard;
  for (auto& item : model.named_parameters())
    if (item.key() == "head_hidden.bias")
      item.value().copy_(8 - 16 * (torch::arange(item.value().numel()) % 2).to(item.value().scalar_type()));
}

TEST(Model, StaysCloseUnderAutocast) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    const auto model = made(each);
    settle_relus(*model);
    const auto expected = results(*model, each.batch);
    const Autocast autocast;
    const auto found = results(*model, each.batch);
    EXPECT_EQ(found[0].scalar_type(), torch::kFloat32);
    EXPECT_LT(difference(found[0], expected[0]), 0.03);
    EXPECT_GT(difference(found[0], expected[0]), 1e-7);
    double error = 0, size = 0;
    for (std::size_t i = 1; i < found.size(); ++i) {
      EXPECT_EQ(found[i].scalar_type(), torch::kFloat32);
      error += (found[i] - expected[i]).square().sum().item<double>();
      size += expected[i].square().sum().item<double>();
    }
    EXPECT_LT(std::sqrt(error / size), 0.03);
  }
}

TEST(Model, TrainsInBothTypes) {
  for (const Case& each : cases())
    for (const bool half : {false, true}) {
      SCOPED_TRACE(std::string(each.name) + (half ? ", bfloat16" : ""));
      OptionTexts options = each.options;
      options["dropout"] = options["attention_dropout"] = "0.1";
      torch::manual_seed(16);
      const auto model = make_model(each.name, options);
      torch::optim::Adam optimiser(model->parameters(), 3e-3);
      double first = 0, last = 0;
      for (int step = 0; step < 15; ++step) {
        std::optional<Autocast> autocast;
        if (half) autocast.emplace();
        const Tensor y = model->logits(each.batch).flatten(0, -2);
        const Tensor loss = torch::nn::functional::cross_entropy(y, torch::arange(y.size(0)).remainder(2));
        optimiser.zero_grad();
        loss.backward();
        optimiser.step();
        (step == 0 ? first : last) = loss.item<double>();
      }
      EXPECT_LT(last, first);
    }
}

TEST(Model, ClonesDeeply) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    const auto model = made(each);
    model->to(torch::kFloat64);
    testing::randomise(*model);
    model->blocks->train();
    model->blocks[0]->eval();
    model->head.is_empty() ? void() : void(model->head->weight.set_requires_grad(false));
    const auto copy = std::dynamic_pointer_cast<Model>(model->clone());
    ASSERT_TRUE(copy);
    EXPECT_FALSE(copy->is_training() || copy->blocks[0]->is_training());
    EXPECT_TRUE(copy->blocks[1]->attn->is_training());
    for (const auto& item : model->named_parameters()) {
      const Tensor own = copy->named_parameters()[item.key()];
      EXPECT_EQ(own.requires_grad(), item.value().requires_grad()) << item.key();
      EXPECT_FALSE(own.data_ptr() == item.value().data_ptr()) << item.key();
    }
    model->eval();
    copy->eval();
    Batch batch = each.batch;
    for (Tensor* given : {&batch.inputs, &batch.images})
      if (given->defined() && given->is_floating_point()) *given = given->to(torch::kFloat64);
    const Tensor before = model->logits(batch);
    EXPECT_TRUE(torch::equal(copy->logits(batch), before));
    testing::randomise(*copy);
    EXPECT_TRUE(torch::equal(model->logits(batch), before));
  }
}

// A model may be a part of another module.
struct OuterImpl : torch::nn::Cloneable<OuterImpl> {
  OuterImpl() { reset(); }
  void reset() override { inner = register_module("inner", TimeSeriesTransformer(TimeSeriesOptions(2, 5, 3))); }
  TimeSeriesTransformer inner{nullptr};
};

TEST(Model, ClonesAsAPart) {
  OuterImpl outer;
  outer.eval();
  const auto copy = std::dynamic_pointer_cast<OuterImpl>(outer.clone());
  const Tensor x = torch::randn({2, 5, 2});
  EXPECT_TRUE(torch::equal(copy->inner(x), outer.inner(x)));
}

TEST(Model, StartsFromTheSeed) {
  for (const Case& each : cases()) {
    const auto one = made(each), other = made(each);
    for (const auto& item : one->named_parameters())
      EXPECT_TRUE(torch::equal(item.value(), other->named_parameters()[item.key()])) << each.name << " " << item.key();
  }
}

TEST(Model, IsMadeAgainFromItsDescription) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    const auto model = made(each);
    torch::manual_seed(14);
    const auto again = model_from_json(describe(*model));
    again->eval();
    EXPECT_EQ(describe(*again), describe(*model));
    EXPECT_TRUE(torch::equal(again->logits(each.batch), model->logits(each.batch)));
  }
}

}  // namespace
}  // namespace saddle::nn

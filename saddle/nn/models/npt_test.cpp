#include "saddle/nn/models/npt.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "places.hpp"
#include "saddle/base/tape.hpp"
#include "saddle/io/safetensors.hpp"
#include "saddle/mechanisms/golden_tape.hpp"
#include "saddle/mechanisms/npt/npt.hpp"
#include "saddle/nn/models/registry.hpp"
#include "saddle/nn/models/testing_internal.hpp"

namespace saddle::nn {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
namespace reference = mechanisms::npt;

Tensor tensor_of(const saddle::Tensor& tensor) {
  const tape::Value value(tensor);
  return torch::tensor(value.data(), torch::kFloat64)
      .view(std::vector<int64_t>(value.shape().begin(), value.shape().end()));
}

tape::Value value_of(const Tensor& tensor) {
  const Tensor dense = tensor.detach().to(torch::kFloat64).contiguous();
  return {Shape(dense.sizes().begin(), dense.sizes().end()),
          std::vector<double>(dense.data_ptr<double>(), dense.data_ptr<double>() + dense.numel())};
}

double distance(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.numel(), b.numel());
  return (a.to(torch::kFloat64).flatten() - b.to(torch::kFloat64).flatten()).abs().max().item<double>();
}

// A recorded case, with its numbers in the parameters of a module.
struct Recorded {
  explicit Recorded(const std::string& name)
      : file(io::read_safetensors(SADDLE_SOURCE_DIR "/tests/golden/npt/" + name + ".safetensors")) {}

  std::string text(const char* key) const { return file.metadata.at(key); }
  int64_t whole(const char* key) const { return std::stoll(file.metadata.at(key)); }
  Tensor at(const std::string& name) const { return tensor_of(file.tensors.at(name)); }
  void fill(torch::nn::Module& module) const {
    module.to(torch::kFloat64);
    const torch::NoGradGuard guard;
    std::size_t count = 0;
    for (const auto& item : module.named_parameters()) item.value().copy_(at("param." + item.key())), ++count;
    for (const auto& [name, tensor] : file.tensors) count -= name.starts_with("param.") ? 1 : 0;
    EXPECT_EQ(count, 0U) << "parameters that only one of both has";
  }
  void check_gradients(const torch::nn::Module& module, const std::string& prefix) const {
    for (const auto& item : module.named_parameters())
      EXPECT_LT(distance(item.value().grad(), at(prefix + item.key())), 1e-10) << prefix << item.key();
  }

  TensorFile file;
};

TEST(NptLayer, GivesTheRecordedCases) {
  for (const std::string name : {"abd_n7_d3_e4", "abd_n13_d2_e6_h3", "aba_n7_d5_e8", "aba_n5_d3_e8_post_ln",
                                 "aba_n6_d4_e6_shared_res_rff2", "abd_n9_d2_e4_constant"}) {
    const Recorded recorded(name);
    const bool rows = recorded.text("layer") == "abd";
    const int64_t width = (rows ? recorded.whole("attributes") : 1) * recorded.whole("embedding");
    NptLayerOptions options(width, recorded.whole("num_heads"));
    options.norm(recorded.text("pre_layer_norm") == "true" ? "pre" : "post");
    options.separate_residual(recorded.text("separate_residual") == "true");
    options.network_depth(recorded.whole("rff_depth"));
    if (recorded.text("score_norm") == "constant")
      options.attention("dot+constant(" + std::to_string(width / recorded.whole("num_heads")) + ")");
    NptLayer layer(options);
    recorded.fill(*layer);
    const Tensor h = recorded.at("in.h").requires_grad_();
    const Tensor x = rows ? h.reshape({1, h.size(0), -1}) : h;
    const Tensor y = layer(x).view(h.sizes());
    EXPECT_LT(distance(y, recorded.at("out.h")), 1e-10) << name;
    (y * recorded.at("cot.h")).sum().backward();
    EXPECT_LT(distance(h.grad(), recorded.at("grad.h")), 1e-10) << name;
    recorded.check_gradients(*layer, "grad.");
  }
}

TEST(Npt, GivesTheRecordedCases) {
  for (const std::string name : {"model_mixed_n7", "model_class_n6", "model_emb_ln_n5", "model_joint_norm_n5"}) {
    const Recorded recorded(name);
    std::vector<Tensor> seen, truth, cotangents, expected;
    std::vector<NptColumn> columns;
    const std::string classes = recorded.text("cat");
    for (std::size_t j = 0; recorded.file.tensors.contains(fmt::format("in.data.{}", j)); ++j) {
      truth.push_back(recorded.at(fmt::format("in.data.{}", j)));
      seen.push_back(recorded.at(fmt::format("in.masked.{}", j)).requires_grad_());
      cotangents.push_back(recorded.at(fmt::format("cot.pred.{}", j)));
      expected.push_back(recorded.at(fmt::format("out.pred.{}", j)));
      columns.push_back({truth.back().size(1) - 1, classes.find(std::to_string(j)) != std::string::npos});
    }
    Npt model(NptOptions(to_text(columns))
                  .width(recorded.whole("embedding"))
                  .heads(recorded.whole("num_heads"))
                  .depth(recorded.whole("depth"))
                  .embedding_norm(recorded.text("embedding_layer_norm") == "true")
                  .dropout(0)
                  .attention_dropout(0));
    recorded.fill(*model);
    const Tensor predictions = model(torch::cat(seen, 1));
    EXPECT_LT(distance(predictions, torch::cat(expected, 1)), 1e-10) << name;
    const double share = recorded.text("tradeoff") == "-1" ? -1 : std::stod(recorded.text("lambda_"));
    const NptLoss loss = npt_loss(predictions, torch::cat(truth, 1), columns, recorded.at("in.label_loss_mask"),
                                  recorded.at("in.feature_loss_mask"), share);
    EXPECT_LT(distance(loss.loss, recorded.at("out.loss")), 1e-10) << name;
    EXPECT_LT(distance(loss.targets, recorded.at("out.label_loss_sum")), 1e-10) << name;
    EXPECT_LT(distance(loss.features, recorded.at("out.feature_loss_sum")), 1e-10) << name;
    EXPECT_LT(distance(torch::stack({loss.target_count, loss.feature_count}), recorded.at("out.counts")), 1e-10);
    (predictions * torch::cat(cotangents, 1)).sum().backward({}, true);
    recorded.check_gradients(*model, "grad.");
    for (std::size_t j = 0; j < seen.size(); ++j)
      EXPECT_LT(distance(seen[j].grad(), recorded.at(fmt::format("grad.masked.{}", j))), 1e-10) << name << " " << j;
    model->zero_grad();
    for (const Tensor& column : seen) column.mutable_grad() = Tensor();
    loss.loss.backward();
    recorded.check_gradients(*model, "grad_loss.");
    for (std::size_t j = 0; j < seen.size(); ++j)
      EXPECT_LT(distance(seen[j].grad(), recorded.at(fmt::format("grad_loss.masked.{}", j))), 1e-10)
          << name << " " << j;
  }
}

// Random numbers in a model of options without a recorded case, against the reference: y, loss and every gradient.
void hold_to_reference(const NptOptions& options, const reference::LayerOptions& layer, torch::ScalarType type,
                       double tolerance) {
  torch::manual_seed(5);
  Npt model(options);
  model->to(type);
  model->eval();
  const int64_t n = 9;
  const auto& columns = model->columns();
  std::vector<tape::Value> seen, truth;
  std::vector<Tensor> in, out;
  reference::ModelOptions plain{{}, options.depth(), layer};
  for (const NptColumn& column : columns) {
    plain.columns.push_back({column.width, column.categorical});
    in.push_back(torch::randn({n, column.width + 1}, type));
    out.push_back(column.categorical
                      ? torch::cat({torch::one_hot(torch::randint(column.width, {n}, torch::kInt64), column.width),
                                    torch::zeros({n, 1}, torch::kInt64)},
                                   1)
                            .to(type)
                      : torch::randn({n, 2}, type));
    seen.push_back(value_of(in.back()));
    truth.push_back(value_of(out.back()));
  }
  reference::Weights weights;
  for (const auto& item : model->named_parameters()) weights[item.key()] = value_of(item.value());
  const auto d = static_cast<int64_t>(columns.size());
  const Tensor targets = torch::zeros({n, d}, type), features = torch::rand({n, d}).gt(0.6).to(type);
  targets.select(1, d - 1).fill_(1);
  features.select(1, d - 1).fill_(0);
  const auto predictions = reference::model(seen, weights, plain);
  const auto expected = reference::loss(predictions, truth, plain.columns, value_of(targets), value_of(features), 0.3);
  tape::backward({{expected.loss, {1.0}}});

  const Tensor y = model(torch::cat(in, 1));
  std::vector<Tensor> joined;
  for (const tape::Value& value : predictions) joined.push_back(tensor_of(value.tensor()));
  EXPECT_LT(distance(y, torch::cat(joined, 1)), tolerance);
  const NptLoss loss = npt_loss(y, torch::cat(out, 1), columns, targets, features, 0.3);
  EXPECT_LT(std::abs(loss.loss.item<double>() - expected.loss.data()[0]), tolerance);
  loss.loss.backward();
  for (const auto& item : model->named_parameters())
    EXPECT_LT(distance(item.value().grad(), tensor_of(weights.at(item.key()).gradient_tensor())), tolerance)
        << item.key();
}

TEST(Npt, IsItsReferenceWithEveryOption) {
  const auto options = [] { return NptOptions("x,3,x,2").width(6).heads(3).depth(4).dropout(0).attention_dropout(0); };
  reference::LayerOptions layer;
  layer.heads = 3;
  hold_to_reference(options(), layer, torch::kFloat64, 1e-10);
  hold_to_reference(options(), layer, torch::kFloat32, 2e-5);
  auto other = layer;
  other.norm_first = false;
  hold_to_reference(options().norm("post"), other, torch::kFloat64, 1e-10);
  other = layer;
  other.norm = false;
  hold_to_reference(options().norm("none"), other, torch::kFloat64, 1e-10);
  other = layer;
  other.mix_heads = false;
  hold_to_reference(options().mix_heads(false), other, torch::kFloat64, 1e-10);
  other = layer;
  other.separate_residual = false;
  hold_to_reference(options().separate_residual(false), other, torch::kFloat64, 1e-10);
  other = layer;
  other.network = false;
  hold_to_reference(options().network_depth(0), other, torch::kFloat64, 1e-10);
  hold_to_reference(options().network_depth(3), layer, torch::kFloat64, 1e-10);
  hold_to_reference(options().type_embedding(false).index_embedding(false).embedding_norm(true), layer, torch::kFloat64,
                    1e-10);
}

TEST(Npt, TakesAnyAttentionAndRowsInAnyOrder) {
  for (const char* attention : {"softmax", "softmax+bn(beta=0.6)", "linear(elu1)", "rbf", "softmax(scale=0.3)",
                                "softmax,linear(elu1)", "rpc_attention"}) {
    torch::manual_seed(2);
    const auto model = make_model(
        "npt", {{"columns", "x,3,x"}, {"width", "8"}, {"heads", "2"}, {"depth", "2"}, {"attention", attention}});
    model->eval();
    const Tensor table = torch::randn({11, 8}), order = torch::randperm(11);
    const Tensor y = model->logits({table, {}, {}, {}});
    EXPECT_EQ(y.sizes(), (std::vector<int64_t>{11, 5}));
    EXPECT_LT(distance(model->logits({table.index_select(0, order), {}, {}, {}}), y.index_select(0, order)), 1e-5)
        << attention;
    y.sum().backward();
    for (const auto& item : model->named_parameters())
      EXPECT_TRUE(item.value().grad().defined() && item.value().grad().isfinite().all().item<bool>())
          << attention << " " << item.key();
    EXPECT_EQ(model->attentions().size(), 2U);
    EXPECT_GT(model->as<NptImpl>()->multiply_adds(11), 11.0 * 13 * 24 * 24);
    EXPECT_EQ(describe(*model_from_json(describe(*model))), describe(*model));
  }
}

TEST(Npt, LeavesOutWhileTrainingOnly) {
  torch::manual_seed(1);
  const auto model = make_model("npt", {{"columns", "x,2"}, {"width", "8"}, {"heads", "2"}, {"depth", "2"}});
  const Tensor table = torch::randn({5, 5});
  model->train();
  EXPECT_FALSE(torch::equal(model->logits({table, {}, {}, {}}), model->logits({table, {}, {}, {}})));
  model->eval();
  EXPECT_TRUE(torch::equal(model->logits({table, {}, {}, {}}), model->logits({table, {}, {}, {}})));
  const auto copy = std::dynamic_pointer_cast<Model>(model->clone());
  EXPECT_TRUE(torch::equal(model->logits({table, {}, {}, {}}), copy->logits({table, {}, {}, {}})));
}

TEST(Npt, StartsAsTorchDoes) {
  torch::manual_seed(1);
  Npt model(NptOptions("x,2").width(16).heads(2).depth(2));
  const auto& q = model->layers[0]->fc_q->weight;
  EXPECT_LE(q.abs().max().item<double>(), 1 / std::sqrt(32.0));
  EXPECT_GT(q.abs().max().item<double>(), 0.95 / std::sqrt(32.0));
  EXPECT_NEAR(model->feature_index_embedding->weight.std().item<double>(), 1, 0.35);
  EXPECT_TRUE(model->layers[0]->ln0->weight.eq(1).all().item<bool>());
}

TEST(Npt, RefusesWhatDoesNotFit) {
  EXPECT_THAT(message_of([] { Npt model(NptOptions("")); }), HasSubstr("no columns"));
  EXPECT_THAT(message_of([] { Npt model(NptOptions("x,y")); }), HasSubstr("found 'y'"));
  EXPECT_THAT(message_of([] { Npt model(NptOptions("x,0")); }), HasSubstr("found '0'"));
  EXPECT_THAT(message_of([] { Npt model(NptOptions("x,2").depth(3)); }), HasSubstr("must be even"));
  EXPECT_THAT(message_of([] { Npt model(NptOptions("x,2").width(10)); }), HasSubstr("cannot be cut into 8 heads"));
  EXPECT_THAT(message_of([] { Npt model(NptOptions("x,2").norm("before")); }), HasSubstr("norm"));
  EXPECT_THAT(message_of([] { Npt model(NptOptions("x,2").attention("primal_attention").separate_residual(false)); }),
              HasSubstr("has no queries"));
  Npt model(NptOptions("x,2").width(8).depth(2));
  EXPECT_THAT(message_of([&] { model(torch::zeros({3, 4})); }), HasSubstr("[rows,5] is expected"));
  EXPECT_THAT(message_of([&] { model(torch::zeros({0, 5})); }), HasSubstr("[rows,5] is expected"));
  EXPECT_THAT(message_of([&] {
                model->logits({torch::zeros({3, 5}), torch::ones({3, 5}), {}, {}});
              }),
              HasSubstr("neither a mask nor times"));
  EXPECT_EQ(to_text(npt_columns("x,x,12")), "x,x,12");
}

}  // namespace
}  // namespace saddle::nn

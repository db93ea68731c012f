// What analyses are shown of a model of a table is what it computes when it predicts.
#include "saddle/train/tabular/probe.hpp"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cmath>

#include "saddle/analysis/registry.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/nn/models/registry.hpp"

namespace saddle::train::tabular {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Index learned = 20, asked = 9;

// Two numbers and a class that follows from them.
data::WholeTable table_of(Index rows, std::uint64_t seed) {
  data::WholeTable table{"table", {{"a", {}}, {"b", {}}, {"kind", {"down", "up"}}}, rows, {}};
  Stream stream(seed, "rows");
  for (Index row = 0; row < rows; ++row) {
    const double a = stream.normal(), b = stream.normal();
    table.values.insert(table.values.end(), {a, b, a > b ? 1.0 : 0.0});
  }
  return table;
}

TrainedTable made(const std::string& attention = "softmax", Index batch = 2048) {
  torch::manual_seed(1);
  TrainedTable trained;
  const data::WholeTable table = table_of(learned, 1);
  const std::vector<bool> all(static_cast<std::size_t>(learned), true);
  trained.name = table.name;
  trained.encoding = Encoding::fit(table, all, all);
  trained.model = nn::make_model("npt", {{"columns", nn::to_text(trained.encoding.model_columns())},
                                         {"width", "8"},
                                         {"heads", "2"},
                                         {"depth", "4"},
                                         {"attention", attention}});
  trained.settings.mask_targets = 0.5;
  trained.batch = batch;
  trained.context = table.values;
  return trained;
}

TEST(TableProbe, ShowsWhatPredicts) {
  const TrainedTable trained = made();
  const data::WholeTable table = table_of(asked, 2);
  const TableProbes probes = probe(trained, table, 100);
  const Index n = learned + asked;
  EXPECT_EQ(probes.rows.split, "test");
  EXPECT_THAT(probes.rows.lengths, ElementsAre(n));
  EXPECT_EQ(probes.rows.tokens.shape(), (std::array<Index, 3>{1, n, 3 * 8}));
  ASSERT_EQ(probes.rows.layers.size(), 2U);
  EXPECT_EQ(probes.rows.names.at(0).at(0), "train 0");
  EXPECT_EQ(probes.rows.names.at(0).back(), "test 8");
  ASSERT_EQ(probes.attributes.size(), 2U);
  const analysis::Probe &train = probes.attributes[0], &test = probes.attributes[1];
  EXPECT_EQ(train.split, "train");
  EXPECT_EQ(train.samples.size(), static_cast<std::size_t>(learned));
  EXPECT_EQ(test.split, "test");
  EXPECT_THAT(test.lengths, Each(3));
  EXPECT_THAT(test.names.at(4), ElementsAre("a", "b", "kind"));
  EXPECT_EQ(test.labels.at(5), table.at(5, 2));
  EXPECT_EQ(test.layers.at(1).heads.shape(), (std::array<Index, 4>{asked, 2, 3, 4}));
  // Weights of rows and of attributes are distributions.
  for (const analysis::Probe* own : {&probes.rows, &train, &test})
    for (const analysis::ProbedLayer& layer : own->layers) {
      const Array<double, 4> maps = analysis::token_weights(*own, layer);
      const Index N = own->tokens.shape()[1];
      ASSERT_EQ(maps.shape(), (std::array<Index, 4>{own->tokens.shape()[0], 2, N, N}));
      double sum = 0;
      for (const double weight : maps) sum += weight;
      EXPECT_NEAR(sum, static_cast<double>(maps.size() / N), 1e-4);
    }
  // Rows and attributes are two views of the same tokens, and the last ones predict what the model predicts.
  EXPECT_EQ(probes.rows.layers[1].tokens(0, learned + 4, 2 * 8 + 3), test.layers[1].tokens(4, 2, 3));
  const Tensor outputs = meet(trained, table, false);
  const auto parameters = trained.model->named_parameters();
  const Tensor weight = parameters["out_embedding.2.weight"].to(torch::kFloat64),
               bias = parameters["out_embedding.2.bias"].to(torch::kFloat64);
  for (Index row = 0; row < asked; ++row)
    for (Index c = 0; c < 2; ++c) {
      double logit = bias[c].item<double>();
      for (Index i = 0; i < 8; ++i) logit += weight[c][i].item<double>() * test.layers[1].tokens(row, 2, i);
      EXPECT_NEAR(logit, outputs[row][2 + c].item<double>(), 1e-5);
    }
}

// Keys and values of both kinds of layers, with the scale that npt has: one over the root of the whole width.
TEST(TableProbe, ShowsKeysAndValues) {
  const TableProbes probes = probe(made(), table_of(asked, 2), 100);
  const Index n = learned + asked;
  for (const bool rows : {true, false}) {
    const analysis::ProbedLayer& layer = (rows ? probes.rows : probes.attributes[1]).layers.at(1);
    const auto &keys = layer.parts.at("keys"), &values = layer.parts.at("values");
    const Index B = rows ? 1 : asked, N = rows ? n : 3, D = rows ? 12 : 4;
    ASSERT_EQ(keys.shape(), (std::array<Index, 4>{B, 2, N, D}));
    EXPECT_NEAR(layer.scale.value(), 1 / std::sqrt(static_cast<double>(2 * D)), 1e-12);
    for (Index e = 0; e < D; ++e) {
      double sum = 0;
      for (Index j = 0; j < N; ++j) sum += layer.weights(B - 1, 1, 2, j) * values(B - 1, 1, j, e);
      EXPECT_NEAR(sum, layer.heads(B - 1, 1, 2, e), 1e-5);
    }
  }
  analysis::ProbedModel model;
  model.probes = {probes.rows};
  analysis::Options options;
  EXPECT_EQ(analysis::find("kpca_value").on_model(model, options).tables.at(0).rows.size(), 4U);
}

TEST(TableProbe, ShowsNoMoreThanItIsAskedForAndNoMoreThanABatch) {
  const data::WholeTable table = table_of(asked, 2);
  const TableProbes few = probe(made(), table, 4);
  EXPECT_THAT(few.attributes[0].samples, ElementsAre(0, 5, 10, 15));
  EXPECT_THAT(few.attributes[1].samples, ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(few.rows.lengths, ElementsAre(8));
  const TableProbes one = probe(made(), table, 3, 7);
  EXPECT_THAT(one.attributes[1].samples, ElementsAre(7));
  EXPECT_THAT(one.rows.names.at(0), ElementsAre("train 0", "train 6", "train 13", "test 7"));
  EXPECT_THAT(probe(made("softmax", 8), table, 100).rows.lengths, ElementsAre(8));
  EXPECT_THROW(probe(made(), table, 3, asked), InvalidArgument);
  EXPECT_THROW(probe(made(), table_of(0, 2), 3), InvalidArgument);
}

// Targets to predict are hidden from the model, whatever they are.
TEST(TableProbe, HidesTheTargets) {
  const TrainedTable trained = made();
  data::WholeTable table = table_of(asked, 2);
  const TableProbes before = probe(trained, table, 100);
  for (Index row = 0; row < asked; ++row) table.values[static_cast<std::size_t>(3 * row + 2)] = data::unknown_class;
  const TableProbes after = probe(trained, table, 100);
  EXPECT_TRUE(std::equal(before.rows.tokens.begin(), before.rows.tokens.end(), after.rows.tokens.begin()));
  EXPECT_THAT(after.attributes[1].labels, Each(-1));
}

TEST(TableProbe, IsWhatAnalysesTake) {
  for (const char* attention : {"softmax", "softmax+sh", "primal_attention", "softmax,linear(elu1),hyla,softmax+bn"})
    for (const char* name : {"head_redundancy", "rank_collapse"}) {
      SCOPED_TRACE(attention + std::string(", ") + name);
      const TrainedTable trained = made(attention);
      const TableProbes probes = probe(trained, table_of(asked, 2), 6);
      for (const bool rows : {true, false}) {
        analysis::ProbedModel model;
        model.probes = rows ? std::vector{probes.rows} : probes.attributes;
        analysis::Options options;
        EXPECT_FALSE(analysis::find(name).on_model(model, options).tables.empty());
      }
    }
}

}  // namespace
}  // namespace saddle::train::tabular

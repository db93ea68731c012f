#include "saddle/analysis/energy/energy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"

namespace saddle::analysis::energy {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

// Three samples of training, one of the test; the second layer fires twice as often on the test.
ProbedModel model() {
  ProbedModel own;
  own.name = "runs/a";
  for (const bool test : {false, true}) {
    Probe& probe = own.probes.emplace_back();
    probe.split = test ? "test" : "train";
    probe.samples.resize(test ? 1 : 3);
    probe.energy = {{"first", 1, {100, 0, 0}},
                    {"second", test ? 0.4 : 0.2, {0, test ? 80.0 : 40.0, test ? 10.0 : 0.0}}};
  }
  return own;
}

TEST(Energy, IsTheMeanOverAllSamples) {
  const auto layers = mean_of(model().probes);
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_DOUBLE_EQ(layers[0].firing_rate, 1);
  EXPECT_DOUBLE_EQ(layers[0].operations.macs, 100);
  EXPECT_DOUBLE_EQ(layers[1].firing_rate, 0.25);
  EXPECT_DOUBLE_EQ(layers[1].operations.acs, 50);
  EXPECT_DOUBLE_EQ(layers[1].operations.shifts, 2.5);
}

TEST(Energy, AddsUpPicojoules) {
  Options options;
  const Result result = analysis().on_model(model(), options);
  const Json document = Json::parse(result.json);
  EXPECT_NEAR(document["total"]["picojoules"], 4.6 * 100 + 0.9 * 50 + 0.045 * 2.5, 1e-12);
  EXPECT_EQ(document["layers"][1]["layer"], "second");
  ASSERT_EQ(result.tables.size(), 1u);
  EXPECT_EQ(result.tables[0].rows.size(), 3u);
}

// A total of attentions alone is not called that of the model.
TEST(Energy, SaysWhatIsCountedAndWhatIsNot) {
  ProbedModel host = model();
  for (Probe& probe : host.probes) {
    probe.layers.push_back({"spiking(steps=2)", {}, {}, {}});
    probe.layers.push_back({"softmax", {}, {}, {}});
  }
  Options options;
  const Result part = analysis().on_model(host, options);
  EXPECT_THAT(part.about, HasSubstr("spiking attentions of the model, and nothing else of it"));
  EXPECT_EQ(Json::parse(part.json)["counted"], "spiking attentions");
  EXPECT_EQ(part.tables[0].rows.back()[0], "all spiking attentions");
  ASSERT_EQ(part.findings.size(), 2u);
  EXPECT_THAT(part.findings[1], HasSubstr("embedding, two-layer networks, norms and head"));
  EXPECT_THAT(part.findings[1], HasSubstr("layer 1 (softmax)"));
  EXPECT_THAT(part.findings[1], testing::Not(HasSubstr("layer 0")));

  ProbedModel spikes = host;
  for (Probe& probe : spikes.probes) {
    probe.energy_of_all = true;
    probe.layers.pop_back();
  }
  Options again;
  const Result whole = analysis().on_model(spikes, again);
  EXPECT_THAT(whole.about, HasSubstr("What the model would cost for one sample"));
  EXPECT_EQ(Json::parse(whole.json)["counted"], "model");
  EXPECT_THAT(whole.findings[1], HasSubstr("every linear layer"));
  // Beside each other the totals of both are not put into one column.
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NE(part.figures.at(i).first, whole.figures.at(i).first);
}

TEST(Energy, BlocksThatAreMadeAlikeHaveNumbers) {
  ProbedModel own = model();
  for (Probe& probe : own.probes) probe.energy[1].name = "first";
  Options options;
  const Result result = analysis().on_model(own, options);
  EXPECT_EQ(result.tables[0].rows[0][0], "block 0: first");
  EXPECT_EQ(result.tables[0].rows[1][0], "block 1: first");
}

TEST(Energy, RefusesModelsWithoutSpikesAndUnknownOptions) {
  ProbedModel plain = model();
  for (Probe& probe : plain.probes) probe.energy.clear();
  Options options;
  try {
    analysis().on_model(plain, options);
    FAIL();
  } catch (const NotSupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("no spiking layer"));
  }
  Options unknown(std::map<std::string, std::string>{{"steps", "4"}});
  EXPECT_THROW(analysis().on_model(model(), unknown), InvalidArgument);
  ProbedModel uneven = model();
  uneven.probes[1].energy.pop_back();
  EXPECT_THROW(mean_of(uneven.probes), InvalidArgument);
}

}  // namespace
}  // namespace saddle::analysis::energy

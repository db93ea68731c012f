// What analyses are shown of a model is what the model computes.
#include "saddle/train/probe.hpp"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "places.hpp"
#include "saddle/base/error.hpp"
#include "saddle/train/evaluate.hpp"
#include "saddle/train/run_folder.hpp"
#include "saddle/train/setup.hpp"

namespace saddle::train {
namespace {

using testing::ElementsAre;

constexpr const char* waves = SADDLE_SOURCE_DIR "/examples/data/waves";

Setup made(const std::string& attention, const std::string& model = "mvts") {
  return set_up(run::resolve({{"data.name", waves, "test"},
                              {"model.name", model, "test"},
                              {"model.attention", attention, "test"},
                              {"model.width", "16", "test"},
                              {"model.heads", "4", "test"},
                              {"model.depth", "2", "test"}}));
}

TEST(Probe, HoldsWhatTheModelDid) {
  const auto setup = made("softmax+sh,softmax+bn(beta=0.5)");
  const analysis::Probe seen = probe(setup.trained, setup.train, {0, 3, 5}, "train");
  EXPECT_EQ(seen.split, "train");
  EXPECT_THAT(seen.samples, ElementsAre(0, 3, 5));
  ASSERT_EQ(seen.layers.size(), 2u);
  EXPECT_EQ(seen.tokens.shape()[2], 16);
  EXPECT_FALSE(seen.first_token);
  EXPECT_TRUE(seen.energy.empty());
  for (const analysis::ProbedLayer& layer : seen.layers) {
    EXPECT_EQ(layer.heads.shape()[1], 4);
    EXPECT_EQ(layer.tokens.shape(), seen.tokens.shape());
    // Weights of tokens that exist sum to one, those of pooled keys too.
    const Array<double, 4> maps = analysis::token_weights(seen, layer);
    for (Index b = 0; b < 3; ++b)
      for (Index h = 0; h < 4; ++h) {
        double sum = 0;
        for (Index j = 0; j < maps.shape()[3]; ++j) sum += maps(b, h, 1, j);
        EXPECT_NEAR(sum, 1, 1e-5) << layer.attention << " head " << h;
      }
  }
  // Behind the second layer stands what the head of the model reads: other tokens than before it.
  EXPECT_NE(seen.layers[1].tokens(0, 0, 0), seen.layers[0].tokens(0, 0, 0));
}

// Keys and values of declared attentions, and what Primal-Attention has in their place.
TEST(Probe, HoldsThePartsOfLayers) {
  const auto setup = made("softmax,primal_attention(rank=3,multiple=2)");
  const analysis::Probe seen = probe(setup.trained, setup.train, {0, 3}, "train");
  const Index N = seen.tokens.shape()[1];
  const auto &keys = seen.layers[0].parts.at("keys"), &values = seen.layers[0].parts.at("values");
  EXPECT_EQ(keys.shape(), (std::array<Index, 4>{2, 4, N, 4}));
  // Weights times values are the outputs of heads.
  for (Index e = 0; e < 4; ++e) {
    double sum = 0;
    for (Index j = 0; j < N; ++j) sum += seen.layers[0].weights(1, 2, 0, j) * values(1, 2, j, e);
    EXPECT_NEAR(sum, seen.layers[0].heads(1, 2, 0, e), 1e-5);
  }
  EXPECT_EQ(seen.layers[1].parts.at("escore").shape(), (std::array<Index, 4>{2, 4, N, 3}));
  EXPECT_EQ(seen.layers[1].parts.at("lambda").shape(), (std::array<Index, 4>{1, 1, 4, 3}));
  EXPECT_TRUE(probe(setup.trained, setup.train, {0}, "train", false).layers[0].parts.empty());
}

// Attentions that spike in a host leave their own energy only.
TEST(Probe, EnergyIsThatOfAttentionsInAHost) {
  const auto setup = made("spiking(steps=2)");
  const analysis::Probe seen = probe(setup.trained, setup.train, {0}, "train");
  EXPECT_FALSE(seen.energy.empty());
  EXPECT_FALSE(seen.energy_of_all);
}

// Blocks that get no mask attend to padding, so it counts: rows of what they show sum to one.
TEST(Probe, PaddingThatIsAttendedToCounts) {
  for (const char* hidden : {"true", "false"}) {
    const auto setup = set_up(run::resolve({{"data.name", waves, "test"},
                                            {"model.name", "time_series", "test"},
                                            {"model.mask_keys", hidden, "test"},
                                            {"model.width", "16", "test"},
                                            {"model.heads", "2", "test"},
                                            {"model.depth", "1", "test"}}));
    std::vector<Index> samples(static_cast<std::size_t>(setup.train->size()));
    std::iota(samples.begin(), samples.end(), Index{0});
    const analysis::Probe seen = probe(setup.trained, setup.train, samples, "train");
    const Index N = seen.tokens.shape()[1];
    const bool padded = std::any_of(seen.lengths.begin(), seen.lengths.end(), [&](Index n) { return n < N; });
    EXPECT_EQ(padded, hidden == std::string("true"));
    const Array<double, 4> maps = analysis::token_weights(seen, seen.layers[0]);
    for (Index b = 0; b < static_cast<Index>(samples.size()); ++b)
      EXPECT_NEAR(std::accumulate(&maps(b, 0, 0, 0), &maps(b, 0, 0, 0) + N, 0.0), 1, 1e-5) << hidden << " " << b;
    // Steps that are padding can be taken out as well: nothing changes.
    const auto shortest = std::min_element(seen.lengths.begin(), seen.lengths.end()) - seen.lengths.begin();
    const Matrix answers = seen.ask(shortest, {{}, {N - 1}}, analysis::Removal::pad);
    EXPECT_EQ(answers.shape()[0], 2);
  }
}

TEST(Probe, AsksTheModelWithoutSteps) {
  for (const char* model : {"mvts", "flowformer"}) {
    const auto setup = made("softmax", model);
    const analysis::Probe seen = probe(setup.trained, setup.train, {0, 1}, "train");
    ASSERT_TRUE(seen.ask);
    Group alone;
    const Evaluation whole = evaluate(setup.trained, setup.train, {1}, 1, alone, false);
    const Matrix answers = seen.ask(1, {{}, {2}, {seen.lengths[1] - 1}}, analysis::Removal::pad);
    const Index classes = answers.shape()[1];
    for (Index c = 0; c < classes; ++c)
      EXPECT_NEAR(answers(0, c), whole.probabilities[static_cast<std::size_t>(c)], 1e-5) << model;
    EXPECT_NE(answers(1, 0), answers(0, 0)) << model;
    // Of the last step nothing follows that could move up.
    const Matrix closed = seen.ask(1, {{2}, {seen.lengths[1] - 1}}, analysis::Removal::close);
    EXPECT_NEAR(closed(1, 0), answers(2, 0), 1e-6) << model;
    EXPECT_NE(closed(0, 0), answers(1, 0)) << model;
    EXPECT_THROW(seen.ask(2, {{}}, analysis::Removal::pad), InvalidArgument);
    EXPECT_THROW(seen.ask(1, {{-1}}, analysis::Removal::pad), InvalidArgument);
  }
}

TEST(Probe, ParametersAreThoseOfTheModel) {
  const auto setup = made("softmax");
  const auto weights = plain_weights(*setup.trained.model);
  const auto parameters = setup.trained.model->named_parameters();
  ASSERT_EQ(weights.size(), parameters.size());
  for (const auto& [name, tensor] : weights)
    EXPECT_EQ(tensor.at(0), parameters[name].flatten()[0].item<double>()) << name;
}

TEST(RunFolder, SettingsAreFoundFromAFileOfItsCheckpoints) {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / "saddle_config_of_test";
  fs::remove_all(root);
  fs::create_directories(root / "run/checkpoints");
  std::ofstream(root / "run/checkpoints/best.safetensors") << "";
  EXPECT_EQ(config_of(root / "run"), "");
  std::ofstream(root / "run/config.toml") << "";
  EXPECT_EQ(config_of(root / "run"), root / "run/config.toml");
  EXPECT_EQ(config_of(root / "run/checkpoints/best.safetensors"), root / "run/config.toml");
  EXPECT_EQ(config_of(root / "run/other.safetensors"), "");
  fs::remove_all(root);
}

}  // namespace
}  // namespace saddle::train

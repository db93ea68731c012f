// What a model did, read from named tensors.
#include "saddle/analysis/probe.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "places.hpp"
#include "saddle/analysis/registry.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// 0, 1, 2, .. in order.
Tensor counted(const Shape& shape, DType dtype = DType::f32) {
  Tensor tensor(dtype, shape);
  for (Index i = 0; i < tensor.size(); ++i) tensor.set(i, static_cast<double>(i));
  return tensor;
}

std::string refusal(const TensorFile& file) {
  try {
    probed_model(file, "some.safetensors");
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST(ProbedModel, OneTensorForAllLayers) {
  TensorFile file;
  file.tensors.emplace("weights", counted({2, 1, 3, 4, 4}));
  file.tensors.emplace("train.tokens", counted({3, 1, 4, 5}));
  file.tensors.emplace("train.heads", counted({2, 1, 3, 4, 2}));
  file.tensors.emplace("train.labels", counted({1}));
  const ProbedModel model = probed_model(file, "f");
  ASSERT_EQ(model.probes.size(), 2u);
  const Probe &train = model.probe("train"), &test = model.probe("test");
  EXPECT_EQ(test.layers.size(), 2u);
  EXPECT_EQ(test.layers[1].weights(0, 2, 1, 3), 48 + 2 * 16 + 4 + 3);
  EXPECT_EQ(test.layers[0].attention, "attention");
  EXPECT_TRUE(test.tokens.empty());
  EXPECT_THAT(test.labels, ElementsAre(-1));
  EXPECT_THAT(test.lengths, ElementsAre(4));
  EXPECT_EQ(train.tokens(0, 3, 4), 19);
  EXPECT_EQ(train.layers[1].tokens(0, 0, 0), 40);
  EXPECT_EQ(train.layers[1].heads(0, 2, 3, 1), 47);
  EXPECT_THAT(train.labels, ElementsAre(0));
  EXPECT_THROW(model.probe("validation"), InvalidArgument);
}

TEST(ProbedModel, LayersOfTheirOwnAndLeadingDimensions) {
  TensorFile file;
  file.metadata["attention"] = "softmax";
  file.metadata["layers.1.attention"] = "softmax+sh(1,2)";
  file.tensors.emplace("layers.0.weights", counted({4, 4}));
  file.tensors.emplace("layers.1.weights", counted({2, 4, 4}));
  file.tensors.emplace("lengths", counted({1}));
  file.tensors.at("lengths").set(0, 3);
  const Probe probe = probed_model(file, "f").probe("test");
  ASSERT_EQ(probe.layers.size(), 2u);
  EXPECT_EQ(probe.layers[0].attention, "softmax");
  EXPECT_EQ(probe.layers[1].attention, "softmax+sh(1,2)");
  EXPECT_EQ(probe.layers[0].weights.shape(), (std::array<Index, 4>{1, 1, 4, 4}));
  EXPECT_EQ(probe.layers[1].weights.shape(), (std::array<Index, 4>{1, 2, 4, 4}));
  EXPECT_THAT(probe.lengths, ElementsAre(3));
}

TEST(ProbedModel, SaysWhatDoesNotFit) {
  EXPECT_THAT(refusal({}), HasSubstr("there are no tensors"));
  TensorFile unknown;
  unknown.tensors.emplace("patch_embed.weight", counted({3, 3}));
  EXPECT_THAT(refusal(unknown), HasSubstr("'patch_embed.weight' has no place"));
  TensorFile deep;
  deep.tensors.emplace("weights", counted({1, 1, 1, 1, 2, 2}));
  EXPECT_THAT(refusal(deep), HasSubstr("at most 5 dimensions"));
  TensorFile uneven;
  uneven.tensors.emplace("weights", counted({2, 1, 3, 4, 4}));
  uneven.tensors.emplace("tokens", counted({3, 1, 5, 2}));
  EXPECT_THAT(refusal(uneven), HasSubstr("tokens"));
  TensorFile heads;
  heads.tensors.emplace("weights", counted({2, 1, 3, 4, 4}));
  heads.tensors.emplace("heads", counted({2, 1, 2, 4, 4}));
  EXPECT_THAT(refusal(heads), HasSubstr("outputs of 2 heads and weights of 3"));
  TensorFile lengths;
  lengths.tensors.emplace("weights", counted({4, 4}));
  lengths.tensors.emplace("lengths", counted({2}));
  EXPECT_THAT(refusal(lengths), HasSubstr("2 labels or lengths for 1 samples"));
  lengths.tensors.at("lengths") = counted({1});
  EXPECT_THAT(refusal(lengths), HasSubstr("a sample has 0 tokens"));
  for (const double wrong : {2.7, std::nan("")}) {
    lengths.tensors.at("lengths").set(0, wrong);
    EXPECT_THAT(refusal(lengths), HasSubstr("whole numbers are expected"));
  }
  TensorFile only_labels;
  only_labels.tensors.emplace("labels", counted({2}));
  EXPECT_THAT(refusal(only_labels), HasSubstr("no weights, heads or tokens"));
}

TEST(ProbedModel, PartsOfLayers) {
  TensorFile file;
  file.tensors.emplace("keys", counted({2, 1, 3, 4, 5}));
  file.tensors.emplace("values", counted({2, 1, 3, 4, 2}));
  file.tensors.emplace("layers.1.lambda", counted({3, 6}));
  const Probe probe = probed_model(file, "f").probe("test");
  ASSERT_EQ(probe.layers.size(), 2u);
  EXPECT_EQ(probe.layers[0].parts.size(), 2u);
  EXPECT_EQ(probe.layers[1].parts.at("keys")(0, 2, 3, 4), 60 + 59);
  EXPECT_EQ(probe.layers[1].parts.at("values").shape(), (std::array<Index, 4>{1, 3, 4, 2}));
  EXPECT_EQ(probe.layers[1].parts.at("lambda").shape(), (std::array<Index, 4>{1, 1, 3, 6}));
  EXPECT_THAT(probe.lengths, ElementsAre(4));

  TensorFile only;
  only.tensors.emplace("layers.0.lambda", counted({3, 6}));
  EXPECT_THAT(refusal(only), HasSubstr("no weights, heads or tokens"));
  only.tensors.at("layers.0.lambda") = counted({2, 3, 6});
  EXPECT_THAT(refusal(only), HasSubstr("more than the dimensions"));
  TensorFile heads = file;
  heads.tensors.emplace("heads", counted({2, 1, 2, 4, 2}));
  EXPECT_THAT(refusal(heads), HasSubstr("a layer has 2 heads, its keys 3"));
  TensorFile tokens = file;
  tokens.tensors.at("values") = counted({2, 1, 3, 5, 2});
  EXPECT_THAT(refusal(tokens), HasSubstr("4 and 5 tokens"));
  TensorFile widths = file;
  widths.tensors.emplace("layers.1.escore", counted({3, 4, 7}));
  EXPECT_THAT(refusal(widths), HasSubstr("escore of a layer has width 7, lambda has 6"));
  TensorFile unknown = file;
  unknown.tensors.emplace("layers.0.queries", counted({3, 4, 5}));
  EXPECT_THAT(refusal(unknown), HasSubstr("'layers.0.queries' has no place"));
}

TEST(ProbedModel, TensorsThatHoldNothingAreRefused) {
  for (const Shape& shape : {Shape{0, 1, 4, 5}, Shape{2, 0, 4, 5}, Shape{2, 1, 4, 0}}) {
    TensorFile file;
    file.tensors.emplace("tokens", counted(shape));
    EXPECT_THAT(refusal(file), HasSubstr("holds nothing")) << to_string(shape);
  }
}

// What a file says of its attention must fit its weights.
TEST(ProbedModel, PoolingMustFitTheWeights) {
  TensorFile file;
  file.tensors.emplace("weights", counted({1, 1, 2, 6, 2}));
  file.metadata["attention"] = "softmax+sh(2)";
  EXPECT_THAT(refusal(file), HasSubstr("has 1 factors for 2 heads"));
  file.metadata["attention"] = "softmax+sh";  // factors 1 and 2
  EXPECT_THAT(refusal(file), HasSubstr("has 6 keys for 6 tokens, the weights have 2"));
  file.metadata["attention"] = "softmax+sh(3,6)";
  EXPECT_EQ(refusal(file), "");
}

TEST(ProbedModel, KindsAndReadout) {
  TensorFile file;
  file.tensors.emplace("weights", counted({1, 1, 2, 3, 3}));
  file.tensors.emplace("kinds", counted({1, 3}));
  file.metadata["readout"] = "first_token";
  const Probe probe = probed_model(file, "f").probe("test");
  EXPECT_EQ(probe.kinds(0, 2), 2);
  EXPECT_TRUE(probe.first_token);
  EXPECT_FALSE(probe.last_token);
  EXPECT_THAT(probe.samples, ElementsAre(0));
  file.metadata["readout"] = "last_token";
  EXPECT_TRUE(probed_model(file, "f").probe("test").last_token);
  file.tensors.at("kinds").set(0, 3);
  EXPECT_THAT(refusal(file), HasSubstr("kinds holds 3"));
  file.tensors.at("kinds") = counted({1, 2});
  EXPECT_THAT(refusal(file), HasSubstr("2 and 3 tokens"));
}

// Windows of two tokens, of which the last one is padding: the rest of a window takes its whole weight.
TEST(TokenWeights, PooledKeysStandForTheirTokens) {
  Probe probe;
  probe.lengths = {3};
  ProbedLayer layer;
  layer.attention = "softmax+sh(1,2)";
  layer.weights = Array<double, 4>({1, 2, 4, 4});
  for (Index i = 0; i < 4; ++i) {
    for (Index j = 0; j < 4; ++j) layer.weights(0, 0, i, j) = 0.1 * static_cast<double>(j + 1);
    layer.weights(0, 1, i, 0) = 0.6;
    layer.weights(0, 1, i, 1) = 0.4;
  }
  const Array<double, 4> maps = token_weights(probe, layer);
  EXPECT_DOUBLE_EQ(maps(0, 0, 1, 2), 0.3);
  EXPECT_EQ(maps(0, 0, 1, 3), 0);
  EXPECT_EQ(maps(0, 0, 3, 0), 0);
  EXPECT_DOUBLE_EQ(maps(0, 1, 0, 0), 0.3);
  EXPECT_DOUBLE_EQ(maps(0, 1, 0, 1), 0.3);
  EXPECT_DOUBLE_EQ(maps(0, 1, 0, 2), 0.4);
  layer.attention = "softmax";
  layer.weights = Array<double, 4>({1, 2, 4, 3});
  EXPECT_TRUE(token_weights(probe, layer).empty());
  layer.weights = {};
  EXPECT_TRUE(token_weights(probe, layer).empty());
}

TEST(Analyses, NamesAndFilesThatAreWrongAreExplained) {
  const auto message = [](auto&& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      return std::string(error.what()) + " " + error.hint();
    }
    return "";
  };
  EXPECT_THAT(message([] { find("rank_colapse"); }), HasSubstr("did you mean 'rank_collapse'?"));
  EXPECT_EQ(&find("rank-collapse"), &find("rank_collapse"));
  Options options;
  EXPECT_THAT(message([&] { analyze_file(find("spectrum"), SADDLE_SOURCE_DIR "/README.md", options); }),
              HasSubstr("neither"));
  EXPECT_THAT(message([&] { analyze_file(find("spectrum"), "nowhere.txt", options); }),
              HasSubstr("there is no nowhere.txt"));
  // Energies are in no file.
  EXPECT_FALSE(find("energy").takes_files());
  EXPECT_THAT(message([&] { analyze_file(find("energy"), SADDLE_SOURCE_DIR "/README.md", options); }),
              HasSubstr("takes no files"));
  EXPECT_THAT(message([&] { analyze_tensors(find("energy"), {}, "arrays", options); }), HasSubstr("takes no tensors"));
  EXPECT_THAT(message([&] { analyze_file(find("spectrum"), "nowhere.safetensors", options); }),
              HasSubstr("nowhere.safetensors"));
}

// Every folder has what pages and lists show.
TEST(Analyses, AreComplete) {
  EXPECT_GE(all().size(), 9u);
  for (const Analysis* each : all()) {
    EXPECT_FALSE(each->title.empty()) << each->name;
    EXPECT_FALSE(each->summary.empty()) << each->name;
    EXPECT_THAT(each->bibtex, HasSubstr("@")) << each->name;
    EXPECT_THAT(std::string(page_of(*each)), HasSubstr("# ")) << each->name;
    EXPECT_TRUE(each->takes_files() || each->on_model || each->example) << each->name;
  }
}

}  // namespace
}  // namespace saddle::analysis

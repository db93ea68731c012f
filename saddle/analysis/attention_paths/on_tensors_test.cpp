// The theory on tasks that files hold.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "saddle/analysis/attention_paths/attention_paths.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"

namespace saddle::analysis::attention_paths {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

constexpr Index P = 20, N0 = 3, T = 4;

// The class is the sign of the first feature of every token.
Tensor inputs(const char* name) {
  Stream stream(6, name);
  Tensor x(DType::f64, {P, N0, T});
  for (Index i = 0; i < x.size(); ++i) x.set(i, 0.3 * stream.normal());
  for (Index p = 0; p < P; ++p)
    for (Index t = 0; t < T; ++t) x.set(p * N0 * T + t, x.at(p * N0 * T + t) + (p % 2 == 0 ? 1 : -1));
  return x;
}

TensorFile task() {
  TensorFile file;
  file.tensors.emplace("x_train", inputs("train"));
  file.tensors.emplace("x_test", inputs("test"));
  Tensor y(DType::f64, {P});
  for (Index p = 0; p < P; ++p) y.set(p, p % 2 == 0 ? 1 : -1);
  file.tensors.emplace("y_train", y);
  file.tensors.emplace("y_test", y);
  Stream stream(7, "w");
  for (const char* name : {"w1", "w2"}) {
    Tensor w(DType::f64, {2, N0, N0});
    for (Index i = 0; i < w.size(); ++i) w.set(i, stream.normal());
    file.tensors.emplace(name, w);
  }
  return file;
}

Json of(const TensorFile& file, std::map<std::string, std::string> given = {}) {
  Options options(std::move(given));
  return Json::parse(on_tensors(file, "some.safetensors", options).json);
}

TEST(AttentionPathsFiles, ATaskIsSolved) {
  const Json found = of(task(), {{"width", "20"}});
  EXPECT_EQ(found["converged"], true);
  EXPECT_EQ(found["heads"], (std::vector<Index>{2, 2}));
  EXPECT_EQ(found["widths"], (std::vector<Index>{20, 20, 20}));
  EXPECT_EQ(found["u"].size(), 4u);
  EXPECT_EQ(found["scores"].size(), 4u);
  EXPECT_EQ(found["path_kernels"].size(), 3u);
  EXPECT_EQ(found["mean"].size(), static_cast<std::size_t>(P));
  EXPECT_GT(found["accuracy"].get<double>(), 0.9);
  for (const double variance : found["variance"]) EXPECT_GT(variance, 0);
  // Very wide: U is a multiple of the identity.
  const Json wide = of(task(), {{"width", "1000000"}});
  EXPECT_NEAR(wide["u"][0][0].get<double>(), wide["u"][3][3].get<double>(), 1e-3);
  EXPECT_NEAR(wide["mean"][0].get<double>(), wide["mean_gp"][0].get<double>(), 1e-3);
}

// What a model did on one split are the examples, with or without "train." before the names.
TEST(AttentionPathsFiles, WhatAModelDid) {
  TensorFile file;
  Tensor weights(DType::f64, {1, P, 2, T, T}), labels(DType::f64, {P});
  for (Index i = 0; i < weights.size(); ++i) weights.set(i, 1.0 / T);
  for (Index p = 0; p < P; ++p) labels.set(p, static_cast<double>(p % 2));
  Stream stream(8, "tokens");
  Tensor tokens(DType::f64, {2, P, T, N0});
  for (Index i = 0; i < tokens.size(); ++i) tokens.set(i, stream.normal());
  file.tensors = {{"weights", weights}, {"labels", labels}, {"tokens", tokens}};
  const Json found = of(file);
  EXPECT_EQ(found["scores"].size(), 2u);
  EXPECT_NEAR(found["scores"][1]["score"].get<double>(), 1, 1e-9);  // heads that are alike score alike
  file.tensors = {{"train.weights", weights}, {"train.labels", labels}, {"train.tokens", tokens}};
  EXPECT_EQ(of(file)["scores"], found["scores"]);
}

TEST(AttentionPathsFiles, SayWhatIsMissing) {
  const auto message = [](const TensorFile& file) -> std::string {
    try {
      of(file);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  TensorFile file = task();
  file.tensors.erase("y_train");
  EXPECT_THAT(message(file), HasSubstr("no tensor 'y_train'"));
  file = task();
  file.tensors.erase("w1");
  EXPECT_THAT(message(file), HasSubstr("no tensor 'w1'"));
  file = task();
  file.tensors.at("y_train").set(0, 2);
  EXPECT_THAT(message(file), HasSubstr("labels are +1 and -1"));
  file = task();
  file.tensors.erase("x_test");
  EXPECT_THAT(message(file), HasSubstr("no tensor 'x_test'"));
  EXPECT_THROW(of(task(), {{"readout", "all"}}), InvalidArgument);
  EXPECT_THROW(of(task(), {{"width", "-3"}}), InvalidArgument);
  file = task();
  for (int l = 3; l <= 9; ++l) file.tensors.emplace("w" + std::to_string(l), file.tensors.at("w1"));
  EXPECT_THAT(message(file), HasSubstr("9 layers of heads make more than 256 paths"));
}

}  // namespace
}  // namespace saddle::analysis::attention_paths

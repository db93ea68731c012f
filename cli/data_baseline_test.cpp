#include "data_baseline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "places.hpp"
#include "saddle/base/error.hpp"

namespace saddle::cli {
namespace {

using testing::HasSubstr;

const std::string waves = SADDLE_SOURCE_DIR "/examples/data/waves";

TEST(DataBaseline, JsonAndTextSayTheSame) {
  const data::Task task = data::find_task(waves);
  const auto document = nlohmann::json::parse(baseline_json(task, {}));
  EXPECT_EQ(document["schema"], "saddle.data.baseline/1");
  EXPECT_EQ(document["name"], "waves");
  ASSERT_EQ(document["baselines"].size(), 3u);
  const auto& first = document["baselines"][0];
  EXPECT_EQ(first["name"], "commonest");
  EXPECT_NEAR(first["accuracy"].get<double>(), 1.0 / 3, 1e-12);
  EXPECT_EQ(first["count"], 60);
  const std::string text = baseline_text(task, {});
  EXPECT_THAT(text, HasSubstr("33.3 %"));
  EXPECT_THAT(text, HasSubstr("60 test samples"));
  for (const auto& baseline : document["baselines"]) {
    EXPECT_THAT(text, HasSubstr(baseline["name"].get<std::string>()));
    EXPECT_THAT(text, HasSubstr(baseline["what"].get<std::string>()));
  }
}

TEST(DataBaseline, SaysOnHowManySamplesItIsFitted) {
  const data::Task task = data::find_task(waves);
  EXPECT_THAT(baseline_text(task, {}), HasSubstr("fitted on the training split"));
  EXPECT_THAT(baseline_text(task, {.limit = 12}), HasSubstr("fitted on at most 12 training samples"));
}

TEST(DataBaseline, RefusesWhatTheMethodsRefuse) {
  EXPECT_THROW(baseline_text(data::find_task(waves), {.max_length = -1}), InvalidArgument);
}

}  // namespace
}  // namespace saddle::cli

// Run folders are found at any depth, read strictly, and refused with the file and the field that is wrong.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"
#include "saddle/io/atomic_file.hpp"
#include "saddle/report/checked_json_internal.hpp"
#include "saddle/report/fabricated_test.hpp"
#include "saddle/report/report.hpp"

namespace saddle::report {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class Runs : public testing::Test {
 protected:
  std::string root() const { return (scratch_.path() / "runs").string(); }
  fs::path make(const std::string& name, const Fabricated& run = {}) const {
    fabricate(fs::path(root()) / name, run);
    return fs::path(root()) / name;
  }
  static Fabricated small(const std::string& attention = "softmax", Index seed = 0) {
    Fabricated run;
    run.attention.assign(2, attention);
    run.seed = seed, run.layers = 2, run.heads = 2, run.samples = 1, run.epochs = 3, run.classes = 3;
    return run;
  }
  // Reads a run whose file was edited: `change` gets the document.
  template <class Change>
  static void edit(const fs::path& file, Change change) {
    Json document = Json::parse(read_text(file));
    change(document);
    io::write_atomically(file, document.dump());
  }
  std::string refusal() const {
    try {
      read_runs({root()});
    } catch (const DataError& error) {
      return error.what();
    }
    return "nothing was refused";
  }

  ScratchFolder scratch_;
};

TEST_F(Runs, AreFoundAtAnyDepthAndOrdered) {
  make("b/x/1", small("softmax", 1));
  make("b/x/0", small("softmax", 0));
  make("a", small("softmax+bn(beta=0.6)", 2));
  fs::create_directories(fs::path(root()) / "empty" / "folder");
  const std::vector<report::Run> runs = read_runs({root()});
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].name, "runs/b/x/0");
  EXPECT_EQ(runs[1].seed, 1);
  EXPECT_EQ(runs[2].label, "softmax+bn(beta=0.6)");
  EXPECT_EQ(runs[2].data, "FashionMNIST");
  EXPECT_THAT(runs[2].classes, ElementsAre("T-shirt", "trousers", "pullover"));
  EXPECT_TRUE(runs[2].finished);
}

TEST_F(Runs, AreReadOnceHoweverOftenTheyAreNamed) {
  const fs::path run = make("one", small());
  EXPECT_EQ(read_runs({root(), run.string(), (run / "result.json").string(), root() + "/../runs"}).size(), 1u);
}

TEST_F(Runs, LinksInsideAreNotFollowed) {
  make("one", small());
  fs::create_directory_symlink(root(), fs::path(root()) / "again");
  EXPECT_EQ(read_runs({root()}).size(), 1u);
}

TEST_F(Runs, LayersOfDifferentAttentionShareALabel) {
  Fabricated run = small();
  run.attention = {"softmax", "linear", "softmax"};
  make("mixed", run);
  EXPECT_EQ(read_runs({root()})[0].label, "softmax / linear");
}

TEST_F(Runs, ModelsOfEventsNameTheirEncodingOfTimes) {
  edit(make("events", small()) / "result.json", [](Json& result) { result["options"]["time"] = "mercer(degree=10)"; });
  EXPECT_EQ(read_runs({root()})[0].label, "softmax, mercer(degree=10)");
}

TEST_F(Runs, UnfinishedOnesHaveCurvesAndTheirSettings) {
  Fabricated run = small("softmax+bn", 5);
  run.finished = false;
  make("open", run);
  const report::Run read = read_runs({root()})[0];
  EXPECT_FALSE(read.finished);
  EXPECT_EQ(read.label, "softmax+bn");
  EXPECT_EQ(read.data, "FashionMNIST");
  EXPECT_EQ(read.seed, 5);
  EXPECT_EQ(read.result, "null");
  EXPECT_EQ(Json::parse(read.metrics)["train"]["epoch"], Json({1, 2, 3}));  // and not the line cut short
}

TEST_F(Runs, ALineCutShortInAFinishedRunIsAnError) {
  const fs::path folder = make("one", small());
  io::write_atomically(folder / "metrics.jsonl", read_text(folder / "metrics.jsonl") + "{\"epoch\":4,\"sp");
  EXPECT_THAT(refusal(), HasSubstr("metrics.jsonl:8:"));
}

TEST_F(Runs, LongCurvesAreThinnedAndKeepTheirEnd) {
  Fabricated run = small();
  run.epochs = 1300;
  make("long", run);
  const Json train = Json::parse(read_runs({root()})[0].metrics)["train"];
  EXPECT_LE(train["epoch"].size(), 400u);
  EXPECT_EQ(train["epoch"].back(), 1300);
  EXPECT_EQ(train["loss"].size(), train["epoch"].size());
}

TEST_F(Runs, ALossThatIsNotFiniteIsAGap) {
  const fs::path folder = make("one", small());
  io::write_atomically(folder / "metrics.jsonl", "{\"epoch\":1,\"split\":\"train\",\"loss\":null,\"accuracy\":0.5}\n");
  EXPECT_TRUE(Json::parse(read_runs({root()})[0].metrics)["train"]["loss"][0].is_null());
}

TEST_F(Runs, PooledKeysKnowTheirTokens) {
  Fabricated run = small("softmax+sh(1,2,pool=2d,prefix=1)");
  run.factors = {1, 2};
  make("one", run);
  const Json pooling = Json::parse(read_runs({root()})[0].inspect)["pooling"];
  ASSERT_EQ(pooling.size(), 2u);
  const Json& groups = pooling[0]["groups"]["2"];
  ASSERT_EQ(groups.size(), 50u);
  EXPECT_EQ(groups[0], 0);                                              // the class token is a key of its own
  EXPECT_EQ(Json({groups[1], groups[2], groups[8]}), Json({1, 1, 1}));  // 2 x 2 patches
  EXPECT_EQ(groups[49], 16);
}

TEST_F(Runs, ImagesKeepTheirWords) {
  const fs::path folder = make("one", small());
  edit(folder / "inspect.json", [](Json& document) { document["samples"][0]["input"]["words"] = {"[CLS]", "red"}; });
  edit(folder / "result.json", [](Json& document) {
    document["pretraining"] = {{"matching", {{"accuracy", 0.75}, {"floor", 0.5}, {"count", 8}}}};
  });
  const auto run = read_runs({root()})[0];
  EXPECT_EQ(Json::parse(run.inspect)["samples"][0]["input"]["words"], Json({"[CLS]", "red"}));
  EXPECT_EQ(Json::parse(run.result)["pretraining"]["matching"]["accuracy"], 0.75);
  EXPECT_FALSE(Json::parse(run.result)["pretraining"].contains("masked_words"));
}

TEST_F(Runs, AnAttentionUnknownHereHasNoGroups) {
  Fabricated run = small("made_up+sh(1,2)");
  run.factors = {1, 2};
  make("one", run);
  EXPECT_TRUE(Json::parse(read_runs({root()})[0].inspect)["pooling"][0]["groups"].empty());
}

TEST_F(Runs, MissingFoldersAndRuns) {
  EXPECT_THROW(read_runs({root() + "/nowhere"}), IoError);
  fs::create_directories(root());
  try {
    read_runs({root()});
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("there is no run in " + root()));
    EXPECT_THAT(error.hint(), HasSubstr("result.json"));
  }
  EXPECT_THROW(read_runs({}), InvalidArgument);
}

TEST_F(Runs, BrokenResultsNameFileAndField) {
  const fs::path file = make("one", small()) / "result.json";
  const std::string sound = read_text(file);
  const struct {
    std::string pointer;
    Json value;  // null: removed
    std::string message;
  } cases[] = {
      {"/schema", "saddle.result/2", "schema: expected saddle.result/1, found \"saddle.result/2\""},
      {"/schema", nullptr, "'schema' is missing"},
      {"/data/name", 3, "data.name: expected a text, found a number"},
      {"/data/classes", Json::array(), "data.classes: expected at least one class"},
      {"/data/classes/1", Json::object(), "data.classes[1]: expected a text, found an object"},
      {"/attention", "softmax", "attention: expected an array, found a text"},
      {"/attention", Json::array(), "attention: expected the written form"},
      {"/seed", -1, "seed: expected a whole number from 0, found -1"},
      {"/seed", 0.5, "seed: expected a whole number from 0, found 0.5"},
      {"/protocol", "fair", "protocol: expected honest or paper, found \"fair\""},
      {"/test", nullptr, "'test' is missing"},
      {"/test/accuracy", 87.5, "test.accuracy: expected a share from 0 to 1, found 87.5"},
      {"/test/confusion", Json::array(), "test.confusion: expected 3 rows, one per class, found 0"},
      {"/test/confusion/1", Json({1, 2}), "test.confusion[1]: expected 3 columns, one per class, found 2"},
      {"/test/confusion/1/2", "x", "test.confusion[1][2]: expected a number, found a text"},
      {"/test/per_class", Json::array(), "test.per_class: expected 3 classes, found 0"},
      {"/test/per_class/0/support", nullptr, "test.per_class[0]: 'support' is missing"},
      {"/multiply_adds", "many", "multiply_adds: expected a number, found a text"},
      {"/head_distance/test/0/std", nullptr, "head_distance.test[0]: 'std' is missing"},
      {"/options", 1, "options: expected an object, found a number"},
  };
  for (const auto& broken : cases) {
    io::write_atomically(file, sound);
    edit(file, [&](Json& document) {
      const Json::json_pointer at(broken.pointer);
      if (broken.value.is_null())
        document.at(at.parent_pointer()).erase(at.back());
      else
        document.at(at) = broken.value;
    });
    EXPECT_THAT(refusal(), HasSubstr("result.json: " + broken.message)) << broken.pointer;
  }
  for (const char* text : {"", "{", "[]", "{\"schema\":\"saddle.result/1\"", "nonsense", "{\"seed\":1e999}"}) {
    io::write_atomically(file, std::string(text));
    EXPECT_THAT(refusal(), HasSubstr("result.json:")) << text;
  }
  io::write_atomically(file, std::string("{\n  \"schema\": }"));
  EXPECT_THAT(refusal(), HasSubstr("result.json:2:13: this is not JSON"));
}

TEST_F(Runs, BrokenMetricsNameTheLine) {
  const fs::path file = make("one", small()) / "metrics.jsonl";
  const std::string good = "{\"epoch\":1,\"split\":\"train\",\"loss\":1,\"accuracy\":0.5}\n";
  const std::pair<const char*, const char*> cases[] = {
      {"{\"epoch\":2,\"split\":\"dev\"}\n",
       "metrics.jsonl:2: split: expected train, validation or test, found \"dev\""},
      {"{\"split\":\"train\"}\n", "metrics.jsonl:2: 'epoch' is missing"},
      {"{\"epoch\":2,\"split\":\"train\",\"loss\":\"low\"}\n", "metrics.jsonl:2: loss: expected a number"},
      {"7\n", "metrics.jsonl:2: expected an object, found a number"},
      {"{\"epoch\":2,\n", "metrics.jsonl:2:"}};
  for (const auto& [line, message] : cases) {
    io::write_atomically(file, good + line);
    EXPECT_THAT(refusal(), HasSubstr(message));
  }
}

TEST_F(Runs, BrokenInspectionsNameTheField) {
  const fs::path file = make("one", small()) / "inspect.json";
  const std::string sound = read_text(file);
  const struct {
    std::string pointer;
    Json value;
    std::string message;
  } cases[] = {
      {"/schema", "x", "schema: expected saddle.inspect/1"},
      {"/samples/0/predicted", 3, "samples[0].predicted: there are 3 classes, found 3"},
      {"/samples/0/probabilities", Json({1}), "samples[0].probabilities: expected 3 numbers, found 1"},
      {"/samples/0/input/kind", "sound", "input.kind: expected image, series or tokens, found \"sound\""},
      {"/samples/0/input/rows", 27, "input.values: expected 756 bytes, found 784"},
      {"/samples/0/input/values", "<not base64>", "input.values: expected base64"},
      {"/samples/0/layers/1/heads/0/data", "AAAA", "layers[1].heads[0].data: expected 2500 bytes, found 3"},
      {"/samples/0/layers/1/heads/0/rows", 0, "heads[0].rows: expected a number from 1 to 4096, found 0"},
      {"/samples/0/layers/1/heads/0/scale", Json({1}), "heads[0].scale: expected two numbers"},
      {"/samples/0/layers/1/heads/0/scale", Json({0, 1}), "heads[0].scale[0]: expected at least 1"},
      {"/grid/rows", 0, "grid.rows: expected a number from 1 to 4096, found 0"},
      {"/pooling", Json({{{"layer", 0}, {"factors", {0}}}}), "pooling[0].factors[0]: expected a number from 1"},
  };
  for (const auto& broken : cases) {
    io::write_atomically(file, sound);
    edit(file, [&](Json& document) { document[Json::json_pointer(broken.pointer)] = broken.value; });
    EXPECT_THAT(refusal(), testing::AllOf(HasSubstr("inspect.json: "), HasSubstr(broken.message))) << broken.pointer;
  }
}

TEST_F(Runs, SeriesOfUnequalChannelsAreRefused) {
  Fabricated run = small();
  run.kind = "series";
  const fs::path file = make("one", run) / "inspect.json";
  edit(file, [](Json& document) { document["samples"][0]["input"]["values"][1].erase(0); });
  EXPECT_THAT(refusal(), HasSubstr("samples[0].input.values[1]: expected 45 values, found 44"));
}

TEST_F(Runs, BrokenSettingsOfAnUnfinishedRun) {
  Fabricated run = small();
  run.finished = false;
  io::write_atomically(make("one", run) / "config.toml", std::string("[data]\nname = \n"));
  EXPECT_THAT(refusal(), HasSubstr("config.toml:2:"));
}

}  // namespace
}  // namespace saddle::report

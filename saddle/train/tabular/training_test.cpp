#include "saddle/train/tabular/training.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/data/find_table.hpp"
#include "saddle/train/tabular/impute.hpp"
#include "saddle/train/tabular/setup.hpp"

namespace saddle::train::tabular {
namespace {

namespace fs = std::filesystem;
using run::Folder;
using testing::HasSubstr;

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

nlohmann::json result_of(const fs::path& folder) { return nlohmann::json::parse(contents(folder / "result.json")); }

std::vector<std::string> metrics_of(const fs::path& folder) {
  std::vector<std::string> lines;
  std::istringstream in(contents(folder / "metrics.jsonl"));
  for (std::string line; std::getline(in, line);) {
    auto record = nlohmann::ordered_json::parse(line);
    record.erase("seconds");
    lines.push_back(record.dump());
  }
  return lines;
}

// A table whose class, number and colour follow from two numbers, with gaps.
class TabularTraining : public testing::Test {
 protected:
  TabularTraining() {
    fs::remove_all(root_);
    fs::create_directories(root_);
    Stream stream(3, "table");
    std::ofstream classes(root_ / "classes.csv"), numbers(root_ / "numbers.csv");
    classes << "a,b,colour,kind\n";
    numbers << "a,b,colour,price\n";
    for (int i = 0; i < 120; ++i) {
      const double a = stream.normal(), b = stream.normal();
      const std::string row = (i % 17 == 0 ? "" : std::to_string(a)) + "," + std::to_string(b) + "," +
                              (i % 19 == 0 ? "?"
                               : a > b     ? "red"
                                           : "blue") +
                              ",";
      classes << row << (a + b > 0 ? "up" : "down") << "\n";
      numbers << row << 20 + 3 * a - 2 * b << "\n";
    }
  }
  ~TabularTraining() override { fs::remove_all(root_); }

  run::Settings settings(const std::string& file, std::vector<run::Given> more = {}) const {
    std::vector<run::Given> given{{"data.name", (root_ / file).string(), ""},
                                  {"model.name", "npt", ""},
                                  {"model.width", "8", ""},
                                  {"model.heads", "2", ""},
                                  {"model.depth", "2", ""},
                                  {"train.steps", "60", ""},
                                  {"train.lr", "0.01", ""},
                                  {"train.evaluate_steps", "10", ""}};
    given.insert(given.end(), more.begin(), more.end());
    return run::resolve(given);
  }
  Ended run(
      const run::Settings& settings, const std::string& out, Folder::Open open = Folder::Open::fresh,
      std::function<bool()> interrupted = [] { return false; }) const {
    RunOptions options;
    options.out = root_ / out;
    options.open = open;
    options.quiet = true;
    options.interrupted = std::move(interrupted);
    Group alone;
    return saddle::train::train(settings, options, alone);
  }
  std::string refusal(const run::Settings& given) const {
    try {
      run(given, "refused", Folder::Open::replace);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  }
  void write(const std::string& name, const std::string& text) const { std::ofstream(root_ / name) << text; }

  fs::path root_ = fs::temp_directory_path() / ("saddle-tabular-" + std::to_string(::getpid()));
};

TEST_F(TabularTraining, LearnsClassesAndLeavesWhatOtherRunsLeave) {
  ASSERT_EQ(run(settings("classes.csv"), "run"), Ended::finished);
  const auto result = result_of(root_ / "run");
  EXPECT_EQ(result["schema"], "saddle.result/1");
  EXPECT_EQ(result["data"]["kind"], "table");
  EXPECT_EQ(result["data"]["classes"], (std::vector<std::string>{"down", "up"}));
  EXPECT_EQ(
      result["data"]["train"].get<int>() + result["data"]["validation"].get<int>() + result["data"]["test"].get<int>(),
      120);
  EXPECT_GT(result["test"]["accuracy"].get<double>(), result["test"]["floor"].get<double>() + 0.15);
  EXPECT_EQ(result["attention"].size(), 2U);
  for (const char* name : {"config.toml", "env.json", "metrics.jsonl", "predictions.csv", "report.html",
                           "checkpoints/best.safetensors", "checkpoints/last.safetensors"})
    EXPECT_TRUE(fs::exists(root_ / "run" / name)) << name;
  EXPECT_THAT(contents(root_ / "run/predictions.csv"), HasSubstr("sample,label,predicted,p(down),p(up)\n"));
  EXPECT_THAT(contents(root_ / "run/config.toml"), HasSubstr("optimizer = 'lamb'"));
  EXPECT_THAT(contents(root_ / "run/config.toml"), HasSubstr("mask_features = 0.15"));
}

TEST_F(TabularTraining, LearnsNumbersInBatches) {
  const auto given = settings("numbers.csv", {{"train.batch", "50", ""}, {"table.mask_targets", "0.5", ""}});
  ASSERT_EQ(run(given, "run"), Ended::finished);
  const auto result = result_of(root_ / "run");
  EXPECT_EQ(result["epochs"], 20);  // three batches of 40
  EXPECT_LT(result["test"]["rmse"].get<double>(), 0.6 * result["test"]["floor"].get<double>());
  EXPECT_NEAR(result["test"]["floor"].get<double>(), std::sqrt(13.0), 0.8);
}

TEST_F(TabularTraining, InterruptedAndResumedGivesTheSameBits) {
  const auto given = settings("classes.csv", {{"train.batch", "60", ""}, {"table.balance", "true", ""}});
  run(given, "whole");
  int asked = 0;
  EXPECT_EQ(run(given, "cut", Folder::Open::fresh, [&] { return ++asked == 17; }), Ended::interrupted);
  EXPECT_FALSE(fs::exists(root_ / "cut/result.json"));
  asked = 0;
  EXPECT_EQ(run(given, "cut", Folder::Open::resume, [&] { return ++asked == 14; }), Ended::interrupted);
  EXPECT_EQ(run(given, "cut", Folder::Open::resume), Ended::finished);
  EXPECT_EQ(contents(root_ / "cut/checkpoints/best.safetensors"),
            contents(root_ / "whole/checkpoints/best.safetensors"));
  EXPECT_EQ(contents(root_ / "cut/predictions.csv"), contents(root_ / "whole/predictions.csv"));
  EXPECT_EQ(metrics_of(root_ / "cut"), metrics_of(root_ / "whole"));
  auto other = settings("classes.csv", {{"train.batch", "60", ""}, {"table.mask_features", "0.2", ""}});
  EXPECT_THROW(run(other, "whole", Folder::Open::resume), InvalidArgument);
}

// Test rows may be seen, their targets may not: with others in their place the same weights come out.
TEST_F(TabularTraining, TargetsOfTestRowsChangeNothing) {
  std::string train = "x,z,y\n", test = train, changed = train;
  Stream stream(1, "rows");
  for (int i = 0; i < 40; ++i) {
    const double x = stream.normal(), z = stream.normal();
    std::string& file = i < 30 ? train : test;
    file += std::to_string(x) + "," + std::to_string(z) + "," + std::to_string(x - z) + "\n";
    if (i >= 30) changed += std::to_string(x) + "," + std::to_string(z) + "," + std::to_string(100 + i) + ".5\n";
  }
  write("rows_train.csv", train);
  write("test.csv", test);
  write("changed.csv", changed);
  for (const char* name : {"test", "changed"})
    run(settings("rows_train.csv", {{"data.test", (root_ / (std::string(name) + ".csv")).string(), ""}}), name);
  const TrainedTable a = read_trained_table(root_ / "test"), b = read_trained_table(root_ / "changed");
  for (const auto& item : a.model->named_parameters())
    EXPECT_TRUE(torch::equal(item.value(), b.model->named_parameters()[item.key()])) << item.key();
  EXPECT_EQ(metrics_of(root_ / "test"), metrics_of(root_ / "changed"));
  EXPECT_NE(result_of(root_ / "test")["test"]["rmse"], result_of(root_ / "changed")["test"]["rmse"]);
}

TEST_F(TabularTraining, PredictsRowsOfAFileAndFillsItsGaps) {
  run(settings("numbers.csv", {{"train.steps", "200", ""}}), "run");
  const TrainedTable trained = read_trained_table(root_ / "run");
  EXPECT_TRUE(holds_table(root_ / "run"));
  EXPECT_FALSE(holds_table(root_));
  write("new.csv", "note,colour,b,a\n\"x, y\",red,-1,1\nz,blue,1,-1\n,,1.5,-1.5\n,green,0,\n");
  const data::WholeTable rows = data::open_rows((root_ / "new.csv").string(), trained.encoding.columns, {});
  EXPECT_THAT(rows.notes, testing::Contains(HasSubstr("'green' in column 'colour'")));
  const Scores scores = score_targets(trained, meet(trained, rows, true), rows.values, {0, 1});
  EXPECT_EQ(scores.count, 0);
  EXPECT_GT(scores.predicted[0], scores.predicted[1] + 3);
  const Imputation imputation = impute(trained, (root_ / "new.csv").string(), {});
  ASSERT_EQ(imputation.cells.size(), 2U);
  EXPECT_EQ(imputation.cells[0].column, "colour");
  EXPECT_EQ(imputation.cells[0].row, 2);
  EXPECT_EQ(imputation.cells[1].column, "a");
  EXPECT_THAT(imputation.csv, HasSubstr("note,colour,b,a\n\"x, y\",red,-1,1\nz,blue,1,-1\n,"));
  EXPECT_THAT(imputation.csv, HasSubstr(",green,0," + imputation.cells[1].value + "\n"));
}

TEST_F(TabularTraining, ColoursAreFilledInBetterThanByChance) {
  run(settings(
          "numbers.csv",
          {{"train.steps", "400", ""}, {"table.share_schedule", "constant", ""}, {"table.feature_share", "0.5", ""}}),
      "run");
  std::string text = "a,b,colour\n";
  std::vector<bool> red;
  Stream stream(9, "new");
  for (int i = 0; i < 60; ++i) {
    const double a = stream.normal(), b = stream.normal();
    red.push_back(a > b);
    text += std::to_string(a) + "," + std::to_string(b) + ",\n";
  }
  write("new.csv", text);
  const Imputation imputation = impute(read_trained_table(root_ / "run"), (root_ / "new.csv").string(), {});
  int right = 0;
  for (std::size_t i = 0; i < red.size(); ++i) right += (imputation.cells[i].value == "red") == red[i] ? 1 : 0;
  EXPECT_GT(right, 48);
}

TEST_F(TabularTraining, RefusesWrongTables) {
  const auto with = [&](const std::string& text, std::vector<run::Given> more = {}) {
    write("wrong.csv", text);
    return refusal(settings("wrong.csv", std::move(more)));
  };
  EXPECT_THAT(with("x,y\n1,a\n", {}), HasSubstr("leaves 1 row with a target to train on"));
  EXPECT_THAT(with("x,y\n1,2.5\n2,\n"), HasSubstr("leaves 1 row with a target"));
  EXPECT_THAT(with("x,w,y\n1,,a\n2,?,b\n3,,a\n"), HasSubstr("column 'w' has no value"));
  EXPECT_THAT(with("x,y\n1,\n2,\n"), HasSubstr("column 'y' has no value"));
  EXPECT_THAT(with("x,y\n1,a\n2,b\n3,a\n", {{"data.target", "z", ""}}), HasSubstr("'z'"));
  EXPECT_THAT(with("x,y\n1,a\n2,b\n3,a\n", {{"data.leave_out", "z", ""}}), HasSubstr("'z'"));
  EXPECT_THAT(with("x,y\n1,a\n2,b\n3,a\n", {{"table.categories", "z", ""}}), HasSubstr("'z'"));
  EXPECT_THAT(with("x,y\n1,a\n2,a\n3,a\n4,a\n"), HasSubstr("one class only"));
  EXPECT_THAT(with("x,y\n1,a\n2,b\n3,a\n", {{"table.split", "5", ""}}), HasSubstr("split 5 was asked"));
  EXPECT_THAT(with("x,y\n1,a\n2,b\n3,a\n", {{"table.predict", "numbers", ""}}), HasSubstr("no numbers"));
}

TEST_F(TabularTraining, RefusesSettingsThatTablesDoNotHave) {
  const auto with = [&](const char* key, const char* value) {
    return refusal(settings("classes.csv", {{key, value, ""}}));
  };
  EXPECT_THAT(with("data.protocol", "paper"), HasSubstr("protocol paper"));
  EXPECT_THAT(with("train.mixup", "0.2"), HasSubstr("mixup"));
  EXPECT_THAT(with("train.ema", "0.9"), HasSubstr("averages of weights"));
  EXPECT_THAT(with("train.accumulate", "2"), HasSubstr("in pieces"));
  EXPECT_THAT(with("train.precision", "bfloat16"), HasSubstr("bfloat16"));
  EXPECT_THAT(with("table.mask_targets", "0"), HasSubstr("no target would be learned"));
  EXPECT_THAT(with("model.depth", "3"), HasSubstr("must be even"));
  EXPECT_THAT(with("model.widht", "3"), HasSubstr("widht"));
  EXPECT_THAT(refusal(settings("classes.csv", {{"train.optimizer", "adam", ""}, {"train.weight_decay", "0.1", ""}})),
              HasSubstr("adam has no weight decay"));
  EXPECT_THAT(refusal(run::resolve({{"data.name", (root_ / "classes.csv").string(), ""},
                                    {"table.split", "1", "flag"},
                                    {"model.name", "flowformer", ""}})),
              HasSubstr("table.split is a setting of models that see a table as a whole"));
}

TEST_F(TabularTraining, RowsWithoutATargetAreSeenAndScoreNothing) {
  std::string text = contents(root_ / "classes.csv");
  for (int i = 0; i < 10; ++i) text += "0.5,1,blue,\n";
  write("more.csv", text);
  run(settings("more.csv", {{"train.steps", "4", ""}}), "run");
  const auto result = result_of(root_ / "run");
  EXPECT_EQ(
      result["data"]["train"].get<int>() + result["data"]["validation"].get<int>() + result["data"]["test"].get<int>(),
      130);
  EXPECT_EQ(read_trained_table(root_ / "run").context.size() / 4 + result["data"]["test"].get<std::size_t>(), 130U);
}

// The rows that test, as a file of their own would have them.
data::WholeTable test_rows(const Setup& setup) {
  data::WholeTable test{setup.table.name, setup.table.columns, 0, {}};
  for (const Index row : setup.rows_of(Part::test)) {
    for (Index c = 0; c + 1 < test.width(); ++c) test.values.push_back(setup.table.at(row, c));
    test.values.push_back(setup.test_targets[static_cast<std::size_t>(row)]);
    ++test.rows;
  }
  return test;
}

std::vector<Index> all_rows(const data::WholeTable& table) {
  std::vector<Index> rows(static_cast<std::size_t>(table.rows));
  std::iota(rows.begin(), rows.end(), Index{0});
  return rows;
}

TEST_F(TabularTraining, TheModelScoresTestRowsAsItsRunDidWhateverTheBatch) {
  for (const char* batch : {"7", "30", "110", "200"}) {
    const auto given = settings(
        "numbers.csv", {{"train.batch", batch, ""}, {"train.steps", "20", ""}, {"table.mask_targets", "0.5", ""}});
    run(given, batch);
    const TrainedTable trained = read_trained_table(root_ / batch);
    const data::WholeTable test = test_rows(set_up(given));
    const Scores scores = score_targets(trained, meet(trained, test, false), test.values, all_rows(test));
    EXPECT_EQ(scores.rmse, result_of(root_ / batch)["test"]["rmse"].get<double>()) << batch;
  }
}

// Ten times as many rows in ten times as many batches: each sees the 96 rows that the model learned from.
TEST_F(TabularTraining, RowsOfALargeFileSeeTheContext) {
  run(settings("numbers.csv", {{"train.batch", "130", ""}, {"table.mask_targets", "0.5", ""}}), "run");
  const TrainedTable trained = read_trained_table(root_ / "run");
  const auto copies = [&](Index count) {
    data::WholeTable table{"copies", trained.encoding.columns, count, {}};
    for (Index i = 0; i < count; ++i) table.values.insert(table.values.end(), {0.5, -1, 1, 20});
    return meet(trained, table, false);
  };
  const torch::Tensor few = copies(34), many = copies(340);
  EXPECT_LT((many - few[0]).abs().max().item<double>(), 1e-5);
  EXPECT_GT((copies(1) - few[0]).abs().max().item<double>(), 1e-4);  // rows do see each other
}

TEST_F(TabularTraining, ClassesThatNoTrainingRowHasAreMissed) {
  run(settings("classes.csv"), "run");
  const TrainedTable trained = read_trained_table(root_ / "run");
  const std::string text = "a,b,colour,kind\n2,2,blue,up\n-2,-2,blue,down\n";
  write("known.csv", text);
  write("unknown.csv", text + "2,2,blue,sideways\n2,2,blue,\n");
  const auto open = [&](const char* name) {
    return data::open_rows((root_ / name).string(), trained.encoding.columns, {});
  };
  const data::WholeTable known = open("known.csv"), unknown = open("unknown.csv");
  EXPECT_THAT(unknown.notes, testing::Contains(HasSubstr("1 target is of no class of the training rows and counts as "
                                                         "missed: 'sideways' in column 'kind'")));
  const Scores a = score_targets(trained, meet(trained, known, false), known.values, {0, 1});
  const Scores b = score_targets(trained, meet(trained, unknown, false), unknown.values, {0, 1, 2, 3});
  ASSERT_EQ(a.accuracy, 1);
  EXPECT_EQ(b.count, 3);
  EXPECT_NEAR(b.accuracy, 2.0 / 3, 1e-12);
  EXPECT_NEAR(b.loss, a.loss, 0.1);
  EXPECT_NEAR(floor_of(trained, b), 1.0 / 3, 1e-12);
  EXPECT_THAT(predictions_csv(trained, b), HasSubstr("\n2,(unknown),up,"));
  EXPECT_THAT(predictions_csv(trained, b), HasSubstr("\n3,,up,"));
  // As facts they are no more than missing.
  EXPECT_TRUE(torch::isfinite(meet(trained, unknown, true)).all().item<bool>());
}

TEST_F(TabularTraining, ARunWithUnknownClassesInItsTestFileCountsThem) {
  write("two_train.csv", contents(root_ / "classes.csv"));
  write("two_test.csv", "a,b,colour,kind\n2,2,blue,up\n1,1,red,sideways\n");
  run(settings("two_train.csv"), "run");
  EXPECT_EQ(result_of(root_ / "run")["test"]["count"], 2);
  EXPECT_LE(result_of(root_ / "run")["test"]["accuracy"].get<double>(), 0.5);
}

TEST_F(TabularTraining, TheFloorIsThatOfTrainingRows) {
  // Among the rows that train 'up' is the commonest, among all that the model keeps 'down' is.
  run(settings("classes.csv", {{"train.steps", "2", ""}}), "run");
  TrainedTable trained = read_trained_table(root_ / "run");
  const auto setup = set_up(settings("classes.csv"));
  Index up = 0, down = 0;
  for (const Index row : setup.rows_of(Part::train)) ++(setup.table.at(row, 3) == 1 ? up : down);
  Scores scores;
  scores.truth = {up > down ? 1.0 : 0.0};
  trained.context.insert(trained.context.end(), 400, up > down ? 0.0 : 1.0);
  EXPECT_EQ(floor_of(trained, scores), 1);
}

TEST_F(TabularTraining, ColumnsOfOneValueKeepTheDeviationOne) {
  data::WholeTable table{"t", {{"x", {}}, {"y", {}}}, 10, {}};
  for (int i = 0; i < 10; ++i) table.values.insert(table.values.end(), {0.1, 1.0 * i});
  const std::vector<bool> all(10, true);
  const Encoding encoding = Encoding::fit(table, all, all);
  EXPECT_EQ(encoding.deviation[0], 1);
  EXPECT_NEAR(encoding.deviation[1], std::sqrt(8.25), 1e-12);
  table.values[0] = 1e200;
  EXPECT_THROW(Encoding::fit(table, all, all), InvalidArgument);
}

TEST_F(TabularTraining, RowsOfModelsThatAreTooLargeAreRefusedBeforeTheyAreMade) {
  std::string header, row;
  for (int c = 0; c < 1500; ++c) {
    header += "c" + std::to_string(c) + ",";
    row += std::to_string(c) + ",";
  }
  write("wide.csv", header + "y\n" + row + "1.5\n" + row + "2.5\n" + row + "3.5\n" + row + "4\n");
  EXPECT_THAT(refusal(settings("wide.csv", {{"model.width", "32", ""}})), HasSubstr("a model of 1501 columns"));
}

TEST_F(TabularTraining, EpochsBetweenEvaluationsAreKept) {
  const auto given = run::resolve({{"data.name", (root_ / "classes.csv").string(), ""},
                                   {"model.name", "npt", ""},
                                   {"train.evaluate_every", "3", "flag"}});
  EXPECT_EQ(set_up(given).settings.train.evaluate_steps, 0);
  EXPECT_EQ(set_up(settings("classes.csv", {{"table.categories", " a , b", ""}})).table.columns[0].categories.empty(),
            false);
}

TEST_F(TabularTraining, StoredRowsMustFitTheirColumns) {
  run(settings("classes.csv", {{"train.steps", "2", ""}}), "run");
  const TrainedTable trained = read_trained_table(root_ / "run");
  const auto refused = [&](std::size_t at, double value) {
    TrainedTable wrong = trained;
    wrong.context[at] = value;
    write_trained_table(root_ / "wrong.safetensors", wrong, weights_of(*trained.model));
    try {
      read_trained_table(root_ / "wrong.safetensors");
    } catch (const DataError&) {
      return true;
    }
    return false;
  };
  EXPECT_FALSE(refused(2, 1));
  EXPECT_TRUE(refused(2, 2));
  EXPECT_TRUE(refused(3, -1));
  EXPECT_TRUE(refused(7, 0.5));
  EXPECT_TRUE(refused(0, std::numeric_limits<double>::infinity()));
}

TEST_F(TabularTraining, DamagedModelsAreRefused) {
  run(settings("classes.csv", {{"train.steps", "2", ""}}), "run");
  std::string bytes = contents(root_ / "run/checkpoints/best.safetensors");
  bytes[bytes.size() - 3] ^= 1;
  std::ofstream(root_ / "damaged.safetensors", std::ios::binary) << bytes;
  EXPECT_THROW(read_trained_table(root_ / "damaged.safetensors"), DataError);
  EXPECT_THROW(read_trained(root_ / "run"), InvalidArgument);
}

}  // namespace
}  // namespace saddle::train::tabular

#include "table.hpp"

#include <fmt/format.h>
#include <torch/utils.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "output.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/log.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/data/find_table.hpp"
#include "saddle/run/settings.hpp"
#include "saddle/train/run_folder.hpp"
#include "saddle/train/setup.hpp"
#include "saddle/train/tabular/impute.hpp"
#include "saddle/train/tabular/setup.hpp"

namespace saddle::cli {

namespace {

namespace fs = std::filesystem;
using train::tabular::Scores;
using train::tabular::TrainedTable;

run::Settings settings_of(const std::string& run) {
  const fs::path config = train::config_of(run);
  return config.empty() ? run::Settings() : run::resolve(run::read_settings(config.string()));
}

void say_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) log(LogLevel::warn, note);
}

// Of these rows. The others are facts beside them.
Scores scores_of(const TrainedTable& trained, const data::WholeTable& table, const std::vector<Index>& rows) {
  torch::set_num_threads(threads());
  say_notes(table.notes);
  const bool some = static_cast<Index>(rows.size()) < table.rows;
  return train::tabular::score_targets(trained, train::tabular::meet(trained, table, some), table.values, rows);
}

std::vector<Index> all_rows(const data::WholeTable& table) {
  std::vector<Index> rows(static_cast<std::size_t>(table.rows));
  std::iota(rows.begin(), rows.end(), Index{0});
  return rows;
}

// Those without a target; all if every row has one.
std::vector<Index> rows_to_predict(const data::WholeTable& table) {
  std::vector<Index> rows;
  for (Index row = 0; row < table.rows; ++row)
    if (table.missing(row, table.width() - 1)) rows.push_back(row);
  return rows.empty() ? all_rows(table) : rows;
}

// The test rows of a table that a name stands for.
data::WholeTable test_rows(const TrainedTable& trained, const run::Settings& settings) {
  const data::TableTask task =
      data::find_table(settings.data.name, train::where_of(settings.data), train::tabular::choice_of(settings.table));
  if (task.table.columns != trained.encoding.columns)
    throw InvalidArgument(fmt::format("{} has other columns or classes than {}, which the model was trained on",
                                      task.table.name, trained.name),
                          "saddle predict takes a file with columns of the same names");
  data::WholeTable test = task.table;
  test.rows = 0;
  test.values.clear();
  test.notes.clear();
  for (const Index row : task.test) {
    for (Index c = 0; c < test.width(); ++c) test.values.push_back(task.table.at(row, c));
    ++test.rows;
  }
  return test;
}

// A number, or the name of a class.
Json value_json(const TrainedTable& trained, double value) {
  if (!trained.predicts_classes()) return value;
  return train::tabular::target_text(trained, value);
}

Json samples_json(const TrainedTable& trained, const Scores& scores) {
  Json list = Json::array();
  const std::size_t classes = trained.target().categories.size();
  for (std::size_t i = 0; i < scores.rows.size(); ++i) {
    Json sample{{"sample", scores.rows[i]}, {"predicted", value_json(trained, scores.predicted[i])}};
    const auto first = scores.probabilities.begin() + static_cast<std::ptrdiff_t>(i * classes);
    if (classes > 0) sample["probabilities"] = std::vector<double>(first, first + static_cast<std::ptrdiff_t>(classes));
    if (!std::isnan(scores.truth[i])) sample["label"] = value_json(trained, scores.truth[i]);
    list.push_back(std::move(sample));
  }
  return list;
}

int print_imputation(const PredictArguments& arguments, const TrainedTable& trained, const data::Where& where,
                     const Context& context) {
  torch::set_num_threads(threads());
  const auto imputation = train::tabular::impute(trained, arguments.file, where);
  say_notes(imputation.notes);
  if (context.json) {
    Json cells = Json::array();
    for (const auto& cell : imputation.cells) {
      Json one{{"row", cell.row}, {"column", cell.column}, {"value", cell.value}};
      if (cell.probability > 0) one["probability"] = cell.probability;
      cells.push_back(std::move(one));
    }
    print_json("saddle.impute/1", {{"run", arguments.run}, {"file", arguments.file}, {"cells", cells}});
    return Exit::ok;
  }
  print_or_write(arguments.out, imputation.csv);
  if (!arguments.out.empty()) print(fmt::format("{}: {} cells filled in\n", arguments.out, imputation.cells.size()));
  return Exit::ok;
}

}  // namespace

data::WholeTable rows_for(const TrainedTable& trained, const std::string& run, const std::string& data,
                          const std::string& folder) {
  run::Settings settings = settings_of(run);
  if (!folder.empty()) settings.data.folder = folder;
  if (!data.empty() && fs::is_regular_file(data))
    return data::open_rows(data, trained.encoding.columns, train::where_of(settings.data));
  if (!data.empty()) settings.data.name = data;
  if (settings.data.name.empty())
    throw InvalidArgument(fmt::format("{} does not say what it was trained on", run),
                          "give --data, or the folder of the run");
  return test_rows(trained, settings);
}

int eval_table(const EvalArguments& arguments, const Context& context) {
  const TrainedTable trained = train::tabular::read_trained_table(arguments.run);
  const data::WholeTable table = rows_for(trained, arguments.run, arguments.data, arguments.folder);
  const Scores scores = scores_of(trained, table, all_rows(table));
  if (scores.count == 0)
    throw InvalidArgument(
        fmt::format("no row of {} has a value of '{}' to compare with", table.name, trained.target().name),
        "saddle predict gives predictions for it");
  const double floor = train::tabular::floor_of(trained, scores);
  const char* const measure = trained.predicts_classes() ? "accuracy" : "rmse";
  const double value = trained.predicts_classes() ? scores.accuracy : scores.rmse;
  if (context.json) {
    print_json("saddle.eval/1", {{"run", arguments.run},
                                 {"data", table.name},
                                 {"count", scores.count},
                                 {measure, value},
                                 {"loss", scores.loss},
                                 {"floor", floor}});
    return Exit::ok;
  }
  const std::string rest = fmt::format("of {} rows of {}, loss {:.4f}", scores.count, table.name, scores.loss);
  print(trained.predicts_classes()
            ? fmt::format("accuracy {:.2f} % {}; the commonest class alone {:.2f} %\n", 100 * value, rest, 100 * floor)
            : fmt::format("RMSE {:.4g} {}; the mean alone {:.4g}\n", value, rest, floor));
  return Exit::ok;
}

int predict_table(const PredictArguments& arguments, const Context& context) {
  const TrainedTable trained = train::tabular::read_trained_table(arguments.run);
  const data::Where where = train::where_of(settings_of(arguments.run).data);
  if (arguments.impute) return print_imputation(arguments, trained, where, context);
  const data::WholeTable table = data::open_rows(arguments.file, trained.encoding.columns, where);
  const Scores scores = scores_of(trained, table, rows_to_predict(table));
  if (context.json) {
    print_json("saddle.predict/1", {{"run", arguments.run},
                                    {"file", arguments.file},
                                    {"target", trained.target().name},
                                    {"classes", trained.target().categories},
                                    {"samples", samples_json(trained, scores)}});
    return Exit::ok;
  }
  print_or_write(arguments.out, train::tabular::predictions_csv(trained, scores));
  if (!arguments.out.empty())
    print(fmt::format("{}: '{}' of {} rows\n", arguments.out, trained.target().name, scores.rows.size()));
  return Exit::ok;
}

}  // namespace saddle::cli

// saddle eval and predict: a trained model meets data.
#include <fmt/format.h>
#include <torch/utils.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "output.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/data/find.hpp"
#include "saddle/data/next_event.hpp"
#include "saddle/eval/metrics.hpp"
#include "saddle/run/settings.hpp"
#include "saddle/train/pretraining_scores.hpp"
#include "saddle/train/result.hpp"
#include "saddle/train/run_folder.hpp"
#include "saddle/train/tabular/trained_table.hpp"
#include "table.hpp"
#include "training.hpp"

namespace saddle::cli {

namespace {

namespace fs = std::filesystem;

constexpr Index batch = 64;

train::Evaluation evaluate(const train::Trained& trained, const data::DatasetPtr& data) {
  torch::set_num_threads(threads());
  train::Group alone;
  return train::evaluate(trained, data, train::all_of(*data), batch, alone, false);
}

void check_fits(const train::Trained& trained, const data::Description& found) {
  const data::Description& own = trained.data;
  if (found.kind != own.kind || found.channels != own.channels || found.rows != own.rows ||
      found.columns != own.columns)
    throw InvalidArgument(
        fmt::format("{} has {} channels, {} x {} pixels, but the model was trained on {} with {}, {} x {}", found.name,
                    found.channels, found.rows, found.columns, own.name, own.channels, own.rows, own.columns));
  if (found.classes != own.classes)
    throw InvalidArgument(
        fmt::format("{} has other classes than {}, which the model was trained on", found.name, own.name),
        "saddle predict gives classes to samples whatever their labels are");
}

int print_scores(const EvalArguments& arguments, const train::Trained& trained, const data::DatasetPtr& samples,
                 const std::string& name, const Context& context) {
  const train::Evaluation evaluation = evaluate(trained, samples);
  const auto pretraining = train::pretraining_scores(trained, samples);
  const auto& classes = trained.data.classes;
  const eval::Metrics metrics =
      eval::metrics_of(evaluation.labels, evaluation.predicted, static_cast<Index>(classes.size()));
  if (context.json) {
    Json per_class = Json::array();
    for (std::size_t c = 0; c < classes.size(); ++c)
      per_class.push_back({{"label", classes[c]},
                           {"precision", metrics.per_class[c].precision},
                           {"recall", metrics.per_class[c].recall},
                           {"f1", metrics.per_class[c].f1},
                           {"support", metrics.per_class[c].support}});
    Json document{{"run", arguments.run},      {"data", name},
                  {"count", evaluation.count}, {"accuracy", evaluation.accuracy},
                  {"loss", evaluation.loss},   {"confusion", metrics.confusion},
                  {"per_class", per_class}};
    if (pretraining) document["pretraining"] = train::to_json(*pretraining);
    print_json("saddle.eval/1", document);
    return Exit::ok;
  }
  Table table({"class", "precision", "recall", "F1", "samples"}, "lrrrr");
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const eval::ClassScores& scores = metrics.per_class[c];
    table.add({classes[c], fmt::format("{:.3f}", scores.precision), fmt::format("{:.3f}", scores.recall),
               fmt::format("{:.3f}", scores.f1), std::to_string(scores.support)});
  }
  print(table.text() +
        fmt::format("\ntest accuracy {:.2f} % of {} samples of {}, loss {:.4f}\n", 100 * evaluation.accuracy,
                    evaluation.count, name, evaluation.loss) +
        (pretraining ? train::to_text(train::to_json(*pretraining)) : ""));
  return Exit::ok;
}

}  // namespace

int run_eval(const EvalArguments& arguments, const Context& context) {
  if (train::tabular::holds_table(arguments.run)) return eval_table(arguments, context);
  const train::Trained trained = train::read_trained(arguments.run);
  run::Settings settings;
  if (arguments.data.empty()) {
    const auto told = train::settings_of_run(arguments.run);
    if (!told)
      throw InvalidArgument(fmt::format("{} does not say what it was trained on", arguments.run),
                            "give --data, or the folder of the run");
    settings = *told;
  } else {
    settings.data.name = arguments.data;
  }
  if (!arguments.folder.empty()) settings.data.folder = arguments.folder;
  if (!arguments.data.empty() && fs::is_regular_file(arguments.data)) {
    // Every sample of a file, its columns and classes read as those the model was trained on.
    const data::DatasetPtr samples = data::open_samples(arguments.data, trained.data, train::where_of(settings.data));
    return print_scores(arguments, trained, samples, arguments.data, context);
  }
  data::Task task = data::find_task(settings.data.name, train::where_of(settings.data));
  if (!task.test)
    throw InvalidArgument(fmt::format("{} has no test split", task.name), "saddle predict takes any file");
  if (trained.data.kind == data::Kind::events)
    task = data::next_event_task(task, {.window = trained.data.usual_length});
  const data::DatasetPtr test = task.test();
  check_fits(trained, test->description());
  return print_scores(arguments, trained, test, task.name, context);
}

int run_predict(const PredictArguments& arguments, const Context& context) {
  if (train::tabular::holds_table(arguments.run)) return predict_table(arguments, context);
  if (arguments.impute)
    throw InvalidArgument(fmt::format("{} is no model of a table: it does not fill in values", arguments.run),
                          "saddle train --model npt trains one");
  const train::Trained trained = train::read_trained(arguments.run);
  data::Where where;
  if (const auto told = train::settings_of_run(arguments.run)) where = train::where_of(told->data);
  const data::DatasetPtr samples = data::open_samples(arguments.file, trained.data, where);
  const train::Evaluation evaluation = evaluate(trained, samples);
  const auto& classes = trained.data.classes;
  if (context.json) {
    Json list = Json::array();
    for (std::size_t i = 0; i < evaluation.samples.size(); ++i) {
      const auto first = evaluation.probabilities.begin() + static_cast<std::ptrdiff_t>(i * classes.size());
      Json sample{{"sample", evaluation.samples[i]},
                  {"predicted", classes[static_cast<std::size_t>(evaluation.predicted[i])]},
                  {"probabilities", std::vector<double>(first, first + static_cast<std::ptrdiff_t>(classes.size()))}};
      if (evaluation.labels[i] >= 0) sample["label"] = classes[static_cast<std::size_t>(evaluation.labels[i])];
      list.push_back(std::move(sample));
    }
    print_json("saddle.predict/1",
               {{"run", arguments.run}, {"file", arguments.file}, {"classes", classes}, {"samples", list}});
    return Exit::ok;
  }
  print_or_write(arguments.out, train::predictions_csv(evaluation, classes));
  if (!arguments.out.empty()) print(fmt::format("{}: classes of {} samples\n", arguments.out, evaluation.count));
  return Exit::ok;
}

}  // namespace saddle::cli

// saddle analyze on a trained model: it runs on a few samples of its data, and the analysis looks at what it did.
#include "analyze.hpp"

#include <fmt/format.h>
#include <torch/utils.h>

#include <filesystem>

#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/data/find.hpp"
#include "saddle/run/settings.hpp"
#include "saddle/train/probe.hpp"
#include "saddle/train/result.hpp"
#include "training.hpp"

namespace saddle::cli {

namespace {

namespace fs = std::filesystem;

run::Settings settings_of(const AnalyzeArguments& arguments) {
  run::Settings settings;
  const fs::path config = fs::path(arguments.input) / "config.toml";
  if (fs::exists(config)) {
    settings = run::resolve(run::read_settings(config.string()));
  } else if (arguments.data.empty()) {
    throw InvalidArgument(fmt::format("{} does not say what it was trained on", arguments.input),
                          "give --data, or the folder of the run");
  }
  if (!arguments.data.empty()) settings.data.name = arguments.data;
  if (!arguments.folder.empty()) settings.data.folder = arguments.folder;
  return settings;
}

// The first of every class in turn would need the labels; evenly spread samples do.
std::vector<Index> spread(Index total, Index count) {
  std::vector<Index> samples;
  count = std::min(count, total);
  for (Index i = 0; i < count; ++i) samples.push_back(i * total / count);
  return samples;
}

}  // namespace

int run_analyze(const AnalyzeArguments& arguments, const Context& context) {
  if (arguments.samples < 1 || arguments.samples > 4096)
    throw InvalidArgument(fmt::format("--samples must be from 1 to 4096, found {}", arguments.samples));
  torch::set_num_threads(threads());
  const analysis::Analysis& analysis = analysis::find(arguments.name);
  const train::Trained trained = train::read_trained(arguments.input);
  const run::Settings settings = settings_of(arguments);
  const data::Task task = data::find_task(settings.data.name, train::where_of(settings.data));
  analysis::ProbedModel model;
  model.name = fmt::format("{}, {}", arguments.input, task.name);
  model.classes = trained.data.classes;
  model.weights = train::plain_weights(*trained.model);
  for (const auto& [split, open] : {std::pair{"train", task.train}, std::pair{"test", task.test}}) {
    if (!open) continue;
    const data::DatasetPtr data = open();
    model.probes.push_back(train::probe(trained, data, spread(data->size(), arguments.samples), split));
  }
  analysis::Options options(analysis_options(arguments));
  return print_analysis(analysis, arguments.input, analysis.on_model(model, options), arguments.html, context);
}

}  // namespace saddle::cli

// saddle analyze on a trained model: it runs on a few samples of its data, and the analysis looks at what it did.
#include "analyze.hpp"

#include <fmt/format.h>
#include <torch/utils.h>

#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/base/text.hpp"
#include "saddle/data/find.hpp"
#include "saddle/run/settings.hpp"
#include "saddle/train/probe.hpp"
#include "saddle/train/result.hpp"
#include "saddle/train/run_folder.hpp"
#include "training.hpp"

namespace saddle::cli {

namespace {

run::Settings settings_of(const AnalyzeArguments& arguments, const std::string& input) {
  run::Settings settings;
  if (const auto config = train::config_of(input); !config.empty()) {
    settings = run::resolve(run::read_settings(config.string()));
  } else if (arguments.data.empty()) {
    throw InvalidArgument(fmt::format("{} does not say what it was trained on", input),
                          "give --data, or the folder of the run");
  }
  if (!arguments.data.empty()) settings.data.name = arguments.data;
  if (!arguments.folder.empty()) settings.data.folder = arguments.folder;
  return settings;
}

// Of the same kind and shape; classes and lengths may differ.
void require_inputs(const train::Trained& trained, const data::Description& found) {
  const data::Description& own = trained.data;
  if (found.kind != own.kind || found.channels != own.channels || found.rows != own.rows ||
      found.columns != own.columns || found.vocabulary != own.vocabulary)
    throw InvalidArgument(
        fmt::format("{} has other inputs than {}, which the model was trained on", found.name, own.name),
        "give --data of the same kind, channels, pixels and vocabulary, or leave it out");
}

// The first of every class in turn would need the labels; evenly spread samples do.
std::vector<Index> chosen(const AnalyzeArguments& arguments, Index total) {
  if (arguments.sample >= 0) return arguments.sample < total ? std::vector{arguments.sample} : std::vector<Index>{};
  std::vector<Index> samples;
  const Index count = std::min(arguments.samples, total);
  for (Index i = 0; i < count; ++i) samples.push_back(i * total / count);
  return samples;
}

analysis::Result analyze_model(const analysis::Analysis& analysis, const AnalyzeArguments& arguments,
                               const std::string& input, analysis::Options& options) {
  const train::Trained trained = train::read_trained(input);
  const run::Settings settings = settings_of(arguments, input);
  const data::Task task = data::find_task(settings.data.name, train::where_of(settings.data));
  analysis::ProbedModel model;
  model.name = fmt::format("{}, {}", input, task.name);
  model.classes = trained.data.classes;
  model.weights = train::plain_weights(*trained.model);
  for (const auto& [split, open] : {std::pair{"train", task.train}, std::pair{"test", task.test}}) {
    if (!open) continue;
    const data::DatasetPtr data = open();
    require_inputs(trained, data->description());
    const std::vector<Index> samples = chosen(arguments, data->size());
    if (!samples.empty()) model.probes.push_back(train::probe(trained, data, samples, split));
  }
  if (model.probes.empty())
    throw InvalidArgument(fmt::format("no split of {} has a sample {}", task.name, arguments.sample));
  return analysis.on_model(model, options);
}

}  // namespace

int run_analyze(const AnalyzeArguments& arguments, const Context& context) {
  if (arguments.samples < 1 || arguments.samples > 4096)
    throw InvalidArgument(fmt::format("--samples must be from 1 to 4096, found {}", arguments.samples));
  if (arguments.sample < -1) throw InvalidArgument(fmt::format("--sample counts from 0, found {}", arguments.sample));
  torch::set_num_threads(threads());
  const analysis::Analysis& analysis = analysis::find(arguments.name);
  std::vector<std::pair<std::string, analysis::Result>> results;
  for (const std::string& input : arguments.inputs) {
    analysis::Options options(analysis_options(arguments));
    results.emplace_back(input, is_model(input) ? analyze_model(analysis, arguments, input, options)
                                                : analyze_plain_file(analysis, input, options));
  }
  return print_analysis(analysis, join(arguments.inputs), analysis::beside(results), arguments.html, context);
}

}  // namespace saddle::cli

// saddle analyze on a trained model: it runs on a few samples of its data, and the analysis looks at what it did.
#include "analyze.hpp"

#include <fmt/format.h>
#include <torch/utils.h>

#include <exception>

#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/base/text.hpp"
#include "saddle/data/find.hpp"
#include "saddle/data/next_event.hpp"
#include "saddle/run/settings.hpp"
#include "saddle/train/probe.hpp"
#include "saddle/train/result.hpp"
#include "saddle/train/run_folder.hpp"
#include "saddle/train/tabular/probe.hpp"
#include "table.hpp"
#include "training.hpp"

namespace saddle::cli {

namespace {

run::Settings settings_of(const AnalyzeArguments& arguments, const std::string& input) {
  run::Settings settings;
  if (const auto told = train::settings_of_run(input)) {
    settings = *told;
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
  data::Task task = data::find_task(settings.data.name, train::where_of(settings.data));
  if (trained.data.kind == data::Kind::events)
    task = data::next_event_task(task, {.window = trained.data.usual_length});
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

void require_tables(const analysis::Analysis& analysis, const std::string& input) {
  if (analysis.takes_tables) return;
  std::vector<std::string> others;
  for (const analysis::Analysis* other : analysis::all())
    if (other->on_model && other->takes_tables) others.push_back(other->name);
  throw NotSupported(
      fmt::format("'{}' is about models of single samples, and {} is a model of a table: its layers take turns "
                  "between rows and attributes",
                  analysis.name, input),
      {}, fmt::format("of such models each kind of layer is looked at by {}", join(others)));
}

// Attention between rows and attention between attributes are two results, each under its name; where an analysis
// cannot look at one of them, the other stays. Option `between` takes one alone.
std::vector<std::pair<std::string, analysis::Result>> analyze_table(const analysis::Analysis& analysis,
                                                                    const AnalyzeArguments& arguments,
                                                                    const std::string& input,
                                                                    analysis::Options& options) {
  require_tables(analysis, input);
  const std::string between = options.text("between", "");
  if (!between.empty() && between != "rows" && between != "attributes")
    throw InvalidArgument(fmt::format("option 'between' takes rows or attributes, found '{}'", between));
  const train::tabular::TrainedTable trained = train::tabular::read_trained_table(input);
  const data::WholeTable table = rows_for(trained, input, arguments.data, arguments.folder);
  const train::tabular::TableProbes probes = train::tabular::probe(trained, table, arguments.samples, arguments.sample);
  const std::string shown =
      fmt::format("while the model predicts {} of {} rows beside {} of the {} that it has learned from",
                  probes.attributes[1].samples.size(), table.rows, probes.attributes[0].samples.size(),
                  static_cast<Index>(trained.context.size()) / trained.encoding.width());
  std::vector<std::pair<std::string, analysis::Result>> results;
  std::exception_ptr refused;
  std::string left_out;
  for (const std::string kind : {"rows", "attributes"}) {
    if (!between.empty() && between != kind) continue;
    analysis::ProbedModel model;
    model.name = fmt::format("{}, {}, attention between {}", input, table.name, kind);
    model.classes = trained.target().categories;
    model.weights = train::plain_weights(*trained.model);
    model.probes = kind == "rows" ? std::vector{probes.rows} : probes.attributes;
    try {
      results.emplace_back(input + " " + kind, analysis.on_model(model, options));
    } catch (const NotSupported& error) {
      refused = std::current_exception();
      left_out = fmt::format("Attention between {} is left out: {}.", kind, error.what());
      for (const std::string& why : error.refusals()) left_out += " " + why;
      continue;
    }
    auto& findings = results.back().second.findings;
    findings.insert(findings.begin(), fmt::format("Attention between {} {}.", kind, shown));
  }
  if (results.empty()) std::rethrow_exception(refused);
  if (!left_out.empty()) results.front().second.findings.push_back(left_out);
  return results;
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
    if (is_model(input) && train::tabular::holds_table(input)) {
      for (auto& result : analyze_table(analysis, arguments, input, options)) results.push_back(std::move(result));
      continue;
    }
    results.emplace_back(input, is_model(input) ? analyze_model(analysis, arguments, input, options)
                                                : analyze_plain_file(analysis, input, options));
  }
  return print_analysis(analysis, join(arguments.inputs), analysis::beside(results), arguments.html, context);
}

}  // namespace saddle::cli

// saddle reproduce: trains everything that an experiment declares, and makes its page.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "argument.hpp"
#include "command.hpp"
#include "output.hpp"
#include "reproduce_runs.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/data/find.hpp"
#include "saddle/eval/baseline.hpp"
#include "saddle/eval/statistics.hpp"
#include "saddle/experiment/budget.hpp"
#include "saddle/experiment/page.hpp"
#include "saddle/io/atomic_file.hpp"
#include "saddle/run/progress.hpp"
#include "saddle/run/settings.hpp"

namespace saddle::cli {

namespace {

namespace fs = std::filesystem;
using experiment::Experiment;
using experiment::Part;
using experiment::Results;

struct ReproduceOptions {
  std::string name, out = "reproduced", published = "docs/results", seeds, budget;
  std::vector<std::string> parts, data, attentions, protocols;
  Index jobs = 1;
  bool publish = false, no_train = false, extend = false;
};

// 90s, 30m, 2h, or seconds.
double seconds_of(const std::string& text) {
  const auto seconds = run::parse_seconds(text);
  if (!seconds || !(*seconds > 0))
    throw InvalidArgument(fmt::format("--budget takes a time, found '{}'", text), "such as 90s, 30m or 2h");
  return *seconds;
}

// Keeps of a list what was asked for. Throws InvalidArgument for what no part has.
void keep(Experiment& experiment, const std::vector<std::string>& wanted, std::vector<std::string> Part::*list,
          const char* option) {
  if (wanted.empty()) return;
  std::vector<std::string> known;
  for (const Part& part : experiment.parts)
    for (const std::string& each : part.*list)
      if (std::ranges::find(known, each) == known.end()) known.push_back(each);
  for (const std::string& each : wanted)
    if (std::ranges::find(known, each) == known.end()) {
      const std::string close = nearest(each, known);
      throw InvalidArgument(
          fmt::format("{}: the experiment has no '{}'", option, each),
          close.empty() ? fmt::format("it has {}", join(known)) : fmt::format("did you mean '{}'?", close));
    }
  for (Part& part : experiment.parts)
    std::erase_if(part.*list, [&](const std::string& each) { return std::ranges::find(wanted, each) == wanted.end(); });
}

// Data sets that the experiment does not name are trained like those that it does, in every part.
void keep_data(Experiment& experiment, const std::vector<std::string>& wanted) {
  if (wanted.empty()) return;
  std::vector<std::string> known;
  for (const Part& part : experiment.parts) known.insert(known.end(), part.data.begin(), part.data.end());
  for (Part& part : experiment.parts) {
    std::vector<std::string> kept;
    for (const std::string& each : wanted)
      if (std::ranges::find(part.data, each) != part.data.end() || std::ranges::find(known, each) == known.end())
        kept.push_back(each);
    part.data = kept;
  }
}

Experiment chosen_part_of(const ReproduceOptions& options) {
  Experiment experiment = experiment::find_experiment(options.name);
  if (!options.parts.empty()) {
    std::vector<std::string> names;
    for (const Part& part : experiment.parts) names.push_back(part.name);
    for (const std::string& each : options.parts)
      if (std::ranges::find(names, each) == names.end())
        throw InvalidArgument(fmt::format("--part: the experiment has no '{}'", each), "it has " + join(names));
    std::erase_if(experiment.parts,
                  [&](const Part& part) { return std::ranges::find(options.parts, part.name) == options.parts.end(); });
  }
  keep_data(experiment, options.data);
  keep(experiment, options.attentions, &Part::attentions, "--attention");
  keep(experiment, options.protocols, &Part::protocols, "--protocol");
  std::erase_if(experiment.parts, [](const Part& part) {
    return part.data.empty() || part.attentions.empty() || part.protocols.empty();
  });
  return experiment;
}

// As models of the first part with this data are limited.
eval::BaselineOptions limits_of(const Experiment& experiment, const std::string& data) {
  eval::BaselineOptions options;
  const auto part = std::ranges::find_if(
      experiment.parts, [&](const Part& each) { return std::ranges::find(each.data, data) != each.data.end(); });
  for (const auto& [key, value] : part->settings)
    if (key == "data.limit") options.limit = std::stoll(value);
  return options;
}

// What simple methods reach, where it is not known yet.
void add_floors(const Experiment& experiment, const Results& known, Results& fresh, bool quiet) {
  if (std::ranges::find(experiment.sections, experiment::Section::accuracy) == experiment.sections.end()) return;
  std::vector<std::string> names;
  for (const Part& part : experiment.parts)
    for (const std::string& data : part.data)
      if (std::ranges::find(names, data) == names.end() &&
          std::ranges::any_of(fresh.records, [&](const auto& record) { return record.data == data; }))
        names.push_back(data);
  for (const std::string& data : names) {
    const auto of_data = [&](const experiment::Floor& floor) { return floor.data == data; };
    if (std::ranges::any_of(known.floors, of_data)) {
      std::ranges::copy_if(known.floors, std::back_inserter(fresh.floors), of_data);
      continue;
    }
    if (!quiet) print_message(fmt::format("simple methods on {}\n", data));
    for (const eval::Baseline& baseline : eval::baselines(data::find_task(data), limits_of(experiment, data)))
      fresh.floors.push_back({data, baseline.name, baseline.accuracy});
  }
}

void write_page(const Experiment& experiment, const Results& results, const fs::path& folder) {
  fs::create_directories(folder);
  io::write_atomically((folder / (experiment.name + ".json")).string(), experiment::write_results(results));
  const experiment::Page page = experiment::page(experiment, results);
  for (const auto& [name, text] : page.plots) io::write_atomically((folder / name).string(), text);
  io::write_atomically((folder / (experiment.name + ".md")).string(), page.markdown);
}

struct Figure {
  std::vector<double> here, published;
};

// Per cell without its seed: what was found here, and what the committed results say about the same seeds.
Json compare_with_published(const Results& fresh, const Results& published) {
  std::vector<const experiment::Record*> order;
  std::map<std::vector<std::string>, Figure> figures;
  const auto key = [](const experiment::Record& r) {
    return std::vector<std::string>{r.part, r.protocol, r.data, r.attention};
  };
  for (const experiment::Record& record : fresh.records) {
    Figure& figure = figures[key(record)];
    if (figure.here.empty()) order.push_back(&record);
    figure.here.push_back(record.accuracy);
    for (const experiment::Record& other : published.records)
      if (key(other) == key(record) && other.seed == record.seed) figure.published.push_back(other.accuracy);
  }
  Json rows = Json::array();
  for (const experiment::Record* record : order) {
    const Figure& figure = figures[key(*record)];
    const eval::Spread here = eval::spread(figure.here);
    Json row{{"part", record->part},           {"protocol", record->protocol}, {"data", record->data},
             {"attention", record->attention}, {"seeds", here.count},          {"accuracy", here.mean}};
    if (here.deviation) row["deviation"] = *here.deviation;
    if (figure.published.size() == figure.here.size()) row["published"] = eval::spread(figure.published).mean;
    rows.push_back(row);
  }
  return rows;
}

std::string rows_text(const Json& rows) {
  Table table({"part", "protocol", "data", "attention", "seeds", "accuracy", "published"}, "llllrrr");
  const auto percent = [](const Json& row, const char* key) {
    return row.contains(key) ? fmt::format("{:.1f}", 100 * row[key].get<double>()) : std::string("-");
  };
  for (const Json& row : rows)
    table.add({row["part"], row["protocol"], row["data"], row["attention"],
               fmt::format("{}", row["seeds"].get<Index>()),
               percent(row, "accuracy") + (row.contains("deviation") ? " ± " + percent(row, "deviation") : ""),
               percent(row, "published")});
  table.note("test accuracy in per cent; published: of the same seeds, in the results that come with saddle");
  return table.text();
}

int list(const Context& context) {
  Json rows = Json::array();
  Table table({"experiment", "title"}, "ll");
  for (const std::string& name : experiment::experiment_names()) {
    const Experiment experiment = experiment::find_experiment(name);
    rows.push_back({{"name", name}, {"title", experiment.title}});
    table.add({name, experiment.title});
  }
  if (context.json) {
    print_json("saddle.experiments/1", {{"experiments", rows}});
  } else {
    print(table.text());
  }
  return Exit::ok;
}

int interrupted_by(int signal) {
  print_error("interrupted", "run the same command again to go on");
  return 128 + signal;
}

// Trains a little where nothing is known, so that time can be shared out. Returns the signal that ended it, or 0.
int probe(const Experiment& experiment, const RunOptions& options, Results& known) {
  for (const experiment::Probe& probe : experiment::probes(experiment, known)) {
    ExperimentRuns work(options);
    work.run(experiment.name, probe.part);
    if (work.signal != 0) return work.signal;
    for (experiment::Record record : work.fresh.records) {
      record.part = probe.of;
      record.train_seconds *= probe.times;
      known.records.push_back(record);
    }
  }
  return 0;
}

int reproduce(const ReproduceOptions& options, const Context& context) {
  if (options.name.empty()) return list(context);
  if (options.jobs < 1 || options.jobs > 1024)
    throw InvalidArgument(fmt::format("--jobs takes 1 to 1024, found {}", options.jobs));
  const Experiment whole = experiment::find_experiment(options.name);
  Experiment experiment = chosen_part_of(options);
  const fs::path own = fs::path(options.out) / "results", there = options.published;
  const Results published = experiment::read_results((there / (whole.name + ".json")).string());
  Results results = experiment::read_results((own / (whole.name + ".json")).string());
  Results known = published;
  merge(known, results);
  RunOptions how{
      options.out,  options.extend ? options.published : "", options.seeds, 0, options.jobs, !options.no_train,
      context.quiet};
  if (!options.seeds.empty())
    for (Part& part : experiment.parts) part.seeds = static_cast<Index>(parse_seeds(options.seeds).size());
  if (!options.budget.empty()) {
    const double seconds = how.seconds = seconds_of(options.budget);
    if (const int signal = probe(experiment, how, known); signal != 0) return interrupted_by(signal);
    const experiment::Extent extent = experiment::extent_within(experiment, known, seconds, options.jobs);
    experiment = experiment::reduced(experiment, extent);
    print_message(fmt::format("{} for all of it, about {} here: {} seed{} and {:.0f} % of the epochs for {}\n",
                              run::duration_text(extent.whole), run::duration_text(extent.seconds), extent.seeds,
                              extent.seeds == 1 ? "" : "s", 100 * extent.epochs, options.budget));
  }
  ExperimentRuns work(how);
  for (const Part& part : experiment.parts) work.run(whole.name, part);
  if (work.fresh.records.empty() && work.failed.empty() && work.signal == 0 && !work.late)
    throw InvalidArgument("there is no finished run", "leave out --no-train to train");
  work.fresh.experiment = whole.name;
  if (work.signal == 0) add_floors(experiment, known, work.fresh, context.quiet);
  merge(results, work.fresh);
  // Parts that the time was too short for in full are pages of their own.
  Experiment shown = whole;
  for (const Part& part : experiment.parts)
    if (std::ranges::none_of(shown.parts, [&](const Part& other) { return other.name == part.name; }))
      shown.parts.push_back(part);
  write_page(shown, results, own);
  if (options.publish) {
    Results all = published;
    merge(all, work.fresh);
    write_page(whole, all, there);
  }
  const Json rows = compare_with_published(work.fresh, published);
  if (context.json) {
    print_json("saddle.reproduce/1", {{"experiment", whole.name}, {"cells", rows}});
  } else {
    print(rows_text(rows));
  }
  if (!context.quiet)
    print_message(fmt::format("page: {}\n", ((options.publish ? there : own) / (whole.name + ".md")).string()));
  if (work.signal != 0) return interrupted_by(work.signal);
  if (work.late) print_message("the time is over; run the same command again to go on\n");
  if (work.failed.empty()) return Exit::ok;
  std::string message = fmt::format("{} cells failed:", work.failed.size());
  for (const std::string& line : work.failed) message += "\n  " + line;
  print_error(message, "the same command tries them again and keeps the others");
  return Exit::failed;
}

}  // namespace

Command reproduce_command() {
  const auto o = std::make_shared<ReproduceOptions>();
  return {
      "reproduce",
      "Train everything that an experiment of the paper needs, on the data at hand, and write its page: tables, plots "
      "and what they show. Without a name, list the experiments. Run again, it goes on where it stopped.",
      {{"the experiments", "saddle reproduce"},
       {"one of your own, from a file", "saddle reproduce examples/experiment.toml --out reproduced"}},
      {{"experiment", "", "a name, or a .toml file", &o->name},
       {"--out", "FOLDER", "for the runs, and results/ for the page; default reproduced", &o->out},
       {"--part", "NAME", "only this part; may be given more than once", &o->parts},
       {"--data", "NAME", "only this data set, or one that the experiment does not name; may be repeated", &o->data},
       {"--attention", "TEXT", "only this attention, as the experiment writes it; may be repeated", &o->attentions},
       {"--protocol", "NAME", "only this protocol: honest or paper; may be repeated", &o->protocols},
       {"--seeds", "LIST", "such as 0 or 0..4; default as the experiment says", &o->seeds},
       {"--budget", "TIME", "such as 30m: fewer seeds, then fewer epochs, to fit; and stop then", &o->budget},
       {"--jobs", "COUNT", "runs at the same time, which share the threads; default 1", &o->jobs},
       {"--no-train", "", "only make the page of the runs that are finished", &o->no_train},
       {"--published", "FOLDER", "committed results to compare with; default docs/results", &o->published},
       {"--publish", "", "add what was found to the committed results", &o->publish},
       {"--extend", "", "count the runs of committed results as done: train only what they lack", &o->extend}},
      [o](const Context& context) { return reproduce(*o, context); }};
}

}  // namespace saddle::cli

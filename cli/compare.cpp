// saddle compare: trains every attention on every data set with every seed, or takes runs that exist, and says which is
// better, by how much, and what it costs.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "compare_plan.hpp"
#include "compare_result.hpp"
#include "compare_table.hpp"
#include "compare_train.hpp"
#include "output.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/io/atomic_file.hpp"

namespace saddle::cli {

namespace {

namespace fs = std::filesystem;

struct CompareOptions {
  std::vector<std::string> attention, data, words;
  std::string seeds, out, csv, latex, html, baseline, test = "wilcoxon";
  Index jobs = 1;
  double alpha = 0.1;
};

eval::Posthoc posthoc_of(const CompareOptions& options) {
  return options.test == "nemenyi" ? eval::Posthoc::nemenyi : eval::Posthoc::wilcoxon_holm;
}

void check_output_files(const CompareOptions& options) {
  for (const std::string& file : {options.csv, options.latex, options.html}) {
    if (file.empty()) continue;
    if (fs::is_directory(file)) throw IoError(fmt::format("cannot write {}: it is a folder", file));
    const io::AtomicFile trial(file);
  }
}

void check_common(const CompareOptions& options) {
  if (!(options.alpha > 0 && options.alpha < 1))
    throw InvalidArgument(fmt::format("--alpha lies between 0 and 1, found {}", options.alpha));
  if (options.jobs < 1 || options.jobs > 1024)
    throw InvalidArgument(fmt::format("--jobs takes 1 to 1024, found {}", options.jobs));
}

// A report nobody asked for by name is left out when it cannot be made.
void write_report(const std::string& file, bool asked, const std::vector<report::Run>& runs,
                  const CompareResult& result, const Context& context) {
  report::PageOptions page;
  page.attentions = result.labels;
  if (result.statistics) page.statistics = statistics_json(result).dump();
  try {
    io::write_atomically(file, report::comparison_page(runs, page));
  } catch (const IoError& error) {
    if (asked) throw;
    if (!context.quiet) print_message(fmt::format("note: there is no {}: {}\n", file, error.what()));
    return;
  }
  if (!context.quiet) print_message(fmt::format("report: {}\n", file));
}

// Is there a result, but no score on a test split?
bool is_unscored(const fs::path& run) {
  std::ifstream in(run / "result.json");
  const Json result = Json::parse(in, nullptr, false);
  return result.is_object() && !result.contains("test");
}

struct ScoredRuns {
  std::vector<report::Run> runs;
  std::vector<std::string> notes;
};

// The runs in the folders. Those without a test score are left out, with a note.
ScoredRuns read_scored(const std::vector<std::string>& folders) {
  ScoredRuns found;
  std::vector<std::string> each;
  std::map<fs::path, std::string> names;
  for (const std::string& text : folders) {
    if (!fs::is_directory(text)) {
      each.push_back(text);
      continue;
    }
    const fs::path root = fs::canonical(text);
    const auto take = [&](const fs::path& folder) {
      if (!fs::exists(folder / "result.json") && !fs::exists(folder / "metrics.jsonl")) return false;
      const std::string name = folder.lexically_relative(root.parent_path()).string();
      if (is_unscored(folder)) {
        found.notes.push_back(fmt::format("{} has no test score and is left out", name));
      } else {
        each.push_back(folder.string());
        names.try_emplace(folder, name);
      }
      return true;
    };
    if (take(root)) continue;
    const auto lenient = fs::directory_options::skip_permission_denied;
    for (auto at = fs::recursive_directory_iterator(root, lenient); at != fs::recursive_directory_iterator(); ++at)
      if (at->is_directory() && !at->is_symlink() && take(at->path())) at.disable_recursion_pending();
  }
  if (found.notes.empty()) return {report::read_runs(folders), {}};
  if (each.empty())
    throw InvalidArgument("no run has a test score: there is nothing to compare", "train on data with a test split");
  found.runs = report::read_runs(each);
  for (report::Run& run : found.runs)
    if (const auto name = names.find(run.folder); name != names.end()) run.name = name->second;
  return found;
}

// Tables, files and the report of finished runs.
CompareResult conclude(const ScoredRuns& scored, const std::vector<std::string>& order, const CompareOptions& options,
                       const Json& cells, const Context& context) {
  const std::vector<report::Run>& runs = scored.runs;
  CompareResult result = compare_runs(runs, order, options.baseline, posthoc_of(options), options.alpha);
  result.notes.insert(result.notes.begin(), scored.notes.begin(), scored.notes.end());
  if (context.json) {
    Json document = compare_json(result);
    if (!cells.is_null()) document["cells"] = cells;
    print_json("saddle.compare/1", document);
  } else {
    print(compare_text(result));
  }
  if (!options.csv.empty()) io::write_atomically(options.csv, compare_csv(result));
  if (!options.latex.empty()) io::write_atomically(options.latex, compare_latex(result));
  const std::string standard = options.out.empty() ? "" : (fs::path(options.out) / "report.html").string();
  const std::string& html = options.html.empty() ? standard : options.html;
  if (!html.empty()) write_report(html, !options.html.empty(), runs, result, context);
  return result;
}

int collect(const CompareOptions& options, const Context& context) {
  for (const auto& [given, name] : {std::pair(!options.data.empty(), "--data"),
                                    {!options.seeds.empty(), "--seeds"},
                                    {options.jobs != 1, "--jobs"},
                                    {!options.out.empty(), "--out"}})
    if (given)
      throw InvalidArgument(fmt::format("{} is for training, which needs --attention", name),
                            "to collect runs that exist, name their folders alone");
  if (options.words.empty())
    throw InvalidArgument("there is nothing to compare",
                          "give --attention, --data and --out to train, or folders of runs that exist");
  check_output_files(options);
  conclude(read_scored(options.words), {}, options, nullptr, context);
  return Exit::ok;
}

Json cells_json(const Plan& plan, const TrainResult& trained) {
  Json cells = Json::array();
  for (std::size_t i = 0; i < plan.cells.size(); ++i) {
    const Cell& cell = plan.cells[i];
    const CellOutcome& outcome = trained.outcomes[i];
    cells.push_back({{"data", cell.data},
                     {"attention", cell.attention},
                     {"seed", cell.seed},
                     {"folder", cell.folder.string()},
                     {"state", to_string(outcome.state)},
                     {"seconds", outcome.seconds}});
    if (!outcome.problem.empty()) cells.back()["problem"] = outcome.problem;
  }
  return cells;
}

// The runs of the finished cells, named from the folder of the comparison, and their labels in the order of
// --attention.
struct FinishedCells {
  ScoredRuns scored;
  std::vector<std::string> labels;
};

FinishedCells read_finished(const Plan& plan, const std::vector<std::string>& attentions) {
  FinishedCells finished;
  std::vector<std::string> folders;
  for (const Cell& cell : plan.cells)
    if (cell.finished()) folders.push_back(cell.folder.string());
  if (folders.empty()) return finished;
  finished.scored = read_scored(folders);
  const fs::path root = fs::canonical(plan.folder);
  for (report::Run& run : finished.scored.runs) run.name = run.folder.lexically_relative(root).string();
  for (const std::string& attention : attentions)
    for (const Cell& cell : plan.cells) {
      if (cell.attention != attention || !cell.finished()) continue;
      const fs::path folder = fs::canonical(cell.folder);
      for (const report::Run& run : finished.scored.runs)
        if (run.folder == folder) finished.labels.push_back(run.label);
    }
  return finished;
}

int train(const CompareOptions& options, const Context& context) {
  if (options.data.empty())
    throw InvalidArgument("--attention needs --data: a name, a file or a folder", "see 'saddle data list'");
  if (options.out.empty()) throw InvalidArgument("--attention needs --out: the folder for the runs");
  const Plan plan = plan_cells(options.data, options.attention,
                               parse_seeds(options.seeds.empty() ? "0..4" : options.seeds), options.out, options.words);
  const PlanLock lock(plan);
  check_output_files(options);
  TrainOptions how{trainer(), static_cast<int>(options.jobs), 1, context.quiet};
  how.threads = std::max(1, threads() / how.jobs);
  const TrainResult trained = train_cells(plan, how);

  std::vector<std::string> open;
  for (std::size_t i = 0; i < plan.cells.size(); ++i) {
    const CellOutcome& outcome = trained.outcomes[i];
    if (outcome.state == CellState::failed)
      open.push_back(
          fmt::format("{}: {}\n    log: {}", plan.cells[i].name(), outcome.problem, plan.cells[i].log().string()));
    else if (outcome.state == CellState::stopped)
      open.push_back(plan.cells[i].name() + ": stopped");
  }
  if (trained.signal != 0) {
    print_error(
        fmt::format("interrupted: {} of {} cells are finished", plan.cells.size() - open.size(), plan.cells.size()),
        "run the same command again to go on");
    return 128 + trained.signal;
  }
  const FinishedCells finished = read_finished(plan, options.attention);
  if (!finished.scored.runs.empty())
    conclude(finished.scored, finished.labels, options, cells_json(plan, trained), context);
  else if (context.json)
    print_json("saddle.compare/1", {{"results", Json::array()}, {"cells", cells_json(plan, trained)}});
  if (open.empty()) return Exit::ok;
  std::string message = fmt::format("{} of {} cells failed:", open.size(), plan.cells.size());
  for (const std::string& line : open) message += "\n  " + line;
  print_error(message, "the same command tries them again and keeps the others");
  return Exit::failed;
}

}  // namespace

Command compare_command() {
  const auto o = std::make_shared<CompareOptions>();
  const std::string cells =
      "saddle compare --attention softmax --attention softmax+bn --seeds 0,1 "
      "--data examples/data/waves --out comparison";
  return {
      "compare",
      "Train attentions on data sets with several seeds, one run each, or take runs that exist; print accuracy, cost "
      "and what the difference is worth. Options of saddle train follow after --. Run again, it goes on where it "
      "stopped.",
      {{"two attentions, two seeds each, trained for one epoch", cells + " -- --epochs 1"},
       {"the same runs again, for scripts and a paper", "saddle compare comparison --json --latex table.tex"}},
      {{"folders", "", "folders with runs, at any depth; with --attention, after --, options of saddle train",
        &o->words},
       {"--attention", "TEXT", "an attention to train; may be given more than once. 'a / b' is one per layer",
        &o->attention},
       {"--data", "NAME", "a data set, file or folder to train on; may be given more than once", &o->data},
       {"--seeds", "LIST", "such as 0..4 or 0,2,5; default 0..4", &o->seeds},
       {"--out", "FOLDER", "for the runs, one per cell, and report.html", &o->out},
       {"--jobs", "COUNT", "cells trained at the same time, which share the threads; default 1", &o->jobs},
       {"--baseline", "TEXT", "the attention that the others are compared with; default the first", &o->baseline},
       {"--test",
        "NAME",
        "over several data sets; wilcoxon is corrected by Holm's rule",
        &o->test,
        false,
        {"wilcoxon", "nemenyi"}},
       {"--alpha", "P", "level of significance; default 0.1", &o->alpha},
       {"--csv", "FILE", "write the table as CSV", &o->csv},
       {"--latex", "FILE", "write the accuracies as LaTeX", &o->latex},
       {"--html", "FILE", "write the report here", &o->html}},
      [o](const Context& context) {
        check_common(*o);
        return o->attention.empty() ? collect(*o, context) : train(*o, context);
      }};
}

}  // namespace saddle::cli

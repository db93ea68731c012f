// saddle train: settings from all sides, one process or several, exit codes.
#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "launch.hpp"
#include "output.hpp"
#include "program.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/log.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/base/text.hpp"
#include "saddle/eval/statistics.hpp"
#include "saddle/train/pretraining_scores.hpp"
#include "saddle/train/training.hpp"
#include "training.hpp"

namespace saddle::cli {

namespace {

namespace fs = std::filesystem;

std::atomic<int> signals{0};

// The first one asks for a checkpoint, the second one ends the process at once.
void on_signal(int signal) {
  if (++signals > 1) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

run::Settings settings_of(const TrainArguments& arguments) {
  std::vector<run::Given> given;
  const auto add = [&](std::vector<run::Given> more) { given.insert(given.end(), more.begin(), more.end()); };
  if (arguments.resume && run::has_run(arguments.out))
    add(run::read_settings((fs::path(arguments.out) / "config.toml").string()));
  if (!arguments.config.empty()) add(run::read_settings(arguments.config));
  add(run::settings_of_environment());
  for (const std::string& text : arguments.assignments) add({run::parse_assignment(text)});
  for (const auto& [key, value] : arguments.settings)
    if (!value.empty()) add({{key, value, "flag"}});
  if (!arguments.model.empty()) add({{"model.name", arguments.model, "flag --model"}});
  if (!arguments.attention.empty()) add({{"model.attention", join(arguments.attention, ","), "flag --attention"}});
  if (!arguments.last.empty()) add({{"model.last_attention", arguments.last, "flag --last"}});
  run::Settings settings = run::resolve(given);
  // A run finds its files from anywhere.
  for (std::string* path : {&settings.data.name, &settings.data.test, &settings.data.folder})
    if (!path->empty() && fs::exists(*path)) *path = fs::absolute(*path).lexically_normal().string();
  return settings;
}

// Nothing is left to do for a finished run with these settings.
bool is_done(const std::string& out, const run::Settings& settings) {
  if (!run::is_finished(out)) return false;
  const run::Settings before = run::resolve(run::read_settings((fs::path(out) / "config.toml").string()));
  return run::differences(before, settings).empty() && before.train.budget == settings.train.budget;
}

// Letters, digits and a few signs of a text; what else there is becomes one dash.
std::string file_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '=';
    if (plain) {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name;
}

std::string default_folder(const run::Settings& settings) {
  const auto attention = settings.model_options.find("attention");
  return fmt::format("runs/{}-{}-{}", file_name(fs::path(settings.data.name).stem().string()),
                     attention == settings.model_options.end() ? "softmax" : file_name(attention->second),
                     settings.train.seed);
}

void print_settings(const run::Settings& settings, const Context& context) {
  if (!context.json) return print(run::to_toml(settings, true));
  Json list = Json::object();
  for (const run::Entry& entry : run::entries(settings))
    list[entry.section][entry.name] = {{"value", entry.quoted ? Json(entry.value) : Json::parse(entry.value)},
                                       {"origin", entry.origin}};
  print_json("saddle.settings/1", list);
}

void print_result(const fs::path& folder, const Context& context) {
  std::ifstream in(folder / "result.json");
  const Json result = Json::parse(in);
  if (context.json) {
    Json document = result;
    document.erase("schema");
    document["folder"] = folder.string();
    print_json("saddle.train/1", document);
    return;
  }
  const auto score_of = [](const Json& score) {
    return score.contains("rmse") ? fmt::format("{:.4g}", score.at("rmse").get<double>())
                                  : fmt::format("{:.2f} %", 100 * score.at("accuracy").get<double>());
  };
  const bool numbers = result["data"].value("predicts", "classes") == "numbers";
  const char* const measure = numbers ? "RMSE" : "accuracy";
  std::string text;
  if (result.contains("test")) {
    text += fmt::format("test {} {} of {} samples, epoch {} chosen by {}\n", measure, score_of(result["test"]),
                        result["test"]["count"].get<Index>(), fmt::format("{:.4g}", result["best_epoch"].get<double>()),
                        result["protocol"] == "paper"   ? "the TEST split itself (protocol paper: too good)"
                        : result.contains("validation") ? fmt::format("validation ({})", score_of(result["validation"]))
                                                        : "nothing: it is the last");
    if (result["protocol"] == "paper") text += fmt::format("last epoch {}\n", score_of(result["last"]));
  } else {
    text += fmt::format("validation {} {}; there is no test split\n", measure,
                        result.contains("validation") ? score_of(result["validation"]) : "unknown");
  }
  if (result.contains("pretraining")) text += train::to_text(result["pretraining"]);
  text +=
      fmt::format("{} parameters, {} multiply-adds a sample, trained in {} ({:.4g} samples/s), {} peak memory\n",
                  count_text(result["parameters"].get<double>()), count_text(result["multiply_adds"].get<double>()),
                  seconds_text(result["train_seconds"].get<double>()), result["train_samples_per_second"].get<double>(),
                  bytes_text(result["peak_memory_bytes"].get<double>()));
  const fs::path report = folder / "report.html";
  print(text + (fs::exists(report) ? report.string() + "\n" : ""));
}

// One run, to its end. `say` prints what it found.
int train_once(TrainArguments arguments, bool say, const Context& context) {
  if (arguments.resume && arguments.out.empty())
    throw InvalidArgument("--resume needs --out, the folder of the run to go on with");
  if (arguments.resume && !run::has_run(arguments.out))
    throw InvalidArgument(fmt::format("{} holds no run that could be resumed", arguments.out),
                          "leave out --resume to start one");
  if (arguments.resume && fs::exists(fs::path(arguments.out) / "prune.json"))
    throw InvalidArgument(
        fmt::format("{} holds a model that heads were removed from: there is no training to go on with", arguments.out),
        "train in another --out");
  if (arguments.resume && arguments.force)
    throw InvalidArgument("--resume goes on with a run, --force replaces it: give one of them");
  run::Settings settings = settings_of(arguments);
  if (arguments.print_config) {
    print_settings(train::complete(settings), context);
    return Exit::ok;
  }
  if (arguments.out.empty()) arguments.out = default_folder(settings);
  if (arguments.resume && is_done(arguments.out, settings)) {
    if (say) print_result(arguments.out, context);
    return Exit::ok;
  }
  const bool worker = is_worker();
  if (settings.train.workers > 1 && !worker) return launch(settings.train.workers);

  const Index local = worker ? local_workers() : 1;
  const int count = settings.train.threads > 0 ? static_cast<int>(settings.train.threads)
                                               : std::max(1, threads() / static_cast<int>(local));
  set_threads(count);
  torch::set_num_threads(count);
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  train::Group group = train::Group::of_environment(worker_timeout());
  train::RunOptions options;
  options.out = arguments.out;
  options.open = arguments.resume  ? run::Folder::Open::resume
                 : arguments.force ? run::Folder::Open::replace
                                   : run::Folder::Open::fresh;
  options.allowed = arguments.allowed;
  options.command = join(own_words(), " ");
  options.quiet = context.quiet;
  options.interrupted = [] { return signals.load() > 0; };
  try {
    if (train::train(settings, options, group) == train::Ended::interrupted) return Exit::interrupted;
  } catch (const train::WorkerLost& error) {
    throw Error(error.what(), fmt::format("start the workers again with --resume --out {}", arguments.out));
  }
  if (say && group.leads()) print_result(arguments.out, context);
  return Exit::ok;
}

// The first so many splits of a table, each a run of its own below the folder. Those that are done stay.
int train_splits(const TrainArguments& given, const Context& context) {
  if (given.splits < 1 || given.splits > 1000)
    throw InvalidArgument(fmt::format("--splits must be from 1 to 1000, found {}", given.splits));
  if (given.print_config) {
    TrainArguments first = given;
    first.settings["table.split"] = "0";
    first.resume = false;
    return train_once(first, false, context);
  }
  if (given.out.empty()) throw InvalidArgument("--splits needs --out, the folder of all the runs");
  Json runs = Json::array();
  std::vector<double> scores, floors;
  std::string measure;
  for (Index split = 0; split < given.splits; ++split) {
    TrainArguments arguments = given;
    arguments.splits = 0;
    arguments.settings["table.split"] = std::to_string(split);
    arguments.out = (fs::path(given.out) / fmt::format("split-{}", split)).string();
    arguments.resume = !given.force && run::has_run(arguments.out);
    if (const int code = train_once(arguments, false, context); code != Exit::ok) return code;
    std::ifstream in(fs::path(arguments.out) / "result.json");
    const Json result = Json::parse(in);
    if (!result.contains("test"))
      throw InvalidArgument(fmt::format("{} has no test rows", arguments.out),
                            "--splits is for tables with targets in their test rows");
    const Json& test = result["test"];
    measure = test.contains("rmse") ? "rmse" : "accuracy";
    scores.push_back(test.at(measure));
    floors.push_back(test.value("floor", 0.0));
    runs.push_back({{"split", split},
                    {"folder", arguments.out},
                    {measure, scores.back()},
                    {"floor", floors.back()},
                    {"train_seconds", result["train_seconds"]}});
    if (!context.json) print(fmt::format("split {:>2}  test {} {:.4g}\n", split, measure, scores.back()));
  }
  const eval::Spread spread = eval::spread(scores);
  const double floor = eval::spread(floors).mean, deviation = spread.deviation.value_or(0);
  const double error = deviation / std::sqrt(static_cast<double>(spread.count));
  if (context.json) {
    print_json("saddle.train-splits/1", {{"measure", measure},
                                         {"mean", spread.mean},
                                         {"deviation", deviation},
                                         {"standard_error", error},
                                         {"floor", floor},
                                         {"splits", spread.count},
                                         {"runs", runs}});
    return Exit::ok;
  }
  print(fmt::format(
      "{} splits: test {} {:.4g}, standard deviation {:.3g}, standard error {:.3g}; without features {:.4g}\n",
      spread.count, measure, spread.mean, deviation, error, floor));
  return Exit::ok;
}

}  // namespace

int run_train(const TrainArguments& arguments, const Context& context) {
  return arguments.splits != 0 ? train_splits(arguments, context) : train_once(arguments, true, context);
}

}  // namespace saddle::cli

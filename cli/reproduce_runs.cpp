#include "reproduce_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "compare_train.hpp"
#include "output.hpp"
#include "saddle/base/parallel.hpp"

namespace saddle::cli {

namespace {

namespace fs = std::filesystem;
using experiment::Choice;
using experiment::Part;
using experiment::Record;
using experiment::Results;

Plan empty_plan(const RunOptions& options, const Part& part, const std::string& protocol) {
  std::vector<std::string> words{"--protocol", protocol};
  const auto add = [&](const experiment::Settings& settings) {
    for (const auto& [key, value] : settings) words.insert(words.end(), {"--set", fmt::format("{}={}", key, value)});
  };
  add(part.settings);
  if (protocol == "paper") add(part.paper_settings);
  return {{}, words, fs::path(options.out) / (part.folder + "-" + protocol)};
}

void add_cell(Plan& plan, const std::string& data, const std::string& attention, Index seed) {
  const Cell cell{data, attention, seed, plan.folder / file_name(data) / file_name(attention) / std::to_string(seed)};
  if (std::ranges::none_of(plan.cells, [&](const Cell& other) { return other.folder == cell.folder; }))
    plan.cells.push_back(cell);
}

// The attention whose option is chosen; empty when there is nothing to choose.
std::string open_attention(const Part& part) {
  for (const std::string& attention : part.attentions)
    if (attention.find('*') != std::string::npos) return attention;
  return "";
}

const Record* find_record(const Results& results, const std::string& protocol, const Cell& cell) {
  for (const Record& record : results.records)
    if (record.protocol == protocol && record.data == cell.data && record.attention == cell.attention &&
        record.seed == cell.seed)
      return &record;
  return nullptr;
}

// The values on offer for a data set, with their validation, if all of them are there.
std::vector<Choice> offers_in(const Results& results, const Part& part, const std::string& data) {
  std::vector<Choice> offers;
  for (const std::string& value : part.choices)
    for (const Choice& choice : results.choices)
      if (choice.data == data && choice.value == value) offers.push_back(choice);
  if (offers.size() != part.choices.size()) offers.clear();
  return offers;
}

}  // namespace

std::vector<Index> ExperimentRuns::seeds_of(const Part& part) const {
  std::vector<Index> seeds;
  if (!options_.seeds.empty()) {
    seeds = parse_seeds(options_.seeds);
    seeds.resize(std::min(seeds.size(), static_cast<std::size_t>(part.seeds)));
    return seeds;
  }
  for (Index seed = 0; seed < part.seeds; ++seed) seeds.push_back(seed);
  return seeds;
}

Results ExperimentRuns::committed_of(const std::string& experiment, const Part& part) const {
  Results results;
  if (options_.committed.empty()) return results;
  const auto add = [&](const std::string& from, const std::string& name) {
    const Results all = experiment::read_results((fs::path(options_.committed) / (from + ".json")).string());
    Results some;
    for (Record record : all.records)
      if (record.part == name) {
        record.part = part.name;
        some.records.push_back(record);
      }
    for (Choice choice : all.choices)
      if (choice.part == name) {
        choice.part = part.name;
        some.choices.push_back(choice);
      }
    merge(results, some);
  };
  const auto slash = part.folder.find('/');
  add(part.folder.substr(0, slash), part.folder.substr(slash + 1));
  add(experiment, part.name);
  return results;
}

void ExperimentRuns::run(const std::string& experiment, const Part& part) {
  committed_ = committed_of(experiment, part);
  const std::map<std::string, std::string> values = choose(experiment, part);
  for (const std::string& protocol : part.protocols) {
    Plan plan = empty_plan(options_, part, protocol);
    for (const Index seed : seeds_of(part))
      for (const std::string& data : part.data)
        for (const std::string& attention : part.attentions) {
          const auto value = values.find(data);
          if (attention.find('*') == std::string::npos) {
            add_cell(plan, data, attention, seed);
          } else if (value != values.end()) {
            add_cell(plan, data, experiment::with_choice(attention, value->second), seed);
          }
        }
    Plan missing = plan;
    std::erase_if(missing.cells, [&](const Cell& cell) { return find_record(committed_, protocol, cell) != nullptr; });
    train(missing);
    for (const Cell& cell : plan.cells) {
      if (cell.finished()) {
        fresh.records.push_back(experiment::read_record(cell.folder, part.name, cell.data, cell.attention));
      } else if (const Record* record = find_record(committed_, protocol, cell)) {
        fresh.records.push_back(*record);
      }
    }
  }
}

// Per data set the value with the best validation accuracy; ties by loss, then the first.
std::map<std::string, std::string> ExperimentRuns::choose(const std::string& experiment, const Part& user) {
  std::map<std::string, std::string> values;
  if (open_attention(user).empty()) return values;
  const Part& part = experiment::chooser_of(user);
  const Results committed = committed_of(experiment, part);
  const std::string open = open_attention(part);
  constexpr Index seed = 0;  // whichever are asked for: runs of several calls make one experiment
  Plan plan = empty_plan(options_, part, "honest");
  for (const std::string& data : user.data)
    if (offers_in(committed, part, data).empty())
      for (const std::string& value : part.choices) add_cell(plan, data, experiment::with_choice(open, value), seed);
  train(plan);
  for (const std::string& data : user.data) {
    std::vector<Choice> offers = offers_in(committed, part, data);
    if (offers.empty()) {
      Results trained;
      for (const std::string& value : part.choices)
        for (const Cell& cell : plan.cells)
          if (cell.data == data && cell.attention == experiment::with_choice(open, value) && cell.finished()) {
            const Record record = experiment::read_record(cell.folder, part.name, data, cell.attention);
            trained.choices.push_back(
                {part.name, data, value, record.validation.value(), record.validation_loss.value()});
          }
      offers = offers_in(trained, part, data);
      if (offers.empty()) {
        if (!options_.train && !options_.quiet)
          print_message(
              fmt::format("{}: no value has been chosen for '{}', so its runs are left out; --extend takes the "
                          "committed choice\n",
                          data, open));
        continue;
      }
      std::ranges::min_element(offers, [](const auto& a, const auto& b) {
        return std::pair(-a.validation, a.validation_loss) < std::pair(-b.validation, b.validation_loss);
      })->chosen = true;
    }
    for (const Choice& offer : offers)
      if (offer.chosen) values[data] = offer.value;
    fresh.choices.insert(fresh.choices.end(), offers.begin(), offers.end());
  }
  return values;
}

void ExperimentRuns::train(Plan plan) {
  if (!options_.train || signal != 0 || late || std::ranges::all_of(plan.cells, &Cell::finished)) return;
  const PlanLock lock(plan);
  TrainOptions how{trainer(), static_cast<int>(options_.jobs), 1, options_.quiet};
  how.threads = std::max(1, threads() / how.jobs);
  if (options_.seconds > 0) {
    how.seconds = options_.seconds - std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    if (how.seconds <= 0) {
      late = true;
      return;
    }
  }
  const TrainResult result = train_cells(plan, how);
  signal = result.signal;
  late = result.late;
  for (std::size_t i = 0; i < plan.cells.size(); ++i)
    if (result.outcomes[i].state == CellState::failed)
      failed.push_back(fmt::format("{}: {}\n    log: {}", plan.cells[i].name(), result.outcomes[i].problem,
                                   plan.cells[i].log().string()));
}

}  // namespace saddle::cli

#include "saddle/experiment/budget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "saddle/base/text.hpp"

namespace saddle::experiment {

namespace {

constexpr double unknown_seconds = 300;
constexpr double smallest_share = 0.02;
constexpr double probe_share = 0.01;
// Loading, evaluation and writing, on top of the training that a record counts.
constexpr double around_training = 1.3;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Runs that only serve a choice: all of them, but for the chosen one if it is a run of the part too.
double choice_seconds(const Experiment& experiment, const Results& known, const Part& part, const std::string& data) {
  const Part& chooser = chooser_of(part);
  const auto is_chooser = [&](const Part& each) {
    return each.name == chooser.name && std::ranges::find(each.data, data) != each.data.end();
  };
  if (part.chooser && std::ranges::any_of(experiment.parts, is_chooser)) return 0;
  const bool has_honest = std::ranges::find(part.protocols, "honest") != part.protocols.end();
  for (const std::string& attention : chooser.attentions)
    if (attention.find('*') != std::string::npos)
      return static_cast<double>(chooser.choices.size() - (!part.chooser && has_honest ? 1 : 0)) *
             estimated_seconds(known, chooser, "honest", data, attention);
  return 0;
}

// Runs of the whole experiment per seed, and of the choices, which take one seed.
double seconds_of(const Experiment& experiment, const Results& known, Index seeds) {
  double sum = 0;
  for (const Part& part : experiment.parts)
    for (const std::string& data : part.data) {
      const auto runs = static_cast<double>(std::min(seeds, part.seeds));
      for (const std::string& protocol : part.protocols)
        for (const std::string& attention : part.attentions)
          sum += runs * estimated_seconds(known, part, protocol, data, attention);
      if (!part.choices.empty()) sum += choice_seconds(experiment, known, part, data);
    }
  return sum;
}

// The setting that says how long a part trains.
std::string& epochs_of(Part& part) {
  return std::ranges::find_if(
             part.settings,
             [](const auto& setting) { return setting.first == "train.epochs" || setting.first == "train.steps"; })
      ->second;
}

void reduce(Part& part, const Extent& extent) {
  part.seeds = std::min(part.seeds, extent.seeds);
  if (extent.epochs >= 1) return;
  std::string& count = epochs_of(part);
  count = fmt::format("{}", std::max(1LL, std::llround(extent.epochs * parse_number(count).value())));
  part.name += fmt::format("-e{}", count);
  part.folder += fmt::format("-e{}", count);
  part.title += fmt::format(" (cut to {} epochs or steps)", count);
}

// "softmax+bn(beta=*)" stands for every value.
bool stands_for(const std::string& pattern, const std::string& attention) {
  const auto star = pattern.find('*');
  if (star == std::string::npos) return pattern == attention;
  return attention.starts_with(pattern.substr(0, star)) && attention.ends_with(pattern.substr(star + 1));
}

}  // namespace

double estimated_seconds(const Results& known, const Part& part, const std::string& protocol, const std::string& data,
                         const std::string& attention) {
  std::vector<double> same, same_data, same_part;
  for (const Record& record : known.records) {
    if (record.part != part.name) continue;
    const double seconds = around_training * record.train_seconds;
    same_part.push_back(seconds);
    if (record.data != data) continue;
    same_data.push_back(seconds);
    if (record.protocol == protocol && stands_for(attention, record.attention)) same.push_back(seconds);
  }
  if (!same.empty()) return median(same);
  if (!same_data.empty()) return median(same_data);
  if (!same_part.empty()) return *std::ranges::max_element(same_part);
  return unknown_seconds;
}

std::vector<Probe> probes(const Experiment& experiment, const Results& known) {
  std::vector<Probe> list;
  for (const Part& part : experiment.parts)
    for (const std::string& data : part.data) {
      if (std::ranges::any_of(known.records,
                              [&](const Record& record) { return record.part == part.name && record.data == data; }))
        continue;
      Probe probe{part, part.name, 0};
      probe.part.data = {data};
      probe.part.protocols = {part.protocols.front()};
      const std::string& attention = part.attentions.front();
      const Part& chooser = chooser_of(part);
      probe.part.attentions = {chooser.choices.empty() ? attention : with_choice(attention, chooser.choices.front())};
      probe.part.choices.clear();
      probe.part.chooser.reset();
      const double whole = parse_number(epochs_of(probe.part)).value();
      reduce(probe.part, {1, probe_share, 0, 0});
      probe.times = whole / parse_number(epochs_of(probe.part)).value();
      list.push_back(probe);
    }
  return list;
}

Extent extent_within(const Experiment& experiment, const Results& known, double seconds, Index jobs) {
  Index most = 1;
  for (const Part& part : experiment.parts) most = std::max(most, part.seeds);
  // Records tell what a run took with the threads it had; two at a time take half.
  const auto together = static_cast<double>(std::max<Index>(1, jobs));
  Extent extent;
  extent.whole = seconds_of(experiment, known, most) / together;
  for (extent.seeds = most; extent.seeds > 1; --extent.seeds)
    if (seconds_of(experiment, known, extent.seeds) / together <= seconds) break;
  extent.seconds = seconds_of(experiment, known, extent.seeds) / together;
  if (extent.seconds > seconds) {
    extent.epochs = std::max(smallest_share, seconds / extent.seconds);
    extent.seconds *= extent.epochs;
  }
  return extent;
}

Experiment reduced(Experiment experiment, const Extent& extent) {
  for (Part& part : experiment.parts) {
    reduce(part, extent);
    if (!part.chooser) continue;
    Part chooser = *part.chooser;
    reduce(chooser, extent);
    part.chooser = std::make_shared<const Part>(std::move(chooser));
  }
  return experiment;
}

}  // namespace saddle::experiment

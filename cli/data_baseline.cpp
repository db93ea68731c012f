#include "data_baseline.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "output.hpp"

namespace saddle::cli {

std::string baseline_text(const data::Task& task, const eval::BaselineOptions& options) {
  const std::vector<eval::Baseline> all = eval::baselines(task, options);
  Table table({"baseline", "accuracy", "what it is"}, "lrl");
  for (const eval::Baseline& baseline : all)
    table.add({baseline.name, fmt::format("{:.1f} %", 100 * baseline.accuracy), baseline.what});
  const std::string fitted =
      options.limit > 0 ? fmt::format("at most {} training samples", options.limit) : "the training split";
  table.note(fmt::format("fitted on {}, scored on {} test samples", fitted, all.front().count));
  return table.text();
}

std::string baseline_json(const data::Task& task, const eval::BaselineOptions& options) {
  Json list = Json::array();
  for (const eval::Baseline& baseline : eval::baselines(task, options))
    list.push_back(
        {{"name", baseline.name}, {"accuracy", baseline.accuracy}, {"count", baseline.count}, {"what", baseline.what}});
  return json_text("saddle.data.baseline/1", {{"name", task.name}, {"baselines", list}});
}

}  // namespace saddle::cli

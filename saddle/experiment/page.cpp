#include "saddle/experiment/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "saddle/base/text.hpp"
#include "saddle/experiment/markdown_internal.hpp"
#include "saddle/experiment/sections_internal.hpp"

namespace saddle::experiment {

namespace {

std::string trimmed(const std::string& text) {
  const std::size_t from = text.find_first_not_of(" \n\t"), to = text.find_last_not_of(" \n\t");
  return from == std::string::npos ? "" : text.substr(from, to - from + 1);
}

// Every run that the page shows, once.
std::vector<const Record*> shown_records(const Material& material) {
  std::vector<const Record*> list;
  std::set<const Record*> seen;
  for (const Grid& grid : material.grids)
    for (std::size_t d = 0; d < grid.part().data.size(); ++d)
      for (std::size_t a = 0; a < grid.part().attentions.size(); ++a)
        for (const Record* record : grid.at(d, a))
          if (seen.insert(record).second) list.push_back(record);
  return list;
}

std::size_t planned_runs(const Experiment& experiment) {
  std::size_t count = 0;
  for (const Part& part : experiment.parts)
    count += part.data.size() * part.attentions.size() * part.protocols.size() * static_cast<std::size_t>(part.seeds);
  return count;
}

std::string summary_box(const Material& material, const std::vector<std::string>& sentences) {
  std::string text = "> **In short**\n>\n";
  const std::size_t done = shown_records(material).size(), planned = planned_runs(material.experiment);
  if (done == 0) return text + "> Nothing has been run yet.\n\n";
  for (const std::string& line : sentences) text += "> - " + line + "\n";
  if (done < planned)
    text += fmt::format("> - {} of the {} planned runs are in: what stands here can still change.\n", done, planned);
  return text + "\n";
}

// The distinct values of a field, in order.
template <class Get>
std::string distinct(const std::vector<const Record*>& records, Get get) {
  std::set<std::string> values;
  for (const Record* record : records)
    if (const std::string value = get(*record); !value.empty()) values.insert(value);
  return join(values);
}

std::string settings_text(const Settings& settings) {
  std::vector<std::string> items;
  for (const auto& [name, value] : settings) items.push_back(code(name + " = " + value));
  return items.empty() ? "the defaults of `saddle train`" : join(items);
}

std::string parts_text(const Experiment& experiment) {
  std::string text = "\nSettings of the parts:\n\n";
  for (const Part& part : experiment.parts) {
    text += fmt::format("- **{}** ({}): {}", part.title, code(part.name), settings_text(part.settings));
    if (!part.paper_settings.empty())
      text += fmt::format("; under the paper protocol also {}", settings_text(part.paper_settings));
    text += fmt::format("; {}; {}\n", counted(static_cast<std::size_t>(part.seeds), "seed"),
                        counted(part.protocols.size(), "protocol") + " (" + join(part.protocols) + ")");
  }
  return text;
}

std::string seeds_text(const std::vector<const Record*>& records) {
  std::set<Index> seeds;
  for (const Record* record : records) seeds.insert(record->seed);
  return fmt::format("{}", fmt::join(seeds, ", "));
}

std::string how_section(const Material& material) {
  const Experiment& experiment = material.experiment;
  const std::vector<const Record*> records = shown_records(material);
  std::string text = fmt::format("## How this was made\n\n```sh\n./dev reproduce {}\n```\n\n", experiment.name);
  if (!records.empty()) {
    double seconds = 0;
    std::set<std::string> days;
    for (const Record* record : records) {
      seconds += record->train_seconds;
      if (!record->started.empty()) days.insert(record->started.substr(0, 10));
    }
    text += fmt::format(
        "| | |\n|---|---|\n| machine | {} |\n| instruction set | {} |\n| threads per run | {} |\n| precision | {} |\n",
        escaped(distinct(records, [](const Record& record) { return record.cpu; })),
        escaped(distinct(records, [](const Record& record) { return record.isa; })),
        distinct(records, [](const Record& record) { return std::to_string(record.threads); }),
        escaped(distinct(records, [](const Record& record) { return record.precision; })));
    if (!days.empty())
      text += fmt::format("| date | {} |\n",
                          escaped(days.size() == 1 ? *days.begin() : *days.begin() + " to " + *days.rbegin()));
    text += fmt::format(
        "| version | {} |\n| seeds | {} |\n| runs | {} of {} planned |\n| training time, all runs | {:.1f} hours |\n",
        escaped(distinct(records, [](const Record& record) { return record.version; })), seeds_text(records),
        records.size(), planned_runs(experiment), seconds / 3600);
  }
  if (const std::size_t others = material.results.records.size() - records.size(); others > 0)
    text += fmt::format("\n{} of the raw file belong to no cell of the experiment as it is now and are not shown.\n",
                        counted(others, "record"));
  return text + parts_text(experiment) +
         fmt::format("\nRaw figures of every run: [{0}.json]({0}.json).\n", experiment.name);
}

}  // namespace

void add_plot(const Material& material, Written& out, const std::string& name, const std::string& svg,
              const std::string& description) {
  const std::string file = file_name(material.experiment.name + "-" + name) + ".svg";
  out.plots.emplace_back(file, svg);
  out.markdown += image(file, description);
}

Page page(const Experiment& experiment, const Results& results) {
  const Material material{experiment, results, grids(experiment, results)};
  Written body;
  for (const Section section : experiment.sections) switch (section) {
      case Section::accuracy: accuracy_section(material, body); break;
      case Section::choice: choice_section(material, body); break;
      case Section::distance: distance_section(material, body); break;
      case Section::cost: cost_section(material, body); break;
      case Section::sweep: sweep_section(material, body); break;
    }
  std::string text = fmt::format("# {}\n\n{}\n\n", experiment.title, trimmed(experiment.question));
  text += summary_box(material, body.summary) + body.markdown;
  if (!experiment.remarks.empty()) text += "## Remarks\n\n";
  for (const std::string& remark : experiment.remarks) text += trimmed(remark) + "\n\n";
  return {text + how_section(material), std::move(body.plots)};
}

}  // namespace saddle::experiment

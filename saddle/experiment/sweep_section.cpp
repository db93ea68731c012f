// Attentions that differ in one number: what accuracy each value of it gives.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "saddle/base/text.hpp"
#include "saddle/experiment/charts_internal.hpp"
#include "saddle/experiment/markdown_internal.hpp"
#include "saddle/experiment/sections_internal.hpp"
#include "saddle/experiment/verdict_internal.hpp"

namespace saddle::experiment {

namespace {

struct Member {
  double value = 0;
  std::size_t attention = 0;
};

struct Sweep {
  std::string option;           // "beta"
  std::string form;             // "softmax+bn(beta=...)"
  std::vector<Member> members;  // by value
  std::size_t baseline = 0;     // attention: that of value 0, or the first
};

// Attentions that are the same but for the number behind one '=': the largest such group, of at least three.
std::optional<Sweep> sweep_of(const Part& part) {
  std::map<std::pair<std::string, std::string>, std::vector<Member>> groups;  // what stands before and behind
  for (std::size_t a = 0; a < part.attentions.size(); ++a) {
    const std::string& text = part.attentions[a];
    for (std::size_t from = text.find('='); from != std::string::npos; from = text.find('=', from + 1)) {
      const std::size_t end = std::min(text.find_first_of(",)", from), text.size());
      if (const auto value = parse_number(std::string_view(text).substr(from + 1, end - from - 1)))
        groups[{text.substr(0, from + 1), text.substr(end)}].push_back({*value, a});
    }
  }
  const auto largest = std::max_element(groups.begin(), groups.end(),
                                        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  if (largest == groups.end() || largest->second.size() < 3) return {};
  Sweep sweep;
  const std::string& before = largest->first.first;
  const std::size_t name = before.find_last_of("(,", before.size() - 1) + 1;
  sweep.option = before.substr(name, before.size() - 1 - name);
  sweep.form = before + "..." + largest->first.second;
  sweep.members = largest->second;
  std::stable_sort(sweep.members.begin(), sweep.members.end(),
                   [](const Member& a, const Member& b) { return a.value < b.value; });
  for (const Member& member : sweep.members)
    if (member.value == 0) sweep.baseline = member.attention;
  return sweep;
}

bool is_member(const Sweep& sweep, std::size_t attention) {
  return std::any_of(sweep.members.begin(), sweep.members.end(),
                     [&](const Member& member) { return member.attention == attention; });
}

using Look = std::optional<eval::Spread> (*)(const Grid::Cell&);

// Values in columns, before them the baseline if it is none of them.
std::string sweep_table(const Grid& grid, const Sweep& sweep, Look look) {
  std::vector<std::string> header{"data set"};
  std::vector<std::size_t> columns;
  if (!is_member(sweep, sweep.baseline)) {
    header.push_back(code(grid.part().attentions[sweep.baseline]));
    columns.push_back(sweep.baseline);
  }
  for (const Member& member : sweep.members) {
    header.push_back(fmt::format("{} = {}", escaped(sweep.option), format_number(member.value)));
    columns.push_back(member.attention);
  }
  Table table(header, "l" + std::string(columns.size(), 'r'));
  for (const std::size_t d : grid.data()) {
    std::vector<std::string> row{data_name(grid.part().data[d])};
    for (const std::size_t a : columns) {
      const auto found = look(grid.at(d, a));
      row.push_back(found ? percent_text(*found) : "-");
    }
    table.add(std::move(row));
  }
  return table.text();
}

bool validated(const Grid& grid, const Sweep& sweep) {
  for (const std::size_t d : grid.data())
    for (const Member& member : sweep.members)
      if (validation_of(grid.at(d, member.attention))) return true;
  return false;
}

std::string sweep_plot(const Grid& grid, const Sweep& sweep) {
  PanelChart chart;
  chart.title = fmt::format("Accuracy by {}, {}", sweep.option, grid.title());
  chart.x_title = sweep.option, chart.y_title = "per cent ± standard error";
  chart.legend.push_back({"test", 0, false});
  const bool validation = validated(grid, sweep);
  if (validation) chart.legend.push_back({"validation", 1, true});
  for (const std::size_t d : grid.data()) {
    Panel panel{grid.part().data[d], {}, {}, false};
    if (const auto baseline = accuracy_of(grid.at(d, sweep.baseline))) panel.reference = 100 * baseline->mean;
    const auto add = [&](Look look, std::size_t style, bool hollow) {
      ChartSeries series{"", style, hollow, true, {}};
      for (const Member& member : sweep.members)
        if (const auto found = look(grid.at(d, member.attention))) {
          auto error = standard_error(*found);
          if (error) *error *= 100;
          series.points.push_back({member.value, 100 * found->mean, error});
        }
      panel.series.push_back(std::move(series));
    };
    if (validation) add(validation_of, 1, true);
    add(accuracy_of, 0, false);
    chart.panels.push_back(std::move(panel));
  }
  return draw(chart);
}

// The value of the best mean validation accuracy over the sets and seeds that all values have, and what it does on
// test.
std::string best_sentence(const Grid& grid, const Sweep& sweep) {
  std::vector<std::vector<double>> columns(sweep.members.size());
  for (const std::size_t d : grid.data()) {
    std::vector<Grid::Cell> cells;
    for (const Member& member : sweep.members) cells.push_back(grid.at(d, member.attention));
    std::vector<double> row;
    for (const Grid::Cell& cell : with_common_seeds(std::move(cells)))
      if (const auto found = validation_of(cell)) row.push_back(found->mean);
    if (row.size() != sweep.members.size()) continue;
    for (std::size_t i = 0; i < row.size(); ++i) columns[i].push_back(row[i]);
  }
  if (columns.front().empty())
    return "No data set has the validation accuracy of every value, so no value is called the best.";
  std::size_t best = 0;
  std::vector<double> means;
  for (const auto& column : columns) means.push_back(eval::spread(column).mean);
  for (std::size_t i = 0; i < means.size(); ++i)
    if (means[i] > means[best] + 1e-12) best = i;
  const Member& chosen = sweep.members[best];
  std::string text =
      fmt::format("{} = {} has the best validation accuracy on average over {} ({} per cent, the worst value {}).",
                  escaped(sweep.option), format_number(chosen.value), counted(columns.front().size(), "data set"),
                  percent_text(means[best]), percent_text(*std::min_element(means.begin(), means.end())));
  if (chosen.attention == sweep.baseline) return text + " That is the baseline itself.";
  const Versus found = versus(grid, chosen.attention, sweep.baseline);
  return found.data.empty() ? text : text + " On the test split: " + sentence(grid, found);
}

}  // namespace

void sweep_section(const Material& material, Written& out) {
  out.markdown += "## Sweep\n\n";
  bool first = true;
  for (const Grid& grid : material.grids) {
    const auto sweep = sweep_of(grid.part());
    if (!sweep) continue;
    const std::string best = best_sentence(grid, *sweep);
    if (first) out.summary.push_back(fmt::format("{}, {}: {}", code(sweep->form), grid.title(), best));
    first = false;
    out.markdown += fmt::format("### Sweep: {}\n\n{}: {} The dashed line of the plot is {}.\n\n", grid.title(),
                                code(sweep->form), best, code(grid.part().attentions[sweep->baseline]));
    add_plot(material, out, grid.file() + "-sweep", sweep_plot(grid, *sweep), "Accuracy by " + sweep->option);
    out.markdown += "Test accuracy in per cent, mean ± standard deviation (number of seeds):\n\n" +
                    sweep_table(grid, *sweep, accuracy_of);
    if (validated(grid, *sweep))
      out.markdown += "Validation accuracy at the chosen epoch:\n\n" + sweep_table(grid, *sweep, validation_of);
  }
  if (first) out.markdown += "No part has runs of three attentions or more that differ in one number.\n\n";
}

}  // namespace saddle::experiment

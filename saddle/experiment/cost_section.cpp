// What an attention costs against the one that it is made from, as length and width grow.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "saddle/base/text.hpp"
#include "saddle/experiment/charts_internal.hpp"
#include "saddle/experiment/markdown_internal.hpp"
#include "saddle/experiment/sections_internal.hpp"

namespace saddle::experiment {

namespace {

// Less is better in all of them: rates are turned into time.
struct Measure {
  std::string name;
  double (*value)(const Record&);
  double noise;  // ratios that are this close are not told apart
};

const std::array<Measure, 4>& measures() {
  static const std::array<Measure, 4> list{
      Measure{"multiply-adds", [](const Record& record) { return record.multiply_adds; }, 0.005},
      Measure{"training time", [](const Record& record) { return 1 / record.train_rate; }, 0.05},
      Measure{"inference time", [](const Record& record) { return 1 / record.inference_rate; }, 0.05},
      Measure{"memory", [](const Record& record) { return record.memory; }, 0.05}};
  return list;
}

// Up to the first '+' that stands outside parentheses.
std::string first_term(const std::string& attention) {
  int depth = 0;
  for (std::size_t i = 0; i < attention.size(); ++i) {
    if (attention[i] == '(') ++depth;
    if (attention[i] == ')') --depth;
    if (attention[i] == '+' && depth == 0) return attention.substr(0, i);
  }
  return attention;
}

// The attention that this one is made from, if the part has it, else the first.
std::size_t family_baseline(const Part& part, std::size_t attention) {
  const auto found = std::find(part.attentions.begin(), part.attentions.end(), first_term(part.attentions[attention]));
  return found == part.attentions.end() ? 0 : static_cast<std::size_t>(found - part.attentions.begin());
}

std::optional<double> median_of(const Grid::Cell& cell, const Measure& measure) {
  std::vector<double> values;
  for (const Record* record : cell)
    if (const double value = measure.value(*record); std::isfinite(value) && value > 0) values.push_back(value);
  return values.empty() ? std::nullopt : std::optional(median(values));
}

// One attention against its baseline on one data set.
struct Ratio {
  std::string data, attention, baseline;
  Index length = 0, width = 0;
  std::array<std::optional<double>, 4> ratio;  // by measure
};

// One of each part: the protocol changes nothing about the cost.
std::vector<Grid> cost_grids(const Material& material) {
  std::vector<Grid> list;
  for (const Grid& grid : material.grids)
    if (list.empty() || &list.back().part() != &grid.part()) list.push_back(grid);
  return list;
}

std::vector<Ratio> ratios_of(const std::vector<Grid>& grids) {
  std::vector<Ratio> list;
  for (const Grid& grid : grids)
    for (const std::size_t d : grid.data())
      for (const std::size_t a : grid.attentions()) {
        const std::size_t b = family_baseline(grid.part(), a);
        const Grid::Cell &ours = grid.at(d, a), &theirs = grid.at(d, b);
        if (a == b || ours.empty() || theirs.empty()) continue;
        Ratio entry{grid.part().data[d],  grid.part().attentions[a], grid.part().attentions[b],
                    ours.front()->length, ours.front()->width,       {}};
        for (std::size_t m = 0; m < measures().size(); ++m)
          if (const auto x = median_of(ours, measures()[m]), y = median_of(theirs, measures()[m]); x && y)
            entry.ratio[m] = *x / *y;
        list.push_back(std::move(entry));
      }
  return list;
}

// Points of one line: x -> the ratios there, several when several data sets have the same length and width.
using Line = std::map<Index, std::vector<double>>;
using Versus = std::pair<std::string, std::string>;  // attention, baseline

// What is compared, in the order of the experiment.
std::vector<Versus> compared(const std::vector<Ratio>& ratios) {
  std::vector<Versus> list;
  for (const Ratio& ratio : ratios)
    if (const Versus pair(ratio.attention, ratio.baseline); std::find(list.begin(), list.end(), pair) == list.end())
      list.push_back(pair);
  return list;
}

// Of x = length at a fixed width, or x = width at a fixed length.
Line line_of(const std::vector<Ratio>& ratios, const Versus& pair, std::size_t measure, bool by_length, Index fixed) {
  Line line;
  for (const Ratio& ratio : ratios)
    if (ratio.attention == pair.first && ratio.baseline == pair.second && ratio.ratio[measure] &&
        (by_length ? ratio.width : ratio.length) == fixed)
      line[by_length ? ratio.length : ratio.width].push_back(*ratio.ratio[measure]);
  return line;
}

std::string cost_plot(const std::vector<Ratio>& ratios, bool by_length, Index fixed) {
  PanelChart chart;
  chart.title = fmt::format("Cost against the baseline by {}", by_length ? "length" : "width");
  chart.x_title = by_length ? "length N" : "width", chart.y_title = "ratio to the baseline";
  chart.x_axis = XAxis::logarithmic;
  const std::vector<Versus> pairs = compared(ratios);
  for (std::size_t s = 0; s < pairs.size(); ++s)
    chart.legend.push_back({pairs[s].first + " / " + pairs[s].second, s, false});
  for (std::size_t m = 0; m < measures().size(); ++m) {
    Panel panel{measures()[m].name, {}, 1.0, true};
    for (std::size_t s = 0; s < pairs.size(); ++s) {
      ChartSeries series{"", s, false, true, {}};
      for (const auto& [x, values] : line_of(ratios, pairs[s], m, by_length, fixed))
        series.points.push_back({static_cast<double>(x), median(values), {}});
      panel.series.push_back(std::move(series));
    }
    chart.panels.push_back(std::move(panel));
  }
  return draw(chart);
}

std::string ratio_table(const std::vector<Ratio>& ratios) {
  Table table(
      {"N", "width", "data set", "attention", "against", "multiply-adds", "training time", "inference time", "memory"},
      "rrlllrrrr");
  std::vector<const Ratio*> order;
  for (const Ratio& ratio : ratios) order.push_back(&ratio);
  std::stable_sort(order.begin(), order.end(), [](const Ratio* a, const Ratio* b) {
    return std::pair(a->width, a->length) < std::pair(b->width, b->length);
  });
  for (const Ratio* ratio : order) {
    std::vector<std::string> row{std::to_string(ratio->length), std::to_string(ratio->width), data_name(ratio->data),
                                 code(ratio->attention), code(ratio->baseline)};
    for (const auto& value : ratio->ratio) row.push_back(value ? fmt::format("{:.2f}", *value) : "-");
    table.add(std::move(row));
  }
  constexpr std::size_t readable = 40;
  return table.size() > readable ? folded(fmt::format("{} rows", table.size()), table.text()) : table.text();
}

std::string scaled(double value) {
  static constexpr std::array<const char*, 5> prefixes{"", " k", " M", " G", " T"};
  std::size_t p = 0;
  while (value >= 999.5 && p + 1 < prefixes.size()) value /= 1000, ++p;
  return fmt::format("{:.3g}{}", value, prefixes[p]);
}

std::string measured_table(const std::vector<Grid>& grids) {
  Table table({"N", "width", "part", "data set", "attention", "runs", "multiply-adds", "trained per second",
               "inferred per second", "memory"},
              "rrlllrrrrr");
  for (const Grid& grid : grids)
    for (const std::size_t d : grid.data())
      for (const std::size_t a : grid.attentions()) {
        const Grid::Cell& cell = grid.at(d, a);
        if (cell.empty()) continue;
        std::vector<std::string> row{std::to_string(cell.front()->length), std::to_string(cell.front()->width),
                                     escaped(grid.part().title),           data_name(grid.part().data[d]),
                                     code(grid.part().attentions[a]),      std::to_string(cell.size())};
        for (std::size_t m = 0; m < measures().size(); ++m) {
          const auto value = median_of(cell, measures()[m]);
          const bool rate = m == 1 || m == 2;
          row.push_back(value ? scaled(rate ? 1 / *value : *value) + (m == 3 ? "B" : "") : "-");
        }
        table.add(std::move(row));
      }
  return folded("Medians over seeds, as measured", table.text());
}

// Does the ratio fall from the least to the greatest length, or width?
std::string growth_sentence(const std::vector<Ratio>& ratios, const Versus& pair, bool by_length, Index fixed) {
  std::vector<std::string> figures, grows, not_grows;
  Index least = 0, greatest = 0;
  for (std::size_t m = 0; m < measures().size(); ++m) {
    const Line line = line_of(ratios, pair, m, by_length, fixed);
    if (line.size() < 2) continue;
    least = line.begin()->first, greatest = line.rbegin()->first;
    const double first = median(line.begin()->second), last = median(line.rbegin()->second);
    figures.push_back(fmt::format("{} {:.2f} to {:.2f}", measures()[m].name, first, last));
    // A ratio that falls and stays above one is a smaller loss, not an advantage.
    const bool falls = last < first * (1 - measures()[m].noise) && last < 1;
    (falls ? grows : not_grows).push_back(measures()[m].name);
  }
  if (figures.empty()) return "";
  std::string verdict =
      grows.empty() ? "the advantage grows in none of them" : "the advantage grows in " + listed(grows);
  if (!grows.empty() && !not_grows.empty()) verdict += ", not in " + listed(not_grows);
  return fmt::format("{} against {} at {} {}, from {} {} to {}: {}; {}.", code(pair.first), code(pair.second),
                     by_length ? "width" : "N =", fixed, by_length ? "N =" : "width", least, greatest, join(figures),
                     verdict);
}

void add_plots(const Material& material, const std::vector<Ratio>& ratios, bool by_length, Written& out) {
  std::map<Index, std::set<Index>> places;  // fixed -> x
  for (const Ratio& ratio : ratios)
    places[by_length ? ratio.width : ratio.length].insert(by_length ? ratio.length : ratio.width);
  std::erase_if(places, [](const auto& place) { return place.second.size() < 2; });
  for (const auto& [fixed, xs] : places) {
    out.markdown += by_length ? fmt::format("### Cost by length at width {}\n\n", fixed)
                              : fmt::format("### Cost by width at N = {}\n\n", fixed);
    for (const Versus& pair : compared(ratios))
      if (const std::string line = growth_sentence(ratios, pair, by_length, fixed); !line.empty()) {
        out.markdown += "- " + line + "\n";
        // In short the narrowest width speaks for all.
        if (by_length && fixed == places.begin()->first) out.summary.push_back(line);
      }
    out.markdown += "\n";
    add_plot(material, out, fmt::format("{}-{}", by_length ? "length-at-width" : "width-at-length", fixed),
             cost_plot(ratios, by_length, fixed), "Ratios of cost to the baseline");
  }
}

}  // namespace

void cost_section(const Material& material, Written& out) {
  out.markdown +=
      "## Cost\n\n"
      "Ratios to the attention that each is made from (the same kernel without what stands behind the first +), below "
      "1 is "
      "cheaper: multiply-adds of one forward pass of the whole model, counted from the formulas; time per sample in "
      "training "
      "and in inference, measured; peak memory of the process, which holds libraries, data and optimiser too, so that "
      "its ratios "
      "lie nearer to 1 than those of attention alone. Medians over seeds.\n\n";
  const std::vector<Grid> grids = cost_grids(material);
  std::set<Index> threads;
  for (const Grid& grid : grids)
    for (const std::size_t d : grid.data())
      for (const std::size_t a : grid.attentions())
        for (const Record* record : grid.at(d, a)) threads.insert(record->threads);
  if (threads.size() > 1)
    out.markdown +=
        fmt::format("Runs had different numbers of threads ({}): times of such runs are not comparable.\n\n",
                    fmt::join(threads, ", "));
  const std::vector<Ratio> ratios = ratios_of(grids);
  if (!ratios.empty()) {
    add_plots(material, ratios, true, out);
    add_plots(material, ratios, false, out);
    out.markdown += "### Ratios\n\n" + ratio_table(ratios);
  }
  if (!grids.empty()) out.markdown += measured_table(grids);
}

}  // namespace saddle::experiment

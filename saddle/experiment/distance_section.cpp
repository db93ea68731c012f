// How far apart the outputs of the heads lie, layer by layer: as it is, and measured by the size of the outputs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "saddle/experiment/charts_internal.hpp"
#include "saddle/experiment/markdown_internal.hpp"
#include "saddle/experiment/sections_internal.hpp"
#include "saddle/experiment/verdict_internal.hpp"

namespace saddle::experiment {

namespace {

enum class Split { train, test };
enum class Kind { raw, relative };

const std::vector<LayerDistance>& distances(const Record& record, Split split) {
  return split == Split::train ? record.train_distance : record.test_distance;
}

// Over the seeds that have it.
template <class Value>
std::optional<eval::Spread> over_seeds(const Grid::Cell& cell, Split split, std::size_t layer, bool with_norm,
                                       Value value) {
  Grid::Cell measured;
  for (const Record* record : cell)
    if (const auto& layers = distances(*record, split); layer < layers.size() && (!with_norm || layers[layer].norm > 0))
      measured.push_back(record);
  return spread_of(measured, [&](const Record& record) { return value(distances(record, split)[layer]); });
}

std::optional<eval::Spread> distance_of(const Grid::Cell& cell, Split split, std::size_t layer, Kind kind) {
  const bool relative = kind == Kind::relative;
  return over_seeds(cell, split, layer, relative, [&](const LayerDistance& distance) {
    return relative ? distance.mean / distance.norm : distance.mean;
  });
}

std::size_t layers_of(const Grid& grid, std::size_t data) {
  std::size_t layers = 0;
  for (const std::size_t a : grid.attentions())
    for (const Record* record : grid.at(data, a))
      layers = std::max({layers, record->train_distance.size(), record->test_distance.size()});
  return layers;
}

std::string distance_text(const std::optional<eval::Spread>& found) {
  if (!found) return "-";
  return found->deviation ? fmt::format("{:.3g} ± {:.2g} ({})", found->mean, *found->deviation, found->count)
                          : fmt::format("{:.3g} ({})", found->mean, found->count);
}

std::string ratio_text(const std::optional<eval::Spread>& found, const std::optional<eval::Spread>& baseline) {
  return found && baseline && baseline->mean > 0 ? fmt::format("{:.2f}", found->mean / baseline->mean) : "-";
}

std::string distance_table(const Grid& grid, Split split) {
  Table table({"data set", "layer", "attention", "distance", "within a run", "ratio", "relative distance", "ratio"},
              "lrlrrrrr");
  for (const std::size_t d : grid.data())
    for (std::size_t layer = 0; layer < layers_of(grid, d); ++layer)
      for (const std::size_t a : grid.attentions()) {
        const Grid::Cell &cell = grid.at(d, a), &first = grid.at(d, 0);
        const auto raw = distance_of(cell, split, layer, Kind::raw),
                   relative = distance_of(cell, split, layer, Kind::relative),
                   deviation = over_seeds(cell, split, layer, false,
                                          [](const LayerDistance&distance) { return distance.deviation; });
        table.add({data_name(grid.part().data[d]), std::to_string(layer + 1), code(grid.part().attentions[a]),
                   distance_text(raw), deviation ? fmt::format("{:.3g}", deviation->mean) : "-",
                   ratio_text(raw, distance_of(first, split, layer, Kind::raw)), distance_text(relative),
                   ratio_text(relative, distance_of(first, split, layer, Kind::relative))});
      }
  return table.text();
}

Panel distance_panel(const Grid& grid, std::size_t data, Kind kind) {
  Panel panel{(kind == Kind::raw ? "distance, " : "relative distance, ") + grid.part().data[data], {}, {}, false};
  double least = INFINITY, most = 0;
  for (const std::size_t a : grid.attentions())
    for (const Split split : {Split::train, Split::test}) {
      ChartSeries series{"", a, split == Split::test, false, {}};
      for (std::size_t layer = 0; layer < layers_of(grid, data); ++layer)
        if (const auto found = distance_of(grid.at(data, a), split, layer, kind)) {
          series.points.push_back({static_cast<double>(layer), found->mean, standard_error(*found)});
          least = std::min(least, found->mean), most = std::max(most, found->mean);
        }
      panel.series.push_back(std::move(series));
    }
  panel.logarithmic_y = least > 0 && most > 10 * least;
  return panel;
}

std::string distance_plot(const Grid& grid) {
  PanelChart chart;
  chart.title = "Distance between heads, " + grid.title();
  chart.x_title = "layer", chart.y_title = "mean ± standard error";
  chart.x_axis = XAxis::categories;
  std::size_t layers = 0;
  for (const std::size_t d : grid.data()) layers = std::max(layers, layers_of(grid, d));
  for (std::size_t layer = 0; layer < layers; ++layer) chart.categories.push_back(std::to_string(layer + 1));
  for (const std::size_t a : grid.attentions()) chart.legend.push_back({grid.part().attentions[a], a, false});
  chart.notes = "filled: training split; hollow: test split";
  for (const std::size_t d : grid.data())
    if (layers_of(grid, d) > 0)
      for (const Kind kind : {Kind::raw, Kind::relative}) chart.panels.push_back(distance_panel(grid, d, kind));
  return draw(chart);
}

// Of an attention against the first, over data sets and layers: logarithms of the ratio, so that a layer of large
// distances weighs no more than one of small ones.
Paired larger(const Grid& grid, std::size_t attention, Split split, Kind kind) {
  std::vector<double> differences;
  for (const std::size_t d : grid.data())
    for (std::size_t layer = 0; layer < layers_of(grid, d); ++layer) {
      const auto found = distance_of(grid.at(d, attention), split, layer, kind),
                 baseline = distance_of(grid.at(d, 0), split, layer, kind);
      if (found && baseline && found->mean > 0 && baseline->mean > 0)
        differences.push_back(std::log(found->mean / baseline->mean));
    }
  return paired(differences);
}

std::size_t count_of(const Paired& pair) { return pair.more + pair.equal + pair.less; }
std::string share_text(const Paired& pair) { return fmt::format("{} of {}", pair.more, count_of(pair)); }

// The relative distance on the test split decides; the others are told beside it.
std::vector<std::string> verdicts(const Grid& grid) {
  struct Entry {
    std::size_t attention;
    Paired decisive;
  };
  std::vector<Entry> entries;
  for (const std::size_t a : grid.attentions())
    if (const Paired found = larger(grid, a, Split::test, Kind::relative); a > 0 && count_of(found) > 0)
      entries.push_back({a, found});
  std::vector<Paired*> family;
  for (Entry& entry : entries) family.push_back(&entry.decisive);
  adjust(family);
  std::vector<std::string> sentences;
  for (const Entry& entry : entries) {
    const Paired& found = entry.decisive;
    // Layers of the same runs are no independent evidence: one data set decides nothing, however deep the model.
    const bool one = grid.data().size() == 1, open = one || found.outcome == Outcome::undecided;
    sentences.push_back(fmt::format(
        "That heads of {} differ more than those of {} {}: the relative distance is larger in {} cells of data set x "
        "layer "
        "on the test split{} and in {} on the training split, the raw distance in {} and {}.",
        code(grid.part().attentions[entry.attention]), code(grid.part().attentions.front()),
        one    ? "cannot be decided with one data set"
        : open ? "cannot be decided with so few cells"
               : "is **" + word(found.outcome) + "**",
        share_text(found), open ? "" : fmt::format(" ({} over the cells)", test_text(found)),
        share_text(larger(grid, entry.attention, Split::train, Kind::relative)),
        share_text(larger(grid, entry.attention, Split::test, Kind::raw)),
        share_text(larger(grid, entry.attention, Split::train, Kind::raw))));
  }
  return sentences;
}

}  // namespace

void distance_section(const Material& material, Written& out) {
  out.markdown +=
      "## Distance between heads\n\n"
      "L2 distance between the outputs of two heads of a layer, averaged over pairs of heads, positions and samples: "
      "mean ± "
      "standard deviation over seeds (number of seeds). \"Within a run\" is the standard deviation over pairs, "
      "positions "
      "and samples. Ratios are to the first attention.\n\n"
      "The distance grows with the size of the outputs: outputs twice as large lie twice as far apart and are no less "
      "alike. "
      "The relative distance is the distance divided by the mean norm of a head's output; it is what tells whether "
      "heads are "
      "less redundant, and verdicts go by it. Layers of one model depend on each other, so p over cells of data set x "
      "layer is "
      "a guide rather than a proof.\n\n";
  bool first = true;
  for (const Grid& grid : material.grids) {
    const std::vector<std::size_t> data = grid.data();
    if (std::none_of(data.begin(), data.end(), [&](std::size_t d) { return layers_of(grid, d) > 0; })) continue;
    out.markdown += fmt::format("### Distance: {}\n\n", grid.title());
    const std::vector<std::string> sentences = verdicts(grid);
    for (const std::string& line : sentences) {
      out.markdown += "- " + line + "\n";
      if (first) out.summary.push_back(line);
    }
    if (!sentences.empty()) out.markdown += "\n";
    add_plot(material, out, grid.file() + "-distance", distance_plot(grid), "Distance between heads by layer");
    out.markdown += folded("Test split, every cell", distance_table(grid, Split::test)) +
                    folded("Training split, every cell", distance_table(grid, Split::train));
    first = false;
  }
}

}  // namespace saddle::experiment

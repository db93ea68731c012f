#include <fmt/format.h>

#include <algorithm>

#include "saddle/experiment/charts_internal.hpp"
#include "saddle/experiment/markdown_internal.hpp"
#include "saddle/experiment/sections_internal.hpp"
#include "saddle/experiment/verdict_internal.hpp"

namespace saddle::experiment {

namespace {

std::string verdict_table(const Grid& grid, const std::vector<Versus>& found) {
  Table table({"against " + code(grid.part().attentions.front()), "sets", "difference in points", "95 % interval",
               "better / equal / worse", "p (Wilcoxon)", "p (Holm)", "more accurate?"},
              "lrrrrrrl");
  for (const Versus& entry : found) {
    const Paired& sets = entry.sets;
    // One set has no spread between sets; that over its seeds stands for it.
    const eval::Spread& shown = entry.data.size() == 1 ? entry.points.front() : entry.mean;
    const bool several = entry.data.size() > 1;
    table.add({code(grid.part().attentions[entry.attention]), std::to_string(entry.data.size()),
               points_text(shown.mean) + (shown.deviation ? fmt::format(" ± {:.1f}", *shown.deviation) : "") +
                   (several ? "" : fmt::format(" ({})", counted(shown.count, "seed"))),
               interval_text(shown), fmt::format("{} / {} / {}", sets.more, sets.equal, sets.less),
               several ? p_text(sets.p) : "-", several ? p_text(sets.adjusted) : "-", word(sets.outcome)});
  }
  return table.text();
}

std::string difference_plot(const Grid& grid, const std::vector<Versus>& found) {
  RowChart chart;
  chart.title = "Difference to " + grid.part().attentions.front() + ", " + grid.title();
  chart.x_title = "points of test accuracy against " + grid.part().attentions.front() +
                  ", paired by seed; bars: standard error over seeds";
  const std::vector<std::size_t> data = grid.data();
  for (const std::size_t d : data) chart.rows.push_back(grid.part().data[d]);
  for (const Versus& entry : found) {
    ChartSeries series{grid.part().attentions[entry.attention], entry.attention - 1, false, false, {}};
    for (std::size_t i = 0; i < entry.data.size(); ++i) {
      const auto row = std::find(data.begin(), data.end(), entry.data[i]) - data.begin();
      series.points.push_back({entry.points[i].mean, static_cast<double>(row), standard_error(entry.points[i])});
    }
    chart.series.push_back(std::move(series));
  }
  return draw(chart);
}

// The grid that answers the question: the honest protocol before the other, then that with the most data sets.
const Grid* main_grid(const std::vector<Grid>& grids) {
  const Grid* best = nullptr;
  const auto sets = [](const Grid& grid) {
    std::size_t most = 0;
    for (const Versus& entry : against_baseline(grid)) most = std::max(most, entry.data.size());
    return std::pair(grid.protocol() == "honest" && most > 0, most);
  };
  for (const Grid& grid : grids)
    if (best == nullptr || sets(grid) > sets(*best)) best = &grid;
  return best;
}

// "Width 512, honest protocol: 1 of 4 confirmed"
std::string outcome_counts(const Grid& grid) {
  const std::vector<Versus> found = against_baseline(grid);
  const auto count = [&](Outcome outcome) {
    return std::count_if(found.begin(), found.end(),
                         [&](const Versus& entry) { return entry.sets.outcome == outcome; });
  };
  std::vector<std::string> words;
  for (const Outcome outcome : {Outcome::confirmed, Outcome::not_confirmed, Outcome::contradicted})
    if (const auto times = count(outcome); times > 0) words.push_back(fmt::format("{} {}", times, word(outcome)));
  if (const auto times = count(Outcome::undecided); times > 0)
    words.push_back(fmt::format("{} cannot be decided with so few sets", times));
  return fmt::format("{}, {} protocol: {}", grid.part().title, grid.protocol(), listed(words));
}

void summarise(const Material& material, Written& out) {
  const Grid* main = main_grid(material.grids);
  if (main == nullptr) return;
  const std::vector<Versus> found = against_baseline(*main);
  for (const Versus& entry : found)
    out.summary.push_back(&entry == &found.front() ? main->title() + ": " + sentence(*main, entry)
                                                   : capitalised(sentence(*main, entry)));
  std::vector<std::string> others;
  for (const Grid& grid : material.grids)
    if (&grid != main && !against_baseline(grid).empty()) others.push_back(outcome_counts(grid));
  if (!others.empty()) out.summary.push_back(fmt::format("In the other grids: {}.", fmt::join(others, "; ")));
  for (const Grid& grid : material.grids)
    if (grid.protocol() == "paper")
      for (const std::string& line : published_sentences(material, grid)) out.summary.push_back(line);
}

// The same models under the honest protocol, of the same part or another one; null without.
const Grid* honest_like(const std::vector<Grid>& grids, const Grid& paper) {
  const auto found = std::find_if(grids.begin(), grids.end(), [&](const Grid& grid) {
    return grid.protocol() == "honest" && grid.part().settings == paper.part().settings;
  });
  return found == grids.end() ? nullptr : &*found;
}

}  // namespace

void accuracy_section(const Material& material, Written& out) {
  out.markdown += "## Accuracy\n\n";
  if (material.grids.empty()) return;
  out.markdown +=
      "Test accuracy in per cent: mean ± standard deviation over seeds (number of seeds); the best of ours in bold; "
      "- where there is no figure. Averages are over the seeds that all of ours have. Differences are paired by data "
      "set and seed, then averaged per set. The 95 % interval is Student's, for the mean over data sets, over seeds "
      "where there is one set, each attention by itself, from three on; p is that of "
      "Wilcoxon's signed-rank test over data sets, exact, sets of equal accuracy left out, and corrected by Holm's "
      "rule for the number of attentions in the table.\n\n";
  summarise(material, out);
  for (const Grid& grid : material.grids) {
    out.markdown += fmt::format("### {}\n\n", grid.title()) + accuracy_table(material, grid);
    if (const std::vector<Versus> found = against_baseline(grid); !found.empty()) {
      add_plot(material, out, grid.file(), difference_plot(grid, found),
               "Difference to " + grid.part().attentions.front() + " in points, by data set");
      out.markdown += verdict_table(grid, found);
    }
    if (grid.protocol() == "paper")
      for (const std::string& line : published_sentences(material, grid)) out.markdown += line + "\n\n";
  }
  for (const Grid& paper : material.grids)
    if (paper.protocol() == "paper")
      out.markdown += fmt::format("### What the choice of the epoch makes: {}\n\n", paper.part().title) +
                      protocol_text(material, paper, honest_like(material.grids, paper));
}

}  // namespace saddle::experiment

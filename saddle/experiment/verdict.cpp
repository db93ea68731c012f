#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "saddle/experiment/markdown_internal.hpp"
#include "saddle/experiment/verdict_internal.hpp"

namespace saddle::experiment {

Paired paired(const std::vector<double>& differences) {
  Paired result;
  std::vector<double> unequal, size;
  for (const double difference : differences) {
    ++(difference > 0 ? result.more : difference < 0 ? result.less : result.equal);
    if (difference == 0) continue;
    unequal.push_back(difference);
    size.push_back(std::abs(difference));
  }
  if (unequal.empty()) return result;
  result.p = eval::wilcoxon(unequal, std::vector<double>(unequal.size())).p;
  const std::vector<double> ranks = eval::ranks(size);
  double sum = 0;
  for (std::size_t i = 0; i < unequal.size(); ++i) sum += unequal[i] > 0 ? ranks[i] : -ranks[i];
  result.upwards = sum > 0;
  return result;
}

void adjust(std::vector<Paired*> family) {
  std::vector<double> p;
  for (const Paired* pair : family) p.push_back(pair->p);
  const std::vector<double> adjusted = eval::holm(p);
  for (std::size_t i = 0; i < family.size(); ++i) {
    Paired& pair = *family[i];
    pair.adjusted = adjusted[i];
    pair.together = family.size();
    // All pairs on one side is the clearest that can happen: two of 2^n outcomes.
    const auto pairs = static_cast<double>(pair.more + pair.equal + pair.less);
    pair.smallest = std::min(1.0, static_cast<double>(family.size()) * std::exp2(1 - pairs));
    pair.outcome = pair.smallest > significance   ? Outcome::undecided
                   : pair.adjusted > significance ? Outcome::not_confirmed
                   : pair.upwards                 ? Outcome::confirmed
                                                  : Outcome::contradicted;
  }
}

Versus versus(const Grid& grid, std::size_t attention, std::size_t baseline) {
  Versus result;
  result.attention = attention, result.baseline = baseline;
  std::vector<double> means;
  for (std::size_t d = 0; d < grid.part().data.size(); ++d)
    if (const auto points = paired_points(grid.at(d, attention), grid.at(d, baseline))) {
      result.data.push_back(d);
      result.points.push_back(*points);
      means.push_back(points->mean);
    }
  if (means.empty()) return result;
  result.mean = eval::spread(means);
  result.sets = paired(means);
  adjust({&result.sets});
  return result;
}

std::vector<Versus> against_baseline(const Grid& grid) {
  std::vector<Versus> list;
  for (std::size_t a = 1; a < grid.part().attentions.size(); ++a)
    if (Versus found = versus(grid, a, 0); !found.data.empty()) list.push_back(std::move(found));
  std::vector<Paired*> family;
  for (Versus& entry : list) family.push_back(&entry.sets);
  adjust(family);
  return list;
}

std::string test_text(const Paired& pair) {
  return "Wilcoxon " + p_equation(pair.adjusted) + (pair.together > 1 ? " after Holm" : "");
}

std::string word(Outcome outcome) {
  switch (outcome) {
    case Outcome::confirmed: return "confirmed";
    case Outcome::not_confirmed: return "not confirmed";
    case Outcome::contradicted: return "contradicted";
    case Outcome::undecided: break;
  }
  return "cannot be decided";
}

std::string sentence(const Grid& grid, const Versus& found) {
  const std::string claim =
      fmt::format("that {} is more accurate than {}", code(grid.part().attentions[found.attention]),
                  code(grid.part().attentions[found.baseline]));
  const auto deviation = [](const eval::Spread& spread) {
    const std::string interval = interval_text(spread);
    return (interval == "-" ? "" : "95 % interval " + interval + ", ") +
           (spread.deviation ? fmt::format("standard deviation {:.1f}", *spread.deviation) : "");
  };
  if (found.data.size() == 1) {
    const eval::Spread& points = found.points.front();
    return fmt::format("{} cannot be decided with one data set: on {}, {} points on average over {}{}.", claim,
                       data_name(grid.part().data[found.data.front()]), points_text(points.mean),
                       counted(points.count, "seed"), points.deviation ? " (" + deviation(points) + ")" : "");
  }
  const Paired& sets = found.sets;
  const std::string measured = fmt::format(
      "{} points on average over {} data sets ({} between sets; better on {}, equal on {}, worse on {}",
      points_text(found.mean.mean), found.data.size(), deviation(found.mean), sets.more, sets.equal, sets.less);
  if (sets.outcome == Outcome::undecided)
    return fmt::format("{} cannot be decided with so few sets: {}; Wilcoxon's p cannot get below {} here).", claim,
                       measured, p_text(sets.smallest));
  return fmt::format("{} is **{}**: {}; {}).", claim, word(sets.outcome), measured, test_text(sets));
}

}  // namespace saddle::experiment

// What the numbers say about one attention against another, by fixed rules.
#pragma once

#include <string>
#include <vector>

#include "saddle/experiment/grid_internal.hpp"

namespace saddle::experiment {

constexpr double significance = 0.05;

enum class Outcome { confirmed, not_confirmed, contradicted, undecided };

// Pairs of values that should differ in one direction: a larger than b.
struct Paired {
  std::size_t more = 0, equal = 0, less = 0;
  double p = 1, adjusted = 1;  // Wilcoxon's signed-rank test, exact, equal pairs left out; adjusted by Holm's rule
  std::size_t together = 1;    // how many were tested
  bool upwards = false;        // the signed ranks add up to more than nothing
  double smallest = 1;         // that `adjusted` could have become
  Outcome outcome = Outcome::undecided;
};
Paired paired(const std::vector<double>& differences);
// Sets `adjusted`, `smallest` and `outcome` of those that are tested together.
void adjust(std::vector<Paired*> family);

// An attention against another over the data sets where both have common seeds.
struct Versus {
  std::size_t attention = 0, baseline = 0;
  std::vector<std::size_t> data;
  std::vector<eval::Spread> points;  // per data set, paired by seed
  eval::Spread mean;                 // over data sets
  Paired sets;
};
Versus versus(const Grid& grid, std::size_t attention, std::size_t baseline);

// Every attention that can be compared with the first.
std::vector<Versus> against_baseline(const Grid& grid);

// "Wilcoxon p = 0.031 after Holm"; without the last words when there was nothing to correct for.
std::string test_text(const Paired& pair);

// "confirmed", "not confirmed", "contradicted", "cannot be decided"
std::string word(Outcome outcome);

// "that `softmax+sh` is more accurate than `softmax` is **not confirmed**: +0.4 points on average ..", to follow a
// colon or to be capitalised.
std::string sentence(const Grid& grid, const Versus& versus);

}  // namespace saddle::experiment

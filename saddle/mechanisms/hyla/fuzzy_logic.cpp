#include "saddle/mechanisms/hyla/fuzzy_logic.hpp"

#include <algorithm>

namespace saddle::mechanisms::hyla::fuzzy_logic {

namespace {

double literal(std::uint8_t bit, double x) { return bit != 0 ? x : 1 - x; }

// All subsets of `terms` of the conjunctions [begin,end), appended to `list`.
void add_subsets(Index begin, Index end, Index variables, Index terms, const Bits& start, std::vector<Bits>& list) {
  if (terms == 0) {
    list.push_back(start);
    return;
  }
  for (Index conjunction = begin; conjunction + terms <= end; ++conjunction) {
    Bits longer = start;
    for (Index v = variables; v-- > 0;) longer.push_back(static_cast<std::uint8_t>(conjunction >> v & 1));
    add_subsets(conjunction + 1, end, variables, terms - 1, longer, list);
  }
}

}  // namespace

double value_of(const Bits& function, std::span<const double> x) {
  double most = 0;
  for (std::size_t term = 0; term < function.size(); term += x.size()) {
    double least = 1;
    for (std::size_t v = 0; v < x.size(); ++v) least = std::min(least, literal(function[term + v], x[v]));
    most = std::max(most, least);
  }
  return most;
}

double product_of(const Bits& function, std::span<const double> x) {
  double none = 1;
  for (std::size_t term = 0; term < function.size(); term += x.size()) {
    double all = 1;
    for (std::size_t v = 0; v < x.size(); ++v) all *= literal(function[term + v], x[v]);
    none *= 1 - all;
  }
  return 1 - none;
}

Functions functions(Index variables, Index terms) {
  const Index conjunctions = Index{1} << variables, first_other = conjunctions - conjunctions / 4;
  Functions made;
  add_subsets(0, first_other, variables, terms, {}, made.known);
  add_subsets(first_other, conjunctions, variables, terms, {}, made.other);
  return made;
}

}  // namespace saddle::mechanisms::hyla::fuzzy_logic

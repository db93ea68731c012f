#include "saddle/mechanisms/hyla/sraven.hpp"

#include "saddle/base/error.hpp"

namespace saddle::mechanisms::hyla::sraven {

Square<Index> grid_of(int rule, const Draws& draws, Index modulus) {
  if (rule < 0 || rule >= rule_count)
    throw InvalidArgument("S-RAVEN has the rules 0 to 7, found " + std::to_string(rule));
  constexpr std::array<Index, 5> steps{0, 1, 2, -1, -2};
  const auto wrapped = [modulus](Index value) { return (value % modulus + modulus) % modulus; };
  Square<Index> grid{};
  for (std::size_t row = 0; row < size; ++row) {
    const Index a = draws.first[row], b = draws.second[row];
    for (std::size_t column = 0; column < size; ++column) {
      Index value = 0;
      if (rule < 5)
        value = wrapped(a + steps[static_cast<std::size_t>(rule)] * static_cast<Index>(column));
      else if (rule == 7)
        value = draws.symbols.at(static_cast<std::size_t>(draws.permutations[row][column]));
      else
        value = column == 0 ? a : column == 1 ? b : wrapped(rule == 5 ? a + b : a - b);
      grid[row][column] = value;
    }
  }
  return grid;
}

Square<std::vector<Index>> panels_of(const std::vector<Square<Index>>& features,
                                     const std::array<std::vector<Index>, size>& permutations) {
  Square<std::vector<Index>> panels;
  for (std::size_t row = 0; row < size; ++row)
    for (std::size_t column = 0; column < size; ++column)
      for (const Index feature : permutations[column])
        panels[row][column].push_back(features.at(static_cast<std::size_t>(feature))[row][column]);
  return panels;
}

std::vector<Index> context_of(const Square<std::vector<Index>>& panels) {
  std::vector<Index> context;
  for (std::size_t panel = 0; panel + 1 < size * size; ++panel) {
    const std::vector<Index>& features = panels[panel / size][panel % size];
    context.insert(context.end(), features.begin(), features.end());
  }
  return context;
}

std::vector<std::vector<int>> combinations(int features) {
  std::vector<std::vector<int>> lists{{}};
  for (int f = 0; f < features; ++f) {
    std::vector<std::vector<int>> longer;
    for (const auto& list : lists)
      for (int rule = list.empty() ? 0 : list.back(); rule < rule_count; ++rule) {
        longer.push_back(list);
        longer.back().push_back(rule);
      }
    lists = std::move(longer);
  }
  return lists;
}

}  // namespace saddle::mechanisms::hyla::sraven

// The tree of a formula. Internal to derivation/formula.hpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace saddle::primal::formula {

enum class Kind { row, identifier, number, symbol, big, text, wide_space, fence, fraction, root, accent, script };

struct Node {
  Kind kind = Kind::row;
  bool blank_before = false;   // in the source
  bool stretchy = false;       // fence written with \\left and \\right
  std::string text;            // plain form of a leaf, first delimiter of a fence, combining character of an accent
  std::string close;           // second delimiter of a fence, spacing character of an accent
  std::vector<Node> children;  // row, fence: items; fraction: two; script: base, sub, sup (empty rows if absent)
};

// Throws Error, with the position, on anything outside the subset.
Node parse(std::string_view latex);

}  // namespace saddle::primal::formula

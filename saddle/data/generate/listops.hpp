// ListOps of the Long Range Arena: nested prefix expressions over digits, the answer is a digit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "saddle/base/random.hpp"
#include "saddle/data/generate/generate.hpp"

namespace saddle::data {

// 0 padding, 1 .. 10 the digits 0 .. 9, 11 [MIN, 12 [MAX, 13 [MED, 14 [SM, 15 the closing bracket.
using Expression = std::vector<std::uint8_t>;

struct ListopsRules {
  Index min = 500, max = 2000;  // lengths strictly between them
  Index depth = 10;             // of the deepest digit; the root has 1
  Index arguments = 10;         // of an operator at most
};

// One tree, of any length below rules.max; nothing if it grew beyond.
std::optional<Expression> draw_listops(Stream& stream, const ListopsRules& rules);

// MED of an even number of arguments is the mean of the middle two, cut to a whole number; SM the sum modulo 10.
// Throws InvalidArgument if it is no expression.
int listops_value(std::span<const std::uint8_t> expression);

// The left-nested form in which the makers of the task write it: "( ( ( [MAX 2 ) 9 ) ] )".
std::string listops_text(std::span<const std::uint8_t> expression);
// Back again, with or without the parentheses.
Expression parse_listops(const std::string& text);

Generator listops_generator();

}  // namespace saddle::data

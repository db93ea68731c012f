// Text to terms: the grammar of the written form, before any name means something.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "saddle/primal/written.hpp"

namespace saddle::primal {

// Where in the text something is wrong; parse() turns it into the error the user sees.
struct Mistake {
  std::size_t position;
  std::string message, hint;
};

// Throws InvalidArgument with the text and the place in it.
[[noreturn]] void report(const Mistake& mistake, std::string_view text);

// part := name [ '(' [argument { ',' argument }] ')' ], parts joined by '+'; argument := [name '='] value. Throws
// Mistake.
std::vector<Term> read_terms(std::string_view text);

}  // namespace saddle::primal

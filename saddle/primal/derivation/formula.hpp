// Formulas of the derivation. Each is written once, in a small subset of LaTeX, and read into a tree that is also
// printed as plain text and as MathML.
#pragma once

#include <string>
#include <string_view>

#include "saddle/base/export.hpp"

namespace saddle::primal {

// One line of Unicode text; throws Error on a source it cannot read. Blanks of the source are kept, so a source is
// spaced the way it should be read.
SADDLE_API std::string to_plain(std::string_view latex);
// The content of a <math> element.
SADDLE_API std::string to_mathml(std::string_view latex);

// Columns that UTF-8 text takes on a terminal.
SADDLE_API std::size_t display_width(std::string_view text);
// < > & " as entities.
SADDLE_API std::string escape_html(std::string_view text);

}  // namespace saddle::primal

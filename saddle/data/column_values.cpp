#include "saddle/data/column_values.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "saddle/base/error.hpp"
#include "saddle/data/class_names.hpp"
#include "saddle/data/number.hpp"

namespace saddle::data {

void ColumnValues::add(const CsvField& field) {
  const std::string_view text = trimmed(field.text);
  double value = 0;
  const Found found = read_field(text, value);
  if (found == Found::missing) return;
  if (found == Found::number) {
    low_ = count_ == others_ ? value : std::min(low_, value);
    high_ = count_ == others_ ? value : std::max(high_, value);
    whole_ = whole_ && value == std::floor(value);
  }
  ++count_;
  others_ += found == Found::number ? 0 : 1;
  large_ += found == Found::too_large ? 1 : 0;
  if (found != Found::number && numbers_) {
    numbers_ = whole_ = false;
    line_ = field.line;
    column_ = field.column;
    other_ = text;
  }
  if (texts_.size() <= most_categories && texts_.find(text) == texts_.end()) texts_.emplace(text);
}

std::vector<std::string> ColumnValues::categories() const { return class_names({texts_.begin(), texts_.end()}); }

double ColumnValues::offset() const {
  return numbers_ && high_ > low_ && std::abs(low_) > 4096 * (high_ - low_) ? low_ : 0;
}

void ColumnValues::check(const std::string& name, const std::string& file) const {
  // Numbers and numbers that are too large: nobody means names by that. An infinity is a word first.
  const bool large = !numbers_ && large_ == others_;
  if (large && other_.find_first_of("0123456789") != std::string::npos)
    throw_too_large(name, file, line_, column_, other_);
  // A few words among many different numbers are mistakes and no categories.
  if (!numbers_ && others_ * 10 < count_ && texts_.size() > 20)
    throw DataError(file, line_, column_,
                    fmt::format("column '{}': found '{}', but {} of its {} values are numbers", name,
                                other_.substr(0, 40), count_ - others_, count_),
                    "correct the value, leave it empty if it is missing, or leave the column out");
  if (large) throw_too_large(name, file, line_, column_, other_);
  if (!numbers_ && too_many())
    throw DataError(file, line_, column_,
                    fmt::format("column '{}': found '{}', which is no number, and the column has more than {} "
                                "different values, too many for categories",
                                name, other_.substr(0, 40), most_categories),
                    "correct the value, or leave the column out");
}

void throw_too_large(const std::string& column, const std::string& file, long line, long place, std::string_view text) {
  throw DataError(file, line, place,
                  fmt::format("column '{}' has values too large for their squares: found '{}', numbers go up to {:.2g}",
                              column, text.substr(0, 40), std::numeric_limits<float>::max()),
                  "give the column in larger units, or leave it out");
}

}  // namespace saddle::data

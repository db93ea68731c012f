// Tables of observations as text: a line of names, then one line per observation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/base/view.hpp"

namespace saddle::analysis::causal_discovery {

// More categories than this in a column are numbers that somebody took for categories.
inline constexpr std::int32_t most_categories = 100;

struct Table {
  std::string file;  // as it is called in messages
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> columns;  // the fields, without blanks around them; equal numbers alike
  std::vector<long> lines;                        // where each row stands in the file

  Index rows() const { return static_cast<Index>(lines.size()); }
  // The table with these columns only, in this order, each given by name or by number from 0. Throws InvalidArgument.
  SADDLE_API Table select(const std::vector<std::string>& wanted) const;
  // The first rows alone. Throws InvalidArgument where there are not as many.
  SADDLE_API void keep(Index count);
  // Throws DataError at the first missing value (empty, ?, NA, NaN).
  SADDLE_API void require_complete() const;
  // Leaves rows with missing values out; how many. Throws DataError where none is left.
  SADDLE_API Index drop_incomplete();
  // All fields as finite numbers [rows, columns]. Throws DataError.
  SADDLE_API Matrix numbers() const;
  // The fields of each column as numbers from 0, in the order of the sorted fields.
  SADDLE_API std::vector<std::vector<std::int32_t>> categories() const;
  // Names of the columns with few different values, but more than one, or with a field that is no number.
  SADDLE_API std::vector<std::string> discrete() const;
  // Names of the columns whose values repeat too seldom for categories: numbers with fewer than 5 rows for each
  // different value, words with fewer than 2, and whatever has over 100 of them.
  SADDLE_API std::vector<std::string> scattered() const;
  // Whether all fields are numbers.
  SADDLE_API bool numeric() const;
};

// Fields are separated by whichever of comma, semicolon, tab and blank the first line has, in this order; quotes as in
// CSV. Throws DataError for lines of another length, equal names, no rows.
SADDLE_API Table parse_table(std::string_view text, const std::string& file);
// The bytes of a file; nothing if it cannot be read.
SADDLE_API std::optional<std::string> read_bytes(const std::string& file);
// Throws IoError, and DataError as parse_table does.
SADDLE_API Table read_table(const std::string& file);

}  // namespace saddle::analysis::causal_discovery

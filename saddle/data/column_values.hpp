// What the values of a column of a table are: numbers, or names.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "saddle/data/csv.hpp"

namespace saddle::data {

// Gathered row by row.
class ColumnValues {
 public:
  void add(const CsvField& field);

  bool numbers() const { return numbers_; }
  Index count() const { return count_; }  // of values that are not missing
  bool whole() const { return whole_; }   // all of them whole numbers
  // The different values, as long as they are few enough to be categories: see class_names.hpp.
  std::vector<std::string> categories() const;
  bool too_many() const { return texts_.size() > most_categories; }
  // A float has 24 bits: what all numbers share is taken off before it eats them.
  double offset() const;
  // The column named so is neither one of numbers nor one of categories, or has numbers beyond the range of float,
  // which are no names either: throws DataError at what gives it away.
  void check(const std::string& name, const std::string& file) const;

 private:
  static constexpr std::size_t most_categories = 256;

  bool numbers_ = true, whole_ = true;
  long line_ = 0, column_ = 0;  // of the first that is no number
  std::string other_;
  std::set<std::string, std::less<>> texts_;
  Index count_ = 0, others_ = 0;  // values, and those that are no numbers
  Index large_ = 0;               // of the others, numbers beyond the range of float
  double low_ = 0, high_ = 0;     // of the numbers
};

// A number beyond the range of float, where one is expected.
[[noreturn]] void throw_too_large(const std::string& column, const std::string& file, long line, long place,
                                  std::string_view text);

}  // namespace saddle::data

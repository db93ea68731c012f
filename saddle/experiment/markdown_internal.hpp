// Markdown as GitHub reads it: tables, notes under them, names that stay names, numbers for people.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saddle/eval/statistics.hpp"

namespace saddle::experiment {

// Names that come from files: no mark of Markdown or HTML in them takes effect.
std::string escaped(std::string_view text);
// The written form of an attention, as code.
std::string code(std::string_view text);
// A name that may be a word or a written form: "JapaneseVowels", `listops(min=20,max=100)`.
std::string data_name(std::string_view text);

class Table {
 public:
  // `alignment` has one letter per column, l or r.
  Table(std::vector<std::string> header, std::string alignment);
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::size_t size() const { return rows_.size(); }
  // With an empty line behind it.
  std::string text() const;

 private:
  std::string alignment_;
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

// Numbered notes of a table; the same text has one number.
class Notes {
 public:
  // The mark to put behind what the note is about.
  std::string mark(const std::string& note);
  std::string text() const;

 private:
  std::vector<std::string> notes_;
};

// What fits badly on a page, to be opened by the reader.
std::string folded(const std::string& summary, const std::string& text);
std::string image(const std::string& file, const std::string& description);

// "98.3 ± 0.4 (5)": of shares, in per cent, and how many.
std::string percent_text(const eval::Spread& shares);
std::string percent_text(double share);
// "+0.4", never "-0.0".
std::string points_text(double points);
// "-0.8 to +0.4", the 95 % interval of the mean; "-" for fewer than three values, which leave nearly everything open.
std::string interval_text(const eval::Spread& points);
// "0.031", "< 0.001"
std::string p_text(double p);
// "p = 0.031", "p < 0.001"
std::string p_equation(double p);
// "1 run", "5 runs"; the plural with s, or as given.
std::string counted(std::size_t count, const std::string& one, const std::string& many = "");
std::string capitalised(std::string sentence);
// "a", "a and b", "a, b and c"
std::string listed(const std::vector<std::string>& items);

}  // namespace saddle::experiment

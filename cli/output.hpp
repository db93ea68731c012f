// What commands print: results on stdout, everything else on stderr; text that fits the terminal, tables, numbers,
// JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "saddle/base/view.hpp"

namespace saddle::cli {

using Json = nlohmann::ordered_json;

// Makes sure that the three standard descriptors are taken, so that no file opened later is mistaken for one of them,
// and that a reader who leaves early does not kill the program.
void prepare_output();

// Results. A reader who leaves early is no error, and the rest is dropped; any other failure throws IoError.
void print(std::string_view text);
void print_json(std::string_view schema, const Json& document);
// The document with its `schema` first, as text.
std::string json_text(std::string_view schema, const Json& document);
// Writes to the file if there is a name, else to stdout.
void print_or_write(const std::string& file, std::string_view text);
// Text for people on stderr.
void print_message(std::string_view text);
// "saddle: message", "hint: hint" on stderr.
void print_error(std::string_view message, std::string_view hint);

// Colour appears only on a terminal, and not if the environment variable NO_COLOR is set.
std::string bold(std::string_view text);
std::string dim(std::string_view text);
std::string green(std::string_view text);
std::string red(std::string_view text);

// Columns on the screen: one per code point, none for colour.
std::size_t display_width(std::string_view text);
// Breaks lines at blanks to the width of the terminal, or 100 columns; every line is indented and ends in a newline.
std::string wrap(std::string_view text, std::size_t indent);

// Columns padded to their widest cell. On a terminal the last column is wrapped.
class Table {
 public:
  // `alignment` has one letter per column, l or r.
  Table(std::vector<std::string> header, std::string alignment);
  void add(std::vector<std::string> row);
  // A line of its own below the last row.
  void note(std::string text);
  std::string text(std::size_t indent = 0) const;

 private:
  std::string alignment_;
  std::vector<std::vector<std::string>> rows_;  // a row with one cell in a wider table is a note
};

// Numbers for people: "1.07 G", "4.2 MB", "3.1 ms", "1.2e-15", "0.469".
std::string count_text(double value);
std::string bytes_text(double bytes);
std::string seconds_text(double seconds);
std::string error_text(double error);
std::string number_text(double value);

}  // namespace saddle::cli

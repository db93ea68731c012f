#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "saddle/base/text.hpp"
#include "saddle/data/number.hpp"
#include "saddle/data/ts.hpp"

namespace saddle::data {

namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

struct Word {
  std::string_view text;
  long column = 0;  // from 1
};

std::vector<Word> words_of(std::string_view line) {
  std::vector<Word> words;
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t", at)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    words.push_back({line.substr(at, end - at), static_cast<long>(at) + 1});
    at = end;
  }
  return words;
}

constexpr std::array<std::string_view, 11> known_flags = {
    "@problemName", "@timeStamps",   "@missing",    "@univariate",  "@dimensions", "@dimension",
    "@equalLength", "@seriesLength", "@classLabel", "@targetLabel", "@data"};

class HeaderReader {
 public:
  HeaderReader(const std::string& file, TsHeader& header) : file_(file), header_(header) {}

  // False at @data.
  bool read(const Line& line) {
    line_ = line.number;
    const std::vector<Word> words = words_of(line.text);
    const std::string flag = lower(words[0].text);
    if (flag == "@data") return end(words);
    if (flag == "@problemname") {
      set(header_.problem_name, words, words.size() > 1 ? std::string(words[1].text) : std::string());
    } else if (flag == "@timestamps") {
      set(header_.time_stamps, words, truth(words));
      refuse_time_stamps();
    } else if (flag == "@missing") {
      set(header_.missing, words, truth(words));
    } else if (flag == "@univariate") {
      set(header_.univariate, words, truth(words));
    } else if (flag == "@dimensions" || flag == "@dimension") {
      set(header_.dimensions, words, count(words));
    } else if (flag == "@equallength") {
      set(header_.equal_length, words, truth(words));
    } else if (flag == "@serieslength") {
      set(header_.series_length, words, count(words));
    } else if (flag == "@classlabel") {
      read_labels(words);
    } else if (flag == "@targetlabel") {
      refuse_regression(words);
    } else {
      unknown(words[0]);
    }
    return true;
  }

 private:
  [[noreturn]] void fail(long column, const std::string& message, const std::string& hint) const {
    throw DataError(file_, line_, column, message, hint);
  }

  template <class T>
  void set(TsHeader::Flag<T>& flag, const std::vector<Word>& words, T value) {
    if (flag.value)
      fail(words[0].column, fmt::format("{} stands here again, it was given in line {}", words[0].text, flag.line),
           "keep one of the two lines");
    flag = {std::move(value), line_};
  }

  bool truth(const std::vector<Word>& words) const {
    const std::string value = words.size() > 1 ? lower(words[1].text) : "";
    if (value != "true" && value != "false")
      fail(words.size() > 1 ? words[1].column : words[0].column,
           fmt::format("{}: expected true or false, found '{}'", words[0].text, words.size() > 1 ? words[1].text : ""),
           "write true or false after the name of the flag");
    return value == "true";
  }

  Index count(const std::vector<Word>& words) const {
    const std::string_view text = words.size() > 1 ? words[1].text : std::string_view();
    Index value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || stop != text.data() + text.size() || value < 1)
      fail(words.size() > 1 ? words[1].column : words[0].column,
           fmt::format("{}: expected a whole number from 1, found '{}'", words[0].text, text), "");
    return value;
  }

  void read_labels(const std::vector<Word>& words) {
    const bool labelled = truth(words);
    set(header_.labelled, words, labelled);
    if (!labelled) return;
    for (std::size_t i = 2; i < words.size(); ++i) {
      const std::string label(words[i].text);
      if (std::count(header_.labels.begin(), header_.labels.end(), label) > 0)
        fail(words[i].column, fmt::format("the label '{}' is listed twice", label), "list every class once");
      header_.labels.push_back(label);
    }
  }

  void refuse_time_stamps() const {
    if (!*header_.time_stamps.value) return;
    throw NotSupported(fmt::format("{}:{}: @timeStamps true: series with time stamps are not supported", file_, line_),
                       {"the steps of a series are taken as equally spaced"},
                       "bring the series to equal steps, write the values alone and @timeStamps false");
  }

  void refuse_regression(const std::vector<Word>& words) const {
    if (!truth(words)) return;
    throw NotSupported(fmt::format("{}:{}: @targetLabel true: the file is for regression", file_, line_),
                       {"only classes can be learned from .ts files"},
                       "write @classLabel true and a class after the last ':' of every series");
  }

  void unknown(const Word& word) {
    const std::string close = nearest(word.text, known_flags);
    if (!close.empty())
      fail(word.column, fmt::format("unknown flag '{}'", word.text), fmt::format("did you mean '{}'?", close));
    header_.notes.push_back(fmt::format("line {}: the flag {} is not used", line_, word.text));
  }

  bool end(const std::vector<Word>& words) const {
    if (words.size() > 1) fail(words[1].column, "found more than @data in its line", "series start in the next line");
    const TsHeader& h = header_;
    if (h.univariate.value.value_or(false) && h.dimensions.value.value_or(1) > 1)
      throw DataError(
          file_, h.dimensions.line, 1,
          fmt::format("@dimensions {} contradicts @univariate true in line {}", *h.dimensions.value, h.univariate.line),
          "correct one of the two lines");
    return false;
  }

  const std::string& file_;
  TsHeader& header_;
  long line_ = 0;
};

}  // namespace

TsHeader read_ts_header(Lines& lines, const std::string& file) {
  TsHeader header;
  HeaderReader reader(file, header);
  Line line;
  while (lines.next(line)) {
    const std::string_view text = trimmed(line.text);
    if (text.empty() || text.front() == '#') continue;
    if (text.front() != '@')
      throw DataError(file, line.number, static_cast<long>(text.data() - line.text.data()) + 1,
                      "expected a line that starts with @ or #: series stand after the line @data",
                      "is it a .ts file? its header ends with the line @data");
    if (!reader.read(line)) return header;
  }
  throw DataError(file, 0, 0, line.number == 0 ? "the file is empty" : "found no line @data",
                  "a .ts file has header lines, the line @data, and one series per line");
}

}  // namespace saddle::data

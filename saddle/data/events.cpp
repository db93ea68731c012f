#include "saddle/data/events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "saddle/data/problems.hpp"

namespace saddle::data {

namespace {

class Events final : public Dataset {
 public:
  Description about;
  std::vector<std::int32_t> types;
  std::vector<double> times;
  std::vector<Index> starts{0};

  const Description& description() const override { return about; }
  Index size() const override { return static_cast<Index>(starts.size()) - 1; }
  Index label(Index) const override { return -1; }
  Index length(Index sample) const override { return starts[at(sample) + 1] - starts[at(sample)]; }
  void read(Index sample, Sample& into) const override {
    const Index begin = starts[at(sample)], end = starts[at(sample) + 1];
    into.tokens.assign(types.begin() + begin, types.begin() + end);
    into.times.assign(times.begin() + begin, times.begin() + end);
    into.length = end - begin;
    into.label = -1;
  }

 private:
  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }
};

// A file read line by line, each a list of numbers separated by blanks or tabs.
template <class T>
struct NumberLines {
  explicit NumberLines(const Contents& contents) : file(contents.file()), lines(contents.bytes()) {}

  void parse() {
    values.clear();
    columns.clear();
    const std::string_view text = line.text;
    for (std::size_t at = 0; (at = text.find_first_not_of(" \t", at)) != std::string_view::npos;) {
      const std::size_t end = std::min(text.find_first_of(" \t", at), text.size());
      T value{};
      const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, value);
      columns.push_back(static_cast<long>(at) + 1);
      if (error != std::errc{} || stop != text.data() + end)
        fail(columns.size() - 1, fmt::format("expected a {}number, found '{}'", std::is_integral_v<T> ? "whole " : "",
                                             text.substr(at, std::min<std::size_t>(end - at, 40))));
      values.push_back(value);
      at = end;
    }
  }
  [[noreturn]] void fail(std::size_t at, const std::string& message, const std::string& hint = "") const {
    throw DataError(file, line.number, at < columns.size() ? columns[at] : 1, message, hint);
  }

  const std::string& file;
  Lines lines;
  Line line;
  std::vector<T> values;
  std::vector<long> columns;
};

void check(const NumberLines<std::int32_t>& types, const NumberLines<double>& times, Index most) {
  if (types.values.empty()) types.fail(0, "found no events in this line");
  if (types.values.size() != times.values.size())
    times.fail(0, fmt::format("found {} times, line {} of {} has {} types", times.values.size(), types.line.number,
                              types.file, types.values.size()));
  for (std::size_t i = 0; i < types.values.size(); ++i)
    if (types.values[i] < 1 || (most > 0 && types.values[i] > most))
      types.fail(i, fmt::format("found the type {}, types are {}", types.values[i],
                                most > 0 ? fmt::format("1 to {}", most) : std::string("numbers from 1")));
  for (std::size_t i = 0; i < times.values.size(); ++i)
    if (!std::isfinite(times.values[i]) || (i > 0 && times.values[i] < times.values[i - 1]))
      times.fail(i, fmt::format("the time {} is not at {} or later", times.values[i], i > 0 ? times.values[i - 1] : 0),
                 "times are finite and never go back within a sequence");
}

}  // namespace

DatasetPtr read_events(const ContentsPtr& types, const ContentsPtr& times, Description description,
                       const std::vector<std::string>& names, std::vector<DataError>* problems) {
  const auto events = std::make_shared<Events>();
  NumberLines<std::int32_t> type(*types);
  NumberLines<double> time(*times);
  auto largest = static_cast<Index>(names.size());
  while (true) {
    const bool more = type.lines.next(type.line);
    if (more != time.lines.next(time.line))
      throw DataError(more ? type.file : time.file, more ? type.line.number : time.line.number, 1,
                      fmt::format("this sequence has no line in {}", more ? time.file : type.file),
                      "line i of one file belongs to line i of the other");
    if (!more) break;
    if (type.line.text.empty() && time.line.text.empty()) continue;
    const bool go_on = collect(problems, [&] {
      type.parse();
      time.parse();
      check(type, time, static_cast<Index>(names.size()));
      events->types.insert(events->types.end(), type.values.begin(), type.values.end());
      events->times.insert(events->times.end(), time.values.begin(), time.values.end());
      events->starts.push_back(static_cast<Index>(events->types.size()));
      for (const std::int32_t value : type.values) largest = std::max<Index>(largest, value);
    });
    if (!go_on) break;
  }
  if (events->size() == 0 && (problems == nullptr || problems->empty()))
    throw DataError(types->file(), 0, 0, "the file holds no sequences");
  description.kind = Kind::events;
  description.vocabulary = largest + 1;
  if (!names.empty()) {
    description.token_names = {"<pad>"};
    description.token_names.insert(description.token_names.end(), names.begin(), names.end());
  }
  description.files = {types->file(), times->file()};
  Checksum checksum;
  checksum.add(types->bytes());
  checksum.add(times->bytes());
  description.checksum = checksum.text();
  description.notes.emplace_back("the samples have no class: the next event is what there is to predict");
  for (Index i = 0; i < events->size(); ++i) {
    const Index length = events->length(i);
    description.min_length = i == 0 ? length : std::min(description.min_length, length);
    description.max_length = std::max(description.max_length, length);
  }
  events->about = std::move(description);
  return events;
}

}  // namespace saddle::data

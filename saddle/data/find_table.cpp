#include "saddle/data/find_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/data/catalogue.hpp"
#include "saddle/data/files.hpp"
#include "saddle/data/number.hpp"

namespace saddle::data {

namespace fs = std::filesystem;

namespace {

WholeTableOptions options_of(const Where& where, const TableChoice& choice, const TableOptions& own = {}) {
  WholeTableOptions options{own, choice.categories, choice.target};
  if (!where.target.empty()) options.table.target = where.target;
  if (!where.leave_out.empty()) options.table.leave_out = where.leave_out;
  return options;
}

// Numbers separated by blanks as a CSV file without a header: a line stays a line.
ContentsPtr with_commas(const Contents& contents, std::vector<std::string>& header) {
  std::string text;
  Lines lines(contents.bytes());
  for (Line line; lines.next(line);) {
    const std::string_view row = trimmed(line.text);
    if (row.empty()) continue;
    Index count = 1;
    bool blank = false;
    for (const char c : row) {
      const bool separates = c == ' ' || c == '\t';
      if (!separates && blank) {
        text += ',';
        ++count;
      }
      if (!separates) text += c;
      blank = separates;
    }
    text += '\n';
    if (header.empty()) {
      for (Index c = 1; c < count; ++c) header.push_back(fmt::format("x{}", c));
      header.emplace_back("y");
    }
  }
  return contents_of(text, contents.file());
}

void all_others(TableTask& task) {
  const std::set<Index> test(task.test.begin(), task.test.end());
  for (Index row = 0; row < task.table.rows; ++row)
    if (!test.contains(row)) task.train.push_back(row);
}

// Line `split` of the file: row numbers from 0.
std::vector<Index> rows_of_split(const Contents& contents, Index split, Index rows) {
  Lines lines(contents.bytes());
  Index count = 0;
  std::set<Index> chosen;
  for (Line line; lines.next(line);) {
    std::string_view rest = trimmed(line.text);
    if (rest.empty()) continue;
    if (count++ != split) continue;
    while (!rest.empty()) {
      double value = 0;
      const auto column = static_cast<long>(rest.data() - line.text.data()) + 1;
      if (read_number(rest, value, rest) != Found::number || value != std::floor(value) || value < 0 ||
          value >= static_cast<double>(rows))
        throw DataError(contents.file(), line.number, column,
                        fmt::format("expected numbers of rows from 0 to {}", rows - 1));
      if (!chosen.insert(static_cast<Index>(value)).second)
        throw DataError(contents.file(), line.number, column, fmt::format("row {} stands here twice", value));
      rest = trimmed(rest);
    }
  }
  if (split >= count)
    throw InvalidArgument(fmt::format("split {} was asked, {} has {}", split, contents.file(), count),
                          fmt::format("splits count from 0 to {}", count - 1));
  return {chosen.begin(), chosen.end()};
}

TableTask fixed_split(const fs::path& folder, const std::string& name, const Where& where, TableChoice choice) {
  const ContentsPtr raw = read_contents(packed_or_not(folder / "data.txt")->string(), where.stream_above);
  const ContentsPtr splits = read_contents(packed_or_not(folder / "test_splits.txt")->string(), where.stream_above);
  if (choice.target == Target::by_values) choice.target = Target::numbers;
  TableOptions own;
  const ContentsPtr contents = with_commas(*raw, own.header);
  TableTask task;
  task.table = read_whole_table(contents, name, options_of(where, choice, own));
  task.test = rows_of_split(*splits, choice.split, task.table.rows);
  all_others(task);
  task.split = fmt::format("fixed split {}", choice.split);
  return task;
}

// Of classes a share of each, of numbers a share of all. Every split takes other rows: those of ten, with a share of
// 0.1, are the folds of a cross-validation.
void hold_out(TableTask& task, double share, Index split) {
  const auto parts = share > 0 ? static_cast<Index>(1 / share + 1e-9) : 1;
  if (split >= parts)
    throw InvalidArgument(
        fmt::format("split {} was asked, test_share {} cuts {} into {}", split, share, task.table.name, parts),
        "a smaller --test-share makes more of them");
  const WholeTable& table = task.table;
  std::map<double, std::vector<Index>> groups;
  for (Index row = 0; row < table.rows; ++row)
    if (!table.missing(row, table.width() - 1))
      groups[table.target().categories.empty() ? 0 : table.at(row, table.width() - 1)].push_back(row);
  Stream stream(0, "hold out");
  for (auto& [value, rows] : groups) {
    stream.shuffle(rows);
    const auto size = static_cast<long>(rows.size());
    const auto begin = [&](Index part) {
      return std::min(size, std::lround(static_cast<double>(part) * share * static_cast<double>(size)));
    };
    // One row of a class trains, whatever the share.
    const long first = begin(split), last = std::min(begin(split + 1), first + size - 1);
    task.test.insert(task.test.end(), rows.begin() + first, rows.begin() + last);
  }
  std::sort(task.test.begin(), task.test.end());
  all_others(task);
  task.split = fmt::format("{} of {} rows held out", task.test.size(), table.rows);
  if (split > 0) task.split += fmt::format(", part {} of {}", split, parts);
}

TableTask of_files(const fs::path& file, const std::optional<fs::path>& test, const std::string& name,
                   const Where& where, const WholeTableOptions& options, Index split) {
  if (test && split != 0)
    throw InvalidArgument(fmt::format("split {} of '{}' was asked, but its test rows stand in {}", split, name,
                                      test->filename().string()),
                          "leave out --split");
  TableTask task;
  task.table = read_whole_table(read_contents(file.string(), where.stream_above), name, options);
  if (!test) {
    hold_out(task, where.test_share, split);
    return task;
  }
  const Index rows = task.table.rows;
  const WholeTable more =
      read_whole_table_like(read_contents(test->string(), where.stream_above), name, task.table.columns, options.table);
  task.table = joined(std::move(task.table), more);
  for (Index row = rows; row < task.table.rows; ++row) task.test.push_back(row);
  all_others(task);
  task.split = fmt::format("test rows of {}", test->filename().string());
  return task;
}

std::optional<fs::path> fixed_folder(const std::string& name, const Where& where) {
  std::vector<fs::path> folders{name};
  for (const fs::path& place : places(where)) folders.push_back(place / name);
  for (const fs::path& folder : folders)
    if (holds_fixed_splits(folder)) return folder;
  return std::nullopt;
}

TableTask of_file(const fs::path& file, const std::string& name, const Where& where, const TableChoice& choice) {
  std::optional<fs::path> test = sibling(file, "test");
  if (!where.test.empty()) test = where.test;
  return of_files(file, test, name, where, options_of(where, choice), choice.split);
}

[[noreturn]] void no_table(const std::string& name) {
  throw InvalidArgument(fmt::format("'{}' is no table", name),
                        "tables are CSV files and folders with data.txt and test_splits.txt");
}

}  // namespace

bool has_fixed_splits(const std::string& name, const Where& where) {
  return !name.empty() && fixed_folder(name, where).has_value();
}

TableTask find_table(const std::string& name, const Where& where, const TableChoice& choice) {
  if (name.empty()) throw InvalidArgument("no table was named", "name a CSV file, or a table such as adult or yacht");
  if (const auto folder = fixed_folder(name, where))
    return fixed_split(*folder, folder->filename().string(), where, choice);
  for (const KnownTable& table : known_tables())
    for (const Known& known : catalogue()) {
      if (table.name != name || known.name != name) continue;
      const auto folder = folder_of(known, where);
      if (!folder)
        throw InvalidArgument(fmt::format("the files of '{}' were not found", name),
                              known.hint + ", or say where with --data-dir");
      const auto file = [&](const std::string& plain) {
        return packed_or_not(*folder / plain).value_or(*folder / plain);
      };
      return of_files(file(table.train), table.test.empty() ? std::nullopt : std::optional(file(table.test)), name,
                      where, options_of(where, choice, table.options), choice.split);
    }
  fs::path path = name;
  for (const fs::path& place : places(where))
    if (!fs::exists(path) && path.is_relative() && fs::exists(place / name)) path = place / name;
  if (fs::is_regular_file(path)) return of_file(path, path.stem().stem().string(), where, choice);
  if (fs::is_directory(path)) {
    std::vector<std::string> candidates;
    const auto file = training_file(path, candidates);
    if (file && format_of(*file, where) == Format::table)
      return of_file(*file, path.filename().string(), where, choice);
    no_table(path.string());
  }
  find_task(name, where);  // says what is near, if there is nothing of this name
  no_table(name);
}

WholeTable open_rows(const std::string& file, const std::vector<Column>& columns, const Where& where) {
  return read_whole_table_like(read_contents(file, where.stream_above), file, columns, {});
}

}  // namespace saddle::data

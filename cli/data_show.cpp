#include "data_show.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "output.hpp"
#include "saddle/base/text.hpp"

namespace saddle::cli {

namespace {

using data::DatasetPtr;
using data::Description;
using data::Kind;
using data::Sample;

// A file may hold anything, but not everything may reach the terminal.
std::string printable(const std::string& text) {
  const bool plain = std::ranges::all_of(text, [](char c) { return c >= ' ' && c < '\x7f'; });
  return plain ? text : Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::vector<Index> class_counts(const data::Dataset& data) {
  std::vector<Index> counts(data.description().classes.size(), 0);
  for (Index i = 0; i < data.size(); ++i)
    if (data.label(i) >= 0) ++counts[static_cast<std::size_t>(data.label(i))];
  return counts;
}

// Where the samples of `count` cells are taken from: the mean of each piece.
std::vector<double> reduced(const std::vector<double>& values, std::size_t count) {
  if (values.size() <= count) return values;
  std::vector<double> result;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = i * values.size() / count, end = (i + 1) * values.size() / count;
    double sum = 0;
    for (std::size_t j = begin; j < end; ++j) sum += values[j];
    result.push_back(sum / static_cast<double>(end - begin));
  }
  return result;
}

std::string sparkline(const std::vector<double>& values) {
  static constexpr const char* bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  std::string line;
  for (const double value : values) {
    const double share = *high > *low ? (value - *low) / (*high - *low) : 0.5;
    line += bars[static_cast<std::size_t>(std::min(7.0, share * 8))];
  }
  return line;
}

std::string series_text(const Sample& sample, const Description& about) {
  constexpr Index most = 4;
  std::string text;
  for (Index c = 0; c < std::min(about.channels, most); ++c) {
    std::vector<double> values;
    for (Index t = 0; t < sample.length; ++t)
      values.push_back(sample.values[static_cast<std::size_t>(t * about.channels + c)]);
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    text += fmt::format(
        "  {} {:.3g} .. {:.3g}{}\n", sparkline(reduced(values, 60)), *low, *high,
        about.channel_names.empty() ? "" : "  " + printable(about.channel_names[static_cast<std::size_t>(c)]));
  }
  if (about.channels > most) text += fmt::format("  and {} more channels\n", about.channels - most);
  return text;
}

// Two pixels per character cell would need colour: one character per pixel, two wide.
std::string image_text(const Sample& sample, const Description& about) {
  constexpr std::string_view shades = " .:-=+*#%@";
  const Index step = std::max<Index>(1, (about.rows + 15) / 16), pixels = about.rows * about.columns;
  std::string text;
  for (Index r = 0; r + step <= about.rows; r += step) {
    std::string line = "  ";
    for (Index c = 0; c + step <= about.columns; c += step) {
      double sum = 0;
      for (Index k = 0; k < about.channels; ++k)
        for (Index i = r; i < r + step; ++i)
          for (Index j = c; j < c + step; ++j)
            sum += sample.values[static_cast<std::size_t>(k * pixels + i * about.columns + j)];
      const double mean = sum / static_cast<double>(about.channels * step * step);
      line += std::string(2, shades[static_cast<std::size_t>(std::clamp(mean * 10, 0.0, 9.0))]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string tokens_text(const std::vector<std::int32_t>& tokens, const Description& about) {
  const bool letters = about.token_names.size() == 257, words = about.kind == Kind::events;
  const std::size_t most = words ? 8 : 60;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(tokens.size(), most); ++i) {
    const auto id = static_cast<std::size_t>(tokens[i]);
    names.push_back(id < about.token_names.size() ? printable(about.token_names[id]) : std::to_string(id));
  }
  if (tokens.size() > most) names.emplace_back(letters ? " .." : "..");
  return "  " + join(names, letters ? "" : words ? ", " : " ") + "\n";
}

// "age 39, workclass State-gov, .."
std::string row_text(const Sample& sample, const Description& about) {
  std::vector<std::string> cells;
  const auto channels = static_cast<std::size_t>(about.channels);
  std::size_t channel = about.flagged ? 2 : 1;
  for (std::size_t s = 0; s < about.table.size(); ++s) {
    const data::Column& column = about.table[s];
    const float* step = sample.values.data() + s * channels;
    std::string value = column.categories.empty() ? number_text(step[0]) : "of no category";
    for (std::size_t i = 0; i < column.categories.size(); ++i)
      if (step[channel + i] != 0) value = column.categories[i];
    if (about.flagged && step[1] != 0) value = "?";
    channel += column.categories.size();
    cells.push_back(printable(column.name + " " + value));
  }
  return wrap(join(cells), 2);
}

std::string sample_text(const Sample& sample, const Description& about) {
  switch (about.kind) {
    case Kind::series: return about.table.empty() ? series_text(sample, about) : row_text(sample, about);
    case Kind::image: return image_text(sample, about);
    case Kind::tokens: return tokens_text(sample.tokens, about);
    case Kind::pair: return tokens_text(sample.tokens, about) + tokens_text(sample.second, about);
    case Kind::image_text: return image_text(sample, about) + tokens_text(sample.tokens, about);
    case Kind::events: break;
  }
  return tokens_text(sample.tokens, about) +
         (sample.times.empty() ? ""
                               : fmt::format("  from time {} to {}\n", format_number(sample.times.front()),
                                             format_number(sample.times.back())));
}

std::string lengths_text(const Description& about) {
  if (about.kind == Kind::image) return fmt::format("{} x {}", about.rows, about.columns);
  return about.min_length == about.max_length ? std::to_string(about.max_length)
                                              : fmt::format("{} to {}", about.min_length, about.max_length);
}

std::string shape_text(const Description& about) {
  std::string text = std::string(data::to_string(about.kind)) + ", ";
  if (about.kind == Kind::image_text) text += fmt::format("{} x {} pixels, ", about.rows, about.columns);
  if (about.kind == Kind::series || about.kind == Kind::image || about.kind == Kind::image_text)
    text += fmt::format("{} channel{}", about.channels, about.channels == 1 ? "" : "s");
  if (about.kind == Kind::image_text) text += ", ";
  if (about.kind != Kind::series && about.kind != Kind::image) text += fmt::format("{} tokens", about.vocabulary);
  text += ", length " + lengths_text(about);
  if (!about.classes.empty()) text += fmt::format(", {} classes", about.classes.size());
  return text;
}

struct Splits {
  DatasetPtr train, validation, test;
};

Splits open_splits(const data::Task& task) {
  return {task.train(), task.validation ? task.validation() : nullptr, task.test ? task.test() : nullptr};
}

}  // namespace

std::string data_text(const data::Task& task, Index samples) {
  const Splits splits = open_splits(task);
  const Description& about = splits.train->description();
  std::string text = fmt::format("{}: {}\n\n", bold(printable(task.name)), shape_text(about));
  Table sizes({"split", "samples", "length", "missing", "files"}, "lrrrl");
  for (const DatasetPtr& split : {splits.train, splits.validation, splits.test}) {
    if (split == nullptr) continue;
    const Description& own = split->description();
    const bool test = split == splits.test;
    sizes.add({own.split, std::to_string(split->size()), test ? "" : lengths_text(own),
               test ? "" : std::to_string(own.missing), own.files.empty() ? "generated" : join(own.files)});
  }
  text += sizes.text();
  if (!about.table.empty()) {
    Table columns({"column", "values"}, "ll");
    for (const data::Column& column : about.table)
      columns.add({printable(column.name), column.categories.empty() ? "numbers" : printable(join(column.categories))});
    text += "\n" + columns.text();
  }
  if (!about.classes.empty()) {
    const bool validated = splits.validation != nullptr;
    std::vector<std::string> header{"class", "train"};
    if (validated) header.emplace_back("validation");
    Table classes(header, validated ? "lrr" : "lr");
    const std::vector<Index> train = class_counts(*splits.train);
    const std::vector<Index> validation = validated ? class_counts(*splits.validation) : std::vector<Index>();
    for (std::size_t c = 0; c < about.classes.size(); ++c) {
      std::vector<std::string> row{printable(about.classes[c]), std::to_string(train[c])};
      if (validated) row.push_back(std::to_string(validation[c]));
      classes.add(row);
    }
    text += "\n" + classes.text();
  }
  if (!about.notes.empty()) text += "\n";
  for (const std::string& note : about.notes) text += wrap("note: " + printable(note), 0);
  Sample sample;
  for (Index i = 0; i < std::min(samples, splits.train->size()); ++i) {
    splits.train->read(i, sample);
    text += fmt::format(
                "\nsample {}{}, length {}\n", i,
                sample.label < 0 ? "" : ", class " + printable(about.classes[static_cast<std::size_t>(sample.label)]),
                sample.length) +
            sample_text(sample, about);
  }
  return text;
}

std::string data_json(const data::Task& task, Index samples) {
  const Splits splits = open_splits(task);
  const Description& about = splits.train->description();
  Json list = Json::array(), columns = Json::array(), first = Json::array();
  for (const DatasetPtr& split : {splits.train, splits.validation, splits.test}) {
    if (split == nullptr) continue;
    const Description& own = split->description();
    Json entry{{"split", own.split}, {"samples", split->size()}, {"files", own.files}};
    if (split != splits.test) {
      entry.update({{"min_length", own.min_length},
                    {"max_length", own.max_length},
                    {"missing", own.missing},
                    {"checksum", own.checksum},
                    {"class_counts", class_counts(*split)},
                    {"notes", own.notes}});
    }
    list.push_back(entry);
  }
  for (const data::Column& column : about.table)
    columns.push_back({{"name", column.name}, {"categories", column.categories}});
  Sample sample;
  for (Index i = 0; i < std::min(samples, splits.train->size()); ++i) {
    splits.train->read(i, sample);
    Json entry{{"sample", i}, {"label", sample.label}, {"length", sample.length}};
    if (!sample.values.empty()) entry["values"] = sample.values;
    if (!sample.tokens.empty()) entry["tokens"] = sample.tokens;
    if (!sample.second.empty()) entry["second"] = sample.second;
    if (!sample.times.empty()) entry["times"] = sample.times;
    first.push_back(entry);
  }
  return json_text("saddle.data.show/1", {{"name", task.name},
                                          {"kind", data::to_string(about.kind)},
                                          {"channels", about.channels},
                                          {"rows", about.rows},
                                          {"columns", about.columns},
                                          {"vocabulary", about.vocabulary},
                                          {"classes", about.classes},
                                          {"channel_names", about.channel_names},
                                          {"table", columns},
                                          {"splits", list},
                                          {"first", first}});
}

}  // namespace saddle::cli

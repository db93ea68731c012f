#include "saddle/data/find.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/data/catalogue.hpp"
#include "saddle/data/events.hpp"
#include "saddle/data/files.hpp"
#include "saddle/data/generate/generate.hpp"
#include "saddle/data/next_event.hpp"

namespace saddle::data {

namespace fs = std::filesystem;

namespace {

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

// The folder of this name in the places; the case of letters counts only if two differ in nothing else.
std::optional<fs::path> find_folder(const std::string& name, const Where& where) {
  for (const fs::path& place : places(where)) {
    if (fs::is_directory(place / name)) return place / name;
    for (const auto& entry : fs::directory_iterator(place))
      if (entry.is_directory() && same_name(entry.path().filename().string(), name)) return entry.path();
  }
  return std::nullopt;
}

[[noreturn]] void not_found(const std::string& name, const Where& where) {
  std::vector<std::string> searched, known;
  for (const fs::path& place : places(where)) searched.push_back(place.string());
  for (const Entry& entry : list_tasks(where)) known.push_back(entry.name);
  const std::string close = nearest(name, known);
  throw InvalidArgument(
      fmt::format("there is no data set '{}'; searched {}", name,
                  searched.empty()
                      ? "no folder: neither --data-dir nor $SADDLE_DATA is set, ../shared/data is not there"
                      : join(searched)),
      close.empty() ? "name a data set of 'saddle data list', a file or a folder"
                    : fmt::format("did you mean '{}'?", close));
}

bool looks_like_path(const std::string& name) {
  return name.find('/') != std::string::npos || fs::is_regular_file(name) || fs::path(name).has_extension();
}

Task task_of_path(const std::string& name, const Where& where) {
  fs::path path = name;
  for (const fs::path& place : places(where))
    if (!fs::exists(path) && path.is_relative() && fs::exists(place / name)) path = place / name;
  if (fs::is_directory(path)) return task_of_folder(path, where);
  if (!fs::exists(path)) {
    if (name.find('/') == std::string::npos) not_found(name, where);
    std::vector<std::string> beside;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(fs::path(name).parent_path(), none))
      beside.push_back((fs::path(name).parent_path() / entry.path().filename()).string());
    const std::string close = nearest(name, beside);
    throw InvalidArgument(fmt::format("there is no file or folder '{}'", name),
                          close.empty() ? "name a data set of 'saddle data list', a file or a folder"
                                        : fmt::format("did you mean '{}'?", close));
  }
  return task_of_file(path, where);
}

}  // namespace

Task find_task(const std::string& name, const Where& where) {
  if (name.empty())
    throw InvalidArgument("no data set was named", "name a data set of 'saddle data list', a file or a folder");
  if (name.find('(') != std::string::npos && is_generated(name)) return generated(name);
  for (const Known& known : catalogue()) {
    if (!same_name(known.name, name)) continue;
    if (const auto folder = folder_of(known, where)) return known.open(*folder, where);
    if (is_generated(name)) return generated(name);
    throw InvalidArgument(fmt::format("the files of '{}' were not found", name),
                          known.hint + ", or say where with --data-dir");
  }
  if (looks_like_path(name)) return task_of_path(name, where);
  if (const auto folder = find_folder(name, where)) return task_of_folder(*folder, where, folder->filename().string());
  if (is_generated(name)) return generated(name);
  if (fs::is_directory(name)) return task_of_folder(name, where);
  not_found(name, where);
}

std::vector<Entry> list_tasks(const Where& where) {
  std::vector<Entry> entries;
  const auto listed = [&](const std::string& name) {
    return std::any_of(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.name == name; });
  };
  for (const Known& known : catalogue()) {
    const auto folder = folder_of(known, where);
    entries.push_back({known.name, known.summary, known.kind, folder.has_value(), folder ? folder->string() : ""});
  }
  for (const fs::path& place : places(where))
    for (const auto& entry : fs::directory_iterator(place)) {
      std::vector<std::string> candidates;
      const std::string name = entry.path().filename().string();
      if (!entry.is_directory() || listed(name)) continue;
      const auto file = training_file(entry.path(), candidates);
      if (!file && holds_fixed_splits(entry.path()))
        entries.push_back({name, "table with fixed splits, for npt", Kind::series, true, entry.path().string()});
      if (!file) continue;
      const Format format = format_of(*file, where);
      const Kind kind = format == Format::idx          ? Kind::image
                        : format == Format::image_text ? Kind::image_text
                        : format == Format::events     ? Kind::events
                                                       : Kind::series;
      entries.push_back({name,
                         format == Format::ts           ? "time series"
                         : format == Format::idx        ? "images"
                         : format == Format::image_text ? "images with texts"
                         : format == Format::events     ? "events with times"
                                                        : "table",
                         kind, true, entry.path().string()});
    }
  for (const Generator& generator : generators()) {
    const auto known =
        std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.name == generator.name; });
    const Entry entry{generator.name, generator.summary, generator.kind, true, "generated"};
    if (known == entries.end())
      entries.push_back(entry);
    else if (!known->found)
      *known = entry;
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

namespace {

// Every event but the first of a sequence is to be predicted. Times stand in a file of their own.
DatasetPtr open_events(const std::string& file, const Description& like, const Where& where) {
  std::vector<std::string> names = like.token_names;
  if (!names.empty()) names.erase(names.begin());  // padding
  const DatasetPtr sequences =
      read_events(read_contents(file, where.stream_above), read_contents(times_of(file).string(), where.stream_above),
                  {.name = like.name, .split = "all"}, names);
  std::vector<Index> all(static_cast<std::size_t>(sequences->size()));
  std::iota(all.begin(), all.end(), Index{0});
  return next_events(sequences, std::move(all), like.usual_length, &like);
}

}  // namespace

DatasetPtr open_samples(const std::string& file, const Description& like, const Where& where) {
  if (like.kind == Kind::events) return open_events(file, like, where);
  const Format format = format_of(file, where);
  const DatasetPtr samples = read_file(file, format, {.name = like.name, .split = "all"}, where, &like, false);
  const Description& found = samples->description();
  if (found.kind != like.kind || (found.kind == Kind::series && found.channels != like.channels))
    throw DataError(file, 0, 0,
                    fmt::format("expected {} of {} channels as in {}, found {} of {}", to_string(like.kind),
                                like.channels, like.name, to_string(found.kind), found.channels),
                    "samples to predict look like those that the model was trained on");
  return samples;
}

}  // namespace saddle::data

#include "saddle/data/files.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/data/events.hpp"
#include "saddle/data/image_text.hpp"
#include "saddle/data/images.hpp"
#include "saddle/data/table.hpp"
#include "saddle/data/task.hpp"
#include "saddle/data/token_text.hpp"
#include "saddle/data/ts.hpp"

namespace saddle::data {

namespace fs = std::filesystem;

namespace {

constexpr const char* known_files =
    "data files are .ts, .csv, .tsv, IDX images and events as X_event.txt beside X_time.txt, each also as .gz, and "
    ".safetensors with images and texts";

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// The name in small letters, without .gz.
std::string plain_name(const fs::path& file) {
  std::string name = lower(file.filename().string());
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return name;
}

// The words that tell splits apart in file names.
const std::vector<std::string>& split_words(const std::string& split) {
  static const std::vector<std::string> train{"train"}, test{"test", "t10k"}, validation{"val", "validation", "dev"};
  return split == "train" ? train : split == "test" ? test : validation;
}

// Where "train" stands as a word of its own in a file name, or npos.
std::size_t find_train(const std::string& name) {
  const std::string small = lower(name);
  const auto separates = [&](std::size_t at) {
    return at >= small.size() || std::isalnum(static_cast<unsigned char>(small[at])) == 0;
  };
  for (std::size_t at = small.find("train"); at != std::string::npos; at = small.find("train", at + 1))
    if ((at == 0 || separates(at - 1)) && separates(at + 5)) return at;
  return std::string::npos;
}

// "X" for X_TRAIN.ts.gz, "train" for train.csv in a folder "data" becomes "data".
std::string task_name(const fs::path& file) {
  std::string name = file.filename().string();
  if (lower(name).ends_with(".gz")) name.resize(name.size() - 3);
  name = fs::path(name).stem().string();
  if (const std::size_t at = find_train(name); at != std::string::npos) {
    name = name.substr(0, at);
    while (!name.empty() && std::ispunct(static_cast<unsigned char>(name.back())) != 0) name.pop_back();
    if (name.empty()) name = fs::absolute(file).parent_path().filename().string();
  }
  return name;
}

// Enough of it to tell what it is; gzopen reads plain files too.
std::string first_line(const fs::path& file) {
  const gzFile opened = gzopen(file.c_str(), "rb");
  if (opened == nullptr) return {};
  std::string line(4096, '\0');
  line.resize(static_cast<std::size_t>(std::max(0, gzread(opened, line.data(), static_cast<unsigned>(line.size())))));
  gzclose(opened);
  return line.substr(0, line.find_first_of("\r\n"));
}

bool is_data_file(const fs::path& file) {
  const std::string name = plain_name(file);
  return name.ends_with(".ts") || name.ends_with(".csv") || name.ends_with(".tsv") || name.ends_with("event.txt") ||
         name.find("images-idx3") != std::string::npos || name.find("images.idx3") != std::string::npos ||
         (name.ends_with(".safetensors") && find_train(file.filename().string()) != std::string::npos);
}

}  // namespace

std::vector<fs::path> places(const Where& where) {
  std::vector<fs::path> found;
  if (!where.folder.empty()) {
    if (!fs::is_directory(where.folder))
      throw InvalidArgument(fmt::format("the data folder '{}' does not exist", where.folder));
    found.emplace_back(where.folder);
  }
  const char* variable = std::getenv("SADDLE_DATA");
  for (const fs::path& place : {fs::path(variable != nullptr ? variable : ""), fs::path("../shared/data")})
    if (!place.empty() && fs::is_directory(place)) found.push_back(place);
  return found;
}

std::optional<fs::path> packed_or_not(const fs::path& file) {
  if (fs::is_regular_file(file)) return file;
  fs::path packed = file;
  packed += ".gz";
  if (fs::is_regular_file(packed)) return packed;
  return std::nullopt;
}

std::vector<fs::path> sibling_names(const fs::path& file, const std::string& split) {
  std::string name = file.filename().string();
  if (lower(name).ends_with(".gz")) name.resize(name.size() - 3);
  const std::size_t at = find_train(name);
  if (at == std::string::npos) return {};
  const auto raise = [](char& c) { c = static_cast<char>(std::toupper(static_cast<unsigned char>(c))); };
  std::vector<fs::path> names;
  for (std::string word : split_words(split)) {
    if (name[at] == 'T') raise(word[0]);
    if (name[at + 1] == 'R') std::for_each(word.begin(), word.end(), raise);
    names.push_back(file.parent_path() / (name.substr(0, at) + word + name.substr(at + 5)));
  }
  return names;
}

std::optional<fs::path> sibling(const fs::path& file, const std::string& split) {
  for (const fs::path& name : sibling_names(file, split))
    if (const auto found = packed_or_not(name)) return found;
  return std::nullopt;
}

fs::path labels_of(const fs::path& images) {
  std::string name = images.filename().string();
  if (lower(name).ends_with(".gz")) name.resize(name.size() - 3);
  for (const auto& [from, to] : {std::pair{"images", "labels"}, std::pair{"idx3", "idx1"}})
    if (const std::size_t at = name.find(from); at != std::string::npos) name.replace(at, std::string(from).size(), to);
  return images.parent_path() / name;
}

fs::path times_of(const fs::path& types) {
  std::string name = types.filename().string();
  const std::size_t at = name.rfind("event");
  if (at == std::string::npos)
    throw InvalidArgument(fmt::format("the name of '{}' does not say that it has the types of events", types.string()),
                          "give the file of types, such as new_event.txt: times are read from new_time.txt beside it");
  if (lower(name).ends_with(".gz")) name.resize(name.size() - 3);
  const fs::path plain = types.parent_path() / name.replace(at, 5, "time");
  return packed_or_not(plain).value_or(plain);
}

Format format_of(const fs::path& file, const Where& where) {
  static const std::map<std::string, Format> named = {{"ts", Format::ts},         {"csv", Format::table},
                                                      {"idx", Format::idx},       {"listops", Format::listops},
                                                      {"bytes", Format::bytes},   {"pairs", Format::pairs},
                                                      {"tokens", Format::tokens}, {"image_text", Format::image_text},
                                                      {"events", Format::events}};
  if (!where.format.empty()) {
    const auto found = named.find(where.format);
    if (found != named.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [name, format] : named) names.push_back(name);
    throw InvalidArgument(fmt::format("there is no format '{}'", where.format), "formats are " + join(names));
  }
  const std::string name = plain_name(file);
  if (name.ends_with(".ts")) return Format::ts;
  if (name.ends_with(".safetensors")) return Format::image_text;
  if (name.find("idx3") != std::string::npos) return Format::idx;
  if (name.ends_with(".csv")) return Format::table;
  if (name.ends_with("event.txt")) return Format::events;
  if (name.ends_with(".tsv")) {
    switch (text_form_of(first_line(file)).value_or(TextForm::bytes)) {
      case TextForm::tokens: return Format::tokens;
      case TextForm::listops:
      case TextForm::reference: return Format::listops;
      default: return Format::table;
    }
  }
  throw InvalidArgument(fmt::format("cannot tell what '{}' holds", file.string()), known_files);
}

DatasetPtr read_file(const fs::path& file, Format format, Description description, const Where& where,
                     const Description* like, bool labels_required, std::vector<DataError>* problems) {
  if (format == Format::image_text) return read_image_text(file, std::move(description), like, labels_required);
  const ContentsPtr contents = read_contents(file.string(), where.stream_above);
  if (format == Format::ts || format == Format::table) require_utf8(*contents);
  const auto classes = like != nullptr ? std::optional(like->classes) : std::nullopt;
  const auto read_text = [&](TextForm form) {
    return read_token_text(contents, std::move(description), {form, 0, classes, labels_required, problems});
  };
  switch (format) {
    case Format::ts:
      return read_ts(contents, std::move(description),
                     {where.missing, classes, like != nullptr ? like->channels : 0, labels_required, problems});
    case Format::table: {
      TableOptions options;
      options.target = where.target;
      options.leave_out = where.leave_out;
      options.series_id = where.series_id;
      options.time = where.time;
      options.missing = where.missing;
      options.like = like;
      options.labels_required = labels_required;
      options.problems = problems;
      return (where.series_id.empty() ? read_table : read_long_table)(contents, std::move(description), options);
    }
    case Format::idx: {
      const auto labels = packed_or_not(labels_of(file));
      if (!labels && labels_required)
        throw IoError(fmt::format("cannot read {}: the labels of {} are needed and do not stand beside it",
                                  labels_of(file).string(), file.string()));
      return read_idx(contents, labels ? read_contents(labels->string(), where.stream_above) : nullptr,
                      std::move(description), classes);
    }
    case Format::listops: {
      const std::string_view bytes = contents->bytes();
      return read_text(text_form_of(bytes.substr(0, bytes.find('\n'))) == TextForm::reference ? TextForm::reference
                                                                                              : TextForm::listops);
    }
    case Format::bytes: return read_text(TextForm::bytes);
    case Format::pairs: return read_text(TextForm::pairs);
    case Format::tokens: return read_text(TextForm::tokens);
    case Format::events:
      return read_events(contents, read_contents(times_of(file).string(), where.stream_above), std::move(description),
                         {}, problems);
    case Format::image_text: break;
  }
  throw InvalidArgument(fmt::format("cannot read '{}'", file.string()), known_files);
}

Task task_of_file(const fs::path& file, const Where& where, const std::string& given) {
  const Format format = format_of(file, where);
  const std::string name = given.empty() ? task_name(file) : given;
  const auto train = [=](const char* split) {
    return [=] { return read_file(file, format, {.name = name, .split = split}, where); };
  };
  const auto other = [&](const std::optional<fs::path>& path, const char* split) -> OpenOther {
    if (!path) return nullptr;
    return
        [=](const Description& like) { return read_file(*path, format, {.name = name, .split = split}, where, &like); };
  };
  std::optional<fs::path> test = sibling(file, "test");
  if (!where.test.empty()) test = where.test;
  if (!test) return hold_out(name, train("all"), where.test_share);
  return make_task(name, train("train"), other(sibling(file, "validation"), "validation"), other(test, "test"));
}

std::optional<fs::path> training_file(const fs::path& folder, std::vector<std::string>& candidates) {
  if (fs::exists(folder / "metrics.jsonl") && fs::is_directory(folder / "checkpoints"))
    throw InvalidArgument(
        fmt::format("'{}' is the folder of a run and holds no data but what the run wrote", folder.string()),
        "name its data; to go on with the run: saddle train --resume --out " + folder.string());
  std::vector<fs::path> train, all;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file() || !is_data_file(entry.path())) continue;
    // An unpacked file beside the packed one is the same data.
    if (lower(entry.path().extension().string()) == ".gz" &&
        fs::exists(entry.path().parent_path() / entry.path().stem()))
      continue;
    all.push_back(entry.path());
    if (find_train(entry.path().filename().string()) != std::string::npos) train.push_back(entry.path());
  }
  std::sort(all.begin(), all.end());
  for (const fs::path& path : all) candidates.push_back(path.filename().string());
  if (train.size() == 1) return train.front();
  if (train.empty() && all.size() == 1) return all.front();
  return std::nullopt;
}

bool holds_fixed_splits(const fs::path& folder) {
  return packed_or_not(folder / "data.txt") && packed_or_not(folder / "test_splits.txt");
}

Task task_of_folder(const fs::path& folder, const Where& where, const std::string& name) {
  std::vector<std::string> candidates;
  if (const auto file = training_file(folder, candidates)) return task_of_file(*file, where, name);
  if (candidates.empty() && holds_fixed_splits(folder))
    throw InvalidArgument(fmt::format("'{}' is a table with fixed splits, seen only as a whole", folder.string()),
                          "saddle train --model npt learns it");
  if (candidates.empty())
    throw InvalidArgument(fmt::format("the folder '{}' holds no data file", folder.string()), known_files);
  throw InvalidArgument(fmt::format("the folder '{}' holds several data files: {}", folder.string(), join(candidates)),
                        "name one of them");
}

}  // namespace saddle::data

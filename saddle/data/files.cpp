#include "saddle/data/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/data/images.hpp"
#include "saddle/data/task.hpp"
#include "saddle/data/ts.hpp"

namespace saddle::data {

namespace fs = std::filesystem;

namespace {

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

// The file of labels that belongs to an IDX file of images, without .gz.
fs::path labels_of(const fs::path& images) {
  std::string name = images.filename().string();
  if (lower(name).ends_with(".gz")) name.resize(name.size() - 3);
  for (const auto& [from, to] : {std::pair{"images", "labels"}, std::pair{"idx3", "idx1"}})
    if (const std::size_t at = name.find(from); at != std::string::npos) name.replace(at, std::string(from).size(), to);
  return images.parent_path() / name;
}

bool is_data_file(const fs::path& file) {
  const std::string name = plain_name(file);
  return name.ends_with(".ts") || name.ends_with(".csv") || name.ends_with(".tsv") ||
         name.find("images-idx3") != std::string::npos || name.find("images.idx3") != std::string::npos;
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

std::optional<fs::path> sibling(const fs::path& file, const std::string& split) {
  std::string name = file.filename().string();
  if (lower(name).ends_with(".gz")) name.resize(name.size() - 3);
  const std::size_t at = find_train(name);
  if (at == std::string::npos) return std::nullopt;
  const bool capitals = name[at] == 'T' && name[at + 1] == 'R';
  for (std::string word : split_words(split)) {
    if (capitals)
      std::transform(word.begin(), word.end(), word.begin(),
                     [](char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); });
    if (name[at] == 'T' && !capitals) word[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(word[0])));
    if (const auto found = packed_or_not(file.parent_path() / (name.substr(0, at) + word + name.substr(at + 5))))
      return found;
  }
  return std::nullopt;
}

Format format_of(const fs::path& file, const Where&) {
  const std::string name = plain_name(file);
  if (name.ends_with(".ts")) return Format::ts;
  if (name.find("idx3") != std::string::npos) return Format::idx;
  throw InvalidArgument(fmt::format("cannot tell what '{}' holds", file.string()),
                        "data files are .ts, .csv, .tsv and IDX images, each also as .gz");
}

DatasetPtr read_file(const fs::path& file, Format format, Description description, const Where& where,
                     const Description* like, bool labels_required) {
  const ContentsPtr contents = read_contents(file.string(), where.stream_above);
  const auto classes = like != nullptr ? std::optional(like->classes) : std::nullopt;
  switch (format) {
    case Format::ts: {
      TsOptions options;
      options.missing = where.missing;
      options.classes = classes;
      options.channels = like != nullptr ? like->channels : 0;
      options.labels_required = labels_required;
      return read_ts(contents, std::move(description), options);
    }
    case Format::idx: {
      const auto beside = packed_or_not(labels_of(file));
      if (!beside && labels_required)
        throw IoError(fmt::format("cannot read {}: the labels of {} are needed and do not stand beside it",
                                  labels_of(file).string(), file.string()));
      return read_idx(contents, beside ? read_contents(beside->string(), where.stream_above) : nullptr,
                      std::move(description), classes);
    }
    default: break;
  }
  throw InvalidArgument(fmt::format("cannot read '{}'", file.string()));
}

Task task_of_file(const fs::path& file, const Where& where) {
  const Format format = format_of(file, where);
  const std::string name = task_name(file);
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

Task task_of_folder(const fs::path& folder, const Where& where) {
  std::vector<std::string> candidates;
  if (const auto file = training_file(folder, candidates)) return task_of_file(*file, where);
  if (candidates.empty())
    throw InvalidArgument(fmt::format("the folder '{}' holds no data file", folder.string()),
                          "data files are .ts, .csv, .tsv and IDX images, each also as .gz");
  throw InvalidArgument(fmt::format("the folder '{}' holds several data files: {}", folder.string(), join(candidates)),
                        "name one of them");
}

}  // namespace saddle::data

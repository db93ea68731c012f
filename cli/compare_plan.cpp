#include "compare_plan.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "argument.hpp"
#include "output.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/io/atomic_file.hpp"
#include "saddle/run/layers.hpp"

namespace saddle::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* plan_schema = "saddle.compare.plan/1";
constexpr std::size_t most_seeds = 1000;
constexpr std::size_t longest_name = 200;  // file systems take 255 bytes, and the trainer may add an ending

Index read_seed(const std::string& text, const std::string& whole) {
  const auto seed = read_index(text);
  if (!seed || *seed < 0)
    throw InvalidArgument(fmt::format("--seeds '{}': '{}' is not a whole number from 0", whole, text),
                          "write 0..4, or 0,2,5");
  return *seed;
}

std::uint64_t hash(const std::string& text) {
  std::uint64_t value = 14695981039346656037ULL;  // FNV-1a
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return value;
}

template <class T>
void refuse_repeats(const std::vector<T>& items, const char* option) {
  std::set<T> seen;
  for (const T& item : items)
    if (!seen.insert(item).second) throw InvalidArgument(fmt::format("{} '{}' is given twice", option, item));
}

// Runs are told apart by the name of the data, which is that of the file or folder.
void refuse_namesakes(const std::vector<std::string>& data) {
  std::map<std::string, std::string> seen;
  for (const std::string& name : data) {
    const auto [found, fresh] = seen.emplace(fs::path(name).stem().string(), name);
    if (!fresh && name.find('(') == std::string::npos)
      throw InvalidArgument(
          fmt::format("--data '{}' and '{}' would both be called {}", found->second, name, found->first),
          "rename one of the files");
  }
}

void refuse_equal(const std::vector<std::string>& attentions) {
  std::vector<std::vector<std::string>> values;
  for (const std::string& text : attentions) {
    std::vector<std::string> layers;
    for (const std::string& layer : run::layers_of(text)) layers.push_back(canonical_attention(layer));
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] == layers)
        throw InvalidArgument(fmt::format("--attention '{}' and '{}' are the same", attentions[i], text));
    values.push_back(std::move(layers));
  }
}

// What the comparison says itself, and for which option it would stand.
void check_options(const std::vector<std::string>& options) {
  if (!options.empty() && !options.front().starts_with("-"))
    throw InvalidArgument(
        fmt::format("'{}': with --attention, only options of saddle train follow, after --", options.front()),
        "to collect runs that exist, name their folders and leave out --attention");
  const std::pair<const char*, const char*> own[] = {{"--data", "give it before --"},
                                                     {"--attention", "give it before --"},
                                                     {"--seed", "give --seeds before --"},
                                                     {"--out", "give it before --"},
                                                     {"-o", "give --out before --"},
                                                     {"--threads", "give it before --: the jobs share them"},
                                                     {"--resume", "cells that were begun are resumed anyway"},
                                                     {"--force", "to train again, choose another --out"}};
  for (const std::string& option : options)
    for (const auto& [name, advice] : own)
      if (option == name || option.starts_with(std::string(name) + "="))
        throw InvalidArgument(fmt::format("{} is set by the comparison and cannot be passed on", name), advice);
}

// The options, and the text of configuration files among them: a file may change while its name does not.
Json options_document(const std::vector<std::string>& options) {
  const std::string flag = "--config";
  Json files = Json::object();
  for (std::size_t i = 0; i < options.size(); ++i) {
    std::string file;
    if (options[i] == flag && i + 1 < options.size()) file = options[i + 1];
    if (options[i].starts_with(flag + "=")) file = options[i].substr(flag.size() + 1);
    if (!file.empty()) files[file] = read_text(file);
  }
  return {{"options", options}, {"files", files}};
}

}  // namespace

std::string Cell::name() const { return fmt::format("{}, {}, seed {}", data, attention, seed); }

bool Cell::finished() const { return fs::exists(folder / "result.json"); }

bool Cell::resumable() const { return fs::exists(folder / "checkpoints" / "last.safetensors"); }

fs::path Cell::log() const {
  fs::path file = folder;
  return file += ".log";
}

std::vector<Index> parse_seeds(const std::string& text) {
  std::vector<Index> seeds;
  for (const std::string& piece : split(text)) {
    const auto dots = piece.find("..");
    const Index first = read_seed(piece.substr(0, dots), text);
    const Index last = dots == std::string::npos ? first : read_seed(piece.substr(dots + 2), text);
    if (last < first) throw InvalidArgument(fmt::format("--seeds '{}': {} comes after {}", text, first, last));
    if (static_cast<std::size_t>(last - first) >= most_seeds - std::min(most_seeds, seeds.size()))
      throw InvalidArgument(fmt::format("--seeds '{}': more than {} seeds", text, most_seeds));
    for (Index seed = first; seed <= last; ++seed) seeds.push_back(seed);
  }
  refuse_repeats(seeds, "a seed of --seeds,");
  return seeds;
}

std::string file_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 128 && (std::isalnum(byte) != 0 || std::strchr("_+-=,.()", c) != nullptr);
    name += plain && !(c == '.' && name.empty()) ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  if (name.size() <= longest_name) return name;
  return fmt::format("{}~{:016x}", name.substr(0, longest_name - 20), hash(text));
}

Plan plan_cells(const std::vector<std::string>& data, const std::vector<std::string>& attentions,
                const std::vector<Index>& seeds, const std::string& folder, std::vector<std::string> options) {
  check_options(options);
  refuse_repeats(data, "--data");
  refuse_namesakes(data);
  refuse_equal(attentions);
  Plan plan{{}, std::move(options), folder};
  for (const std::string& name : data) {
    if (name.empty()) throw InvalidArgument("--data is empty");
    for (const Index seed : seeds)
      for (const std::string& attention : attentions)
        plan.cells.push_back(
            {name, attention, seed, plan.folder / file_name(name) / file_name(attention) / std::to_string(seed)});
  }
  return plan;
}

PlanLock::PlanLock(const Plan& plan) {
  const Json wanted = options_document(plan.options);
  std::error_code failure;
  fs::create_directories(plan.folder, failure);
  if (failure) throw IoError(fmt::format("cannot create {}: {}", plan.folder.string(), failure.message()));
  descriptor_ = ::open(plan.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) throw IoError(fmt::format("cannot open {}: {}", plan.folder.string(), std::strerror(errno)));
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    ::close(descriptor_);
    throw InvalidArgument(fmt::format("another comparison is working in {}", plan.folder.string()),
                          "wait for it, or choose another --out");
  }
  try {
    const fs::path file = plan.folder / "compare.json";
    if (!fs::exists(file)) {
      io::write_atomically(file, json_text(plan_schema, wanted));
      return;
    }
    const Json found = Json::parse(read_text(file.string()), nullptr, false);
    if (!found.is_object() || found.value("schema", "") != plan_schema || !found.contains("options"))
      throw DataError(file.string(), 0, 0, fmt::format("this is no document of schema {}", plan_schema),
                      "choose another --out");
    // Options of a plan whose cells all failed at once bind nobody.
    const bool begun = std::ranges::any_of(fs::recursive_directory_iterator(plan.folder), [](const auto& entry) {
      const fs::path name = entry.path().filename();
      return name == "result.json" || name == "last.safetensors";
    });
    if (!begun) {
      io::write_atomically(file, json_text(plan_schema, wanted));
      return;
    }
    if (found["options"] != wanted["options"] || found.value("files", Json::object()) != wanted["files"])
      throw InvalidArgument(
          fmt::format("{} was trained with other options of saddle train: found {}, now {}{}", plan.folder.string(),
                      found["options"].dump(), wanted["options"].dump(),
                      found["options"] == wanted["options"] ? ", and the configuration file has changed" : ""),
          "give the same options, or choose another --out");
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

PlanLock::~PlanLock() { ::close(descriptor_); }

}  // namespace saddle::cli

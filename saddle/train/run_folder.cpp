#include "saddle/train/run_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"
#include "saddle/io/safetensors_stream.hpp"
#include "saddle/train/result.hpp"

namespace saddle::train {

using Json = nlohmann::ordered_json;

std::filesystem::path config_of(const std::filesystem::path& run) {
  namespace fs = std::filesystem;
  const fs::path parent = fs::absolute(run).parent_path();
  if (!fs::is_directory(run) && parent.filename() != "checkpoints") return {};
  const fs::path config = (fs::is_directory(run) ? run : parent.parent_path()) / "config.toml";
  return fs::exists(config) ? config : fs::path();
}

std::optional<run::Settings> settings_of_run(const std::filesystem::path& run) {
  if (const std::filesystem::path config = config_of(run); !config.empty())
    return run::resolve(run::read_settings(config.string()));
  if (!std::filesystem::is_regular_file(run)) return std::nullopt;
  const io::SafetensorsReader reader(run);
  const auto found = reader.metadata().find("saddle");
  if (found == reader.metadata().end()) return std::nullopt;
  const Json state = Json::parse(found->second, nullptr, false);
  if (!state.is_object() || !state.contains("settings") || !state["settings"].is_string()) return std::nullopt;
  return run::resolve(run::parse_settings(state["settings"].get<std::string>(), run.string()));
}

void describe_run(const run::Folder& folder, const RunOptions& options, const run::Settings& settings,
                  const DataOrigin& origin, Index workers) {
  folder.write("config.toml", run::to_toml(settings, false));
  folder.write("env.json", environment_json(origin, options.command, workers));
}

std::unique_ptr<run::Folder> open_run(const RunOptions& options, const run::Settings& settings,
                                      const DataOrigin& origin, Index workers) {
  auto folder = std::make_unique<run::Folder>(options.out, options.open);
  if (options.open != run::Folder::Open::resume) {
    std::filesystem::remove(folder->file("prune.json"));  // of a model that stood here
    describe_run(*folder, options, settings, origin, workers);
    return folder;
  }
  const run::Settings before = run::resolve(run::read_settings(folder->file("config.toml").string()));
  std::vector<std::string> changed;
  for (const run::Difference& difference : run::differences(before, settings)) {
    const auto& allowed = options.allowed;
    if (std::find(allowed.begin(), allowed.end(), difference.key) == allowed.end())
      changed.push_back(fmt::format("{} was {} and is {}", difference.key, difference.before, difference.now));
  }
  if (!changed.empty())
    throw InvalidArgument(fmt::format("the run in {} was started with other settings: {}", options.out.string(),
                                      fmt::join(changed, "; ")),
                          "leave the flags out, or name the keys with --allow");
  const Json environment = Json::parse(folder->read("env.json"), nullptr, false);
  if (environment.is_object() && environment.value("data_checksum", origin.checksum) != origin.checksum)
    throw InvalidArgument(
        fmt::format("{} has changed since the run in {} was started", origin.name, options.out.string()),
        "--force starts the run again");
  return folder;
}

}  // namespace saddle::train

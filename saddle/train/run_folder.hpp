// The folder of a run as trainers open it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "saddle/train/training.hpp"

namespace saddle::train {

// What a run is made from, for env.json and for those who resume it.
struct DataOrigin {
  std::string name;
  std::vector<std::string> files;
  std::string checksum;
};

// A run that is resumed must have the same settings, but for those that are allowed to differ, and the same data;
// throws InvalidArgument that names what differs. Any other run is described in the folder.
std::unique_ptr<run::Folder> open_run(const RunOptions& options, const run::Settings& settings,
                                      const DataOrigin& origin, Index workers);
// The config.toml of a run, from its folder or from a file of its checkpoints; empty if there is none.
std::filesystem::path config_of(const std::filesystem::path& run);
// The settings that a model was trained with, by the config.toml of its run or by a file that stands alone and says so
// itself; nothing where neither does.
std::optional<run::Settings> settings_of_run(const std::filesystem::path& run);
// config.toml and env.json.
void describe_run(const run::Folder& folder, const RunOptions& options, const run::Settings& settings,
                  const DataOrigin& origin, Index workers);

}  // namespace saddle::train

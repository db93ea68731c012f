// One run: from settings to a folder with a trained model and what it is worth.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "saddle/run/folder.hpp"
#include "saddle/run/settings.hpp"
#include "saddle/train/group.hpp"

namespace saddle::train {

struct RunOptions {
  std::filesystem::path out;
  run::Folder::Open open = run::Folder::Open::fresh;
  std::vector<std::string> allowed;  // keys that may differ from the run that is resumed
  std::string command;               // the words of the command line, for env.json
  bool quiet = false;
  std::function<bool()> interrupted = [] { return false; };  // asked behind every update
};

enum class Ended { finished, interrupted };

// Completes the settings with what follows from the data, and gives them back as they will be used.
run::Settings complete(run::Settings settings);

// Trains, evaluates, and writes the folder; see docs/training.md for what is in it. After an interruption the folder
// holds a checkpoint to resume from. Throws WorkerLost, with a checkpoint written, if another worker is gone.
Ended train(const run::Settings& settings, const RunOptions& options, Group& group);

}  // namespace saddle::train

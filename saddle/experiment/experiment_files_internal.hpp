// configs/*.toml, compiled in.
#pragma once

#include <string>
#include <vector>

namespace saddle::experiment {

struct ExperimentFile {
  std::string name, text;
};
const std::vector<ExperimentFile>& experiment_files();

}  // namespace saddle::experiment

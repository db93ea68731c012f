// The cells of a comparison: what is trained, where, and with which options.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "saddle/base/view.hpp"

namespace saddle::cli {

struct Cell {
  std::string data, attention;  // as written on the command line
  Index seed = 0;
  std::filesystem::path folder;

  std::string name() const;           // "waves, softmax+bn, seed 3"
  bool finished() const;              // there is a result
  bool resumable() const;             // there is a checkpoint
  std::filesystem::path log() const;  // beside the folder, which belongs to the trainer
};

// "0..4", "0,2,5", "0..2,7": in the order given. Throws InvalidArgument for anything else and for a seed given twice.
std::vector<Index> parse_seeds(const std::string& text);

// The text as the name of a file: letters, digits and _+-=,.() stand for themselves, any other byte is %XX, as is a
// leading dot. Names too long for a file system are cut, with a hash of the whole.
std::string file_name(const std::string& text);

struct Plan {
  std::vector<Cell> cells;           // by data, then seed, then attention: what is compared is finished together
  std::vector<std::string> options;  // for the trainer
  std::filesystem::path folder;
};

// Every combination. Throws InvalidArgument for an attention that does not parse, for two that are the same, for data
// given twice, and for trainer options that the comparison sets itself.
Plan plan_cells(const std::vector<std::string>& data, const std::vector<std::string>& attentions,
                const std::vector<Index>& seeds, const std::string& folder, std::vector<std::string> options);

// Keeps the folder for this comparison until destroyed, and the trainer options in its compare.json. Throws
// InvalidArgument when another program works there, or when the folder holds cells that were trained with other
// options: their results would not be comparable.
class PlanLock {
 public:
  explicit PlanLock(const Plan& plan);
  ~PlanLock();
  PlanLock(const PlanLock&) = delete;
  PlanLock& operator=(const PlanLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace saddle::cli

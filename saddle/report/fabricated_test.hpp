// Made-up run folders, as the trainer writes them, for the tests of the report.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "saddle/base/view.hpp"

namespace saddle::report {

struct Fabricated {
  std::string data = "FashionMNIST", kind = "image";  // image, series or tokens
  std::vector<std::string> attention{"softmax"};      // one per layer
  std::vector<Index> factors;                         // of SH heads, one per head
  Index seed = 0, classes = 10, epochs = 12, layers = 4, heads = 4, samples = 6;
  double accuracy = 0.88, cost = 1;
  std::string protocol = "honest";
  bool finished = true;
};

// Writes config.toml, env.json, metrics.jsonl, result.json and inspect.json; the class labels of series include
// "<script>alert(1)</script>".
void fabricate(const std::filesystem::path& folder, const Fabricated& run);

// Several attentions on images, series and tokens, three seeds each, one run under the protocol of the literature and
// one that is not finished.
void fabricate_comparison(const std::filesystem::path& folder);

// A folder for one test, gone after it.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace saddle::report

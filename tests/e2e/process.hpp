// Runs lines in a shell, in a scratch folder where `saddle` is the program under test.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace saddle::e2e {

struct Result {
  int code = -1;  // exit code, or 128 + signal
  std::string out, err;
};

std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& text);

// Is the program that trains there?
bool has_training();
// Does a line need it?
bool trains(const std::string& line);

class CommandLine : public testing::Test {
 public:
  std::filesystem::path folder;  // gone after the test; commands run in its subfolder `work`

 protected:
  CommandLine();
  ~CommandLine() override;
  void SetUp() override;

  // `line` as in a shell; `tests` and `examples` in the scratch folder are those of the source tree.
  Result sh(const std::string& line) const;
  // The document that a line prints; the line must succeed.
  nlohmann::json json(const std::string& line) const;
};

}  // namespace saddle::e2e

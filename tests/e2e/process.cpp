#include "process.hpp"

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "places.hpp"

namespace saddle::e2e {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

bool has_training() { return fs::exists(fs::path(SADDLE_CLI).parent_path() / "saddle-torch"); }

bool trains(const std::string& line) {
  for (const char* command : {"saddle train", "saddle eval", "saddle predict", "saddle compare", "saddle prune",
                              "saddle reproduce examples", "saddle weights show runs"})
    if (line.find(command) != std::string::npos) return true;
  // A trained model, not a file, is looked into.
  return line.find("saddle analyze") != std::string::npos && line.find(" runs/") != std::string::npos;
}

CommandLine::CommandLine() {
  std::string pattern = (fs::temp_directory_path() / "saddle-e2e-XXXXXX").string();
  folder = mkdtemp(pattern.data());
  fs::create_directory(folder / "work");
  for (const char* name : {"tests", "examples"})
    fs::create_symlink(fs::path(SADDLE_SOURCE_DIR) / name, folder / "work" / name);
}

CommandLine::~CommandLine() {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

void CommandLine::SetUp() {
  if (std::string(SADDLE_CLI).empty()) GTEST_SKIP() << "the command line is not built";
}

Result CommandLine::sh(const std::string& line) const {
  const fs::path script = folder / "line.sh", out = folder / "out", err = folder / "err";
  write_file(script, "cd '" + (folder / "work").string() + "'\nPATH='" + fs::path(SADDLE_CLI).parent_path().string() +
                         "':$PATH\n" + line + "\n");
  const int status =
      std::system(("sh '" + script.string() + "' >'" + out.string() + "' 2>'" + err.string() + "' </dev/null").c_str());
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, read_file(out), read_file(err)};
}

nlohmann::json CommandLine::json(const std::string& line) const {
  const Result result = sh(line);
  EXPECT_EQ(result.code, 0) << line << "\n" << result.err;
  auto document = nlohmann::json::parse(result.out, nullptr, false);
  EXPECT_TRUE(document.is_object() && document.contains("schema")) << line << "\n" << result.out;
  return document;
}

}  // namespace saddle::e2e

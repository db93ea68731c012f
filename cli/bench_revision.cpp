#include "bench_revision.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "saddle/base/cpu.hpp"
#include "saddle/base/error.hpp"

namespace saddle::cli {

namespace {

namespace fs = std::filesystem;

std::string shell_word(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

struct Output {
  int code = 0;
  std::string text;  // stdout and stderr
};

Output shell(const std::string& line) {
  Output output;
  std::FILE* pipe = popen((line + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw IoError("cannot start a shell");
  std::array<char, 4096> block{};
  while (std::fgets(block.data(), static_cast<int>(block.size()), pipe) != nullptr) output.text += block.data();
  const int status = pclose(pipe);
  output.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  return output;
}

std::string must(const std::string& line, const std::string& what) {
  const Output output = shell(line);
  if (output.code == 0) return output.text;
  const std::size_t tail = output.text.size() > 600 ? output.text.size() - 600 : 0;
  throw IoError(fmt::format("{} failed:\n{}", what, output.text.substr(tail)));
}

}  // namespace

Revision::Revision(const std::string& name, const std::function<void(const std::string&)>& progress) {
  std::string root = must("git rev-parse --show-toplevel", "--base needs a git repository: finding it");
  root.erase(root.find_last_not_of('\n') + 1);
  repository_ = root;
  std::string commit =
      must(fmt::format("git -C {} rev-parse --verify --quiet {}", shell_word(root), shell_word(name + "^{commit}")),
           fmt::format("--base: finding the revision '{}'", name));
  commit.erase(commit.find_last_not_of('\n') + 1);
  std::string pattern = (fs::temp_directory_path() / "saddle-base-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw IoError("cannot make a folder for the other revision");
  folder_ = pattern;
  try {
    progress(fmt::format("building {} ({})", name, commit.substr(0, 10)));
    must(
        fmt::format("git -C {} worktree add --detach {} {}", shell_word(root), shell_word(folder_ + "/source"), commit),
        "checking out the other revision");
    const char* generator = shell("command -v ninja").code == 0 ? "-G Ninja " : "";
    must(fmt::format("cmake {}-S {} -B {} -DCMAKE_BUILD_TYPE=Release -DSADDLE_BUILD_TESTS=OFF -DSADDLE_BUILD_BENCH=OFF",
                     generator, shell_word(folder_ + "/source"), shell_word(folder_ + "/build")),
         "configuring the other revision");
    must(fmt::format("cmake --build {} --target saddle_cli --parallel {}", shell_word(folder_ + "/build"), cpu().cores),
         "building the other revision");
  } catch (...) {
    remove();
    throw;
  }
}

Revision::~Revision() { remove(); }

void Revision::remove() const {
  try {
    shell(
        fmt::format("git -C {} worktree remove --force {}", shell_word(repository_), shell_word(folder_ + "/source")));
  } catch (const IoError&) {  // the folder goes all the same
  }
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

}  // namespace saddle::cli

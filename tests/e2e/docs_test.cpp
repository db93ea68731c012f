// The documentation is true: every command it shows runs, every relative link leads somewhere.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path source = SADDLE_SOURCE_DIR;
const std::string cli = SADDLE_CLI;

std::string read(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// README.md, ARCHITECTURE.md, docs/*.md and the page of every mechanism, relative to the project.
std::vector<std::string> documents() {
  std::set<std::string> list;
  for (const char* name : {"README.md", "ARCHITECTURE.md"}) list.insert(name);
  for (const auto& entry : fs::directory_iterator(source / "docs"))
    if (entry.path().extension() == ".md") list.insert("docs/" + entry.path().filename().string());
  for (const auto& entry : fs::directory_iterator(source / "saddle" / "mechanisms"))
    if (entry.is_directory()) list.insert("saddle/mechanisms/" + entry.path().filename().string() + "/README.md");
  return {list.begin(), list.end()};
}

struct Page {
  std::vector<std::string> commands;  // lines of sh blocks
  std::vector<std::string> links;     // targets outside of code
};

Page parse(const std::string& text) {
  Page page;
  std::string fence;  // what stands behind the opening ```, or "-" for nothing; empty outside
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      const std::string language = line.substr(3);
      fence = !fence.empty() ? "" : language.empty() ? "-" : language;
      continue;
    }
    if (fence == "sh") page.commands.push_back(line);
    if (!fence.empty() || line.starts_with("    ")) continue;
    for (std::size_t at = line.find("]("); at != std::string::npos; at = line.find("](", at + 2)) {
      const std::string target = line.substr(at + 2, line.find_first_of(")#", at + 2) - at - 2);
      if (!target.empty() && target.find("://") == std::string::npos) page.links.push_back(target);
    }
  }
  return page;
}

struct Result {
  int exit = -1;
  std::string output;
};

Result run(const std::string& shell_line) {
  Result result;
  FILE* pipe = popen((shell_line + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  std::array<char, 4096> buffer{};
  while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) result.output.append(buffer.data(), n);
  const int status = pclose(pipe);
  result.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

// A folder that looks like the project's root, so that commands run as written and leave their files here.
class Workspace {
 public:
  Workspace() {
    std::string name = (fs::temp_directory_path() / "saddle-docs-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot create " + name);
    path_ = name;
    for (const auto& entry : fs::directory_iterator(source))
      fs::create_symlink(entry.path(), path_ / entry.path().filename());
  }
  ~Workspace() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  Result run(const std::string& line) const { return ::run("cd '" + path_.string() + "' && " + line); }

 private:
  fs::path path_;
};

class Document : public testing::TestWithParam<std::string> {
 protected:
  const Page page_ = parse(read(source / GetParam()));
};

TEST_P(Document, Exists) { EXPECT_TRUE(fs::exists(source / GetParam())); }

TEST_P(Document, CommandsRun) {
  if (cli.empty()) GTEST_SKIP() << "built without the command line";
  const Workspace workspace;
  const std::string program = "saddle ";
  for (const std::string& line : page_.commands) {
    if (!line.starts_with(program)) continue;
    const Result result = workspace.run("'" + cli + "' " + line.substr(program.size()));
    EXPECT_EQ(result.exit, 0) << GetParam() << ": " << line << "\n" << result.output;
    EXPECT_FALSE(result.output.empty()) << line;
  }
}

// They would rebuild the project, so it is only checked that they exist.
TEST_P(Document, DevCommandsExist) {
  const std::string script = read(source / "dev"), program = "./dev ";
  for (const std::string& line : page_.commands) {
    if (!line.starts_with(program)) continue;
    const std::string command = line.substr(program.size(), line.find(' ', program.size()) - program.size());
    EXPECT_NE(script.find("cmd_" + command + "()"), std::string::npos) << GetParam() << ": " << line;
  }
}

TEST_P(Document, LinksLeadSomewhere) {
  for (const std::string& link : page_.links)
    EXPECT_TRUE(fs::exists((source / GetParam()).parent_path() / link)) << GetParam() << ": " << link;
}

INSTANTIATE_TEST_SUITE_P(Docs, Document, testing::ValuesIn(documents()), [](const auto& parameter) {
  std::string name = parameter.param;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
});

// The example in the README is the one that is compiled.
TEST(Examples, ReadmeShowsTheExample) {
  const std::string program = read(source / "examples" / "attention.cpp");
  EXPECT_NE(read(source / "README.md").find("```cpp\n" + program + "```"), std::string::npos);
}

}  // namespace

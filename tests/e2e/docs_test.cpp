// The documentation is true: every command it shows runs, every relative link leads somewhere.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "places.hpp"
#include "process.hpp"

namespace saddle::e2e {

namespace {

namespace fs = std::filesystem;

const fs::path source = SADDLE_SOURCE_DIR;

// README.md, ARCHITECTURE.md, docs/*.md, docs/results/*.md and the page of every mechanism and analysis, relative to
// the project.
std::vector<std::string> documents() {
  std::set<std::string> list{"README.md", "ARCHITECTURE.md"};
  for (const std::string folder : {"docs", "docs/results"})
    for (const auto& entry : fs::directory_iterator(source / folder))
      if (entry.path().extension() == ".md") list.insert(folder + "/" + entry.path().filename().string());
  for (const std::string folder : {"saddle/mechanisms", "saddle/analysis"})
    for (const auto& entry : fs::directory_iterator(source / folder))
      if (entry.is_directory()) list.insert(folder + "/" + entry.path().filename().string() + "/README.md");
  return {list.begin(), list.end()};
}

struct Page {
  std::vector<std::string> commands;  // lines of sh blocks
  std::vector<std::string> links;     // relative targets outside of code
};

Page parse(const std::string& text) {
  Page page;
  bool fenced = false, shell = false;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      fenced = !fenced;
      shell = fenced && line == "```sh";
      continue;
    }
    if (shell) page.commands.push_back(line);
    if (fenced || line.starts_with("    ")) continue;
    for (std::size_t at = line.find("]("); at != std::string::npos; at = line.find("](", at + 2)) {
      const std::string target = line.substr(at + 2, line.find_first_of(")#", at + 2) - at - 2);
      if (!target.empty() && target.find("://") == std::string::npos) page.links.push_back(target);
    }
  }
  return page;
}

// Commands run in a folder that looks like the project's root, so that the files they write do not end up in it.
class Document : public CommandLine, public testing::WithParamInterface<std::string> {
 protected:
  const Page page_ = parse(read_file(source / GetParam()));
};

TEST_P(Document, Exists) { EXPECT_TRUE(fs::exists(source / GetParam())); }

TEST_P(Document, CommandsRun) {
  for (const std::string& line : page_.commands) {
    if (!line.starts_with("saddle ") || (trains(line) && !has_training())) continue;
    const Result result = sh(line);
    EXPECT_EQ(result.code, 0) << line << "\n" << result.err;
    EXPECT_FALSE(result.out.empty()) << line;
  }
}

// They would rebuild the project, so it is only checked that they exist.
TEST_P(Document, DevCommandsExist) {
  const std::string script = read_file(source / "dev"), program = "./dev ";
  for (const std::string& line : page_.commands) {
    if (!line.starts_with(program)) continue;
    const std::string command = line.substr(program.size(), line.find(' ', program.size()) - program.size());
    EXPECT_NE(script.find("cmd_" + command + "()"), std::string::npos) << line;
  }
}

TEST_P(Document, LinksLeadSomewhere) {
  for (const std::string& link : page_.links)
    EXPECT_TRUE(fs::exists((source / GetParam()).parent_path() / link)) << link;
}

INSTANTIATE_TEST_SUITE_P(Docs, Document, testing::ValuesIn(documents()), [](const auto& parameter) {
  std::string name = parameter.param;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
});

TEST(Examples, ReadmeShowsTheExamples) {
  for (const char* name : {"attention.cpp", "torch_attention/main.cpp"}) {
    const std::string program = read_file(source / "examples" / name);
    EXPECT_NE(read_file(source / "README.md").find("```cpp\n" + program + "```"), std::string::npos) << name;
  }
}

}  // namespace

}  // namespace saddle::e2e

// Help teaches by example, and every example runs as written.
#include <gmock/gmock.h>

#include <sstream>

#include "process.hpp"

namespace saddle::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

// The lines of a section of a help page, without their indentation.
std::vector<std::string> section(const std::string& page, const std::string& title) {
  std::vector<std::string> lines;
  std::istringstream in(page);
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line == title)
      inside = true;
    else if (line.empty())
      inside = false;
    else if (inside && line.starts_with("  ") && line[2] != ' ')
      lines.push_back(line.substr(2));
  }
  return lines;
}

struct Page {
  std::string command, text;
};

class Help : public CommandLine {
 protected:
  // The pages of a command and all below it.
  std::vector<Page> pages(const std::string& command = "saddle") const {
    const Result result = sh(command + " --help");
    EXPECT_EQ(result.code, 0) << command;
    EXPECT_EQ(result.err, "") << command;
    std::vector<Page> all{{command, result.out}};
    for (const std::string& line : section(result.out, "Commands:"))
      for (Page& page : pages(command + " " + line.substr(0, line.find(' ')))) all.push_back(std::move(page));
    return all;
  }
};

TEST_F(Help, CoversEveryCommand) {
  std::vector<std::string> commands;
  for (const Page& page : pages()) commands.push_back(page.command);
  EXPECT_THAT(commands,
              testing::UnorderedElementsAre(
                  "saddle", "saddle list", "saddle show", "saddle derive", "saddle explain", "saddle svr",
                  "saddle svr solve", "saddle bench", "saddle weights", "saddle weights show", "saddle weights check",
                  "saddle weights convert", "saddle data", "saddle data list", "saddle data show",
                  "saddle data baseline", "saddle data check", "saddle data generate", "saddle train", "saddle eval",
                  "saddle predict", "saddle compare", "saddle report", "saddle reproduce", "saddle plan",
                  "saddle analyze", "saddle prune", "saddle check-golden", "saddle doctor", "saddle version"));
}

TEST_F(Help, ExamplesStandUnderUsage) {
  for (const Page& page : pages()) {
    const auto usage = page.text.find("Usage: " + page.command);
    const auto examples = page.text.find("\n\nExamples:\n");
    ASSERT_NE(usage, std::string::npos) << page.command;
    ASSERT_NE(examples, std::string::npos) << page.command;
    EXPECT_EQ(page.text.find('\n', usage), examples) << page.command;
    EXPECT_THAT(page.text, HasSubstr("--json")) << page.command;
    EXPECT_THAT(page.text, Not(HasSubstr("\033"))) << page.command;
  }
}

TEST_F(Help, EveryExampleRuns) {
  for (const Page& page : pages()) {
    int examples = 0;
    for (const std::string& line : section(page.text, "Examples:")) {
      if (line.starts_with("#")) continue;
      ++examples;
      if (trains(line) && !has_training()) continue;
      const Result result = sh(line);
      EXPECT_EQ(result.code, 0) << line << "\n" << result.out << result.err;
    }
    EXPECT_GT(examples, 0) << page.command;
  }
}

TEST_F(Help, OtherWaysToAsk) {
  const std::string page = sh("saddle svr solve --help").out;
  EXPECT_EQ(sh("saddle svr solve -h").out, page);
  EXPECT_EQ(sh("saddle help svr solve").out, page);
  EXPECT_EQ(sh("saddle help").out, sh("saddle --help").out);
}

}  // namespace
}  // namespace saddle::e2e

#include "saddle/base/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "saddle/base/error.hpp"

namespace saddle {
namespace {

using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

class Log : public testing::Test {
 protected:
  ~Log() override {
    set_log_level(LogLevel::info);
    set_log_file("");
  }
};

TEST_F(Log, WritesPlainLinesWhenNotOnATerminal) {
  CaptureStderr();
  log(LogLevel::error, "no such file");
  log(LogLevel::warn, "slow {}");
  EXPECT_EQ(GetCapturedStderr(), "saddle error: no such file\nsaddle warning: slow {}\n");
}

TEST_F(Log, DropsWhatIsAboveTheLevel) {
  CaptureStderr();
  log(LogLevel::debug, "hidden");
  set_log_level(LogLevel::error);
  log(LogLevel::warn, "hidden");
  log_once("hidden", LogLevel::info, "hidden");
  set_log_level(LogLevel::debug);
  log(LogLevel::debug, "shown");
  log_once("hidden", LogLevel::info, "shown as well");
  EXPECT_EQ(GetCapturedStderr(), "saddle debug: shown\nsaddle info: shown as well\n");
}

TEST_F(Log, OnceMeansOncePerKey) {
  CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    log_once("log_test/a", LogLevel::info, "a");
    log_once("log_test/b", LogLevel::info, "b");
  }
  EXPECT_EQ(GetCapturedStderr(), "saddle info: a\nsaddle info: b\n");
}

TEST_F(Log, FileGetsTheTimeToo) {
  const std::string path = testing::TempDir() + "saddle_log_test.log";
  std::remove(path.c_str());
  CaptureStderr();
  set_log_file(path);
  log(LogLevel::info, "one");
  set_log_file("");
  log(LogLevel::info, "two");
  set_log_file(path);
  log(LogLevel::warn, "three");
  set_log_file("");
  GetCapturedStderr();

  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  const std::string time = "[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+Z ";
  EXPECT_THAT(lines, testing::ElementsAre(testing::MatchesRegex(time + "info: one"),
                                          testing::MatchesRegex(time + "warning: three")));
  std::remove(path.c_str());
}

TEST_F(Log, FileThatCannotBeOpenedIsAnError) { EXPECT_THROW(set_log_file("/no/such/folder/log"), IoError); }

TEST_F(Log, LinesOfThreadsStayWhole) {
  CaptureStderr();
  std::vector<std::thread> writers;
  for (int t = 0; t < 4; ++t) {
    writers.emplace_back([] {
      for (int i = 0; i < 100; ++i) log(LogLevel::info, "0123456789");
    });
  }
  for (std::thread& writer : writers) writer.join();
  std::string expected;
  for (int i = 0; i < 400; ++i) expected += "saddle info: 0123456789\n";
  EXPECT_EQ(GetCapturedStderr(), expected);
}

}  // namespace
}  // namespace saddle

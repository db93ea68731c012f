// saddle report as a program: the file it writes, what it says, how it fails.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "places.hpp"

namespace saddle::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class Report : public testing::Test {
 protected:
  struct Result {
    int code;
    std::string out, err;
  };

  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "saddle-report-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::ofstream(folder_ / "d3.js") << "// d3js.org, as far as these tests need it\n";
  }
  void TearDown() override { fs::remove_all(folder_); }

  Result report(const std::string& words, const std::string& d3 = "d3.js") const {
    const std::string line = "cd '" + folder_.string() + "' && SADDLE_D3='" + d3 + "' '" + SADDLE_CLI + "' report " +
                             words + " >out 2>err </dev/null";
    const int status = std::system(line.c_str());
    return {WEXITSTATUS(status), read("out"), read("err")};
  }
  std::string read(const std::string& name) const {
    std::ifstream in(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const std::string runs_ = "'" SADDLE_SOURCE_DIR "/tests/report/runs'";
  fs::path folder_;
};

TEST_F(Report, WritesOneFile) {
  const Result result = report(runs_);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("report.html: 4 runs, "));
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(read("report.html"), AllOf(HasSubstr("<title>2 attentions on Vowels</title>"), HasSubstr("</html>")));
}

TEST_F(Report, TakesTitleFileAndSamples) {
  const Result result = report(runs_ + " -o page.html --title 'a <b> title' --samples 0 --json");
  EXPECT_EQ(result.code, 0) << result.err;
  const auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document["schema"], "saddle.report/1");
  EXPECT_EQ(document["runs"], 4);
  EXPECT_EQ(document["finished"], 4);
  EXPECT_EQ(document["bytes"], fs::file_size(folder_ / "page.html"));
  EXPECT_THAT(read("page.html"), AllOf(HasSubstr("<title>a &lt;b&gt; title</title>"), HasSubstr("\"inputs\":[]")));
}

TEST_F(Report, FailsWithAReasonAndLeavesTheOldFile) {
  std::ofstream(folder_ / "report.html") << "old";
  fs::create_directory(folder_ / "empty");
  fs::create_directory(folder_ / "broken");
  std::ofstream(folder_ / "broken" / "result.json") << "{";
  const struct {
    std::string words, d3;
    int code;
    std::string message;
  } cases[] = {{"", "d3.js", 2, "run is required"},
               {"nowhere", "d3.js", 1, "nowhere: there is no such folder"},
               {"empty", "d3.js", 2, "there is no run in empty"},
               {"broken", "d3.js", 3, "broken/result.json:1:2: this is not JSON"},
               {runs_, "missing.js", 1, "node-d3"},
               {runs_ + " -o empty", "d3.js", 1, "empty is a folder"},
               {runs_ + " -o nowhere/page.html", "d3.js", 1, "nowhere"}};
  for (const auto& wrong : cases) {
    const Result result = report(wrong.words, wrong.d3);
    EXPECT_EQ(result.code, wrong.code) << wrong.words;
    EXPECT_THAT(result.err, HasSubstr(wrong.message));
    EXPECT_EQ(result.out, "");
  }
  EXPECT_EQ(read("report.html"), "old");
}

}  // namespace
}  // namespace saddle::cli

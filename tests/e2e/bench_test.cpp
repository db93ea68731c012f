// saddle bench as a user meets it. Nothing here depends on how fast this machine is.
#include <gmock/gmock.h>

#include "process.hpp"

namespace saddle::e2e {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Bench = CommandLine;

TEST_F(Bench, MeasuresARow) {
  const auto document =
      json("saddle bench --shape 1,2,40,8 --pass forward,forward+backward --seconds 0.02 --threads 1 --json");
  EXPECT_EQ(document["schema"], "saddle.bench/1");
  ASSERT_EQ(document["rows"].size(), 2u);
  for (const auto& row : document["rows"]) {
    EXPECT_TRUE(row["check"]["passed"]);
    EXPECT_GT(row["seconds"]["best"], 0);
    EXPECT_LE(row["seconds"]["best"], row["seconds"]["median"]);
    EXPECT_GT(row["gflops"], 0);
    EXPECT_FALSE(row["implementation"].get<std::string>().empty());
    EXPECT_EQ(row["threads"], 1);
  }
  EXPECT_GT(document["limits"][0]["fma_f32"], 0);
}

TEST_F(Bench, PrintsResultsOnStdoutAndProgressOnStderr) {
  const Result result = sh("saddle bench --attention softmax+causal --shape 1,2,40,8 --seconds 0.02 --peers none");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("softmax+causal"));
  EXPECT_THAT(result.out, Not(HasSubstr("checking")));
  EXPECT_THAT(result.err, HasSubstr("[1/1] timing softmax+causal 1,2,40,8 f32 forward"));
  EXPECT_THAT(sh("saddle bench --shape 1,2,40,8 --seconds 0.02 --quiet").err, IsEmpty());
}

TEST_F(Bench, RunsASuiteFromAFileAndJudgesIt) {
  const std::string row = "[[row]]\nshape = [1, 1, 24, 8]\nthreads = 1\n";
  write_file(folder / "work/easy.toml", row + "bars = [{ time_over = { dtype = \"f64\" }, at_most = 1e6 }]\n");
  const Result easy = sh("saddle bench --suite easy.toml --seconds 0.02");
  EXPECT_EQ(easy.code, 0) << easy.err;
  EXPECT_THAT(easy.out, HasSubstr("1 reached, 0 missed, 0 not measured"));
  write_file(folder / "work/hard.toml", row + "bars = [{ share_of = \"fma\", at_least = 2.0 }]\n");
  const Result hard = sh("saddle bench --suite hard.toml --seconds 0.02");
  EXPECT_EQ(hard.code, 1);
  EXPECT_THAT(hard.out, HasSubstr("0 reached, 1 missed, 0 not measured"));
  write_file(folder / "work/once.toml",
             row + "pass = \"forward+backward\"\nonce = true\n" + "bars = [{ memory = true, at_most = 1e9 }]\n");
  const Result once = sh("saddle bench --suite once.toml --seconds 0.02");
  EXPECT_EQ(once.code, 0) << once.out << once.err;
  EXPECT_THAT(once.err, HasSubstr("running once"));
}

TEST_F(Bench, AbsentPeersAreNotMeasured) {
  const auto document =
      json("SADDLE_PEERS=/nowhere saddle bench --shape 1,1,24,8 --seconds 0.02 --peers onnxruntime --json");
  const auto& peer = document["rows"][0]["peers"][0];
  EXPECT_TRUE(peer["seconds"].is_null());
  EXPECT_THAT(peer["reason"].get<std::string>(), HasSubstr("onnxruntime-node was not found"));
  EXPECT_TRUE(document["passed"]);
}

// Where the program of our side is absent, or torch is, rows are not measured, which is no miss.
TEST_F(Bench, ListsAndRunsTrainingSteps) {
  const auto listed = json("saddle bench --list --json");
  EXPECT_THAT(listed["suites"].dump(), HasSubstr("\"training\""));
  write_file(folder / "work/steps.toml",
             "[[model]]\nwork = \"tiny\"\nshape = [2, 8, 16, 2, 1]\nthreads = 1\n"
             "bars = [{ speed_over = \"torch\", at_least = 1e-6 }]\n");
  const auto document = json("saddle bench --suite steps.toml --seconds 0.02 --json");
  ASSERT_EQ(document["rows"].size(), 1u);
  const auto& row = document["rows"][0];
  EXPECT_EQ(row["kind"], "model");
  EXPECT_TRUE(row["check"]["passed"]) << row.dump();
  EXPECT_EQ(row.contains("reason"), row["seconds"].is_null());
  EXPECT_NE(row["bars"][0]["verdict"], "missed") << row.dump();
  const Result alone = sh("saddle bench --suite steps.toml --peers none");
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("not measured, torch was not asked"));
  EXPECT_EQ(sh("saddle bench --suite steps.toml --base main").code, 2);
}

TEST_F(Bench, WritesAPage) {
  EXPECT_EQ(sh("saddle bench --shape 1,1,16,8 --shape 1,1,32,8 --seconds 0.02 --html page.html").code, 0);
  const std::string page = read_file(folder / "work/page.html");
  EXPECT_THAT(page, HasSubstr("<svg"));
  EXPECT_THAT(page, HasSubstr("</html>"));
}

TEST_F(Bench, WritesAPageOfWholeLayers) {
  const std::string layers = "saddle bench --attention softmax --attention cat --shape 1,2,16,8 --seconds 0.02 ";
  EXPECT_EQ(sh(layers + "--shape 1,2,32,8 --html layers.html").code, 0);
  EXPECT_THAT(
      read_file(folder / "work/layers.html"),
      AllOf(HasSubstr("Whole layers"), HasSubstr("<td class=\"l\">cat</td>"), HasSubstr("<svg"), HasSubstr("</html>")));
  EXPECT_EQ(sh(layers + "--html nowhere/layers.html").code, 1);
}

TEST_F(Bench, CalibratesAndTheDoctorKnows) {
  const std::string cache = "SADDLE_CACHE=$PWD/cache ";
  EXPECT_FALSE(json(cache + "saddle doctor --json")["calibrated"]);
  const auto document = json(cache + "saddle bench --calibrate --seconds 0.02 --json");
  EXPECT_EQ(document["schema"], "saddle.rates/1");
  EXPECT_GT(document["fma_f32"], 0);
  EXPECT_TRUE(json(cache + "saddle doctor --json")["calibrated"]);
  sh("for f in cache/*; do echo '{}' > $f; done");
  const Result spoilt = sh(cache + "saddle doctor");
  EXPECT_EQ(spoilt.code, 0);
  EXPECT_THAT(spoilt.out, HasSubstr("typical values"));
}

TEST_F(Bench, ServesRowsToAnotherProgram) {
  const Result result = sh(R"(printf '%s\n' '{"op":"setup","attention":"softmax","shape":[1,1,8,4],"dtype":"f32",)"
                           R"("pass":"forward","layout":"contiguous","threads":1}' '{"op":"round","seconds":0.001}' )"
                           R"('{"op":"dance"}' 'nonsense' | saddle bench --serve)");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("\"implementation\""));
  EXPECT_THAT(result.out, HasSubstr("\"seconds\""));
  EXPECT_THAT(result.out, HasSubstr("unknown request 'dance'"));
}

TEST_F(Bench, BadInputIsExplained) {
  const auto fails = [&](const std::string& options, int code, const char* message, const char* hint) {
    const Result result = sh("saddle bench " + options);
    EXPECT_EQ(result.code, code) << options;
    EXPECT_THAT(result.err, HasSubstr(message)) << options;
    EXPECT_THAT(result.err, HasSubstr(hint)) << options;
    EXPECT_THAT(result.out, IsEmpty()) << options;
  };
  fails("--suite flors", 2, "unknown suite 'flors'", "did you mean 'floors'?");
  fails("--suite nowhere.toml", 1, "cannot read", "");
  fails("--shape 1,2,3", 2, "four numbers", "");
  fails("--shape 1,2,x,4", 2, "'x' is not a whole number", "");
  fails("--dtype f23", 2, "unknown element type", "f32");
  fails("--pass backward", 2, "unknown pass", "");
  fails("--attention sofmax", 2, "sofmax", "softmax");
  fails("--peers troch", 2, "unknown peer", "'torch'");
  fails("--suite quick --shape 1,1,8,4", 2, "--suite brings its own rows", "");
  fails("--seconds -1", 2, "--seconds must be above 0", "");
  fails("--shape 1,1,8,4 --html nowhere/page.html", 1, "nowhere", "");
  fails("--shape 1,1,8,4 --html .", 1, "it is a folder", "");
  fails("--list --suite quick", 2, "--list makes no use of --suite", "leave one of them out");
  fails("--list --calibrate", 2, "--list makes no use of --calibrate", "");
  fails("--calibrate --html page.html", 2, "--calibrate makes no use of --html", "");
  write_file(folder / "work/occupied", "");
  const Result nowhere = sh("SADDLE_CACHE=$PWD/occupied/cache saddle bench --calibrate --seconds 0.02");
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_THAT(nowhere.err, HasSubstr("cannot create"));
  EXPECT_THAT(nowhere.err, HasSubstr("set SADDLE_CACHE"));
  EXPECT_THAT(nowhere.err, Not(HasSubstr("measuring")));
  write_file(folder / "work/bad.toml", "[[row]]\nshape = [1, 1, 8, 4]\ndtyp = \"f32\"\n");
  fails("--suite bad.toml", 3, "unknown key 'dtyp'", "did you mean 'dtype'?");
}

}  // namespace
}  // namespace saddle::e2e

// The command line as a user meets it: results, messages, exit codes.
#include <gmock/gmock.h>

#include "process.hpp"

namespace saddle::e2e {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

TEST_F(CommandLine, ListsMechanisms) {
  const Result result = sh("saddle list");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("attention_bn_sh"));
  EXPECT_THAT(result.out, Not(HasSubstr("\033")));
  EXPECT_THAT(result.err, IsEmpty());
  const auto document = json("saddle list --json");
  EXPECT_EQ(document["schema"], "saddle.list/1");
  EXPECT_GE(document["mechanisms"].size(), 8u);
  for (const auto& mechanism : document["mechanisms"])
    for (const char* key : {"name", "title", "composition", "tier", "level", "summary"})
      EXPECT_TRUE(mechanism.contains(key)) << key;
}

TEST_F(CommandLine, AnOptionIsNoValue) {
  for (const std::string command : {"saddle plan --params 1M --html --json", "saddle analyze --html --threads 1"}) {
    const Result result = sh(command);
    EXPECT_EQ(result.code, 2) << command;
    EXPECT_THAT(result.err, HasSubstr("--html")) << command;
    EXPECT_THAT(result.err, HasSubstr("found the option --")) << command;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "work/--json"));
}

TEST_F(CommandLine, ListsParts) {
  EXPECT_THAT(sh("saddle list --parts").out, HasSubstr("den_eps"));
  const auto parts = json("saddle --json list --parts")["parts"];
  bool window = false;
  for (const auto& part : parts)
    if (part["name"] == "window")
      window = part["options"][0]["name"] == "radius" && part["options"][0]["default"] == "16";
  EXPECT_TRUE(window);
}

TEST_F(CommandLine, ShowsAPage) {
  const Result result = sh("saddle show attention-bn");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("softmax+bn"));
  EXPECT_THAT(result.out, HasSubstr("Written form"));
  EXPECT_THAT(result.out, Not(HasSubstr("](")));  // no markdown links are left
  EXPECT_THAT(sh("saddle show attention_bn --bibtex").out, StartsWith("@"));
}

TEST_F(CommandLine, ShowsAWrittenForm) {
  const auto document = json("saddle show 'softmax + bn( beta=0.6 ) + sh(1,2)' --json");
  EXPECT_EQ(document["written"], "softmax+bn(beta=0.6)+sh(1,2)");
  EXPECT_EQ(document["json"]["transform"][0]["beta"], 0.6);
  EXPECT_EQ(document["parts"][1]["role"], "normaliser");
  EXPECT_FALSE(document["exact"]);
}

TEST_F(CommandLine, ReadsAnAttentionFromAFile) {
  const auto document = json("saddle show 'softmax+bn(beta=0.6)+causal' --json");
  write_file(folder / "work/value.json", document["json"].dump());
  write_file(folder / "work/value.toml", document["toml"].get<std::string>());
  EXPECT_EQ(json("saddle show @value.json --json")["written"], document["written"]);
  EXPECT_EQ(json("saddle show @value.toml --json")["written"], document["written"]);
  write_file(folder / "work/broken.toml", "kernel = \n");
  const Result result = sh("saddle show @broken.toml");
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("broken.toml: "));
  EXPECT_EQ(sh("saddle show @missing.toml").code, 1);
}

TEST_F(CommandLine, DerivesInEveryFormat) {
  for (const char* format : {"text", "markdown", "latex", "html"}) {
    const Result result = sh(std::string("saddle derive softmax+bn --format ") + format);
    EXPECT_EQ(result.code, 0) << format << "\n" << result.err;
    EXPECT_GT(result.out.size(), 1000u) << format;
  }
  EXPECT_EQ(json("saddle derive linear --json")["schema"], "saddle.derive/1");
  EXPECT_EQ(sh("saddle derive softmax --format html -o page.html").out, "");
  EXPECT_THAT(read_file(folder / "work/page.html"), HasSubstr("<html"));
  EXPECT_EQ(sh("saddle derive softmax -o missing/page.html").code, 1);
}

// The derivation is still printed, but a script can tell.
TEST_F(CommandLine, ACertificateThatDoesNotHoldIsAFailure) {
  for (const char* more : {"", " --json", " --format html"}) {
    const Result result = sh(std::string("saddle derive 'softmax(scale=1e6)+one'") + more);  // exp overflows
    EXPECT_EQ(result.code, 1) << more;
    EXPECT_GT(result.out.size(), 1000u) << more;
    EXPECT_THAT(result.err, HasSubstr("certificate")) << more;
    EXPECT_THAT(result.err, HasSubstr("hint: ")) << more;
  }
}

TEST_F(CommandLine, ExplainsTheChoice) {
  const auto document = json("saddle explain linear --shape 1,8,4096,64 --json");
  EXPECT_EQ(document["dims"]["M"], 4096);
  EXPECT_EQ(document["dims"]["X"], 512);
  EXPECT_EQ(document["costs"]["cheaper"], "primal");
  EXPECT_TRUE(document["chosen"].is_string());
  EXPECT_TRUE(document["costs"]["rows"][0]["primal"].contains("multiply_adds"));
  const Result result = sh("saddle explain softmax+causal --shape 1,2,16,4 --keys 16 --padding --backward");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("refuses"));
  EXPECT_THAT(result.out, HasSubstr("choice: "));
}

// Heads of one kind are counted once: counting each of these would take minutes.
TEST_F(CommandLine, ExplainsManyHeads) {
  const auto document = json("saddle explain 'softmax+causal' --shape 1,16384,2048,4 --json");
  std::size_t heads = 0;
  for (const auto& row : document["costs"]["rows"])
    if (row["scope"] == "head" && row["pass"] == "forward") heads += row["heads"].size();
  EXPECT_EQ(heads, 16384u);
}

// The ratios of pooled heads that the theory gives, to three digits.
TEST_F(CommandLine, CostsShowTheSavingOfPooledHeads) {
  const auto total = [&](const std::string& attention, const std::string& shape, const std::string& width) {
    const auto document = json("saddle explain '" + attention + "' --json --shape " + shape + " --width " + width);
    double layer = 0;
    for (const auto& row : document["costs"]["rows"])
      if (row["scope"] == "layer" && row["pass"] == "forward") layer = row["dual"]["multiply_adds"];
    return layer;
  };
  const std::string pooled = "softmax+sh(1,1,2,2,4,4,8,8)";
  EXPECT_NEAR(total(pooled, "1,8,1024,8", "64") / total("softmax", "1,8,1024,8", "64"), 0.498, 5e-4);
  EXPECT_NEAR(total(pooled, "1,8,256,64", "512") / total("softmax", "1,8,256,64", "512"), 0.681, 5e-4);
}

TEST_F(CommandLine, DoctorFindsThisInstallationSound) {
  const Result result = sh("saddle doctor");
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.err, IsEmpty());
  EXPECT_THAT(result.out, HasSubstr("ok "));
  EXPECT_THAT(result.out, HasSubstr("selected implementation equals the reference (tiled selected, "));
  EXPECT_TRUE(json("saddle doctor --json")["ok"]);
  EXPECT_EQ(json("SADDLE_MAX_ISA=scalar saddle doctor --json")["isa"]["used"], "scalar");
  const Result wrong = sh("SADDLE_MAX_ISA=mmx saddle doctor");
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.out, HasSubstr("SADDLE_MAX_ISA"));
}

TEST_F(CommandLine, Version) {
  const Result result = sh("saddle --version");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, StartsWith("saddle "));
  EXPECT_EQ(sh("saddle version").out, result.out);
  EXPECT_EQ("saddle " + json("saddle version --json")["version"].get<std::string>() + "\n", result.out);
}

struct Mistake {
  std::string line;
  int code;
  std::string message, hint;
};

TEST_F(CommandLine, MistakesGetACodeAMessageAndAHint) {
  const Mistake mistakes[] = {
      {"saddle", 2, "subcommand is required", "saddle --help"},
      {"saddle lsit", 2, "unknown command 'lsit'", "did you mean 'list'?"},
      {"saddle svr slove", 2, "unknown command 'slove'", "did you mean 'solve'?"},
      {"saddle list --prats", 2, "unknown option '--prats'", "did you mean '--parts'?"},
      {"saddle list softmax", 2, "unknown argument 'softmax'", "saddle list --help"},
      {"saddle show", 2, "attention is required", "saddle show --help"},
      {"saddle show sofmax", 2, "unknown name 'sofmax'", "did you mean 'softmax'?"},
      {"saddle show 'softmax+bn(beta=high)'", 2, "takes a number, found 'high'", "hint: "},
      {"saddle help nosuch", 2, "unknown command 'nosuch'", "saddle --help"},
      {"saddle help lsit", 2, "unknown command 'lsit'", "did you mean 'list'?"},
      {"saddle svr slove --help", 2, "unknown command 'slove'", "did you mean 'solve'?"},
      {"saddle derive softmax --format pdf", 2, "--format: expected one of text, markdown, latex, html, found 'pdf'",
       "saddle derive --help"},
      {"saddle derive softmax --seed many", 2, "--seed: expected a whole number", "saddle derive --help"},
      {"saddle derive softmax --seed 1.5", 2, "found '1.5'", "saddle derive --help"},
      {"saddle derive softmax --seed 99999999999999999999", 2, "found '99999999999999999999'", "hint: "},
      {"saddle derive softmax --seed -1", 2, "--seed must not be negative", "hint: "},
      {"saddle svr solve --data x.csv -C abc", 2, "-C: expected a number such as 0.5, found 'abc'", "svr solve --help"},
      {"saddle explain softmax --shape", 2, "--shape: expected a value, found none", "saddle explain --help"},
      {"saddle list --json=perhaps", 2, "--json: this option is on when it is named", "saddle list --help"},
      {"saddle explain softmax", 2, "--shape is required", "saddle explain --help"},
      {"saddle explain softmax --shape 1,2,3", 2, "expected four numbers B,H,N,D, found 3", "--shape 1,8,1024,64"},
      {"saddle explain softmax --shape 1,2,0,4", 2, "found '0'", "hint: "},
      {"saddle explain softmax --shape 1,8,99999999999,64", 2, "N must be a whole number from 1 to 67108864", "hint: "},
      {"saddle explain softmax --shape 1,8,99999999999999999999,64", 2, "N must be a whole number", "hint: "},
      {"saddle explain softmax --shape 1,65537,16,4", 2, "H must be a whole number from 1 to 65536", "hint: "},
      {"saddle explain softmax --shape 67108864,65536,67108864,64", 2, "elements", "hint: "},
      {"saddle explain softmax --shape 1,1,8,4 --keys 99999999999", 2, "--keys must be", "hint: "},
      {"saddle explain softmax --shape 1,1,8,4 --keys -1", 2, "--keys must be", "hint: "},
      {"saddle explain softmax --shape 1,1,8,4 --value-width 99999999999", 2, "--value-width must be", "hint: "},
      {"saddle explain softmax --shape 1,1,8,4 --width 99999999999", 2, "--width must be", "hint: "},
      {"saddle explain 'softmax+sh(1,2,4)' --shape 1,2,8,4", 2, "head", "hint: "},
      {"saddle list --threads -1", 2, "--threads", "hint: "},
      {"saddle check-golden no/such/folder", 1, "", ""},
      {"saddle svr solve --data missing.csv", 1, "cannot read missing.csv", "hint: "},
  };
  for (const Mistake& mistake : mistakes) {
    const Result result = sh(mistake.line);
    EXPECT_EQ(result.code, mistake.code) << mistake.line << "\n" << result.err;
    EXPECT_THAT(result.err, HasSubstr(mistake.message)) << mistake.line;
    EXPECT_THAT(result.err, HasSubstr(mistake.hint)) << mistake.line;
    if (mistake.code != 2) continue;
    EXPECT_THAT(result.out, IsEmpty()) << mistake.line;
    EXPECT_THAT(result.err, StartsWith("saddle: ")) << mistake.line;
  }
}

TEST_F(CommandLine, SurvivesAnyStdout) {
  EXPECT_EQ(sh("saddle list --parts | head -n 1 | grep -q kernel").code, 0);
  EXPECT_EQ(sh("saddle list | true").code, 0);
  EXPECT_EQ(sh("{ saddle list --parts; echo $? > code; } | true; test $(cat code) = 0").code, 0);
  const Result closed = sh("saddle list >&-");
  EXPECT_EQ(closed.code, 1);
  EXPECT_THAT(closed.err, HasSubstr("cannot write the result to stdout"));
  EXPECT_EQ(sh("test -e /dev/full || exit 1; saddle list > /dev/full").code, 1);
  EXPECT_EQ(sh("saddle list 2>&-").code, 0);
  EXPECT_EQ(sh("saddle lsit 2>&- >&- <&-").code, 2);
  // A file opened by the program must not become the closed stdout.
  EXPECT_EQ(sh("saddle derive softmax -o page.txt >&-").code, 0);
  EXPECT_THAT(read_file(folder / "work/page.txt"), HasSubstr("softmax"));
}

TEST_F(CommandLine, LogsToAFileAndStaysQuiet) {
  EXPECT_EQ(sh("saddle explain softmax --shape 1,1,4,2 --quiet --log-file log.txt").err, "");
  EXPECT_EQ(sh("saddle list --log-file missing/log.txt").code, 1);
}

}  // namespace
}  // namespace saddle::e2e

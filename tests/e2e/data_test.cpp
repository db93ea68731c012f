// saddle data, as a program.
#include <gmock/gmock.h>

#include "process.hpp"

namespace saddle::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Data : public CommandLine {};

const std::string good = "@classLabel true a b\n@data\n1,2:a\n3,4:b\n5,6:a\n7,8:b\n";

TEST_F(Data, ListSaysWhatIsHere) {
  write_file(folder / "work" / "mine_TRAIN.ts", good);
  EXPECT_EQ(sh("mkdir -p own/mine && mv mine_TRAIN.ts own/mine/").code, 0);
  const auto document = json("saddle data list --data-dir own --json");
  EXPECT_EQ(document["schema"], "saddle.data.list/1");
  bool found = false;
  for (const auto& entry : document["data"])
    if (entry["name"] == "mine") found = entry["found"].get<bool>() && entry["place"] == "own/mine";
  EXPECT_TRUE(found) << document;
  const Result unknown = sh("saddle data list --data-dir nowhere");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("'nowhere' does not exist"));
}

TEST_F(Data, ShowCountsClassesOfTheTrainingSplitAlone) {
  write_file(folder / "work" / "x_TRAIN.ts", good);
  write_file(folder / "work" / "x_TEST.ts", "@data\n1,2,3:b\n");
  const Result text = sh("saddle data show x_TRAIN.ts");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("series, 1 channel, length 2, 2 classes"), HasSubstr("x_TEST.ts"),
                              HasSubstr("sample 0, class a, length 2"), HasSubstr("1 .. 2")));
  const auto document = json("saddle data show x_TRAIN.ts --samples 1 --json");
  EXPECT_EQ(document["schema"], "saddle.data.show/1");
  ASSERT_EQ(document["splits"].size(), 2u);
  EXPECT_EQ(document["splits"][0]["class_counts"], nlohmann::json({2, 2}));
  EXPECT_EQ(document["splits"][1]["samples"], 1);
  EXPECT_FALSE(document["splits"][1].contains("class_counts"));
  EXPECT_EQ(document["first"][0]["values"], nlohmann::json({1, 2}));
}

TEST_F(Data, LabelsDoNotReachTheTerminalAsCommands) {
  write_file(folder / "work" / "x.ts", "@data\n1:\033[31mred\n2:<script>\n1:\033[31mred\n2:<script>\n");
  const Result text = sh("saddle data show x.ts");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(Not(HasSubstr("\033")), HasSubstr("\\u001b[31mred"), HasSubstr("<script>")));
}

TEST_F(Data, CheckNamesEveryProblem) {
  write_file(folder / "work" / "good.ts", good);
  write_file(folder / "work" / "bad.ts", good + "x:a\n1:c\n1\n");
  const Result text = sh("saddle data check good.ts bad.ts");
  EXPECT_EQ(text.code, 3);
  EXPECT_THAT(text.out, AllOf(HasSubstr("OK  good.ts: 4 samples"), HasSubstr("FAILED  bad.ts: 3 problems"),
                              HasSubstr("7:1: expected a number"), HasSubstr("8:3: the class label 'c'"),
                              HasSubstr("9:1: expected ':'")));
  const Result document = sh("saddle data check bad.ts --json");
  EXPECT_EQ(document.code, 3);
  EXPECT_EQ(nlohmann::json::parse(document.out)["files"][0]["problems"][1]["line"], 8);
  write_file(folder / "work" / "stamps.ts", "@timeStamps true\n@data\n(0,1):a\n");
  EXPECT_EQ(sh("saddle data check stamps.ts").code, 4);
  EXPECT_EQ(sh("saddle data check none.ts").code, 1);
  EXPECT_EQ(sh("saddle data check good.ts --format xml").code, 2);
}

TEST_F(Data, CheckNamesDamagedGzip) {
  write_file(folder / "work" / "a.ts", good + std::string(5000, '#'));
  EXPECT_EQ(sh("gzip -k a.ts && saddle data check a.ts.gz").code, 0);
  const Result cut = sh("head -c 60 a.ts.gz > b.ts.gz; saddle data check b.ts.gz");
  EXPECT_EQ(cut.code, 3);
  EXPECT_THAT(cut.out, HasSubstr("the gzip stream is cut"));
}

TEST_F(Data, GenerateWritesWhatShowReads) {
  const std::string line =
      "saddle data generate listops --out ops --set min=5 --set max=30 --set train=20 --set test=5";
  EXPECT_EQ(sh(line).code, 0);
  EXPECT_EQ(json("saddle data show ops --json")["splits"][0]["samples"], 20);
  const Result again = sh(line);
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("exists already"));
  EXPECT_EQ(sh(line + " --force").code, 0);
  EXPECT_EQ(sh("saddle data generate multiscale --out m_TRAIN.ts --set train=8 --set test=4").code, 0);
  EXPECT_EQ(json("saddle data show m_TRAIN.ts --json")["splits"][1]["files"][0], "m_TEST.ts");
  EXPECT_EQ(sh("saddle data generate listops --out x.ts").code, 2);
  EXPECT_EQ(sh("saddle data generate listops --out y --set length=3").code, 2);
  EXPECT_EQ(sh("saddle data generate listops --out y --set length").code, 2);
  EXPECT_THAT(sh("saddle data generate lisstops --out y").err, HasSubstr("did you mean 'listops'?"));
}

}  // namespace
}  // namespace saddle::e2e

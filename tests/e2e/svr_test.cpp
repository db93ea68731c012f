// saddle svr solve: from a table to a certified fit and predictions.
#include <gmock/gmock.h>

#include "process.hpp"

namespace saddle::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Svr : public CommandLine {
 protected:
  void SetUp() override {
    CommandLine::SetUp();
    write_file(folder / "work/plane.csv",
               "a,b,\"sum, twice\",y\r\n0,0,0,0\r\n1,0,2,1\r\n0,1,2,1\r\n1,1,4,2\r\n2,1,6,3\r\n");
  }
};

TEST_F(Svr, FitsAPlane) {
  const auto document =
      json("saddle svr solve --json --data plane.csv --inputs a,b --attention dot -C 100 --epsilon 1e-3");
  EXPECT_EQ(document["schema"], "saddle.svr.solve/1");
  EXPECT_TRUE(document["converged"]);
  const auto& channel = document["channels"][0];
  EXPECT_EQ(channel["target"], "y");
  EXPECT_EQ(channel["status"], "converged");
  EXPECT_LT(channel["gap"], 1e-8);
  EXPECT_LT(channel["rmse"], 2e-3);
  EXPECT_EQ(document["support_vectors"].size(), channel["support_vectors"]);
}

TEST_F(Svr, PredictsOtherRowsByName) {
  write_file(folder / "work/other.csv", "b,a\n3,4\n");
  const std::string fit =
      "saddle svr solve --data plane.csv --inputs 1,2 --targets y,3 --attention dot -C 100 --epsilon 1e-6";
  const Result result = sh(fit + " --predict other.csv");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("a,b,predicted_y,\"predicted_sum, twice\"\n4,3,"));
  EXPECT_THAT(result.err, HasSubstr("support vectors"));
  double y = 0, twice = 0;
  ASSERT_EQ(std::sscanf(result.out.substr(result.out.find("\n4,3,")).c_str(), "\n4,3,%lf,%lf", &y, &twice), 2);
  EXPECT_NEAR(y, 7, 1e-4);
  EXPECT_NEAR(twice, 14, 1e-4);

  const Result to_file = sh(fit + " --predict other.csv --out predictions.csv");
  EXPECT_THAT(to_file.out, HasSubstr("support vectors"));
  EXPECT_EQ(read_file(folder / "work/predictions.csv"), result.out);
}

TEST_F(Svr, ReadsStdinAndNamesPlaces) {
  EXPECT_EQ(sh("saddle svr solve --data - < plane.csv").code, 0);
  const struct {
    std::string table;
    int code;
    std::string message;
  } mistakes[] = {
      {"", 3, "bad.csv: the file is empty"},
      {"x,y\\n", 3, "no records"},
      {"1,2\\n3,4\\n", 3, "bad.csv:1:1: expected the names of the columns, found the number 1"},
      {"x,x\\n3,4\\n", 3, "bad.csv:1:1: the header names 'x' twice"},
      {"x,y\\n1,2\\n3\\n", 3, "bad.csv:3:1: found 1 fields, the header has 2"},
      {"x,y\\n1,2\\n3,four\\n", 3, "bad.csv:3:3: column 'y': expected a number, found 'four'"},
      {"x,y\\n1,nan\\n", 3, "bad.csv:2:3: column 'y'"},
      {"x,y\\n1,\"2\\n", 3, "bad.csv:2:3: a quoted field is not closed"},
  };
  for (const auto& mistake : mistakes) {
    const Result result = sh("printf '" + mistake.table + "' > bad.csv; saddle svr solve --data bad.csv");
    EXPECT_EQ(result.code, mistake.code) << mistake.table;
    EXPECT_THAT(result.err, HasSubstr(mistake.message)) << mistake.table;
    EXPECT_THAT(result.err, HasSubstr("hint: ")) << mistake.table;
  }
}

TEST_F(Svr, RefusesWhatMakesNoSense) {
  EXPECT_THAT(sh("saddle svr solve --data plane.csv --inputs z").err, HasSubstr("no column 'z'"));
  EXPECT_EQ(sh("saddle svr solve --data plane.csv --inputs z").code, 2);
  EXPECT_EQ(sh("saddle svr solve --data plane.csv --inputs y").code, 2);
  EXPECT_EQ(sh("saddle svr solve --data plane.csv -C 0").code, 2);
  EXPECT_EQ(sh("saddle svr solve --data plane.csv -C many").code, 2);
  EXPECT_EQ(sh("saddle svr solve --data plane.csv --epsilon -1").code, 2);
  EXPECT_EQ(sh("saddle svr solve --data plane.csv --attention softmax+causal").code, 4);
  for (const char* twice : {"--inputs a,a", "--inputs a,1", "--targets y,y"}) {
    const Result result = sh(std::string("saddle svr solve --data plane.csv ") + twice);
    EXPECT_EQ(result.code, 2) << twice;
    EXPECT_THAT(result.err, HasSubstr("twice")) << twice;
  }
  const Result both = sh("saddle svr solve --data - --predict - < plane.csv");
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, HasSubstr("cannot both read stdin"));
}

// Without a solution there are no predictions, only the reason.
TEST_F(Svr, AFailedFitPredictsNothing) {
  write_file(folder / "work/steep.csv", "x,y\n1e200,0\n2e200,1\n3e200,4\n");
  const std::string fit = "saddle svr solve --data steep.csv --attention dot+one";
  for (const char* more : {"", " --predict steep.csv", " --out predictions.csv", " --json --predict steep.csv"}) {
    const Result result = sh(fit + more);
    EXPECT_EQ(result.code, 1) << more << result.err;
    EXPECT_THAT(result.out, Not(HasSubstr("predict"))) << more;
    EXPECT_THAT(result.err, HasSubstr("did not converge for every target: y: ")) << more;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "work/predictions.csv"));
}

}  // namespace
}  // namespace saddle::e2e

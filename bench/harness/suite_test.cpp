#include "suite.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saddle/base/error.hpp"

namespace saddle::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Suite, EveryCombinationIsARow) {
  const Suite suite = parse_suite(R"(
summary = "two shapes, two passes"
[[row]]
attention = "softmax+causal"
shape = [[1, 2, 8, 4], [1, 2, 16, 12, 4, 6]]
pass = ["forward", "forward+backward"]
threads = [1, 3]
dtype = "bf16"
peers = "torch"
)",
                                  "t", 2);
  EXPECT_EQ(suite.summary, "two shapes, two passes");
  ASSERT_EQ(suite.entries.size(), 8u);
  const Entry& last = suite.entries.back();
  EXPECT_EQ(to_string(last.row), "softmax+causal 1,2,16,12,4,6 bf16 forward+backward, 3 threads");
  EXPECT_THAT(last.peers, ElementsAre("torch"));
}

TEST(Suite, RowsSayOnlyWhatDiffersFromTheDefaults) {
  const Suite suite = parse_suite("[[row]]\nshape = [1, 2, 8, 4]\n", "t", 7);
  ASSERT_EQ(suite.entries.size(), 1u);
  Row expected;
  expected.dims = {1, 2, 8, 8, 4, 4};
  expected.threads = 7;
  EXPECT_EQ(suite.entries.front().row, expected);
}

TEST(Suite, BarsNameWhatTheyAreMeasuredAgainst) {
  const Suite suite = parse_suite(R"([[row]]
shape = [1, 2, 8, 4]
dtype = "bf16"
threads = 2
bars = [
  { share_of = "amx", at_least = 0.27 },
  { speed_over = "torch", at_least = 4.5 },
  { speed_over = { dtype = "f32", threads = 1 }, at_least = 5 },
  { time_over = { attention = "linear" }, near = 0.5, within = 0.1 },
  { memory = true, at_most = 1e8 },
]
)",
                                  "t", 1);
  const auto& bars = suite.entries.front().bars;
  const Row& row = suite.entries.front().row;
  ASSERT_EQ(bars.size(), 5u);
  EXPECT_EQ(bar_text(bars[0], row), "27 % of AMX ceiling");
  EXPECT_EQ(bar_text(bars[1], row), "4.5x torch");
  EXPECT_EQ(bar_text(bars[2], row), "5.0x f32 1 thread");
  EXPECT_EQ(bar_text(bars[3], row), "time 0.5 within 10 % of linear");
  EXPECT_EQ(bar_text(bars[4], row), "extra memory at most 100 MB");
  EXPECT_EQ(bars[2].other.dims, row.dims);
  EXPECT_EQ(bars[3].other.dtype, DType::bf16);
}

TEST(Suite, BarsAreReachedFromTheRightSide) {
  Bar bar;
  bar.at_least = 2;
  EXPECT_TRUE(bar.reached(2));
  EXPECT_FALSE(bar.reached(1.99));
  bar = Bar{};
  bar.at_most = 2;
  EXPECT_TRUE(bar.reached(2));
  EXPECT_FALSE(bar.reached(2.01));
  bar = Bar{};
  bar.near = 0.469;
  bar.within = 0.1;
  EXPECT_TRUE(bar.reached(0.43));
  EXPECT_TRUE(bar.reached(0.51));
  EXPECT_FALSE(bar.reached(0.42));
  EXPECT_FALSE(bar.reached(0.52));
}

TEST(Suite, ModelsHaveShapesAndBarsOfTheirOwn) {
  const Suite suite = parse_suite(R"([[model]]
work = "tiny"
shape = [16, 197, 192, 3, 12]
dtype = ["f32", "bf16"]
threads = 2
bars = [{ speed_over = "torch", at_least = 1.3 }, { memory_of = "torch", at_most = 0.3333 }]
[[model]]
shape = [[1, 8, 4, 2, 1], [1, 9, 4, 2, 1]]
)",
                                  "t", 7);
  EXPECT_TRUE(suite.entries.empty());
  ASSERT_EQ(suite.models.size(), 4u);
  EXPECT_EQ(to_string(suite.models[1].row), "16,197,192,3,12 bf16, 2 threads");
  EXPECT_EQ(suite.models[1].work, "tiny");
  EXPECT_EQ(to_string(suite.models[3].row), "1,9,4,2,1 f32, 7 threads");
  const auto& bars = suite.models[0].bars;
  ASSERT_EQ(bars.size(), 2u);
  EXPECT_EQ(bar_text(bars[0]), "1.3x torch");
  EXPECT_EQ(bar_text(bars[1]), "at most 33 % of the memory of torch");
  EXPECT_EQ(value_text(bars[1], 0.25), "25.0 %");
  EXPECT_TRUE(bars[1].reached(0.25));
  EXPECT_FALSE(bars[1].reached(0.34));
}

TEST(Suite, GraphsHaveVariablesAndThreads) {
  const Suite suite = parse_suite(R"([[graph]]
work = "PC"
variables = 30
neighbours = 3
alpha = 0.05
threads = [1, 2]
bars = [{ speed_over = "numpy", at_least = 10 }]
[[graph]]
samples = 500
)",
                                  "t", 7);
  ASSERT_EQ(suite.graphs.size(), 3u);
  EXPECT_EQ(suite.size(), 3u);
  EXPECT_EQ(to_string(suite.graphs[1].row), "30 variables, 3 neighbours, 2000 samples");
  EXPECT_EQ(suite.graphs[1].row.threads, 2);
  EXPECT_EQ(suite.graphs[1].row.alpha, 0.05);
  EXPECT_EQ(bar_text(suite.graphs[0].bars.at(0)), "10.0x numpy");
  EXPECT_EQ(to_string(suite.graphs[2].row), "100 variables, 4 neighbours, 500 samples");
  EXPECT_EQ(suite.graphs[2].row.threads, 7);
}

TEST(Suite, ErrorsNameTheirPlaceAndWhatWasMeant) {
  const auto fails = [](const std::string& text, long line, const char* message, const char* hint) {
    try {
      static_cast<void>(parse_suite(text, "t.toml", 1));
      ADD_FAILURE() << "accepted " << text;
    } catch (const DataError& error) {
      EXPECT_EQ(error.line(), line) << text;
      EXPECT_THAT(error.what(), HasSubstr(message)) << text;
      EXPECT_THAT(error.hint(), HasSubstr(hint)) << text;
    }
  };
  const std::string good = "[[row]]\nshape = [1, 2, 8, 4]\n";
  fails("", 1, "at least one [[row]], [[model]] or [[graph]]", "");
  fails("row = 1\n", 1, "expected [[row]]", "");
  fails("[[rows]]\n", 1, "unknown key 'rows'", "'row'");
  fails("[[row]]\n", 1, "needs a 'shape'", "");
  fails("[[row]\n", 1, "", "");
  fails(good + "dtyp = \"f32\"\n", 3, "unknown key 'dtyp'", "'dtype'");
  fails(good + "dtype = \"f23\"\n", 1, "unknown element type 'f23'", "'f32'");
  fails(good + "attention = \"sofmax\"\n", 1, "sofmax", "softmax");
  fails(good + "peers = \"troch\"\n", 3, "unknown peer 'troch'", "'torch'");
  fails(good + "threads = 5000\n", 3, "0 (all cores) to 1024", "");
  fails(good + "once = 1\n", 3, "true or false", "");
  fails("[[row]]\nshape = [1, 2]\n", 2, "four numbers", "1,8,1024,64");
  fails("[[row]]\nshape = \"1,2\"\n", 2, "list of numbers", "");
  fails(good + "bars = [{ share_of = \"fma\" }]\n", 3, "one of at_least, at_most, near", "");
  fails(good + "bars = [{ at_least = 1 }]\n", 3, "one of share_of", "");
  fails(good + "bars = [{ share_off = \"fma\", at_least = 1 }]\n", 3, "unknown key 'share_off'", "'share_of'");
  fails(good + "bars = [{ memory = true, near = 1 }]\n", 3, "go together", "");
  fails(good + "bars = [{ time_over = { shape = [[1,1,1,1],[1,1,1,2]] }, at_most = 1 }]\n", 3, "one other row", "");
  const std::string model = "[[model]]\nshape = [1, 8, 4, 2, 1]\n";
  fails("[[model]]\n", 1, "a model needs a 'shape'", "");
  fails("[[model]]\nshape = [1, 8, 4, 2]\n", 2, "five numbers", "16,197,192,3,12");
  fails("[[model]]\nshape = [1, 8, 4, 3, 1]\n", 2, "cannot be cut into 3 heads", "");
  fails("[[model]]\nshape = [1, 8, 4, 2, 0]\n", 2, "from 1 to", "");
  fails("[[model]]\nshape = [1000, 10000, 512, 8, 12]\n", 2, "would keep", "");
  fails(model + "pass = \"forward\"\n", 3, "unknown key 'pass' of a model", "");
  fails(model + "thread = 2\n", 3, "unknown key 'thread'", "'threads'");
  fails(model + "dtype = \"bf61\"\n", 3, "unknown element type", "'bf16'");
  fails(model + "dtype = \"f64\"\n", 3, "f32 or bf16", "");
  fails(model + "bars = [{ speed_over = \"troch\", at_least = 1 }]\n", 3, "unknown peer", "'torch'");
  fails(model + "bars = [{ memory_off = \"torch\", at_least = 1 }]\n", 3, "unknown key", "'memory_of'");
  fails(model + "bars = [{ at_least = 1 }]\n", 3, "one of speed_over, memory_of", "");
  fails(model + "bars = [{ memory_of = \"torch\" }]\n", 3, "one of at_least", "");
  fails("[[graph]]\nvariable = 3\n", 2, "unknown key 'variable' of a graph", "'variables'");
  fails("[[graph]]\nvariables = 1\n", 1, "2 to 2000 variables", "");
  fails("[[graph]]\nvariables = 10.7\n", 2, "'variables' must be a whole number", "");
  fails("[[graph]]\nalpha = 2\n", 1, "between 0 and 1", "");
  fails("[[graph]]\nbars = [{ speed_over = \"nunpy\", at_least = 1 }]\n", 2, "unknown peer", "'numpy'");
  fails("[[graph]]\nbars = [{ at_least = 1 }]\n", 2, "speed_over", "");
}

TEST(Suite, BuiltInSuitesAreReadable) {
  ASSERT_TRUE(builtin_suites().contains("floors"));
  for (const auto& [name, text] : builtin_suites()) {
    const Suite suite = load_suite(name, 2);
    EXPECT_FALSE(suite.summary.empty()) << name;
    EXPECT_GT(suite.size(), 0u) << name;
  }
  for (const Entry& entry : load_suite("floors", 1).entries) {
    EXPECT_FALSE(entry.bars.empty()) << to_string(entry.row);
    EXPECT_EQ(entry.row.threads, 2) << to_string(entry.row);
  }
}

TEST(Suite, UnknownNamesAreSuggested) {
  try {
    static_cast<void>(load_suite("flors", 1));
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.hint(), HasSubstr("'floors'"));
  }
  EXPECT_THROW(static_cast<void>(load_suite("nowhere/x.toml", 1)), IoError);
}

}  // namespace
}  // namespace saddle::bench

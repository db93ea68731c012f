// Tables and tensors from files to JSON and Graphviz.
#include "saddle/analysis/causal_discovery/request.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "places.hpp"
#include "saddle/analysis/causal_discovery/output.hpp"
#include "saddle/analysis/causal_discovery/table.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/base/text.hpp"
#include "saddle/io/atomic_file.hpp"
#include "saddle/io/safetensors.hpp"

namespace saddle::analysis::causal_discovery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class RequestFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("causal-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
};

Table table(std::string_view text) { return parse_table(text, "t.csv"); }

TEST(Table, Separators) {
  for (const char* text : {"a,b\n1,x\n2,y\n", "a;b\r\n1;x\r\n2;y", "a\tb\n1\tx\n\n2\ty\n", "a b\n1   x\n 2 y\n",
                           "\xef\xbb\xbf\"a\",b\n1,\"x\"\n2, y \n"}) {
    const Table read = table(text);
    EXPECT_THAT(read.names, ElementsAre("a", "b")) << text;
    EXPECT_THAT(read.columns[0], ElementsAre("1", "2")) << text;
    EXPECT_THAT(read.columns[1], ElementsAre("x", "y")) << text;
  }
  EXPECT_EQ(table("a,b\n\"1, \"\"2\"\"\",x\n").columns[0][0], "1, \"2\"");
  EXPECT_EQ(table("one\n1\n2\n").rows(), 2);
}

TEST(Table, WhatIsWrongIsSaidWithItsLine) {
  const auto line = [](std::string_view text) {
    try {
      table(text).require_complete();
    } catch (const DataError& error) {
      return error.line();
    }
    return -1L;
  };
  EXPECT_EQ(line(""), 0);
  EXPECT_EQ(line("\n\n"), 0);
  EXPECT_EQ(line("a,b\n"), 0);
  EXPECT_EQ(line("1,2\n3,4\n"), 1);
  EXPECT_EQ(line("a,a\n3,4\n"), 1);
  EXPECT_EQ(line("a,\n3,4\n"), 1);
  EXPECT_EQ(line("a,b\n1,2\n3\n"), 3);
  EXPECT_EQ(line("a,b\n1,2\n3,4,5\n"), 3);
  EXPECT_EQ(line("a,b\n\n1,\n"), 3);
  EXPECT_EQ(line("a,b\n1,NA\n"), 2);
  EXPECT_EQ(line("a,b\n1,?\n"), 2);
  EXPECT_EQ(line("a,b\n1,\"x\n"), 2);
  EXPECT_EQ(line("a,b\n1,\"x\"y\n"), 2);
}

TEST(Table, RowsWithoutAValueCanGo) {
  Table holes = table("a,b,c\n1,x,?\n2,NA,5\n3,y,6\n4,z,7\n");
  EXPECT_EQ(holes.select({"a"}).drop_incomplete(), 0);  // of its columns
  EXPECT_EQ(holes.drop_incomplete(), 2);
  EXPECT_THAT(holes.columns[1], ElementsAre("y", "z"));
  EXPECT_THAT(holes.lines, ElementsAre(4, 5));
  EXPECT_THROW(table("a,b\n1,?\n").drop_incomplete(), DataError);
  Request request;
  request.file = "t.csv";
  request.text = "a,b\n1,1.5\n2,?\n3,2.5\n4,1.25\n5,0.5\n";
  EXPECT_THAT([&] { discover(request); }, ThrowsMessage<DataError>(HasSubstr("t.csv:3")));
  request.drop_missing = true;
  EXPECT_THAT(discover(request).input.notes.front(), HasSubstr("1 of 5 rows"));
}

TEST(Table, EqualNumbersAreOneCategory) {
  const Table numbers = table("a,b\n1.0,1.0\n2,x\n?,1\n1,1\n");
  EXPECT_THAT(numbers.columns[0], ElementsAre("1", "2", "?", "1"));
  EXPECT_THAT(numbers.columns[1], ElementsAre("1.0", "x", "1", "1"));  // words are as they are written
}

TEST(Table, NumbersAndCategories) {
  const Table mixed = table("a,b\n1,x\n2,y\n1,x\n");
  EXPECT_THAT(mixed.categories()[1], ElementsAre(0, 1, 0));
  EXPECT_THAT(mixed.discrete(), ElementsAre("a", "b"));
  EXPECT_FALSE(mixed.numeric());
  EXPECT_TRUE(mixed.select({"a"}).numeric());
  EXPECT_THAT([&] { mixed.numbers(); }, ThrowsMessage<DataError>(HasSubstr("'b': expected a number, found 'x'")));
  EXPECT_EQ(mixed.select({"a"}).numbers()(1, 0), 2);
  EXPECT_THAT(mixed.select({"b", "0"}).names, ElementsAre("b", "a"));
  EXPECT_THROW(mixed.select({"c"}), InvalidArgument);
  EXPECT_THROW(mixed.select({"2"}), InvalidArgument);
  EXPECT_THROW(mixed.select({"a", "a"}), InvalidArgument);
  EXPECT_THROW(table("a\n1e999\n").numbers(), DataError);
  std::string many = "a\n";
  for (int i = 0; i < 20; ++i) many += std::to_string(i) + ".5\n";
  EXPECT_TRUE(table(many).discrete().empty());
  EXPECT_TRUE(table(many).numeric());
}

// Categories repeat: numbers five times and more, words at least twice.
TEST(Table, WhatRepeatsTooSeldomIsNoCategory) {
  std::string text = "constant,flag,grade,real,word,name\n";
  for (int i = 0; i < 20; ++i)
    text += "7," + std::to_string(i % 2) + "," + std::to_string(i % 5) + "," + std::to_string(i) + ".5," +
            (i % 10 == 0 ? "red" : "blue" + std::to_string(i % 10)) + ",n" + std::to_string(i) + "\n";
  EXPECT_THAT(table(text).discrete(), ElementsAre("flag", "grade", "word", "name"));
  EXPECT_THAT(table(text).scattered(), ElementsAre("grade", "real", "name"));
}

// x -> z <- y, z -> w, observed without noise to speak of.
std::string observations() {
  Stream stream(31, "table");
  std::string text = "x,y,z,w\n";
  for (int s = 0; s < 500; ++s) {
    const double x = stream.normal(), y = stream.normal(), z = x + y + 0.3 * stream.normal(),
                 w = z + 0.3 * stream.normal();
    text += format_number(x) + "," + format_number(y) + "," + format_number(z) + "," + format_number(w) + "\n";
  }
  return text;
}

TEST(Discover, TableOfNumbers) {
  Request request;
  request.file = "observed.csv";
  request.text = observations();
  request.algorithm = Algorithm::pc;
  const Answer answer = discover(request);
  const Graph& graph = answer.discovery.graph;
  EXPECT_TRUE(graph.parent(0, 2) && graph.parent(1, 2) && graph.parent(2, 3));
  const auto json = nlohmann::json::parse(answer.json);
  EXPECT_EQ(json["test"], "fisher_z");
  EXPECT_EQ(json["graph"], "cpdag");
  EXPECT_EQ(json["samples"], 500);
  EXPECT_EQ(json["edges"].size(), 3U);
  EXPECT_EQ(json["edges"][0]["edge"], "-->");
  EXPECT_EQ(json["edges"][0]["mark_b"], "arrow");
  EXPECT_EQ(json["nodes"][3]["name"], "w");
  EXPECT_THAT(answer.dot, HasSubstr("n0 -> n2 [arrowtail=none, arrowhead=normal]"));
  EXPECT_THAT(answer.dot, HasSubstr("n3 [label=\"w\"]"));

  request.algorithm = Algorithm::icd;
  request.nodes = {"w", "0", "y"};
  request.target = "w";
  const Answer part = discover(request);
  EXPECT_THAT(part.input.names, ElementsAre("x", "y", "w"));
  EXPECT_EQ(edge_text(part.discovery.graph, 0, 2), "o->");
  EXPECT_EQ(edge_text(part.discovery.graph, 2, 0), "<-o");
  EXPECT_THAT(part.dot, HasSubstr("peripheries=2"));
  EXPECT_EQ(nlohmann::json::parse(part.json)["explanations"]["members"], (std::vector<int>{0, 1}));
  EXPECT_FALSE(nlohmann::json::parse(part.json)["rounds"].empty());
}

TEST(Discover, TableOfCategories) {
  Stream stream(32, "table");
  std::string text = "a b c\n";
  for (int s = 0; s < 400; ++s) {
    const bool a = stream.uniform() < 0.5, b = stream.uniform() < 0.5, c = stream.uniform() < 0.9 ? a && b : a;
    text += std::string(a ? "yes" : "no") + (b ? " yes" : " no") + (c ? " yes\n" : " no\n");
  }
  Request request;
  request.file = "categories.txt";
  request.text = text;
  request.algorithm = Algorithm::pc;
  request.options.stable = true;
  const Answer answer = discover(request);
  EXPECT_EQ(nlohmann::json::parse(answer.json)["test"], "chi_square");
  EXPECT_TRUE(answer.discovery.graph.parent(0, 2) && answer.discovery.graph.parent(1, 2));
  request.test = TestKind::fisher_z;
  EXPECT_THROW(discover(request), DataError);
}

// Some columns of few values beside columns of many: all numbers go to Fisher's z, with a note; text cannot.
TEST(Discover, MixedTables) {
  std::string numbers = "size,doors\n", words = "size,colour\n";
  Stream stream(32, "table");
  for (int s = 0; s < 300; ++s) {
    const double x = stream.normal();
    numbers += format_number(x) + (x > 0 ? ",4\n" : ",2\n");
    words += format_number(x) + (x > 0 ? ",red\n" : ",blue\n");
  }
  Request request;
  request.file = "t.csv";
  request.text = numbers;
  const Answer answer = discover(request);
  EXPECT_TRUE(std::holds_alternative<FisherZ>(answer.input.test));
  EXPECT_THAT(answer.input.notes, ElementsAre(HasSubstr("doors")));
  EXPECT_TRUE(answer.discovery.graph.adjacent(0, 1));
  request.text = words;
  EXPECT_THAT([&] { discover(request); }, ThrowsMessage<InvalidArgument>(HasSubstr("300 different values")));
  request.nodes = {"colour"};
  EXPECT_TRUE(std::holds_alternative<ChiSquare>(discover(request).input.test));
}

// Few rows make few values of anything: only values that repeat are categories.
TEST(Discover, ColumnsOfRealNumbersAreNoCategories) {
  std::string text = "x,y,flag\n", constant = "x,y,c\n", few = "x,y\n", words = "x,y,colour\n";
  Stream stream(35, "table");
  for (int s = 0; s < 90; ++s) {
    const double x = stream.normal(), y = x + 0.1 * stream.normal();
    const std::string both = format_number(x) + "," + format_number(y);
    text += both + (s % 2 == 0 ? ",0\n" : ",1\n");
    constant += both + ",1\n";
    words += both + (s % 2 == 0 ? ",red\n" : ",blue\n");
    if (s < 8) few += both + "\n";
  }
  Request request;
  request.file = "t.csv";
  request.text = text;
  const Answer mixed = discover(request);
  EXPECT_TRUE(std::holds_alternative<FisherZ>(mixed.input.test));
  EXPECT_TRUE(mixed.discovery.graph.adjacent(0, 1));
  EXPECT_THAT(mixed.input.notes, ElementsAre(HasSubstr("few different values as numbers, too: flag")));
  request.text = few;
  const Answer short_one = discover(request);
  EXPECT_TRUE(std::holds_alternative<FisherZ>(short_one.input.test));
  EXPECT_TRUE(short_one.discovery.graph.adjacent(0, 1));
  request.text = constant;
  EXPECT_THAT([&] { discover(request); }, ThrowsMessage<InvalidArgument>(HasSubstr("column 'c' is constant")));
  request.text = words;
  EXPECT_THAT([&] { discover(request); },
              ThrowsMessage<InvalidArgument>(HasSubstr("'x' has 90 different values in 90 rows")));
  request.test = TestKind::chi_square;  // who asks for it gets it
  EXPECT_TRUE(std::holds_alternative<ChiSquare>(discover(request).input.test));
}

// Given one of two copies, what is left of the other is rounding.
TEST(Discover, CopiesAreRefusedByName) {
  Stream stream(36, "table");
  std::string text = "a,b,c\n";
  Matrix R({3, 3});
  for (int s = 0; s < 200; ++s) {
    const double a = stream.normal();
    text += format_number(a) + "," + format_number(3 * a + 1) + "," + format_number(a + stream.normal()) + "\n";
  }
  Request request;
  request.file = "t.csv";
  request.text = text;
  EXPECT_THAT([&] { discover(request); },
              ThrowsMessage<InvalidArgument>(HasSubstr("t.csv: 'a' and 'b' are copies of each other")));
  request.nodes = {"a", "c"};
  EXPECT_TRUE(discover(request).discovery.graph.adjacent(0, 1));

  for (Index i = 0; i < 3; ++i) R(i, i) = 1;
  R(0, 2) = R(2, 0) = -1;
  EXPECT_THAT(
      [&] {
        discover({{"x", "y", "z"}, {0, 1, 2}, FisherZ(R, 50)}, Request{});
      },
      ThrowsMessage<InvalidArgument>(testing::StartsWith("'x' and 'z' are copies")));
}

// Of tokens that pay the same attention there is a note: a whole model should not stop for one of its heads.
TEST(Discover, CopiesAmongTokensAreNoted) {
  Matrix attention({3, 3});
  attention(0, 0) = attention(1, 0) = 1;
  attention(2, 1) = attention(2, 2) = 0.5;
  Request request;
  request.samples = 64;
  const Answer answer = discover(attention_input(attention, {}, request), request);
  EXPECT_THAT(answer.input.notes, ElementsAre(HasSubstr("'0' and '1' pay the same attention")));
  EXPECT_TRUE(answer.discovery.graph.adjacent(0, 1));
}

TEST(Discover, RowsAndSamplesMustSuffice) {
  Request request;
  request.file = "t.csv";
  const auto refused = [&](const std::string& text, const std::string& message) {
    request.text = text;
    EXPECT_THAT([&] { discover(request); }, ThrowsMessage<InvalidArgument>(HasSubstr(message)));
  };
  refused("a,b,c\n1,2,3\n", "one row says nothing");
  refused("a,b\nyes,no\n", "one row says nothing");
  refused("a,b\n1.5,2\n2.5,3\n3.5,5\n", "needs 4 rows or more, found 3");
  request.rows = 1;
  refused(observations(), "one row says nothing");
  request.rows = 3;
  refused(observations(), "needs 4 rows or more, found 3");
  request.rows = 0;
  for (const double samples : {2.0, -4.0, std::nan("")}) {
    request.samples = samples;
    refused(observations(), "Fisher's z needs 4 or more");
  }
  std::string words = "a,b\n";
  for (int s = 0; s < 20; ++s) words += s % 3 == 0 ? "yes,no\n" : "no,yes\n";
  refused(words, "takes no number of samples");
  // Many columns and few rows end, too.
  std::string wide = "c0", row;
  for (int c = 1; c < 24; ++c) wide += ",c" + std::to_string(c);
  Stream stream(37, "wide");
  for (int r = 0; r < 4; ++r) {
    wide += '\n';
    for (int c = 0; c < 24; ++c) wide += (c > 0 ? "," : "") + format_number(stream.normal());
  }
  request.samples = 0;
  request.text = wide;
  EXPECT_EQ(discover(request).discovery.tests.size(), 1U);
}

TEST(Discover, RefusesTablesThatDoNotFit) {
  Request request;
  request.file = "t.csv";
  const auto refused = [&](const std::string& text, const std::string& message) {
    request.text = text;
    EXPECT_THAT([&] { discover(request); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  request.test = TestKind::fisher_z;
  refused("a,b\n1,2\n1,3\n1,4\n1,5\n", "column 'a' is constant");
  request.logarithm = true;
  refused("a,b\n1,2\n-1,3\n3,4\n4,7\n", "-1 has no logarithm");
  request.test = TestKind::chi_square;
  refused("a,b\n1,2\n1,3\n", "logarithm");
  request.logarithm = false;
  refused(observations(), "500 different values");
  request.nodes = {"q"};
  refused("a,b\n1,2\n1,3\n", "no node 'q'");
  request.nodes = {"a", "0"};
  refused("a,b\n1,2\n1,3\n", "twice");
  request.nodes = {};
  request.target = "c";
  refused("a,b\n1,2\n1,3\n", "target 'c'");
  request.target = {};
  request.tensor = "attention";
  refused("a,b\n1,2\n1,3\n", "has no tensors");
  EXPECT_THROW(discover(Request{}), InvalidArgument);
  Request absent;
  absent.file = "/nowhere/t.csv";
  EXPECT_THROW(discover(absent), IoError);
}

TEST(Discover, LogarithmsChangeCorrelations) {
  Request request;
  request.file = "t.csv";
  request.test = TestKind::fisher_z;
  request.text = "a,b\n1,10\n2,100\n3,1000\n4,10000\n5,100000\n7,200000\n";
  const double plain = std::get<FisherZ>(read_input(request).test).correlation()(0, 1);
  request.logarithm = true;
  EXPECT_NE(std::get<FisherZ>(read_input(request).test).correlation()(0, 1), plain);
}

TEST_F(RequestFile, TableOnDisk) {
  io::write_atomically(path("t.csv"), observations());
  Request request;
  request.file = path("t.csv");
  EXPECT_EQ(discover(request).discovery.graph.size(), 4);
  io::write_atomically(path("packed.csv"), std::string_view("\x1f\x8b\x08"));
  request.file = path("packed.csv");
  EXPECT_THAT([&] { discover(request); }, ThrowsMessage<DataError>(HasSubstr("gzip")));
  io::write_atomically(path("empty.csv"), std::string_view());
  request.file = path("empty.csv");
  EXPECT_THAT([&] { discover(request); }, ThrowsMessage<DataError>(HasSubstr("the file is empty")));
  std::filesystem::create_directory(path("folder.csv"));
  request.file = path("folder.csv");
  EXPECT_THROW(discover(request), IoError);
}

// Padding has neither row nor column.
TEST_F(RequestFile, PaddedAttention) {
  Tensor attention(DType::f64, {4, 4});
  Stream stream(34, "attention");
  for (Index i = 0; i < 3; ++i)
    for (Index j = 0; j < 3; ++j) attention.set(4 * i + j, 0.05 + stream.uniform());
  TensorFile file;
  file.tensors["attention"] = attention;
  file.metadata["num_samples"] = "768";
  Request request;
  request.file = "padded.safetensors";
  const Input whole = tensor_input(file, request);
  EXPECT_THAT(whole.positions, ElementsAre(0, 1, 2));
  EXPECT_THAT(whole.notes, ElementsAre(HasSubstr("1 of 4 positions")));
  request.nodes = {"0", "1", "2"};
  EXPECT_EQ(std::get<FisherZ>(tensor_input(file, request).test).correlation()(0, 2),
            std::get<FisherZ>(whole.test).correlation()(0, 2));
  Tensor values(DType::f64, {4, 8});
  for (Index i = 0; i < values.size(); ++i) values.set(i, stream.normal());
  file.tensors["values"] = values;
  request.values = "values";
  EXPECT_EQ(tensor_input(file, request).names.size(), 3U);
  request.nodes = {"0", "3"};
  EXPECT_THAT([&] { tensor_input(file, request); },
              ThrowsMessage<InvalidArgument>(HasSubstr("row 3 of the attention is empty")));
  request.nodes = {};
  file.tensors["attention"] = Tensor(DType::f64, {4, 4});
  EXPECT_THAT([&] { tensor_input(file, request); }, ThrowsMessage<InvalidArgument>(HasSubstr("0 everywhere")));
}

TEST_F(RequestFile, AttentionOfAHead) {
  const Index N = 5;
  Stream stream(33, "attention");
  Tensor attention(DType::f32, {1, 2, N, N});
  for (Index i = 0; i < attention.size(); ++i)
    attention.set(i, i % N == N - 1 ? 0 : 0.05 + stream.uniform());  // the last key is padding
  TensorFile file;
  file.tensors["attention"] = attention;
  file.metadata["tokens"] = R"(["the", "cat", "the", "mat", "[PAD]"])";
  io::write_safetensors(path("a.safetensors"), file);
  Request request;
  request.file = path("a.safetensors");
  EXPECT_THAT([&] { discover(request); }, ThrowsMessage<InvalidArgument>(HasSubstr("number of samples")));
  request.samples = 768;
  request.head = 1;
  request.target = "cat";
  const Answer answer = discover(request);
  EXPECT_THAT(answer.input.names, ElementsAre("the", "cat", "the", "mat"));
  EXPECT_EQ(answer.target, 1);
  ASSERT_EQ(answer.input.notes.size(), 1U);
  EXPECT_THAT(answer.json, HasSubstr("left out as padding"));
  EXPECT_THAT(answer.dot, HasSubstr("n2 [label=\"the\"]"));
  Matrix second({N, N});
  for (Index i = 0; i < N * N; ++i) second.data()[i] = attention.at(N * N + i);
  request.target = "1";  // without names, by number
  EXPECT_EQ(discover(attention_input(second, {}, request), request).discovery.graph, answer.discovery.graph);

  request.target = {};
  request.head = 2;
  EXPECT_THAT([&] { discover(request); }, ThrowsMessage<InvalidArgument>(HasSubstr("2 heads")));
  request.head = 0;
  request.test = TestKind::chi_square;
  EXPECT_THAT([&] { discover(request); }, ThrowsMessage<InvalidArgument>(HasSubstr("needs observations")));
  request.test = TestKind::automatic;
  request.tensor = "scores";
  EXPECT_THAT([&] { discover(request); }, ThrowsMessage<InvalidArgument>(HasSubstr("no tensor 'scores'")));
  request.tensor = {};
  request.values = "v";
  EXPECT_THAT([&] { discover(request); }, ThrowsMessage<InvalidArgument>(HasSubstr("no tensor 'v'")));
  request.values = {};
  request.logarithm = true;
  EXPECT_THROW(discover(request), InvalidArgument);
  request.logarithm = false;

  file.metadata["tokens"] = "[\"too\", \"few\"]";
  io::write_safetensors(path("a.safetensors"), file);
  EXPECT_THROW(discover(request), DataError);
  file.tensors.clear();
  file.tensors["weights"] = Tensor(DType::f64, {2, 2});
  io::write_safetensors(path("a.safetensors"), file);
  EXPECT_THAT([&] { discover(request); }, ThrowsMessage<InvalidArgument>(HasSubstr("it has weights")));
}

TEST_F(RequestFile, RecordedCorrelations) {
  Request request;
  request.file = SADDLE_SOURCE_DIR "/tests/golden/causal-discovery/pc_sem_n6.safetensors";
  request.algorithm = Algorithm::pc;
  const Answer answer = discover(request);  // metadata num_samples
  EXPECT_EQ(nlohmann::json::parse(answer.json)["samples"], 500);
  const Tensor expected = io::read_safetensors(request.file).tensors.at("out.cpdag");
  for (Index i = 0; i < 36; ++i)
    EXPECT_EQ(static_cast<double>(static_cast<int>(answer.discovery.graph.mark(i / 6, i % 6))), expected.at(i));
  request.values = "in.correlation";
  EXPECT_THROW(discover(request), InvalidArgument);
}

TEST(Names, OfAlgorithmsAndTests) {
  for (const auto algorithm : {Algorithm::pc, Algorithm::fci, Algorithm::icd})
    EXPECT_EQ(parse_algorithm(to_string(algorithm)), algorithm);
  for (const auto test : {TestKind::automatic, TestKind::fisher_z, TestKind::chi_square})
    EXPECT_EQ(parse_test(to_string(test)), test);
  EXPECT_EQ(parse_test("chi-square"), TestKind::chi_square);
  EXPECT_THAT([] { parse_algorithm("ges"); }, ThrowsMessage<InvalidArgument>(HasSubstr("known are pc, fci, icd")));
  EXPECT_THROW(parse_test("kernel"), InvalidArgument);
}

TEST(Output, NamesAreQuoted) {
  Graph graph = Graph::complete(2, Mark::circle);
  EXPECT_EQ(edge_text(graph, 0, 1), "o-o");
  graph.set(0, 1, Mark::tail);
  EXPECT_EQ(edge_text(graph, 0, 1), "o--");
  EXPECT_THAT(to_dot(graph, {"say \"hi\"", "back\\slash"}),
              testing::AllOf(HasSubstr("\"say \\\"hi\\\"\""), HasSubstr("back\\\\slash"), HasSubstr("arrowtail=odot")));
}

}  // namespace
}  // namespace saddle::analysis::causal_discovery

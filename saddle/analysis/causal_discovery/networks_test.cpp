// Published networks with 10000 samples each: PC with chi-square, stable, alpha 0.05 against the recorded figures.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include "places.hpp"
#include "saddle/analysis/causal_discovery/request.hpp"

namespace saddle::analysis::causal_discovery {
namespace {

using Edges = std::set<std::pair<std::string, std::string>>;

std::string data_folder() {
  const char* variable = std::getenv("SADDLE_DATA");
  return (variable != nullptr ? std::string(variable) : SADDLE_SOURCE_DIR "/../shared/data") + "/bnlearn";
}

std::string unpacked(const std::string& file) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(("gzip -dc '" + file + "'").c_str(), "r"), pclose);
  std::string text, block(1 << 16, '\0');
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), pipe.get())) text.append(block, 0, got);
  return text;
}

// Lines such as "3. X1 --> X4".
Edges true_edges(const std::string& file) {
  Edges edges;
  std::ifstream stream(file);
  std::string number, from, arrow, to;
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    if (words >> number >> from >> arrow >> to && arrow == "-->") edges.insert(std::minmax(from, to));
  }
  return edges;
}

TEST(Networks, SkeletonsAsRecorded) {
  const std::string folder = data_folder();
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no bnlearn networks in " << folder << " ($SADDLE_DATA)";
  const struct {
    const char* name;
    double precision, recall;
  } recorded[] = {{"asia", 0.833, 0.625}, {"cancer", 1, 1},         {"earthquake", 1, 1},      {"survey", 1, 1},
                  {"sachs", 1, 1},        {"child", 1, 1},          {"insurance", 1, 0.808},   {"alarm", 0.957, 0.957},
                  {"water", 1, 0.470},    {"hepar2", 0.933, 0.569}, {"win95pts", 0.962, 0.679}};
  for (const auto& network : recorded) {
    const std::string file = folder + "/" + network.name;
    Request request;
    request.file = file + ".data.txt";
    request.text = unpacked(file + ".data.txt.gz");
    request.algorithm = Algorithm::pc;
    request.test = TestKind::chi_square;
    request.options.alpha = 0.05;
    request.options.stable = true;
    const Answer answer = discover(request);
    const Edges truth = true_edges(file + ".graph.txt");
    ASSERT_FALSE(truth.empty()) << network.name;
    double found = 0, right = 0;
    const Graph& graph = answer.discovery.graph;
    for (Index a = 0; a < graph.size(); ++a)
      for (Index b = 0; b < a; ++b) {
        if (!graph.adjacent(a, b)) continue;
        found += 1;
        right += truth.contains(std::minmax(answer.input.names[static_cast<std::size_t>(a)],
                                            answer.input.names[static_cast<std::size_t>(b)]))
                     ? 1
                     : 0;
      }
    EXPECT_NEAR(right / found, network.precision, 0.001) << network.name;
    EXPECT_NEAR(right / static_cast<double>(truth.size()), network.recall, 0.001) << network.name;
  }
}

}  // namespace
}  // namespace saddle::analysis::causal_discovery

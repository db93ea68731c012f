#include "graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <tuple>

#include "run.hpp"
#include "saddle/analysis/causal_discovery/causal_discovery.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/base/random.hpp"

namespace saddle::bench {

namespace {

namespace causal = analysis::causal_discovery;

constexpr double set_up_time = 300;  // seconds for the first graph

using Edges = std::set<std::tuple<Index, Index, bool>>;  // from, to, directed; from < to where it is not

Edges edges_of(const causal::Graph& graph) {
  Edges edges;
  for (Index a = 0; a < graph.size(); ++a)
    for (Index b = 0; b < graph.size(); ++b) {
      if (graph.parent(a, b)) edges.emplace(a, b, true);
      if (a < b && graph.undirected(a, b)) edges.emplace(a, b, false);
    }
  return edges;
}

Edges edges_of(const Json& answer) {
  Edges edges;
  for (const Json& edge : answer.at("edges"))
    edges.emplace(edge.at(0).get<Index>(), edge.at(1).get<Index>(), edge.at(2).get<bool>());
  return edges;
}

class OwnGraph final : public Contender {
 public:
  OwnGraph(const Matrix& data, const GraphRow& row)
      : test_(causal::FisherZ(causal::correlation(data), static_cast<double>(data.shape()[0]))) {
    options_.alpha = row.alpha;
    options_.stable = true;
  }
  causal::Discovery discover() const { return causal::pc(test_, options_); }
  double round(double seconds) override {
    return best_time(seconds, [&] { discover(); });
  }

 private:
  causal::IndependenceTest test_;
  causal::Options options_;
};

// So many threads, for as long as this lives.
class ThreadsOf {
 public:
  explicit ThreadsOf(int count) : before_(threads()) { set_threads(count); }
  ~ThreadsOf() { set_threads(before_); }
  ThreadsOf(const ThreadsOf&) = delete;
  ThreadsOf& operator=(const ThreadsOf&) = delete;

 private:
  int before_;
};

// Row by row, as 8-byte numbers.
void write_table(const std::string& file, const Matrix& data) {
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(8 * data.size()));
  if (!out.flush()) throw IoError("cannot write " + file);
}

BarResult judge(const Bar& bar, const GraphResult& result) {
  BarResult judged{bar, result.ratio(), {}, result.unmeasured, Verdict::not_measured};
  if (result.red) {
    judged.value.reset();
    judged.reason = "our graph is not that of numpy";
    judged.verdict = Verdict::missed;
  } else if (judged.value) {
    judged.verdict = bar.reached(*judged.value) ? Verdict::reached : Verdict::missed;
  }
  return judged;
}

}  // namespace

std::string to_string(const GraphRow& row) {
  return fmt::format("{} variables, {} neighbours, {} samples", row.variables, row.neighbours, row.samples);
}

void validate(const GraphRow& row) {
  if (row.variables < 2 || row.variables > 2000 || row.neighbours < 1 || row.neighbours >= row.variables)
    throw InvalidArgument(
        fmt::format("a graph has 2 to 2000 variables and fewer neighbours than these, found {} and {}", row.variables,
                    row.neighbours));
  if (row.samples < 10 || row.samples > 1000000 || !(row.alpha > 0 && row.alpha < 1))
    throw InvalidArgument(fmt::format(
        "a graph needs 10 to 1000000 samples and an alpha between 0 and 1, found {} and {}", row.samples, row.alpha));
}

Matrix observations(const GraphRow& row) {
  const Index n = row.variables;
  Stream graph(1, "graph"), noise(1, "noise");
  Matrix effects({n, n});  // (i,j) for i -> j, i < j
  const double chance = static_cast<double>(row.neighbours) / static_cast<double>(n - 1);
  for (Index i = 0; i < n; ++i)
    for (Index j = i + 1; j < n; ++j) {
      const double strength = 0.5 + 0.5 * graph.uniform();
      const bool negative = graph.uniform() < 0.5;
      if (graph.uniform() < chance) effects(i, j) = negative ? -strength : strength;
    }
  Matrix data({row.samples, n});
  for (Index s = 0; s < row.samples; ++s)
    for (Index j = 0; j < n; ++j) {
      double value = noise.normal();
      for (Index i = 0; i < j; ++i) value += effects(i, j) * data(s, i);
      data(s, j) = value;
    }
  return data;
}

std::optional<double> GraphResult::ratio() const {
  if (!own || !numpy || red) return std::nullopt;
  return numpy->best / own->best;
}

bool GraphResult::passed() const {
  return !red &&
         std::none_of(bars.begin(), bars.end(), [](const BarResult& bar) { return bar.verdict == Verdict::missed; });
}

GraphResult run_graph(const GraphEntry& entry, const RunOptions& options, const StartGraphPeer& start) {
  GraphResult result;
  result.entry = entry;
  const GraphRow& row = entry.row;
  const ThreadsOf own_threads(row.threads);
  const Matrix data = observations(row);
  auto mine = std::make_unique<OwnGraph>(data, row);
  options.progress("learning the graph of " + to_string(row));
  const causal::Discovery found = mine->discover();
  const Edges edges = edges_of(found.graph);
  result.edges = static_cast<Index>(edges.size());
  result.tests = std::accumulate(found.tests.begin(), found.tests.end(), Index{0});
  const SharedFolder folder;
  std::vector<Seat> seats(1);
  seats[0].contender = std::move(mine);
  seats[0].done = [&](const Timing& timing) { result.own = timing; };
  seats[0].failed = [&](const std::string&) { result.red = true; };
  if (std::find(entry.peers.begin(), entry.peers.end(), "numpy") == entry.peers.end()) {
    result.unmeasured = "numpy was not asked";
  } else {
    try {
      options.progress("learning the same graph in numpy");
      write_table(folder.path() + "/table", data);
      std::shared_ptr<Child> child = start(row);
      const Json answer = child->ask(
          {{"op", "setup"}, {"table", folder.path() + "/table"}, {"variables", row.variables}, {"alpha", row.alpha}},
          set_up_time);
      if (!answer.value("ok", false)) throw IoError(answer.value("reason", "it refuses"));
      result.same = edges_of(answer) == edges && answer.value("tests", Index{-1}) == result.tests;
      result.red = !result.same;
      Seat seat;
      seat.contender = std::make_unique<RemoteContender>(std::move(child), Manners{0.002, true});
      seat.done = [&](const Timing& timing) { result.numpy = timing; };
      seat.failed = [&](const std::string& reason) { result.unmeasured = "numpy: " + reason; };
      seats.push_back(std::move(seat));
    } catch (const std::exception& error) {
      result.unmeasured = std::string("numpy: ") + error.what();
    }
  }
  if (!result.red) {
    options.progress("timing " + to_string(row));
    interleave(seats, options.rounds);
  }
  for (const Bar& bar : entry.bars) result.bars.push_back(judge(bar, result));
  return result;
}

}  // namespace saddle::bench

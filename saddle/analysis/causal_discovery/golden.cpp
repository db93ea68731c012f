// Golden cases of causal discovery: tests, algorithms, single rules and explanations, by metadata `kind`.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "saddle/analysis/causal_discovery/causal_discovery.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

using mechanisms::golden_tensor;
using mechanisms::GoldenComparison;
using mechanisms::GoldenMetadata;

// The tolerance of p-values and correlations; everything else is integers and exact.
constexpr double close = 1e-10;

[[noreturn]] void fail(const std::string& message) { throw DataError("", 0, 0, message); }

Tensor integers(DType dtype, const Shape& shape, const auto& value_at) {
  Tensor tensor(dtype, shape);
  for (Index i = 0; i < tensor.size(); ++i) tensor.set(i, static_cast<double>(value_at(i)));
  return tensor;
}

Tensor marks(const Graph& graph, DType dtype = DType::i64) {
  const Index n = graph.size();
  return integers(dtype, {n, n}, [&](Index i) { return static_cast<int>(graph.mark(i / n, i % n)); });
}

Tensor adjacencies(const Graph& graph) {
  const Index n = graph.size();
  return integers(DType::u8, {n, n}, [&](Index i) { return graph.adjacent(i / n, i % n) ? 1 : 0; });
}

Tensor memberships(const SeparatingSets& separating, Index n) {
  return integers(DType::u8, {n, n, n},
                  [&](Index i) { return separating.contains(i / (n * n), i / n % n, i % n) ? 1 : 0; });
}

// Counts by size, as many sizes as N variables allow.
Tensor counts(const std::vector<Index>& tests, Index N) {
  return integers(DType::i64, {N - 1}, [&](Index k) {
    return k < static_cast<Index>(tests.size()) ? tests[static_cast<std::size_t>(k)] : 0;
  });
}

const Tensor& square(const TensorFile& golden, const std::string& name) {
  const Tensor& tensor = golden_tensor(golden, name);
  if (tensor.shape().size() != 2 || tensor.shape()[0] != tensor.shape()[1] || tensor.shape()[0] == 0)
    fail(name + " has shape " + saddle::to_string(tensor.shape()) + ", expected a square matrix");
  return tensor;
}

// One case and the comparison of what is computed for it.
class Case {
 public:
  Case(const TensorFile& golden, const std::string& implementation)
      : golden_(golden), metadata_(golden), comparison_(implementation) {}

  const GoldenComparison& run() {
    const std::string kind = metadata_.text("kind", "");
    if (kind == "ci")
      tests();
    else if (kind == "pc" || kind == "fci" || kind == "icd")
      algorithm(kind);
    else if (kind == "icd_oracle")
      oracle();
    else if (kind == "rules")
      rules();
    else if (kind == "cleann")
      explanations();
    else
      fail("metadata 'kind' has the unknown value '" + kind +
           "', known are ci, pc, fci, icd, icd_oracle, rules, cleann");
    return comparison_;
  }

 private:
  void require_outputs(std::vector<std::string> known, std::size_t rounds = 0) {
    for (std::size_t r = 0; r < rounds; ++r) known.push_back("out.pag_r" + std::to_string(r));
    mechanisms::require_outputs(golden_, known);
  }
  void compare(const std::string& name, const Tensor& computed, double tolerance = close) {
    if (golden_.tensors.contains(name)) comparison_.compare(name, computed, golden_tensor(golden_, name), tolerance);
  }
  void compare_rounds(const std::vector<Graph>& rounds) {
    for (std::size_t r = 0; r < rounds.size(); ++r) compare("out.pag_r" + std::to_string(r), marks(rounds[r]));
  }

  // in.correlation, or that of in.attention.
  Matrix correlations() {
    if (!golden_.tensors.contains("in.attention") || golden_.tensors.contains("in.correlation")) {
      Matrix given = to_double<2>(square(golden_, "in.correlation").view());
      if (golden_.tensors.contains("in.attention")) {
        const Matrix computed = attention_correlation(to_double<2>(square(golden_, "in.attention").view()));
        comparison_.compare("in.correlation", to_tensor(computed), to_tensor(given), close);
      }
      return given;
    }
    Matrix computed = attention_correlation(to_double<2>(square(golden_, "in.attention").view()));
    compare("out.correlation", to_tensor(computed));
    return computed;
  }

  // Metadata `name`: nodes below N, ascending. Absent: all.
  Nodes nodes(const std::string& name, Index N) const {
    Nodes list = metadata_.list(name);
    if (!metadata_.has(name)) {
      list.resize(static_cast<std::size_t>(N));
      std::iota(list.begin(), list.end(), Index{0});
    }
    std::sort(list.begin(), list.end());
    if (!list.empty() &&
        (list.front() < 0 || list.back() >= N || std::adjacent_find(list.begin(), list.end()) != list.end()))
      fail("metadata '" + name + "' must hold different numbers from 0 to " + std::to_string(N - 1));
    return list;
  }

  Options options() const {
    Options options;
    options.alpha = metadata_.number("alpha", options.alpha);
    options.selection_bias = metadata_.flag("selection_bias", true);
    options.tail_completeness = metadata_.flag("tail_completeness", true);
    options.stable = metadata_.flag("stable", false);
    return options;
  }

  double samples() const {
    if (!metadata_.has("num_samples")) fail("the case has no metadata 'num_samples'");
    return metadata_.number("num_samples", 0);
  }

  void tests() {
    require_outputs({"out.p_value"});
    const IndependenceTest test = FisherZ(correlations(), samples(), LargeSets::published);
    const Matrix queries = to_double<2>(golden_tensor(golden_, "in.query").view());
    if (queries.shape()[1] < 2) fail("in.query needs at least two columns, x and y");
    Vector p({queries.shape()[0]});
    for (Index q = 0; q < queries.shape()[0]; ++q) {
      Nodes variables;
      for (const double v : row(queries, q))
        if (v >= 0) variables.push_back(static_cast<Index>(v));
      if (variables.size() < 2) fail("row " + std::to_string(q) + " of in.query names fewer than two variables");
      p(q) = p_value(test, variables[0], variables[1], std::span(variables).subspan(2));
    }
    // The tolerance is absolute: p-values are at most 1, so it is the same.
    compare("out.p_value", to_tensor(p));
  }

  void algorithm(const std::string& kind) {
    const Matrix R = correlations();
    const Index N = R.shape()[0];
    const Nodes variables = nodes("nodes", N);
    if (variables.empty()) fail("metadata 'nodes' is empty");
    const IndependenceTest test = FisherZ(submatrix(R, variables), samples(), LargeSets::published);
    const Discovery found = kind == "pc"    ? pc(test, options())
                            : kind == "fci" ? fci(test, options())
                                            : icd(test, options());
    require_outputs(
        {"out.correlation", "out.skeleton", kind == "pc" ? "out.cpdag" : "out.pag", "out.sepset", "out.num_tests"},
        found.rounds.size());
    compare("out.skeleton", adjacencies(found.graph));
    compare("out.cpdag", marks(found.graph));
    compare("out.pag", marks(found.graph));
    compare("out.sepset", memberships(found.separating, found.graph.size()));
    compare("out.num_tests", counts(found.tests, N));
    compare_rounds(found.rounds);
  }

  void oracle() {
    const Tensor& dag = square(golden_, "in.dag");
    const Index m = dag.shape()[0];
    Array<std::uint8_t, 2> edges({m, m});
    for (Index i = 0; i < dag.size(); ++i) edges.data()[i] = dag.at(i) != 0 ? 1 : 0;
    const IndependenceTest test =
        DSeparation(edges, nodes("observed", m), metadata_.has("selection") ? nodes("selection", m) : Nodes{});
    const Discovery found = icd(test, options()), other = fci(test, options());
    const Index n = found.graph.size();
    require_outputs({"out.pag", "out.skeleton", "out.sepset", "out.pag_fci", "out.possible_ancestor", "out.num_tests",
                     "out.num_tests_fci"},
                    found.rounds.size());
    compare("out.pag", marks(found.graph));
    compare("out.skeleton", adjacencies(found.graph));
    compare("out.sepset", memberships(found.separating, n));
    compare("out.pag_fci", marks(other.graph));
    compare("out.num_tests", counts(found.tests, n));
    compare("out.num_tests_fci", counts(other.tests, n));
    compare_rounds(found.rounds);
    Tensor ancestors(DType::u8, {n, n});
    for (Index to = 0; to < n; ++to) {
      const auto above = found.graph.possible_ancestors(to);
      for (Index from = 0; from < n; ++from)
        if (from != to) ancestors.set(from * n + to, above[static_cast<std::size_t>(from)]);
    }
    compare("out.possible_ancestor", ancestors);
  }

  void rules() {
    require_outputs({"out.pag", "out.modified"});
    const Tensor &pags = golden_tensor(golden_, "in.pag"), &sets = golden_tensor(golden_, "in.sepset"),
                 &rule = golden_tensor(golden_, "in.rule");
    if (pags.shape().size() != 3 || pags.shape()[1] != pags.shape()[2])
      fail("in.pag has shape " + saddle::to_string(pags.shape()) + ", expected (T,n,n)");
    const Index T = pags.shape()[0], n = pags.shape()[1];
    if (sets.shape() != Shape{T, n, n, n})
      fail("in.sepset has shape " + saddle::to_string(sets.shape()) + ", expected (T,n,n,n)");
    if (rule.shape() != Shape{T}) fail("in.rule has shape " + saddle::to_string(rule.shape()) + ", expected (T)");
    Tensor after(pags.dtype(), pags.shape()), modified(DType::u8, {T});
    for (Index t = 0; t < T; ++t) {
      Graph graph(n);
      SeparatingSets separating(n);
      for (Index a = 0; a < n; ++a)
        for (Index b = 0; b < n; ++b) {
          const double mark = pags.at((t * n + a) * n + b);
          if (!(mark >= 0 && mark <= 3)) fail("in.pag holds the mark " + format_number(mark) + ", known are 0 to 3");
          graph.set(a, b, static_cast<Mark>(static_cast<int>(mark)));
          Nodes set;
          for (Index k = 0; k < n; ++k)
            if (sets.at(((t * n + a) * n + b) * n + k) != 0) set.push_back(k);
          if (a < b) separating.set(a, b, std::move(set));
        }
      modified.set(t, apply_rule(static_cast<int>(rule.at(t)), graph, separating) ? 1 : 0);
      for (Index i = 0; i < n * n; ++i) after.set(t * n * n + i, static_cast<int>(graph.mark(i / n, i % n)));
    }
    compare("out.pag", after);
    compare("out.modified", modified);
  }

  // Metadata `name`: null or a number.
  Index limit(const std::string& name) const {
    return metadata_.text(name, "null") == "null" ? -1 : metadata_.integer(name, -1);
  }

  // Metadata 'causes': lists of nodes of the attention; a set explains if it contains one of them.
  std::vector<Nodes> causes() const {
    const auto value = nlohmann::json::parse(metadata_.text("causes", ""), nullptr, false);
    std::vector<Nodes> lists;
    if (!value.is_array()) fail("metadata 'causes' must be a list of lists of nodes");
    for (const auto& list : value) {
      if (!list.is_array()) fail("metadata 'causes' must be a list of lists of nodes");
      lists.emplace_back();
      for (const auto& node : list) {
        if (!node.is_number_integer()) fail("metadata 'causes' must be a list of lists of nodes");
        lists.back().push_back(node.get<Index>());
      }
      std::sort(lists.back().begin(), lists.back().end());
    }
    return lists;
  }

  void explanations() {
    require_outputs({"out.correlation", "out.pag", "out.pds_tree", "out.full_set", "out.candidates",
                     "out.candidate_size_distance", "out.explanations", "out.explanation_distance"});
    const Matrix R = correlations();
    const Index N = R.shape()[0];
    const Nodes variables = nodes("nodes", N);
    const Index wanted = metadata_.integer("target", -1);
    const auto place = std::lower_bound(variables.begin(), variables.end(), wanted);
    if (place == variables.end() || *place != wanted)
      fail("metadata 'target' is " + std::to_string(wanted) + ", which is not among the nodes");
    const Discovery found = icd(FisherZ(submatrix(R, variables), samples(), LargeSets::published), options());
    compare("out.pag", marks(found.graph));

    const auto named = [&](const Nodes& set) {
      Nodes names;
      for (const Index node : set) names.push_back(variables[static_cast<std::size_t>(node)]);
      return names;
    };
    const auto lists = causes();
    const IsExplanation judge = [&](const Nodes& tokens, Index) {
      const Nodes names = named(tokens);
      return std::any_of(lists.begin(), lists.end(), [&](const Nodes& list) {
        return std::includes(names.begin(), names.end(), list.begin(), list.end());
      });
    };
    ExplainOptions limits;
    limits.max_set_size = limit("max_set_size");
    limits.max_range = limit("max_range");
    limits.search_minimal = metadata_.flag("search_minimal", true);
    const Index target = place - variables.begin();
    const Explanations result = explain(found.graph, target, judge, limits);
    // The cases list the candidates of all sizes, also where the search ends with the first size that explains.
    limits.search_minimal = false;
    const auto candidates = explain(found.graph, target, judge, limits).candidates;

    const auto& vertices = result.tree.vertices;
    Tensor tree(DType::i64, {static_cast<Index>(vertices.size()), 3});
    for (std::size_t v = 0; v < vertices.size(); ++v) {
      const auto at = static_cast<Index>(v) * 3;
      tree.set(at, static_cast<double>(variables[static_cast<std::size_t>(vertices[v].node)]));
      tree.set(at + 1, static_cast<double>(vertices[v].parent));
      tree.set(at + 2, static_cast<double>(vertices[v].depth));
    }
    compare("out.pds_tree", tree);
    Tensor full(DType::u8, {N});
    for (const Index node : named(result.members)) full.set(node, 1);
    compare("out.full_set", full);
    const auto members = [&](const std::vector<TokenSet>& sets) {
      Tensor tensor(DType::u8, {static_cast<Index>(sets.size()), N});
      for (std::size_t s = 0; s < sets.size(); ++s)
        for (const Index node : named(sets[s].tokens)) tensor.set(static_cast<Index>(s) * N + node, 1);
      return tensor;
    };
    compare("out.candidates", members(candidates));
    compare("out.explanations", members(result.found));
    compare("out.candidate_size_distance",
            integers(DType::i64, {static_cast<Index>(candidates.size()), 2}, [&](Index i) {
              const TokenSet& set = candidates[static_cast<std::size_t>(i / 2)];
              return i % 2 == 0 ? static_cast<Index>(set.tokens.size()) : set.distance;
            }));
    compare("out.explanation_distance", integers(DType::i64, {static_cast<Index>(result.found.size())}, [&](Index i) {
              return result.found[static_cast<std::size_t>(i)].distance;
            }));
  }

  const TensorFile& golden_;
  GoldenMetadata metadata_;
  GoldenComparison comparison_;
};

}  // namespace

mechanisms::GoldenReport check(const TensorFile& golden, DType dtype) {
  mechanisms::GoldenReport report;
  Case each(golden, dtype == DType::f64 ? "causal discovery" : "causal discovery (runs in f64 only)");
  report.results.push_back(each.run().result());
  return report;
}

}  // namespace saddle::analysis::causal_discovery

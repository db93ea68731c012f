// What the theory of rank collapse says, shown: full rank in spite of attention, and how fast masks collapse.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "saddle/analysis/rank_collapse/report_internal.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"

namespace saddle::analysis::rank_collapse {

namespace {

using Json = nlohmann::ordered_json;

// One head with W_V = I; W_Q and W_K with entries N(0,1/d), tokens N(0,1).
Stack random_stack(Index d, Index layers, Stream& stream) {
  Stack stack;
  stack.w_q = stack.w_k = stack.w_v = Array<double, 4>({1, 1, d, d});
  for (double& w : stack.w_q) w = stream.normal() / std::sqrt(static_cast<double>(d));
  for (double& w : stack.w_k) w = stream.normal() / std::sqrt(static_cast<double>(d));
  for (Index i = 0; i < d; ++i) stack.w_v(0, 0, i, i) = 1;
  stack.layers = layers;
  return stack;
}

// What became of the two tokens: the theory has a limit for every beta, but not every start goes there.
std::string outcome(const Counterexample& example, const Trace& apart) {
  const Matrix& last = apart.tokens.back();
  const double* limit = example.limit;
  const double distance = std::hypot(last(1, 0) - limit[0], last(1, 1) - limit[1]);
  const std::string place = fmt::format(
      "after {} layers the second token is at ({:.3f}, {:.3f}), {:.2g} from its limit "
      "({:.3f}, {:.3f}) by the theory",
      apart.tokens.size() - 1, last(1, 0), last(1, 1), distance, limit[0], limit[1]);
  const Measures& end = apart.measures.back();
  if (distance > 0.1)
    return fmt::format(
        "{}, and the effective rank is {:.3f}. From this start it does not go there, or not in so few "
        "layers; near beta = 0 hardly any start does.",
        place, end.effective_rank);
  if (end.rank < 2)
    return fmt::format(
        "{}. It stays opposite to the first one, so close to one line with it that the rank is {:g} up "
        "to {:g}; a smaller beta keeps it further away.",
        place, end.rank, default_rank_rtol);
  return fmt::format(
      "{}, and the rank stays 2, the effective rank {:.3f}. The first token needs long: its distance "
      "falls like 1/t.",
      place, end.effective_rank);
}

Json show_counterexample(double beta, Index layers, Result& result) {
  const Counterexample example = counterexample(beta, layers);
  // The same layers from a start beside the first token: there the second one joins it.
  Matrix beside = example.start;
  beside(1, 0) = std::sin(0.6);
  beside(1, 1) = std::cos(0.6);
  const Trace apart = trace(example.stack, example.start, example.mask),
              joined = trace(example.stack, beside, example.mask);
  Chart rank{"Full rank in spite of attention: effective rank of two tokens", "layer", "effective rank", {}, false};
  Chart path{"Where the two tokens go", "first coordinate", "second coordinate", {}, false};
  for (const auto& [name, own] :
       {std::pair{"second token starts opposite", &apart}, {"second token starts near", &joined}}) {
    Curve curve{name, {}}, way{name, {}};
    for (std::size_t t = 0; t < own->measures.size(); ++t) {
      curve.points.emplace_back(static_cast<double>(t), own->measures[t].effective_rank);
      way.points.emplace_back(own->tokens[t](1, 0), own->tokens[t](1, 1));
    }
    rank.curves.push_back(std::move(curve));
    path.curves.push_back(std::move(way));
  }
  Curve first{"first token", {}};
  for (const Matrix& tokens : apart.tokens) first.points.emplace_back(tokens(0, 0), tokens(0, 1));
  path.curves.push_back(std::move(first));
  path.curves.push_back({"limit of the second token", {{example.limit[0], example.limit[1]}}});
  const Matrix& last = apart.tokens.back();
  result.charts.push_back(std::move(rank));
  result.charts.push_back(std::move(path));
  result.tables.push_back(
      {fmt::format("Counterexample, beta = {:g}, after {} layers", beta, layers),
       {"start of the second token", "it goes to", "limit by the theory", "first token goes to", "effective rank",
        "mu/|X|"},
       {{"opposite", fmt::format("({:.4f}, {:.4f})", last(1, 0), last(1, 1)),
         fmt::format("({:.4f}, {:.4f})", example.limit[0], example.limit[1]),
         fmt::format("({:.4f}, {:.4f})", last(0, 0), last(0, 1)),
         fmt::format("{:.3f}", apart.measures.back().effective_rank),
         fmt::format("{:.3g}", apart.measures.back().mu_relative)},
        {"near the first", fmt::format("({:.4f}, {:.4f})", joined.tokens.back()(1, 0), joined.tokens.back()(1, 1)),
         "that of the first", fmt::format("({:.4f}, {:.4f})", joined.tokens.back()(0, 0), joined.tokens.back()(0, 1)),
         fmt::format("{:.3f}", joined.measures.back().effective_rank),
         fmt::format("{:.3g}", joined.measures.back().mu_relative)}}});
  result.findings.push_back(fmt::format("Two tokens, causal mask, unit norm, W_V = [[1,1],[0,1]], beta = {:g}: {}",
                                        beta, outcome(example, apart)));
  return {{"beta", beta},
          {"layers", layers},
          {"limit", {example.limit[0], example.limit[1]}},
          {"second_token", {last(1, 0), last(1, 1)}},
          {"first_token", {last(0, 0), last(0, 1)}},
          {"effective_rank", apart.measures.back().effective_rank},
          {"effective_rank_near", joined.measures.back().effective_rank}};
}

Json show_masks(Index N, Index window, std::uint64_t seed, Result& result) {
  constexpr Index layers = 240;
  Stream stream(seed, "rank_collapse");
  const Stack stack = random_stack(N, layers, stream);
  Matrix x({N, N});
  for (double& value : x) value = stream.normal();
  Chart chart{"Pure attention collapses with every mask that has a centre", "layer", "mu / |X|", {}, true};
  Table table{"Masks",
              {"mask", "centres", "radius", "layers until mu/|X| < 0.001", "rate of mu/|X|",
               "theorem's rate of the oscillation"},
              {}};
  Json rows = Json::array();
  for (const auto& [kind, size] : {std::pair<const char*, Index>{"complete", 0},
                                   {"causal", 0},
                                   {"prefix", window},
                                   {"uni_sliding", window},
                                   {"sliding", window},
                                   {"blocks", std::max<Index>(1, N / 4)}}) {
    const Trace own = trace(stack, x, make_mask(kind, N, size));
    Curve curve{kind, {}};
    Index until = -1;
    for (std::size_t t = 0; t < own.measures.size(); ++t) {
      const double mu = own.measures[t].mu_relative;
      if (until < 0 && mu < 1e-3) until = static_cast<Index>(t);
      if (mu > 1e-12) curve.points.emplace_back(static_cast<double>(t), mu);
    }
    chart.curves.push_back(std::move(curve));
    const auto centres = std::count(own.graph.centre.begin(), own.graph.centre.end(), true);
    table.rows.push_back({kind, std::to_string(centres),
                          own.graph.radius < 0 ? "none" : std::to_string(own.graph.radius),
                          until < 0 ? fmt::format("not in {}", layers) : std::to_string(until),
                          fmt::format("{:.4f}", own.measured), promise_text(own.guaranteed, own.promised, 10)});
    rows.push_back({{"mask", kind},
                    {"centres", centres},
                    {"radius", own.graph.radius},
                    {"layers_until_collapse", until < 0 ? Json() : Json(until)},
                    {"measured_rate", own.measured},
                    {"guaranteed_rate", own.guaranteed}});
  }
  result.charts.push_back(std::move(chart));
  result.tables.push_back(std::move(table));
  return rows;
}

}  // namespace

Result example(Options& options) {
  const double beta = options.number("beta", 1);
  const Index layers = options.integer("layers", 400), tokens = options.integer("tokens", 32),
              window = options.integer("window", 4), seed = options.integer("seed", 0);
  options.check();
  if (layers < 1 || layers > 100000)
    throw InvalidArgument(fmt::format("option 'layers' must be from 1 to 100000, found {}", layers));
  if (tokens < 2 || tokens > 256 || window < 0 || seed < 0)
    throw InvalidArgument(fmt::format(
        "options 'tokens' (2 to 256), 'window' and 'seed' (0 and above) are {}, {} and {}", tokens, window, seed));
  Result result;
  result.about =
      "Two tokens under attention with normalisation, from a start that theory keeps apart and from one that it does "
      "not, beside random stacks of pure attention under several masks. A line that stays up keeps its rank; one that "
      "falls has lost it, faster where every token sees every other and slower where masks are local.";
  Json document;
  document["counterexample"] = show_counterexample(beta, layers, result);
  document["masks"] = show_masks(tokens, window, static_cast<std::uint64_t>(seed), result);
  result.json = document.dump();
  return result;
}

}  // namespace saddle::analysis::rank_collapse

#include "saddle/analysis/rank_collapse/rank_collapse.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::analysis::rank_collapse {

double measured_rate(const std::vector<double>& values, double floor) {
  std::vector<std::pair<double, double>> points;
  for (std::size_t t = 0; t < values.size(); ++t)
    if (values[t] > 0 && values[t] >= floor * values[0])
      points.emplace_back(static_cast<double>(t), std::log(values[t]));
  if (points.size() < 2) return std::numeric_limits<double>::quiet_NaN();
  double t_mean = 0, y_mean = 0;
  for (const auto& [t, y] : points) {
    t_mean += t / static_cast<double>(points.size());
    y_mean += y / static_cast<double>(points.size());
  }
  double above = 0, below = 0;
  for (const auto& [t, y] : points) {
    above += (t - t_mean) * (y - y_mean);
    below += (t - t_mean) * (t - t_mean);
  }
  return std::exp(above / below);
}

double guaranteed_rate(const Graph& graph, double eps) {
  if (!(eps >= 0 && eps <= 1))
    throw InvalidArgument("rank_collapse: the smallest weight must be from 0 to 1, found " + format_number(eps));
  if (!graph.quasi_strongly_connected || !graph.self_loops) return 1;
  if (graph.radius == 0) return 0;  // a single token
  const auto r = static_cast<double>(graph.radius), k = static_cast<double>(graph.nearest_centres);
  return std::pow(std::max(0.0, 1 - k * std::pow(eps, r)), 1 / r);
}

std::vector<double> oscillation_bound(const Graph& graph, double eps, double oscillation, Index layers) {
  if (!graph.quasi_strongly_connected || !graph.self_loops)
    throw InvalidArgument("rank_collapse: the bound needs a mask with a centre and with self-loops",
                          "a causal, complete or sliding mask has both");
  if (!(eps >= 0 && eps <= 1))
    throw InvalidArgument("rank_collapse: the smallest weight must be from 0 to 1, found " + format_number(eps));
  std::vector<double> bound;
  const double factor = 1 - std::pow(eps, static_cast<double>(graph.radius));
  for (Index t = 0; t <= layers; ++t)
    bound.push_back(graph.radius == 0 ? oscillation  // a single token: 0 already
                                      : std::pow(factor, static_cast<double>(t / graph.radius)) * oscillation);
  return bound;
}

Trace observe(std::vector<Matrix> tokens, const Mask& mask, std::vector<double> attention_min, double rank_rtol) {
  if (tokens.empty()) throw InvalidArgument("rank_collapse: there are no tokens to observe");
  for (const Matrix& x : tokens)
    if (x.shape()[0] != mask.shape()[0])
      throw InvalidArgument("rank_collapse: a layer has " + std::to_string(x.shape()[0]) + " tokens, the mask is for " +
                            std::to_string(mask.shape()[0]));
  if (!attention_min.empty() && attention_min.size() + 1 != tokens.size())
    throw InvalidArgument("rank_collapse: " + std::to_string(attention_min.size()) + " smallest weights for " +
                          std::to_string(tokens.size() - 1) + " layers");
  Trace result;
  result.measures = measure(tokens, rank_rtol);
  result.graph = graph_of(mask);
  std::vector<double> mu;
  for (const Measures& m : result.measures) mu.push_back(m.mu_relative);
  result.measured = measured_rate(mu);
  // Weights of attention that is no average are outside of the theorem.
  const double eps = attention_min.empty() ? 0 : *std::min_element(attention_min.begin(), attention_min.end());
  if (eps > 0 && eps <= 1) {
    result.guaranteed = guaranteed_rate(result.graph, eps);
    result.promised = result.graph.quasi_strongly_connected && result.graph.self_loops;
  }
  result.tokens = std::move(tokens);
  result.attention_min = std::move(attention_min);
  return result;
}

Norm norm_from(const std::string& name) {
  if (name == "none") return Norm::none;
  if (name == "unit") return Norm::unit;
  if (name == "layernorm") return Norm::layernorm;
  throw InvalidArgument("unknown norm '" + name + "', expected none, unit or layernorm");
}

Counterexample counterexample(double beta, Index layers) {
  if (!(beta > 0) || !std::isfinite(beta))
    throw InvalidArgument("rank_collapse: the counterexample needs beta above 0, found " + format_number(beta),
                          "0.5, 1 and 2 show it well");
  Counterexample example{{}, causal_mask(2), Matrix({2, 2})};
  Stack& stack = example.stack;
  stack.w_q = stack.w_k = stack.w_v = Array<double, 4>({1, 1, 2, 2});
  const double c = std::sqrt(beta * std::sqrt(2.0));
  for (Index i = 0; i < 2; ++i) stack.w_q(0, 0, i, i) = stack.w_k(0, 0, i, i) = c;
  stack.w_v(0, 0, 0, 0) = stack.w_v(0, 0, 0, 1) = stack.w_v(0, 0, 1, 1) = 1;
  stack.layers = layers;
  stack.norm = Norm::unit;
  // A contraction: its derivative is below 1 for every beta above 0.
  double p = 0, q = -1;
  for (int step = 0; step < 100000; ++step) {
    const double next = -std::exp(-beta * (1 - q));
    const bool settled = std::fabs(next - p) < 1e-16;
    p = next;
    q = -std::sqrt(std::max(0.0, 1 - p * p));
    if (settled) break;
  }
  example.limit[0] = p;
  example.limit[1] = q;
  // Beside where they go: the first token falls to (0,1) from the right, the second to its limit from the left.
  const double away = 0.1, first = std::hypot(away, 1), second = std::hypot(p - away, q);
  example.start(0, 0) = away / first;
  example.start(0, 1) = 1 / first;
  example.start(1, 0) = (p - away) / second;
  example.start(1, 1) = q / second;
  return example;
}

const Analysis& analysis() {
  static const Analysis value = [] {
    Analysis own;
    own.name = "rank_collapse";
    own.title = "Rank collapse";
    own.summary = "do tokens become one vector with depth, and what does the mask guarantee?";
    own.bibtex = R"(@inproceedings{wu2024role,
  title     = {On the Role of Attention Masks and LayerNorm in Transformers},
  author    = {Wu, Xinyi and Ajorlou, Amir and Wang, Yifei and Jegelka, Stefanie and Jadbabaie, Ali},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2024},
  note      = {arXiv:2405.18781}
})";
    own.golden = {{"rank-collapse", check}};
    own.on_model = on_model;
    own.on_tensors = on_tensors;
    own.example = example;
    return own;
  }();
  return value;
}

}  // namespace saddle::analysis::rank_collapse

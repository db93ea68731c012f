// The theory of attention paths on the attention of a trained model.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "saddle/analysis/attention_paths/attention_paths.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::attention_paths {

namespace {

const Probe& probe_of(const ProbedModel& model, const std::string& split) {
  const auto found =
      std::find_if(model.probes.begin(), model.probes.end(), [&](const Probe& probe) { return probe.split == split; });
  if (found == model.probes.end() || found->tokens.empty())
    throw InvalidArgument("attention_paths: the model has no samples of the " + split + " split");
  return *found;
}

// Every path of the model, seen by its readout: the average over the tokens that exist.
Array<double, 3> input_of(const Probe& probe) {
  const auto [B, N, X] = probe.tokens.shape();
  Array<double, 3> x({B, X, N});
  for (Index b = 0; b < B; ++b)
    for (Index i = 0; i < probe.lengths[static_cast<std::size_t>(b)]; ++i)
      for (Index c = 0; c < X; ++c) x(b, c, i) = probe.tokens(b, i, c);
  std::vector<Attention> attention;
  for (std::size_t l = 0; l < probe.layers.size(); ++l) {
    const Array<double, 4>& maps = probe.layers[l].weights;
    if (maps.empty() || maps.shape()[2] != N || maps.shape()[3] != N)
      throw NotSupported(
          fmt::format("attention_paths: layer {} ({}) has no weights between tokens", l, probe.layers[l].attention), {},
          "attention without pooled keys that shows its weights can be looked at");
    const bool last = l + 1 == probe.layers.size();
    Array<double, 4> seen(maps.shape());
    for (Index b = 0; b < B; ++b) {
      const Index length = probe.lengths[static_cast<std::size_t>(b)];
      // The readout averages over all places; those that are padding hold 0.
      const double share = last ? static_cast<double>(N) / static_cast<double>(length) : 1;
      for (Index h = 0; h < maps.shape()[1]; ++h)
        for (Index i = 0; i < length; ++i)
          for (Index j = 0; j < length; ++j) seen(b, h, i, j) = share * maps(b, h, i, j);
    }
    attention.push_back(attention_from_maps(seen));
  }
  return attended_input(x, attention, Readout::average_pooling);
}

Prior prior_of(const Probe& probe, const ModelOptions& options) {
  Prior prior;
  Index paths = 1;
  for (const ProbedLayer& layer : probe.layers) {
    const Index H = layer.heads.shape()[1];
    prior.heads.push_back(H);
    paths = paths <= options.most_paths && H > 0 ? paths * H : options.most_paths + 1;
  }
  if (prior.heads.empty() || paths > options.most_paths)
    throw NotSupported(fmt::format("attention_paths: {} layers of heads make more than {} paths", prior.heads.size(),
                                   options.most_paths),
                       {}, "the theory is for few layers: try head_redundancy");
  const Index width = options.width > 0 ? options.width : probe.tokens.shape()[2];
  prior.widths.assign(prior.heads.size() + 1, width);
  prior.variances.assign(prior.heads.size() + 2, 1);
  prior.temperature = options.temperature;
  return prior;
}

// +1 for the class, -1 for the rest.
Vector labels_of(const Probe& probe, Index label) {
  Vector y({static_cast<Index>(probe.labels.size())});
  for (std::size_t i = 0; i < probe.labels.size(); ++i) y(static_cast<Index>(i)) = probe.labels[i] == label ? 1 : -1;
  return y;
}

// Share of samples whose class has the largest mean.
double accuracy_of(const std::vector<Vector>& means, const std::vector<Index>& classes, const Probe& probe) {
  double right = 0;
  for (std::size_t i = 0; i < probe.labels.size(); ++i) {
    std::size_t best = 0;
    for (std::size_t c = 1; c < classes.size(); ++c)
      if (means[c](static_cast<Index>(i)) > means[best](static_cast<Index>(i))) best = c;
    right += classes[best] == probe.labels[i] ? 1 : 0;
  }
  return right / static_cast<double>(probe.labels.size());
}

std::string path_name(Index path, const std::vector<Index>& heads) {
  std::string name;
  for (std::size_t l = heads.size(); l-- > 0;) {
    name = std::to_string(path % heads[l]) + (name.empty() ? "" : "-") + name;
    path /= heads[l];
  }
  return name;
}

// The strongest pairs of paths.
Table strongest_pairs(const ModelTheory& theory) {
  struct Pair {
    Index i, j;
    double value;
  };
  std::vector<Pair> pairs;
  for (Index i = 0; i < theory.u.shape()[0]; ++i)
    for (Index j = i; j < theory.u.shape()[1]; ++j) pairs.push_back({i, j, theory.u(i, j)});
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return std::abs(a.value) > std::abs(b.value); });
  Table table{"Strongest pairs of paths, heads from the first layer to the last", {"path", "path", "U"}, {}};
  for (std::size_t k = 0; k < std::min<std::size_t>(pairs.size(), 12); ++k)
    table.rows.push_back({path_name(pairs[k].i, theory.prior.heads), path_name(pairs[k].j, theory.prior.heads),
                          fmt::format("{:.4g}", pairs[k].value)});
  return table;
}

}  // namespace

ModelTheory theory_of(const ProbedModel& model, const ModelOptions& options) {
  const Probe &train = probe_of(model, "train"), &test = probe_of(model, "test");
  ModelTheory theory;
  theory.prior = prior_of(train, options);
  std::vector<Index> classes = train.labels;
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  if (classes.size() < 2)
    throw InvalidArgument("attention_paths: the training samples are all of one class",
                          "show the model more --samples");
  const auto xi = input_of(train), xi_test = input_of(test);
  const Index Pi = theory.prior.paths();
  const Matrix gp = gp_order_parameters(theory.prior)[0];
  MinimumOptions precise;
  precise.tolerance = 1e-8;
  precise.hessian_size = 0;
  theory.u = Matrix({Pi, Pi});
  std::vector<Vector> finite, infinite;
  Minimum minimum;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const Vector y = labels_of(train, classes[c]);
    // Of two classes one is the other's opposite.
    if (c == 0 || classes.size() > 2) minimum = minimise(xi, y, theory.prior, precise);
    theory.unconverged += minimum.converged ? 0 : 1;
    for (Index i = 0; i < Pi * Pi; ++i)
      theory.u.data()[i] += minimum.u[0].data()[i] / static_cast<double>(classes.size());
    finite.push_back(predict(xi, y, xi_test, minimum.u[0], options.temperature).mean);
    infinite.push_back(predict(xi, y, xi_test, gp, options.temperature).mean);
  }
  theory.scores = head_scores(theory.u, theory.prior.heads);
  theory.accuracy = accuracy_of(finite, classes, test);
  theory.accuracy_gp = accuracy_of(infinite, classes, test);
  return theory;
}

Result on_model(const ProbedModel& model, Options& options) {
  ModelOptions own;
  own.temperature = options.number("temperature", own.temperature);
  own.width = options.integer("width", own.width);
  options.check();
  const ModelTheory theory = theory_of(model, own);
  Result result;
  result.about =
      "Which paths, one head per layer, a network with this attention would use for the task, by a theory that needs "
      "no "
      "training, and a score for every head. Heads near 1 carry the prediction, heads near 0 can go; scores that are "
      "all "
      "alike mean that no head is idle, or that the width is so large that the theory cannot tell them apart.";
  Table table{"Heads", {"layer", "head", "score", "raw"}, {}};
  Chart chart{"Score of heads", "head", "score", {}, false};
  nlohmann::ordered_json scores = nlohmann::ordered_json::array();
  const HeadScore* weakest = &theory.scores.front();
  for (const HeadScore& score : theory.scores) {
    if (score.score < weakest->score) weakest = &score;
    if (score.head == 0) chart.curves.push_back({fmt::format("layer {}", score.layer), {}});
    chart.curves.back().points.emplace_back(static_cast<double>(score.head), score.score);
    table.rows.push_back({std::to_string(score.layer), std::to_string(score.head), fmt::format("{:.3f}", score.score),
                          fmt::format("{:.4g}", score.raw)});
    scores.push_back({{"layer", score.layer}, {"head", score.head}, {"score", score.score}, {"raw", score.raw}});
  }
  result.findings.push_back(fmt::format("The head to prune first is head {} of layer {}, with a score of {:.3f}.",
                                        weakest->head, weakest->layer, weakest->score));
  result.findings.push_back(
      fmt::format("From {} training samples the theory predicts {:.1f} % of {} test samples right at this width, "
                  "{:.1f} % at infinite "
                  "width.",
                  probe_of(model, "train").labels.size(), 100 * theory.accuracy, probe_of(model, "test").labels.size(),
                  100 * theory.accuracy_gp));
  result.findings.emplace_back(
      "The theory knows attention only: no residual branches, no feed-forward networks, attention that does not change "
      "with "
      "the values.");
  if (theory.unconverged > 0)
    result.findings.push_back(fmt::format("The minimum was not reached for {} classes.", theory.unconverged));
  result.tables = {std::move(table), strongest_pairs(theory)};
  result.charts.push_back(std::move(chart));
  result.maps.push_back({"U, the weights of pairs of paths", "path", "path", theory.u, false});
  result.json =
      nlohmann::ordered_json{
          {"model", model.name},         {"heads", theory.prior.heads},       {"scores", scores},
          {"accuracy", theory.accuracy}, {"accuracy_gp", theory.accuracy_gp}, {"unconverged", theory.unconverged}}
          .dump();
  return result;
}

}  // namespace saddle::analysis::attention_paths

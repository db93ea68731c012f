// The theory of attention paths on the attention of a trained model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "saddle/analysis/attention_paths/attention_paths.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::attention_paths {

namespace {

using Maps = std::vector<Array<double, 4>>;  // of every layer between tokens [B,H,N,N]

// Layers without weights between tokens have none.
Maps maps_of(const Probe& probe) {
  Maps maps;
  for (const ProbedLayer& layer : probe.layers) maps.push_back(token_weights(probe, layer));
  return maps;
}

void require_maps(const Probe& probe, const Maps& maps) {
  for (std::size_t l = 0; l < maps.size(); ++l)
    if (maps[l].empty())
      throw NotSupported(
          fmt::format("attention_paths: layer {} ({}) has no weights between tokens", l, probe.layers[l].attention), {},
          "attention that shows its weights can be looked at, such as softmax");
}

Readout readout_of(const Probe& probe, const ModelOptions& options) {
  return options.readout.value_or(probe.first_token  ? Readout::first_token
                                  : probe.last_token ? Readout::last_token
                                                     : Readout::average_pooling);
}

// Every path of the model, seen by its readout, which does not see tokens that do not exist.
Array<double, 3> input_of(const Probe& probe, Maps maps, Readout readout) {
  const auto [B, N, X] = probe.tokens.shape();
  const auto length_of = [&](Index b) { return std::min(N, probe.lengths[static_cast<std::size_t>(b)]); };
  Array<double, 3> x({B, X, N});
  for (Index b = 0; b < B; ++b)
    for (Index i = 0; i < length_of(b); ++i)
      for (Index c = 0; c < X; ++c) x(b, c, i) = probe.tokens(b, i, c);
  Array<double, 4>& last = maps.back();
  const Index size = last.shape()[1] * N * N;
  for (Index b = 0; b < B; ++b) {
    if (readout == Readout::average_pooling) {
      // The average is over all places; those that are padding hold 0.
      const double share = static_cast<double>(N) / static_cast<double>(length_of(b));
      for (Index i = 0; i < size; ++i) last.data()[b * size + i] *= share;
    } else if (readout == Readout::last_token) {
      for (Index h = 0; h < last.shape()[1]; ++h)
        for (Index j = 0; j < N; ++j) last(b, h, N - 1, j) = last(b, h, length_of(b) - 1, j);
    }
  }
  std::vector<Attention> attention;
  for (const Array<double, 4>& own : maps) attention.push_back(attention_from_maps(own));
  return attended_input(x, attention, readout);
}

Index count_paths(const Maps& maps, Index most) {
  Index paths = 1;
  for (const Array<double, 4>& own : maps) paths = paths <= most ? paths * own.shape()[1] : most + 1;
  return paths;
}

Prior prior_of(const Probe& probe, const Maps& maps, const ModelOptions& options) {
  if (options.width < 0)
    throw InvalidArgument(fmt::format(
        "attention_paths: the width must be 1 or more, or 0 for that of the tokens, found {}", options.width));
  if (maps.empty())
    throw NotSupported("attention_paths: there are no layers, and heads are what it is about", {},
                       "a file needs 'weights' [L,B,H,N,N]");
  if (count_paths(maps, options.most_paths) > options.most_paths)
    throw NotSupported(
        fmt::format("attention_paths: {} layers of heads make more than {} paths", maps.size(), options.most_paths), {},
        "scores of heads are there for groups of layers");
  Prior prior;
  for (const Array<double, 4>& own : maps) prior.heads.push_back(own.shape()[1]);
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

std::vector<Index> classes_of(const Probe& train) {
  std::vector<Index> classes = train.labels;
  if (std::any_of(classes.begin(), classes.end(), [](Index label) { return label < 0; }))
    throw InvalidArgument("attention_paths: training samples have no labels",
                          "the theory is about models that tell classes apart; a file needs 'labels' [B], from 0");
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  if (classes.size() < 2)
    throw InvalidArgument("attention_paths: the training samples are all of one class",
                          "show the model more samples; the theory is about models that tell classes apart");
  return classes;
}

// Share of samples whose class has the largest mean; NaN if the class of one is not known.
double accuracy_of(const std::vector<Prediction>& of_classes, const std::vector<Index>& classes, const Probe& probe) {
  if (std::any_of(probe.labels.begin(), probe.labels.end(), [](Index label) { return label < 0; })) return std::nan("");
  double right = 0;
  for (std::size_t i = 0; i < probe.labels.size(); ++i) {
    std::size_t best = 0;
    const auto mean = [&](std::size_t c) { return of_classes[c].mean(static_cast<Index>(i)); };
    for (std::size_t c = 1; c < classes.size(); ++c)
      if (mean(c) > mean(best)) best = c;
    right += classes[best] == probe.labels[i] ? 1 : 0;
  }
  return right / static_cast<double>(probe.labels.size());
}

ModelTheory solve(const Probe& train, const Maps& maps, const Probe* test, const ModelOptions& options) {
  ModelTheory theory;
  theory.prior = prior_of(train, maps, options);
  theory.classes = classes_of(train);
  theory.xi = input_of(train, maps, readout_of(train, options));
  Array<double, 3> xi_test;
  if (test != nullptr) {
    const Maps seen = maps_of(*test);
    require_maps(*test, seen);
    xi_test = input_of(*test, seen, readout_of(*test, options));
  }
  const Index Pi = theory.prior.paths();
  const Matrix gp = gp_order_parameters(theory.prior)[0];
  MinimumOptions precise;
  precise.tolerance = 1e-8;
  precise.hessian_size = 0;
  theory.u = Matrix({Pi, Pi});
  Minimum minimum;
  for (std::size_t c = 0; c < theory.classes.size(); ++c) {
    const Vector& y = theory.y.emplace_back(labels_of(train, theory.classes[c]));
    // Of two classes one is the other's opposite.
    if (c == 0 || theory.classes.size() > 2) minimum = minimise(theory.xi, y, theory.prior, precise);
    theory.unconverged += minimum.converged ? 0 : 1;
    for (Index i = 0; i < Pi * Pi; ++i)
      theory.u.data()[i] += minimum.u[0].data()[i] / static_cast<double>(theory.classes.size());
    if (test == nullptr) continue;
    theory.finite.push_back(predict(theory.xi, y, xi_test, minimum.u[0], options.temperature));
    theory.infinite.push_back(predict(theory.xi, y, xi_test, gp, options.temperature));
  }
  theory.scores = head_scores(theory.u, theory.prior.heads);
  theory.accuracy = test != nullptr ? accuracy_of(theory.finite, theory.classes, *test) : std::nan("");
  theory.accuracy_gp = test != nullptr ? accuracy_of(theory.infinite, theory.classes, *test) : std::nan("");
  return theory;
}

void require_tokens(const Probe& probe) {
  if (probe.tokens.empty())
    throw NotSupported("attention_paths: the tokens before the first layer are not known, and they are the input", {},
                       "models with the usual encoder show them; a file needs 'tokens' [L+1,B,N,X]");
}

}  // namespace

ModelTheory theory_of(const ProbedModel& model, const ModelOptions& options) {
  const Probe* test = nullptr;
  for (const Probe& probe : model.probes)
    if (probe.split == "test") test = &probe;
  const Probe& train = model.probe("train");
  require_tokens(train);
  const Maps maps = maps_of(train);
  require_maps(train, maps);
  return solve(train, maps, test != nullptr && !test->tokens.empty() ? test : nullptr, options);
}

GroupedScores grouped_head_scores(const Probe& train, const ModelOptions& options) {
  require_tokens(train);
  GroupedScores all;
  const Maps maps = maps_of(train);
  for (std::size_t first = 0; first < maps.size();) {
    if (maps[first].empty()) {
      ++first;
      continue;
    }
    Maps group{maps[first]};
    std::size_t end = first + 1;
    for (; end < maps.size() && !maps[end].empty(); ++end) {
      group.push_back(maps[end]);
      if (count_paths(group, options.most_paths) <= options.most_paths) continue;
      group.pop_back();
      break;
    }
    if (first > 0 && train.layers[first - 1].tokens.empty())
      throw InvalidArgument(fmt::format("attention_paths: layer {} does not show its tokens", first - 1));
    Probe part;
    part.tokens = first > 0 ? train.layers[first - 1].tokens : train.tokens;
    part.labels = train.labels;
    part.lengths = train.lengths;
    part.first_token = train.first_token;
    part.last_token = train.last_token;
    ModelOptions own = options;
    if (end < maps.size()) own.readout = Readout::average_pooling;  // the layers behind it look at all tokens
    ModelTheory theory = solve(part, group, nullptr, own);
    for (HeadScore& score : theory.scores) {
      score.layer += static_cast<Index>(first);
      all.scores.push_back(score);
    }
    all.groups.push_back(static_cast<Index>(first));
    all.unconverged += theory.unconverged;
    first = end;
  }
  if (all.scores.empty())
    throw NotSupported("attention_paths: no layer of the model has weights between tokens", {},
                       "attention that shows its weights can be looked at");
  return all;
}

}  // namespace saddle::analysis::attention_paths

// What the theory shows by itself: heads of its own network, on its own task, removed by its score and by others.
#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "saddle/analysis/attention_paths/hidden_markov.hpp"
#include "saddle/analysis/attention_paths/pooling_internal.hpp"
#include "saddle/analysis/attention_paths/posterior.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::attention_paths {

namespace {

using Json = nlohmann::ordered_json;

constexpr Index layers = 2, heads = 4;  // as many as the paper prunes
constexpr const char* orders[] = {"theory", "magnitude", "random"};

struct Settings {
  Index seeds = 3, width = 10, networks = 10, tests = 200, draws = 5;
  double noise = 1;
};

// Accuracies as heads go, from all to one in each layer.
using Course = std::vector<double>;

void add(Course& sum, const Course& values, double share) {
  sum.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) sum[i] += share * values[i];
}

// A layer has one head that the task needs, in the first layer one that takes noise away, and others that look
// anywhere.
struct Task {
  Array<double, 3> xi, xi_test;
  Vector y, y_test;
};

Task task_of(std::uint64_t seed, const Settings& settings) {
  Stream train(seed, "train"), test(seed, "test"), weights(seed, "heads");
  const auto seen = hidden_markov::draw(100, settings.noise, train),
             unseen = hidden_markov::draw(settings.tests, settings.noise, test);
  std::vector<Matrix> first{hidden_markov::good_head(), hidden_markov::uniform_head()},
      second{hidden_markov::uniform_head()};
  while (static_cast<Index>(first.size()) < heads) first.push_back(hidden_markov::random_head(weights));
  while (static_cast<Index>(second.size()) < heads) second.push_back(hidden_markov::random_head(weights));
  const Array<double, 3> w1 = hidden_markov::layer_of(first), w2 = hidden_markov::layer_of(second);
  const auto input = [&](const Array<double, 3>& x) {
    return attended_input(x, {attention_from_w(x, w1), attention_from_w(x, w2)}, Readout::average_pooling);
  };
  return {input(seen.x), input(unseen.x), seen.y, unseen.y};
}

double accuracy(const Vector& output, const Vector& y) {
  double right = 0;
  for (Index i = 0; i < y.size(); ++i) right += output(i) * y(i) > 0 ? 1 : 0;
  return right / static_cast<double>(y.size());
}

// Paths all of whose heads stay.
std::vector<Index> paths_of(const Kept& kept) {
  std::vector<Index> paths;
  for (Index path = 0; path < heads * heads; ++path)
    if (kept[0][static_cast<std::size_t>(path / heads)] && kept[1][static_cast<std::size_t>(path % heads)])
      paths.push_back(path);
  return paths;
}

Array<double, 3> chosen(const Array<double, 3>& xi, const std::vector<Index>& paths) {
  const auto [P, N0, Pi] = xi.shape();
  Array<double, 3> some({P, N0, static_cast<Index>(paths.size())});
  for (Index row = 0; row < P * N0; ++row)
    for (std::size_t i = 0; i < paths.size(); ++i)
      some.data()[row * some.shape()[2] + static_cast<Index>(i)] = xi.data()[row * Pi + paths[i]];
  return some;
}

// The mean of predict() without the heads that go: what is 0 in u need not be multiplied.
double predictor_accuracy(const Task& task, const Matrix& u, double temperature, const Kept& kept) {
  const std::vector<Index> paths = paths_of(kept);
  const auto n = static_cast<Index>(paths.size()), P = task.y.size(), Q = task.y_test.size();
  Matrix own({n, n});
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j) own(i, j) = u(paths[static_cast<std::size_t>(i)], paths[static_cast<std::size_t>(j)]);
  const Array<double, 3> xi = chosen(task.xi, paths), test = chosen(task.xi_test, paths);
  const Matrix among = kernel(xi, xi, own), cross = kernel(xi, test, own);
  Eigen::MatrixXd train = DenseMap(among.data(), P, P);
  train.diagonal().array() += temperature;
  const Eigen::VectorXd alpha = train.llt().solve(Eigen::Map<const Eigen::VectorXd>(task.y.data(), P));
  Vector mean({Q});
  Eigen::Map<Eigen::VectorXd>(mean.data(), Q) = DenseMap(cross.data(), P, Q).transpose() * alpha;
  return accuracy(mean, task.y_test);
}

std::vector<double> random_scores(Stream& stream) {
  std::vector<double> scores(static_cast<std::size_t>(layers * heads));
  for (double& score : scores) score = stream.uniform();
  return scores;
}

// By order: accuracies of networks, each for itself, and of the theory's predictor.
struct Curves {
  std::map<std::string, Course> networks, predictor;
  std::vector<HeadScore> scores;
};

Curves curves_of(std::uint64_t seed, const Settings& settings) {
  const Task task = task_of(seed, settings);
  const Index N = settings.width;
  const Prior prior{{heads, heads}, {N, N, N}, {1, 1, 1, 1}, 0.01};
  MinimumOptions quick;
  quick.hessian_size = 0;
  const Matrix u = minimise(task.xi, task.y, prior, quick).u[0];
  Stream weights(seed, "weights"), order(seed, "order");
  SampleOptions sampling;
  sampling.networks = settings.networks;
  const std::vector<NetworkWeights> networks = sample_networks(task.xi, task.y, prior, weights, sampling);

  Curves curves;
  curves.scores = head_scores(u, prior.heads);
  std::vector<double> theory, norms(static_cast<std::size_t>(layers * heads));
  for (const HeadScore& each : curves.scores) theory.push_back(each.score);
  const double share = 1 / static_cast<double>(networks.size());
  for (const NetworkWeights& network : networks) {
    const std::vector<double> own = head_norms(network);
    add(norms, own, share);
    const std::vector<double> by[] = {theory, own, random_scores(order)};
    for (std::size_t i = 0; i < std::size(orders); ++i) {
      Course course;
      for (const Kept& kept : removals(by[i], prior.heads))
        course.push_back(accuracy(network_output(with_heads(network, kept), task.xi_test), task.y_test));
      add(curves.networks[orders[i]], course, share);
    }
  }
  const auto predicted = [&](const std::vector<double>& scores) {
    Course course;
    for (const Kept& kept : removals(scores, prior.heads))
      course.push_back(predictor_accuracy(task, u, prior.temperature, kept));
    return course;
  };
  curves.predictor["theory"] = predicted(theory);
  curves.predictor["magnitude"] = predicted(norms);
  for (Index draw = 0; draw < settings.draws; ++draw)
    add(curves.predictor["random"], predicted(random_scores(order)), 1 / static_cast<double>(settings.draws));
  return curves;
}

struct Spread {
  double mean = 0, deviation = 0;
};

Spread spread_of(const std::vector<double>& values) {
  Spread spread;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) spread.mean += value / n;
  for (const double value : values) spread.deviation += (value - spread.mean) * (value - spread.mean);
  spread.deviation = values.size() > 1 ? std::sqrt(spread.deviation / (n - 1)) : 0;
  return spread;
}

// Over seeds, as a table and as lines.
Json show(const std::string& title, const std::vector<Curves>& all, std::map<std::string, Course> Curves::*what,
          Result& result) {
  Table table{title + ": test accuracy in percent", {"heads"}, {}};
  Chart chart{title, "heads that stay", "test accuracy, %", {}, false};
  Json document;
  for (const char* by : orders) {
    table.columns.emplace_back(by);
    Curve curve{by, {}};
    Json points = Json::array();
    for (std::size_t step = 0; step <= layers * (heads - 1); ++step) {
      std::vector<double> values;
      for (const Curves& each : all) values.push_back(100 * (each.*what).at(by)[step]);
      const Spread spread = spread_of(values);
      const Index left = layers * heads - static_cast<Index>(step);
      if (table.rows.size() <= step) table.rows.push_back({std::to_string(left)});
      table.rows[step].push_back(fmt::format("{:.1f} ± {:.1f}", spread.mean, spread.deviation));
      curve.points.emplace_back(static_cast<double>(left), spread.mean);
      points.push_back({{"heads", left}, {"mean", spread.mean}, {"deviation", spread.deviation}});
    }
    std::reverse(curve.points.begin(), curve.points.end());
    chart.curves.push_back(std::move(curve));
    document[by] = points;
  }
  result.tables.push_back(std::move(table));
  result.charts.push_back(std::move(chart));
  return document;
}

// Which order keeps most, over all that is in between: with all heads they are alike.
std::string best_of(const Json& document) {
  std::vector<std::pair<double, std::string>> means;
  for (const auto& [by, points] : document.items()) {
    double sum = 0;
    for (std::size_t i = 1; i < points.size(); ++i) sum += points[i]["mean"].get<double>();
    means.emplace_back(sum / static_cast<double>(points.size() - 1), by);
  }
  std::stable_sort(means.begin(), means.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> texts;
  for (const auto& [mean, by] : means) texts.push_back(fmt::format("{} {:.1f} %", by, mean));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

Result example(Options& options) {
  Settings settings;
  settings.seeds = options.integer("seeds", settings.seeds);
  settings.width = options.integer("width", settings.width);
  settings.networks = options.integer("networks", settings.networks);
  settings.tests = options.integer("tests", settings.tests);
  settings.noise = options.number("noise", settings.noise);
  options.check();
  const std::pair<const char*, Index> sizes[] = {
      {"seeds", settings.seeds}, {"width", settings.width}, {"networks", settings.networks}, {"tests", settings.tests}};
  for (const auto& [name, value] : sizes)
    if (value < 1 || value > 10000)
      throw InvalidArgument(fmt::format("option '{}' must be from 1 to 10000, found {}", name, value));
  if (!(settings.noise >= 0) || !std::isfinite(settings.noise))
    throw InvalidArgument(fmt::format("option 'noise' must be 0 or above, found {}", settings.noise));

  std::vector<Curves> all;
  for (Index seed = 0; seed < settings.seeds; ++seed)
    all.push_back(curves_of(static_cast<std::uint64_t>(seed), settings));
  Result result;
  result.about = fmt::format(
      "The network of the theory on its own task, a hidden Markov chain, with {} layers of {} heads of which most look "
      "anywhere: heads go one after the other, by the theory's score, by the norm of their weights, or at random. A "
      "good order stays high for long. Networks are draws of the posterior, each judged for itself; the predictor is "
      "what the theory says of their mean.",
      layers, heads);
  Json document{{"seeds", settings.seeds}, {"width", settings.width}, {"noise", settings.noise}};
  document["predictor"] = show("Predictor of the theory", all, &Curves::predictor, result);
  document["networks"] = show("Networks", all, &Curves::networks, result);
  Table table{"Scores of heads, mean over seeds", {"layer", "head", "looks at", "score"}, {}};
  Json scores = Json::array();
  for (std::size_t i = 0; i < all.front().scores.size(); ++i) {
    const HeadScore& head = all.front().scores[i];
    double mean = 0;
    for (const Curves& each : all) mean += each.scores[i].score / static_cast<double>(all.size());
    const bool first = head.layer == 0;
    table.rows.push_back({std::to_string(head.layer), std::to_string(head.head),
                          head.head == 0 && first                      ? "the token before, if it is in the same state"
                          : head.head == (first ? Index{1} : Index{0}) ? "all tokens alike"
                                                                       : "anything",
                          fmt::format("{:.2f}", mean)});
    scores.push_back(mean);
  }
  document["scores"] = scores;
  result.tables.push_back(std::move(table));
  result.findings = {fmt::format("Predictor, mean over all numbers of heads below {}: {}.", layers * heads,
                                 best_of(document["predictor"])),
                     fmt::format("Networks: {}.", best_of(document["networks"]))};
  result.json = document.dump();
  return result;
}

}  // namespace saddle::analysis::attention_paths

// The theory of attention paths on what a file holds: inputs and labels with query and key weights, or attention maps.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "saddle/analysis/attention_paths/report_internal.hpp"
#include "saddle/analysis/named_tensors_internal.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::analysis::attention_paths {

namespace {

using Json = nlohmann::ordered_json;

constexpr Index most_paths = ModelOptions().most_paths;

template <int Rank>
Array<double, Rank> values(const TensorFile& file, const std::string& path, const std::string& name) {
  return tensor_values<Rank>(
      file, path, name,
      "a task has x_train [P,N0,T], y_train [P] of +1 and -1, x_test, and w1 [H,N0,N0] or q1 and k1 [H,G,N0] for the "
      "first layer, and so on");
}

std::vector<double> recorded_list(const TensorFile& file, const std::string& name) {
  const auto value = Json::parse(metadata_text(file, name, "[]"), nullptr, false);
  std::vector<double> list;
  if (value.is_array())
    for (const auto& each : value)
      if (each.is_number()) list.push_back(each.get<double>());
  return list;
}

std::vector<Attention> attention_of(const TensorFile& file, const std::string& path, const Array<double, 3>& x,
                                    Nonlinearity nonlinearity) {
  std::vector<Attention> layers;
  for (Index l = 1;; ++l) {
    const std::string n = std::to_string(l);
    if (find_tensor(file, "w" + n) != nullptr)
      layers.push_back(attention_from_w(x, values<3>(file, path, "w" + n), nonlinearity));
    else if (find_tensor(file, "q" + n) != nullptr)
      layers.push_back(
          attention_from_qk(x, values<3>(file, path, "q" + n), values<3>(file, path, "k" + n), nonlinearity));
    else
      break;
  }
  if (layers.empty()) values<3>(file, path, "w1");  // says what is missing
  return layers;
}

// Share of `mean` whose sign is that of y.
double accuracy_of(const Vector& mean, const Vector& y) {
  double right = 0;
  for (Index i = 0; i < y.shape()[0]; ++i) right += (mean(i) > 0) == (y(i) > 0) ? 1 : 0;
  return right / static_cast<double>(y.shape()[0]);
}

Result on_task(const TensorFile& file, const std::string& path, Options& options) {
  const Readout readout = readout_from(options.text("readout", metadata_text(file, "readout", "average_pooling")));
  const Nonlinearity nonlinearity =
      nonlinearity_from(options.text("nonlinearity", metadata_text(file, "attention_nonlinearity", "softmax")));
  Prior prior;
  prior.temperature =
      options.number("temperature", parse_number(metadata_text(file, "temperature", "")).value_or(prior.temperature));
  const Index width = options.integer("width", 0);
  options.check();
  if (width < 0) throw InvalidArgument(fmt::format("option 'width' must be 1 or more, found {}", width));
  const auto x = values<3>(file, path, "x_train"), test = values<3>(file, path, "x_test");
  const Vector y = values<1>(file, path, "y_train");
  for (const double label : y)
    if (label != 1 && label != -1)
      throw DataError(path, 0, 0, fmt::format("y_train holds {}, labels are +1 and -1", label));
  const auto attention = attention_of(file, path, x, nonlinearity), seen = attention_of(file, path, test, nonlinearity);
  for (const Attention& layer : attention) prior.heads.push_back(layer.shape()[1]);
  Index paths = 1;
  for (const Index heads : prior.heads)
    if ((paths *= heads) > most_paths)
      throw NotSupported(
          fmt::format("attention_paths: {} layers of heads make more than {} paths", prior.heads.size(), most_paths),
          {}, "give fewer layers or heads");
  for (const double recorded : recorded_list(file, "widths")) prior.widths.push_back(static_cast<Index>(recorded));
  if (width > 0 || prior.widths.empty()) prior.widths.assign(prior.heads.size() + 1, width > 0 ? width : 100);
  prior.variances = recorded_list(file, "variances");
  if (prior.variances.empty()) prior.variances.assign(prior.heads.size() + 2, 1);
  const auto xi = attended_input(x, attention, readout, prior.variances[0]),
             xi_test = attended_input(test, seen, readout, prior.variances[0]);
  MinimumOptions quick;
  quick.hessian_size = 0;
  const Minimum minimum = minimise(xi, y, prior, quick);
  const Matrix& u = minimum.u[0];
  const Matrix gp = gp_order_parameters(prior)[0];
  const Prediction finite = predict(xi, y, xi_test, u, prior.temperature),
                   infinite = predict(xi, y, xi_test, gp, prior.temperature);
  const auto scores = head_scores(u, prior.heads);
  Json document{{"file", path}, {"heads", prior.heads}, {"widths", prior.widths}, {"converged", minimum.converged}};
  const std::vector<Vector> answers(1, y);
  Result result = report({prior, xi, answers, u, scores}, document);
  Table table{"Predictions", {"test input", "mean", "deviation", "mean at infinite width", "deviation"}, {}};
  for (Index q = 0; q < std::min<Index>(finite.mean.shape()[0], 20); ++q)
    table.rows.push_back({std::to_string(q), fmt::format("{:.4f}", finite.mean(q)),
                          fmt::format("{:.4f}", std::sqrt(std::max(0.0, finite.variance(q)))),
                          fmt::format("{:.4f}", infinite.mean(q)),
                          fmt::format("{:.4f}", std::sqrt(std::max(0.0, infinite.variance(q))))});
  result.tables.push_back(std::move(table));
  const auto list = [](const Vector& vector) { return std::vector<double>(vector.begin(), vector.end()); };
  document["mean"] = list(finite.mean);
  document["variance"] = list(finite.variance);
  document["mean_gp"] = list(infinite.mean);
  document["variance_gp"] = list(infinite.variance);
  if (find_tensor(file, "y_test") != nullptr) {
    const Vector truth = values<1>(file, path, "y_test");
    if (truth.shape()[0] != finite.mean.shape()[0])
      throw DataError(path, 0, 0,
                      fmt::format("{} labels y_test for {} test inputs", truth.shape()[0], finite.mean.shape()[0]));
    result.figures = {{"accuracy of the theory", accuracy_of(finite.mean, truth)},
                      {"at infinite width", accuracy_of(infinite.mean, truth)}};
    result.findings.push_back(
        fmt::format("{:.1f} % of {} test inputs are predicted right at this width, {:.1f} % at infinite width.",
                    100 * result.figures[0].second, truth.shape()[0], 100 * result.figures[1].second));
    document["accuracy"] = result.figures[0].second;
    document["accuracy_gp"] = result.figures[1].second;
  }
  if (!minimum.converged) result.findings.emplace_back("The minimum was not reached.");
  result.json = document.dump();
  return result;
}

}  // namespace

Result on_tensors(const TensorFile& file, const std::string& name, Options& options) {
  if (find_tensor(file, "x_train") != nullptr) return on_task(file, name, options);
  ProbedModel model = probed_model(file, name);
  if (model.probes.size() == 1) model.probes[0].split = "train";  // the examples, whatever they are called
  return on_model(model, options);
}

}  // namespace saddle::analysis::attention_paths

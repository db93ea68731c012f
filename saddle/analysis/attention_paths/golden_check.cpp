// Golden cases of attention paths: kernels, the action at a probe, its minimum, predictions, scores and the network.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "saddle/analysis/attention_paths/attention_paths.hpp"
#include "saddle/analysis/attention_paths/network.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::attention_paths {

namespace {

using mechanisms::golden_tensor;
using mechanisms::GoldenComparison;
using mechanisms::GoldenMetadata;

constexpr double before_minimum = 1e-9, at_minimum = 1e-6;

std::vector<double> numbers(const TensorFile& golden, const std::string& key) {
  const auto value = nlohmann::json::parse(GoldenMetadata(golden).text(key, ""), nullptr, false);
  std::vector<double> list;
  if (value.is_array())
    for (const auto& each : value)
      if (each.is_number()) list.push_back(each.get<double>());
  if (!value.is_array() || list.size() != value.size())
    throw DataError("", 0, 0, "metadata '" + key + "' must be a list of numbers");
  return list;
}

Prior prior_of(const TensorFile& golden) {
  const GoldenMetadata metadata(golden);
  Prior prior;
  prior.heads = metadata.list("num_heads");
  prior.widths = metadata.list("widths");
  prior.variances = numbers(golden, "variances");
  prior.temperature = metadata.number("temperature", prior.temperature);
  return prior;
}

template <int Rank>
Array<double, Rank> values(const TensorFile& golden, const std::string& name) {
  return to_double<Rank>(golden_tensor(golden, name).view());
}

void require_known(const TensorFile& golden, Index layers) {
  std::vector<std::string> known{"xi",
                                 "pre_kernels",
                                 "kernel_gp",
                                 "kernel_probe",
                                 "energy_probe",
                                 "entropy_probe",
                                 "ua_probe",
                                 "energy",
                                 "entropy",
                                 "ua",
                                 "kernel",
                                 "mean",
                                 "variance",
                                 "mean_gp",
                                 "variance_gp",
                                 "head_scores",
                                 "alignment_kernel",
                                 "alignment_kernel_gp",
                                 "head_scores_raw",
                                 "mean_without_head",
                                 "network",
                                 "u_sampled"};
  std::vector<std::string> gradients{"grad.V_0", "grad.a"};
  for (Index l = 1; l <= layers; ++l) {
    known.push_back("attention" + std::to_string(l));
    known.push_back("u" + std::to_string(l));
    gradients.push_back("grad.u_probe" + std::to_string(l));
    gradients.push_back("grad.V_" + std::to_string(l));
  }
  for (std::string& name : known) name.insert(0, "out.");
  mechanisms::require_outputs(golden, known);
  for (const auto& [name, tensor] : golden.tensors)
    if ((name.starts_with("grad.") && std::find(gradients.begin(), gradients.end(), name) == gradients.end()) ||
        (name.starts_with("cot.") && name != "cot.network"))
      throw DataError("", 0, 0, "nothing here computes " + name);
}

class Case {
 public:
  Case(const TensorFile& golden, GoldenComparison& comparison)
      : golden_(golden), comparison_(comparison), prior_(prior_of(golden)), y_(values<1>(golden, "in.y_train")) {
    require_known(golden, prior_.layers());
    const GoldenMetadata metadata(golden);
    readout_ = readout_from(metadata.text("readout", "average_pooling"));
    nonlinearity_ = nonlinearity_from(metadata.text("attention_nonlinearity", "softmax"));
    style_ = metadata.text("attention_style", "");
    if (style_ != "w" && style_ != "qk")
      throw DataError("", 0, 0, "metadata 'attention_style' has the unknown value '" + style_ + "', expected w or qk");
    if (prior_.variances.empty()) throw DataError("", 0, 0, "metadata 'variances' is empty");
    x_test_ = values<3>(golden, "in.x_test");
    attention_ = attention_of(values<3>(golden, "in.x_train"));
    attention_test_ = attention_of(x_test_);
    xi_ = attended_input(values<3>(golden, "in.x_train"), attention_, readout_, prior_.variances[0]);
    xi_test_ = attended_input(x_test_, attention_test_, readout_, prior_.variances[0]);
  }

  void check_kernels() {
    for (std::size_t l = 0; l < attention_.size(); ++l) {
      const std::string name = "out.attention" + std::to_string(l + 1);
      if (!has(name)) continue;
      auto shape = attention_[l].shape();
      shape[0] = std::min<Index>(shape[0], 2);
      Attention first(shape);
      std::copy_n(attention_[l].data(), first.size(), first.data());
      compare(name, first, before_minimum);
    }
    compare("out.xi", xi_, before_minimum);
    if (has("out.pre_kernels")) {
      // Large cases record the first two paths only.
      const Shape& shape = golden_tensor(golden_, "out.pre_kernels").shape();
      const bool part = !shape.empty() && shape[0] == 2 && prior_.paths() > 2;
      compare("out.pre_kernels", path_kernels(xi_, part ? 2 : 0), before_minimum);
    }
    gp_ = gp_order_parameters(prior_);
    compare("out.kernel_gp", kernel(xi_, xi_, gp_[0]), before_minimum);
  }

  void check_probe() {
    if (!has("in.u_probe1")) return;
    OrderParameters probe;
    for (Index l = 1; l <= prior_.layers(); ++l) probe.push_back(values<2>(golden_, "in.u_probe" + std::to_string(l)));
    const Action found = action(xi_, y_, prior_, probe);
    compare("out.kernel_probe", kernel(xi_, xi_, probe[0]), before_minimum);
    compare("out.energy_probe", Vector({1}, found.energy), before_minimum);
    compare("out.entropy_probe", Vector({1}, found.entropy), before_minimum);
    compare("out.ua_probe", Vector({1}, found.ua), before_minimum);
    for (std::size_t l = 0; l < probe.size(); ++l)
      compare("grad.u_probe" + std::to_string(l + 1), found.gradient[l], before_minimum);
  }

  void check_minimum() {
    const Minimum minimum = minimise(xi_, y_, prior_);
    if (!minimum.converged) comparison_.fail("the action has no minimum that could be reached");
    if (minimum.min_hessian_eigenvalue <= 0) comparison_.fail("the action is stationary but not minimal");
    for (std::size_t l = 0; l < minimum.u.size(); ++l)
      compare("out.u" + std::to_string(l + 1), minimum.u[l], at_minimum);
    compare("out.ua", Vector({1}, minimum.ua), at_minimum);
    compare("out.energy", Vector({1}, minimum.energy), at_minimum);
    compare("out.entropy", Vector({1}, minimum.entropy), at_minimum);
    const Matrix& u = minimum.u[0];
    const Matrix own = kernel(xi_, xi_, u), own_gp = kernel(xi_, xi_, gp_[0]);
    compare("out.kernel", own, at_minimum);
    const Index leading = std::min<Index>(10, y_.shape()[0]);
    compare("out.alignment_kernel", alignment(own, y_, leading), at_minimum);
    compare("out.alignment_kernel_gp", alignment(own_gp, y_, leading), at_minimum);
    const Prediction finite = predict(xi_, y_, xi_test_, u, prior_.temperature),
                     gp = predict(xi_, y_, xi_test_, gp_[0], prior_.temperature);
    compare("out.mean", finite.mean, at_minimum);
    compare("out.variance", finite.variance, at_minimum);
    compare("out.mean_gp", gp.mean, before_minimum);
    compare("out.variance_gp", gp.variance, before_minimum);
    check_heads(u);
  }

  void check_network() {
    if (!has("in.V_0")) return;
    const std::vector<NetworkWeights> samples = weights();
    compare("out.u_sampled", sampled_order_parameter(samples), before_minimum);
    const auto S = static_cast<Index>(samples.size());
    const Index Q = x_test_.shape()[0];
    Matrix output({S, Q});
    for (Index s = 0; s < S; ++s) {
      const Vector f = network_output(samples[static_cast<std::size_t>(s)], x_test_, attention_test_, readout_);
      std::copy(f.begin(), f.end(), output.data() + s * Q);
    }
    compare("out.network", output, before_minimum);
    check_network_gradient(samples);
  }

 private:
  bool has(const std::string& name) const { return golden_.tensors.contains(name); }

  template <int Rank>
  void compare(const std::string& name, const Array<double, Rank>& computed, double tolerance) {
    if (has(name)) comparison_.compare(name, to_tensor(computed), golden_tensor(golden_, name), tolerance);
  }

  std::vector<Attention> attention_of(const Array<double, 3>& x) const {
    std::vector<Attention> layers;
    for (Index l = 1; l <= prior_.layers(); ++l) {
      const std::string n = std::to_string(l);
      layers.push_back(style_ == "w" ? attention_from_w(x, values<3>(golden_, "param.w" + n), nonlinearity_)
                                     : attention_from_qk(x, values<3>(golden_, "param.q" + n),
                                                         values<3>(golden_, "param.k" + n), nonlinearity_));
      if (layers.back().shape()[1] != prior_.heads[static_cast<std::size_t>(l - 1)])
        throw DataError("", 0, 0,
                        "the weights of layer " + n + " have " + std::to_string(layers.back().shape()[1]) +
                            " heads, metadata 'num_heads' says otherwise");
    }
    return layers;
  }

  void check_heads(const Matrix& u) {
    const std::vector<HeadScore> scores = head_scores(u, prior_.heads);
    const auto count = static_cast<Index>(scores.size());
    const Index Q = x_test_.shape()[0];
    Vector raw({count}), relative({count});
    Matrix pruned({count, Q});
    for (Index i = 0; i < count; ++i) {
      const HeadScore& score = scores[static_cast<std::size_t>(i)];
      raw(i) = score.raw;
      relative(i) = score.score;
      if (!has("out.mean_without_head")) continue;
      const Vector mean =
          predict(xi_, y_, xi_test_, without_head(u, prior_.heads, score.layer, score.head), prior_.temperature).mean;
      std::copy(mean.begin(), mean.end(), pruned.data() + i * Q);
    }
    compare("out.head_scores_raw", raw, at_minimum);
    compare("out.head_scores", relative, at_minimum);
    compare("out.mean_without_head", pruned, at_minimum);
  }

  // All samples of the weights, which stand one after the other.
  std::vector<NetworkWeights> weights() const {
    const Array<double, 3> v0 = values<3>(golden_, "in.V_0"), a = values<3>(golden_, "in.a");
    const Index S = v0.shape()[0];
    if (S < 1 || a.shape()[0] != S || a.shape()[1] != 1)
      throw DataError("", 0, 0, "in.a must be [" + std::to_string(S) + ",1,width] as in.V_0 says");
    std::vector<NetworkWeights> samples(static_cast<std::size_t>(S));
    for (Index l = 1; l <= prior_.layers(); ++l) {
      const std::string name = "in.V_" + std::to_string(l);
      const Array<double, 4> v = values<4>(golden_, name);
      if (v.shape()[0] != S) throw DataError("", 0, 0, name + " and in.V_0 have different numbers of samples");
      for (Index s = 0; s < S; ++s) {
        Array<double, 3> one({v.shape()[1], v.shape()[2], v.shape()[3]});
        std::copy_n(v.data() + s * one.size(), one.size(), one.data());
        samples[static_cast<std::size_t>(s)].v.push_back(std::move(one));
      }
    }
    for (Index s = 0; s < S; ++s) {
      NetworkWeights& one = samples[static_cast<std::size_t>(s)];
      one.v0 = Matrix({v0.shape()[1], v0.shape()[2]});
      one.a = Vector({a.shape()[2]});
      std::copy_n(v0.data() + s * one.v0.size(), one.v0.size(), one.v0.data());
      std::copy_n(a.data() + s * one.a.size(), one.a.size(), one.a.data());
    }
    return samples;
  }

  void check_network_gradient(const std::vector<NetworkWeights>& samples) {
    if (!has("cot.network")) {
      if (has("grad.V_0") || has("grad.a")) throw DataError("", 0, 0, "the case has gradients but no cot.network");
      return;
    }
    const Matrix cotangent = values<2>(golden_, "cot.network");
    if (cotangent.shape()[0] != static_cast<Index>(samples.size()))
      throw DataError("", 0, 0, "cot.network and in.V_0 have different numbers of samples");
    std::vector<NetworkWeights> gradients;
    for (std::size_t s = 0; s < samples.size(); ++s) {
      Vector cot({cotangent.shape()[1]});
      std::copy_n(cotangent.data() + static_cast<Index>(s) * cot.size(), cot.size(), cot.data());
      gradients.push_back(network_gradient(samples[s], x_test_, attention_test_, readout_, cot));
    }
    compare_stacked(
        "grad.V_0", gradients, [](const NetworkWeights& g) -> const auto& { return g.v0; });
    compare_stacked(
        "grad.a", gradients, [](const NetworkWeights& g) -> const auto& { return g.a; });
    for (std::size_t l = 0; l < samples[0].v.size(); ++l)
      compare_stacked(
          "grad.V_" + std::to_string(l + 1), gradients, [l](const NetworkWeights& g) -> const auto& { return g.v[l]; });
  }

  // The arrays of all samples one after the other, in the shape of the weights they belong to.
  template <class Part>
  void compare_stacked(const std::string& name, const std::vector<NetworkWeights>& gradients, Part part) {
    if (!has(name)) return;
    Tensor all(DType::f64, golden_tensor(golden_, "in." + name.substr(5)).shape());
    Index at = 0;
    for (const NetworkWeights& gradient : gradients)
      for (const double value : part(gradient)) all.set(at++, value);
    comparison_.compare(name, all, golden_tensor(golden_, name), before_minimum);
  }

  const TensorFile& golden_;
  GoldenComparison& comparison_;
  Prior prior_;
  Vector y_;
  Readout readout_{};
  Nonlinearity nonlinearity_{};
  std::string style_;
  Array<double, 3> x_test_, xi_, xi_test_;
  std::vector<Attention> attention_, attention_test_;
  OrderParameters gp_;
};

}  // namespace

mechanisms::GoldenReport check(const TensorFile& golden, DType dtype) {
  GoldenComparison comparison(dtype == DType::f64 ? "theory" : "theory (runs in f64 only)");
  Case recorded(golden, comparison);
  recorded.check_kernels();
  recorded.check_probe();
  recorded.check_minimum();
  recorded.check_network();
  mechanisms::GoldenReport report;
  report.results.push_back(comparison.result());
  return report;
}

}  // namespace saddle::analysis::attention_paths

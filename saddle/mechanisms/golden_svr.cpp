// Golden cases of the regression itself.
#include <cmath>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/golden.hpp"
#include "saddle/primal/features.hpp"
#include "saddle/primal/fit.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::mechanisms {

namespace {

using namespace primal;

[[noreturn]] void unknown(const std::string& key, const std::string& value) {
  throw DataError("", 0, 0, "metadata '" + key + "' has the unknown value '" + value + "'");
}

Attention attention_from(const GoldenMetadata& metadata) {
  Attention attention;
  const std::string kernel = metadata.text("kernel", "expdot");
  if (kernel == "expdot")
    attention.kernel = ExpDot{};
  else if (kernel == "rbf")
    attention.kernel = Rbf{metadata.number("gamma", 1)};
  else if (kernel == "linear")
    attention.kernel = Dot{};
  else if (kernel == "poly")
    attention.kernel = Polynomial{metadata.integer("degree", 2), metadata.number("coef0", 1)};
  else if (kernel == "elu1")
    attention.kernel = Linear{};
  else
    unknown("kernel", kernel);
  const std::string h = metadata.text("h", "one"), transform = metadata.text("transform", "none");
  if (h == "sum")
    attention.normaliser = RowSum{0.0};
  else if (h == "one")
    attention.normaliser = One{};
  else
    unknown("h", h);
  if (transform != "none" && transform != "bn") unknown("transform", transform);
  if (transform == "bn") {
    BatchNorm bn;
    bn.scale = ScaleMode::std;
    bn.eps = metadata.number("bn_eps", bn.eps);
    attention.transforms.emplace_back(bn);
  }
  return attention;
}

// w_d = sum_j v_j(d) Phi(T k_j)  [E,F]
Matrix primal_w(const Fit& fit) {
  const Index m = fit.set.keys.shape()[0], D = fit.set.keys.shape()[1], E = fit.v.shape()[1];
  const FeatureMap map(fit.attention.kernel, D);
  Matrix w({E, map.size()});
  std::vector<double> phi(map.size());
  for (Index j = 0; j < m; ++j) {
    map.map(fit.set.keys.data() + j * D, phi.data());
    for (Index e = 0; e < E; ++e)
      for (Index f = 0; f < map.size(); ++f) w(e, f) += fit.v(j, e) * phi[f];
  }
  return w;
}

Vector channel_values(const SvrSolution& solution, double SvrChannel::*member) {
  Vector values({static_cast<Index>(solution.channels.size())});
  for (std::size_t e = 0; e < solution.channels.size(); ++e)
    values(static_cast<Index>(e)) = solution.channels[e].*member;
  return values;
}

void require_tensors(const TensorFile& golden) {
  require_outputs(golden, {"out.gram", "out.h_keys", "out.h_queries", "out.alpha", "out.alpha_t", "out.v", "out.w",
                           "out.b", "out.xi", "out.xi_t", "out.f_keys", "out.f_queries", "out.primal_objective",
                           "out.dual_objective", "out.kkt"});
  for (const auto& [name, tensor] : golden.tensors)
    if (name.starts_with("grad.") || name.starts_with("cot."))
      throw DataError("", 0, 0, "the case has " + name + " but the regression has no gradients");
}

}  // namespace

GoldenReport check_svr(const TensorFile& golden, DType dtype) {
  const GoldenMetadata metadata(golden);
  GoldenReport report;
  require_tensors(golden);
  const Attention attention = attention_from(metadata);
  SvrOptions options;
  options.C = metadata.number("C", options.C);
  options.epsilon = metadata.number("epsilon", options.epsilon);
  options.bias = metadata.flag("bias", false);
  const Matrix k = to_double<2>(golden_tensor(golden, "in.k").view());
  const Matrix x = to_double<2>(golden_tensor(golden, "in.x").view());
  if (x.shape()[1] != k.shape()[1])
    throw DataError("", 0, 0,
                    "in.x has shape " + saddle::to_string(golden_tensor(golden, "in.x").shape()) + " but in.k has " +
                        saddle::to_string(golden_tensor(golden, "in.k").shape()) + ": the widths must match");
  validate(attention);
  require_features(golden, attention.kernel, k.shape()[1]);
  const Fit fit = fit_attention(attention, k, to_double<2>(golden_tensor(golden, "in.y").view()), options);
  report.attention = to_text(fit.attention);

  GoldenComparison comparison(dtype == DType::f64 ? "svr" : "svr (runs in f64 only)");
  const auto compare = [&](const std::string& name, const auto& values, double tolerance) {
    if (golden.tensors.contains(name))
      comparison.compare(name, to_tensor(values), golden_tensor(golden, name), tolerance);
  };
  compare("out.gram", fit.set.gram, 1e-10);
  compare("out.h_keys", fit.set.h, 1e-10);
  compare("out.h_queries", fit.normaliser(x), 1e-10);
  const SvrSolution& solution = fit.solution;
  if (metadata.flag("alpha_unique", false)) {
    compare("out.alpha", solution.alpha, 1e-6);
    compare("out.alpha_t", solution.alpha_t, 1e-6);
    compare("out.v", fit.v, 1e-6);
  }
  if (golden.tensors.contains("out.w")) compare("out.w", primal_w(fit), 1e-6);
  compare("out.b", solution.b, 1e-6);
  compare("out.xi", solution.xi, 1e-6);
  compare("out.xi_t", solution.xi_t, 1e-6);
  compare("out.f_keys", solution.f, 1e-6);
  compare("out.f_queries", fit.predict(x), 1e-6);
  compare("out.primal_objective", channel_values(solution, &SvrChannel::primal), 1e-6);
  compare("out.dual_objective", channel_values(solution, &SvrChannel::dual), 1e-6);
  // out.kkt is rounding noise: its bound is checked below, not its digits.
  if (golden.tensors.contains("out.kkt") && golden_tensor(golden, "out.kkt").shape() != to_tensor(solution.b).shape())
    comparison.fail("out.kkt has not one value per target");
  for (const SvrChannel& channel : solution.channels) {
    comparison.require("duality gap", std::fabs(channel.primal - channel.dual) / (1 + std::fabs(channel.primal)), 1e-8);
    comparison.require("KKT residual", channel.kkt / (1 + options.C), 1e-8);
    if (channel.status != SvrStatus::converged) comparison.fail(channel.message);
  }
  report.results.push_back(comparison.result());
  return report;
}

}  // namespace saddle::mechanisms

// Golden cases of the planner.
#include <cmath>

#include "saddle/analysis/depth_width/depth_width.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::analysis::depth_width {

namespace {

using mechanisms::golden_tensor;
using mechanisms::GoldenComparison;
using mechanisms::GoldenMetadata;

constexpr double tolerance = 1e-9;

std::vector<Index> whole_numbers(const TensorFile& golden, const std::string& name) {
  std::vector<Index> values;
  for (const double value : to_double<1>(golden_tensor(golden, name).view())) {
    if (value != std::floor(value) || std::fabs(value) > 9e15)
      throw DataError("", 0, 0, name + " must hold whole numbers, found " + format_number(value));
    values.push_back(static_cast<Index>(value));
  }
  return values;
}

// Throws DataError unless all have as many values as the first.
void require_same_length(const TensorFile& golden, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (golden_tensor(golden, name).shape() != golden_tensor(golden, names[0]).shape())
      throw DataError("", 0, 0, name + " and " + names[0] + " must have the same shape");
}

// Compares value(row) of all rows with the tensor of this name, if it is
// recorded.
template <class Rows, class Value>
void compare(const TensorFile& golden, GoldenComparison& comparison, const std::string& name, const Rows& rows,
             Value value) {
  if (!golden.tensors.contains(name)) return;
  const Tensor& expected = golden_tensor(golden, name);
  Tensor computed(is_floating(expected.dtype()) ? DType::f64 : DType::i64, {static_cast<Index>(rows.size())});
  for (std::size_t i = 0; i < rows.size(); ++i)
    computed.set(static_cast<Index>(i), static_cast<double>(value(rows[i])));
  comparison.compare(name, computed, expected, tolerance);
}

Fit fit_of(const GoldenMetadata& metadata) {
  Fit fit;
  fit.a = metadata.number("a", fit.a);
  fit.b = metadata.number("b", fit.b);
  fit.sigma_a = metadata.number("sigma_a", fit.sigma_a);
  fit.sigma_b = metadata.number("sigma_b", fit.sigma_b);
  fit.cov_ab = metadata.number("cov_ab", fit.cov_ab);
  return fit;
}

void check_fit(const TensorFile& golden, GoldenComparison& comparison) {
  mechanisms::require_outputs(
      golden, {"out.params", "out.transition_width", "out.transition_params", "out.transition_depth",
               "out.log_width_gap", "out.log_width_sigma", "out.regime", "out.best_depth", "out.best_width"});
  const GoldenMetadata metadata(golden);
  const Fit fit = fit_of(metadata);
  require_same_length(golden, {"in.depth", "in.width"});
  const auto depth = whole_numbers(golden, "in.depth"), width = whole_numbers(golden, "in.width");
  std::vector<Standing> rows;
  for (std::size_t i = 0; i < depth.size(); ++i)
    rows.push_back(standing(fit, depth[i], width[i], metadata.number("band", 1)));
  const auto field = [&](const std::string& name, double Standing::*member) {
    compare(golden, comparison, name, rows, [&](const Standing& row) { return row.*member; });
  };
  field("out.params", &Standing::params);
  field("out.transition_width", &Standing::transition_width);
  field("out.transition_params", &Standing::transition_params);
  field("out.transition_depth", &Standing::transition_depth);
  field("out.log_width_gap", &Standing::log_width_gap);
  field("out.log_width_sigma", &Standing::log_width_sigma);
  field("out.best_depth", &Standing::best_depth);
  field("out.best_width", &Standing::best_width);
  compare(golden, comparison, "out.regime", rows, [](const Standing& row) { return static_cast<int>(row.regime); });
}

void check_recommend(const TensorFile& golden, GoldenComparison& comparison) {
  mechanisms::require_outputs(golden, {"out.depth_continuous", "out.width_continuous", "out.depth", "out.width",
                                       "out.width_rounded", "out.params_rounded"});
  const GoldenMetadata metadata(golden);
  const Fit fit = fit_of(metadata);
  std::vector<Recommendation> rows;
  for (const double budget : to_double<1>(golden_tensor(golden, "in.budget").view()))
    rows.push_back(recommend(fit, budget, metadata.integer("multiple", 64)));
  const auto field = [&](const std::string& name, auto member) {
    compare(golden, comparison, name, rows, [&](const Recommendation& row) { return row.*member; });
  };
  field("out.depth_continuous", &Recommendation::depth_continuous);
  field("out.width_continuous", &Recommendation::width_continuous);
  field("out.depth", &Recommendation::depth);
  field("out.width", &Recommendation::width);
  field("out.width_rounded", &Recommendation::width_rounded);
  field("out.params_rounded", &Recommendation::params_rounded);
}

void check_theory(const TensorFile& golden, GoldenComparison& comparison) {
  mechanisms::require_outputs(golden,
                              {"out.threshold", "out.depth_efficient", "out.log3_sep_lower", "out.log3_sep_upper"});
  require_same_length(golden, {"in.depth", "in.width", "in.heads"});
  const auto depth = whole_numbers(golden, "in.depth"), width = whole_numbers(golden, "in.width"),
             heads = whole_numbers(golden, "in.heads");
  std::vector<Theory> rows;
  for (std::size_t i = 0; i < depth.size(); ++i) rows.push_back(theory(depth[i], width[i], heads[i]));
  const auto field = [&](const std::string& name, auto member) {
    compare(golden, comparison, name, rows, [&](const Theory& row) { return row.*member; });
  };
  field("out.threshold", &Theory::threshold);
  field("out.depth_efficient", &Theory::depth_efficient);
  field("out.log3_sep_lower", &Theory::log3_lower);
  field("out.log3_sep_upper", &Theory::log3_upper);
}

}  // namespace

mechanisms::GoldenReport check(const TensorFile& golden, DType dtype) {
  GoldenComparison comparison(dtype == DType::f64 ? "planner" : "planner (runs in f64 only)");
  const std::string kind = GoldenMetadata(golden).text("kind", "");
  if (kind == "fit")
    check_fit(golden, comparison);
  else if (kind == "recommend")
    check_recommend(golden, comparison);
  else if (kind == "theory")
    check_theory(golden, comparison);
  else
    throw DataError("", 0, 0, "metadata 'kind' has the unknown value '" + kind + "', known are fit, recommend, theory");
  mechanisms::GoldenReport report;
  report.results.push_back(comparison.result());
  return report;
}

}  // namespace saddle::analysis::depth_width

#include "saddle/mechanisms/golden.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms {

namespace {

nlohmann::json json_value(const std::string& key, const std::string& text) {
  const auto value = nlohmann::json::parse(text, nullptr, false);
  if (value.is_discarded()) throw DataError("", 0, 0, "metadata '" + key + "' is not a JSON value: '" + text + "'");
  return value;
}

// Doubles hold every whole number up to here.
constexpr double largest_whole = 9007199254740992.0;

Index whole(const std::string& key, const nlohmann::json& value) {
  const double number = value.is_number() ? value.get<double>() : 0.5;
  if (number != std::floor(number) || std::fabs(number) > largest_whole)
    throw DataError("", 0, 0, "metadata '" + key + "' must hold whole numbers, found " + value.dump());
  return static_cast<Index>(number);
}

}  // namespace

std::vector<GoldenCheck> golden_checks() {
  std::vector<GoldenCheck> checks{{"svr", check_svr}};
  for (const Mechanism* mechanism : all())
    checks.insert(checks.end(), mechanism->golden.begin(), mechanism->golden.end());
  return checks;
}

bool GoldenReport::passed() const {
  const bool ran = std::any_of(results.begin(), results.end(), [](const auto& r) { return r.refusals.empty(); });
  return problem.empty() && ran && std::all_of(results.begin(), results.end(), [](const auto& r) { return r.passed; });
}

std::string GoldenMetadata::text(const std::string& key, const std::string& fallback) const {
  const auto found = values_.find(key);
  return found == values_.end() ? fallback : found->second;
}

double GoldenMetadata::number(const std::string& key, double fallback) const {
  if (!has(key)) return fallback;
  const auto value = json_value(key, text(key, ""));
  if (!value.is_number()) throw DataError("", 0, 0, "metadata '" + key + "' must be a number, found " + value.dump());
  return value.get<double>();
}

Index GoldenMetadata::integer(const std::string& key, Index fallback) const {
  return has(key) ? whole(key, json_value(key, text(key, ""))) : fallback;
}

bool GoldenMetadata::flag(const std::string& key, bool fallback) const {
  if (!has(key)) return fallback;
  const std::string word = text(key, "");
  if (word == "true" || word == "True" || word == "1") return true;
  if (word == "false" || word == "False" || word == "0") return false;
  throw DataError("", 0, 0, "metadata '" + key + "' must be true or false, found '" + word + "'");
}

std::vector<Index> GoldenMetadata::list(const std::string& key) const {
  if (!has(key)) return {};
  const auto value = json_value(key, text(key, ""));
  if (!value.is_array()) throw DataError("", 0, 0, "metadata '" + key + "' must be a list, found " + value.dump());
  std::vector<Index> numbers;
  for (const auto& element : value) numbers.push_back(whole(key, element));
  return numbers;
}

const Tensor& golden_tensor(const TensorFile& golden, const std::string& name) {
  const auto found = golden.tensors.find(name);
  if (found == golden.tensors.end()) throw DataError("", 0, 0, "the case has no tensor '" + name + "'");
  return found->second;
}

void require_outputs(const TensorFile& golden, const std::vector<std::string>& known) {
  bool any = false;
  for (const auto& [name, tensor] : golden.tensors) {
    if (!name.starts_with("out.")) continue;
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw DataError("", 0, 0, "nothing here computes " + name + ", known are " + join(known));
    any = true;
  }
  if (!any) throw DataError("", 0, 0, "the case records no output 'out.*', so there is nothing to compare");
}

void require_features(const TensorFile& golden, const primal::Kernel& kernel, Index D) {
  const GoldenMetadata metadata(golden);
  if (!metadata.has("d_phi")) return;
  const Index recorded = metadata.integer("d_phi", 0);
  const auto features = primal::feature_count(kernel, D);
  if (features != recorded)
    throw DataError("", 0, 0,
                    "metadata 'd_phi' is " + std::to_string(recorded) + " but the kernel has " +
                        (features ? std::to_string(*features) : "infinitely many") + " features at width " +
                        std::to_string(D));
}

double golden_error(const Tensor& computed, const Tensor& expected) {
  if (computed.shape() != expected.shape()) return std::numeric_limits<double>::infinity();
  double difference = 0, scale = 1;
  for (Index i = 0; i < expected.size(); ++i) {
    const double a = computed.at(i), b = expected.at(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double off = std::fabs(a - b);
    if (!is_floating(expected.dtype()) || !std::isfinite(off)) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, off);
  }
  for (Index i = 0; i < expected.size(); ++i)
    if (std::isfinite(expected.at(i))) scale = std::max(scale, std::fabs(expected.at(i)));
  return difference / scale;
}

void GoldenComparison::compare(const std::string& name, const Tensor& computed, const Tensor& expected,
                               double tolerance) {
  require(name, golden_error(computed, expected), tolerance);
}

void GoldenComparison::require(const std::string& name, double value, double limit) {
  const bool first = result_.worst_tensor.empty();
  if (first || !(value / limit <= result_.error / result_.tolerance)) {
    result_.worst_tensor = name;
    result_.error = value;
    result_.tolerance = limit;
  }
  if (!(value <= limit)) result_.passed = false;
}

void GoldenComparison::fail(const std::string& problem) {
  result_.passed = false;
  result_.worst_tensor = problem;
  result_.error = std::numeric_limits<double>::infinity();
  result_.tolerance = 1;
}

std::vector<std::string> golden_names(const std::vector<GoldenCheck>& checks) {
  std::vector<std::string> names;
  for (const GoldenCheck& check : checks) names.push_back(check.mechanism);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

GoldenReport check_golden(const TensorFile& golden, const std::string& file, DType dtype,
                          const std::vector<GoldenCheck>& checks) {
  const GoldenMetadata metadata(golden);
  GoldenReport report;
  const std::string mechanism = metadata.text("mechanism", "");
  try {
    bool known = false;
    for (const GoldenCheck& check : checks) {
      if (check.mechanism != mechanism || !report.problem.empty()) continue;
      known = true;
      GoldenReport own = check.check(golden, dtype);
      if (report.attention.empty()) report.attention = own.attention;
      report.results.insert(report.results.end(), own.results.begin(), own.results.end());
      report.problem = own.problem;
    }
    if (!known)
      report.problem = mechanism.empty()
                           ? "the case has no metadata 'mechanism'"
                           : "unknown mechanism '" + mechanism + "', known are " + join(golden_names(checks));
  } catch (const Error& error) {
    report.problem = error.what();
  } catch (const std::exception& error) {
    report.problem = std::string("the case is malformed: ") + error.what();
  }
  report.mechanism = mechanism;
  report.name = metadata.text("case", file);
  return report;
}

}  // namespace saddle::mechanisms

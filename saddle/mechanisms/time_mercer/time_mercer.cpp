#include "saddle/mechanisms/time_mercer/time_mercer.hpp"

#include <numbers>

#include "saddle/mechanisms/golden_tape.hpp"
#include "saddle/mechanisms/layer_internal.hpp"
#include "saddle/mechanisms/layer_weights_internal.hpp"
#include "saddle/mechanisms/time_bochner/time_bochner.hpp"

namespace saddle::mechanisms::time_mercer {

namespace {

using tape::Value;

// 1, 2 .. m
Value harmonics(Index m) {
  std::vector<double> numbers(static_cast<std::size_t>(m));
  for (Index j = 0; j < m; ++j) numbers[j] = static_cast<double>(j + 1);
  return {{m}, std::move(numbers)};
}

}  // namespace

Index Mercer::frequencies(Index T) const {
  if (degree < 1) throw InvalidArgument(fmt::format("[mercer] degree is {}: a series has at least one term", degree));
  const Index width = variant == Variant::paper ? 2 * degree + 1 : 1;
  if (T < 1 || T % width != 0)
    throw InvalidArgument(
        fmt::format("[mercer] an encoding of width {} cannot be made of series with {} numbers each", T, width),
        fmt::format("choose a multiple of {}, or another degree", width));
  return T / width;
}

double Mercer::cost(Index N, Index T) const {
  return static_cast<double>(N * frequencies(T)) * static_cast<double>(3 * degree + 1);
}

Value Mercer::reference(const Value& t, const std::map<std::string, Value>& weights) const {
  const Index B = t.size(0), N = t.size(1), m = degree;
  const Value times = tape::reshape(t, {B, N, 1, 1});
  const auto column = [](const Value& x) { return tape::reshape(x, {x.size(0), 1}); };
  const auto weight = [&](const char* key) { return weight_of(weights, key, "time_mercer"); };
  if (variant == Variant::paper) {
    const Value phase = times * (Value(std::numbers::pi) * harmonics(m) / column(weight("omega")));  // [B,N,k,m]
    const Index k = phase.size(2);
    const Value pairs = tape::reshape(tape::stack({tape::cos(phase), tape::sin(phase)}, 4), {B, N, k, 2 * m});
    const Value basis = tape::concat({tape::full({B, N, k, 1}, 1.0), pairs}, 3);
    return tape::reshape(weight("sqrt_c") * basis, {B, N, k * (2 * m + 1)});
  }
  const Value phase = variant == Variant::flex
                          ? times / weight("period")
                          : times * (harmonics(m) * column(time_bochner::negative_power(weight("exponent"))));
  const Value basis = tape::concat({tape::sin(phase), tape::cos(phase)}, 3);
  return tape::sum(weight("coef") * basis, 3) + weight("bias");
}

GoldenReport check_golden_case(const TensorFile& golden, const Encode& encode, const GoldenRun& run) {
  const GoldenMetadata metadata(golden);
  const auto inputs = tape_inputs(golden);
  golden_tensor(golden, "in.t");
  Mercer mercer;
  mercer.degree = metadata.integer("degree", mercer.degree);
  if (const std::string variant = metadata.text("variant", "code"); !primal::decode(variant, mercer.variant))
    throw DataError("", 0, 0, fmt::format("the variant is {}, found '{}'", primal::kind_of(mercer.variant), variant));
  const Index T = metadata.integer("time_dim", golden_tensor(golden, "out.phi").shape().back());
  if (metadata.has("frequencies") && metadata.integer("frequencies", 0) != mercer.frequencies(T))
    throw DataError("", 0, 0,
                    fmt::format("an encoding of width {} has {} base frequencies, the case says {}", T,
                                mercer.frequencies(T), metadata.integer("frequencies", 0)));
  const Value phi = encode(mercer, T, inputs.at("in.t"), without_prefix(inputs, "param."));
  GoldenReport report;
  report.attention = primal::print(mercer);
  report.results.push_back(compare_tape(golden, inputs, {{"phi", phi}}, run));
  return report;
}

const Mechanism& mechanism() {
  static const Mechanism value = [] {
    Mechanism mercer;
    mercer.name = "time_mercer";
    mercer.title = "Mercer time encoding";
    mercer.summary = Mercer::help;
    mercer.composition = "model.time=mercer";
    mercer.bibtex = time_bochner::bibtex;
    mercer.tier = Tier::composed;
    mercer.golden.push_back({"time-mercer", [](const TensorFile& golden, DType dtype) {
                               const Encode reference = [](const Mercer& own, Index, const Value& t,
                                                           const TapeValues& weights) {
                                 return own.reference(t, weights);
                               };
                               return check_golden_case(golden, reference, reference_run(dtype, golden_tolerance));
                             }});
    return mercer;
  }();
  return value;
}

}  // namespace saddle::mechanisms::time_mercer

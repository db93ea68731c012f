#include "saddle/mechanisms/time_bochner/time_bochner.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "saddle/mechanisms/golden_tape.hpp"
#include "saddle/mechanisms/layer_internal.hpp"
#include "saddle/mechanisms/layer_weights_internal.hpp"

namespace saddle::mechanisms::time_bochner {

namespace {

using tape::Value;

// [B,N] and frequencies [m] -> phases [B,N,m]
Value phases(const Value& t, const Value& omega) { return tape::reshape(t, {t.size(0), t.size(1), 1}) * omega; }

Value sines_and_cosines(const Value& t, const Value& omega) {
  const Value phase = phases(t, omega);
  return tape::concat({tape::sin(phase), tape::cos(phase)}, 2);
}

Value bounded(const Value& x, double low, double high) {
  return tape::map(
      x, [=](double value) { return std::clamp(value, low, high); },
      [=](double value) { return value < low || value > high ? 0.0 : 1.0; });
}

// 1 / period in ascending order.
Value sorted_frequencies(const Value& period) {
  std::vector<Index> order(period.data().size());
  std::iota(order.begin(), order.end(), Index{0});
  std::sort(order.begin(), order.end(), [&](Index a, Index b) { return period.data()[a] > period.data()[b]; });
  return Value(1.0) / tape::select(period, 0, order);
}

}  // namespace

const char* const bibtex = R"(@inproceedings{xu2019functional,
  title     = {Self-attention with Functional Time Representation Learning},
  author    = {Xu, Da and Ruan, Chuanwei and Korpeoglu, Evren and Kumar, Sushant and Achan, Kannan},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2019},
  note      = {arXiv:1911.12864}
})";

Value negative_power(const Value& x) {
  return tape::map(
      x, [](double value) { return std::pow(10.0, -value); },
      [](double value) { return -std::numbers::ln10 * std::pow(10.0, -value); });
}

std::string_view Bochner::sample() const {
  switch (variant) {
    case Variant::normal:
    case Variant::log_normal: return "eps";
    case Variant::invcdf_mlp: return "u";
    case Variant::uniform: return "period";
    default: return "";
  }
}

void Bochner::check(Index T) const {
  if (T < 2 || T % 2 != 0)
    throw InvalidArgument(fmt::format("[bochner] an encoding of width {} has no equal number of sines and cosines", T),
                          "choose an even width");
}

double Bochner::cost(Index N, Index T) const {
  const Index m = T / 2;
  const Index network = variant == Variant::invcdf_mlp ? 3 * m * m : 0;
  return static_cast<double>(N * T + network);
}

Value Bochner::reference(const Value& t, const Value& sample, const std::map<std::string, Value>& weights) const {
  const auto weight = [&](const std::string& key) { return weight_of(weights, key, "time_bochner"); };
  switch (variant) {
    case Variant::nonparametric:
      return weight("beta") * tape::concat({tape::sin(phases(t, negative_power(weight("sin_exponent")))),
                                            tape::cos(phases(t, negative_power(weight("cos_exponent"))))},
                                           2);
    case Variant::normal: return sines_and_cosines(t, weight("mean") + sample);
    case Variant::invcdf_mlp: {
      const auto apply = [&](const Value& x, const std::string& layer) {
        return tape::linear(x, weight(layer + ".weight"), weight(layer + ".bias"));
      };
      const Value start = negative_power(sample);
      const Value hidden = apply(tape::relu(apply(start, "mlp0")), "mlp1");
      return sines_and_cosines(t, tape::exp(apply(hidden + start, "mlp2")));
    }
    case Variant::log_normal:
      return sines_and_cosines(t, tape::exp(weight("shift") + tape::exp(bounded(weight("log_scale"), -5, 3)) * sample));
    case Variant::uniform: return sines_and_cosines(t, sorted_frequencies(sample));
    case Variant::paper: break;
  }
  const Value phase = phases(t, weight("omega"));
  const Index m = phase.size(2);
  const Value pairs = tape::stack({tape::cos(phase), tape::sin(phase)}, 3);
  return Value(1 / std::sqrt(static_cast<double>(m))) * tape::reshape(pairs, {t.size(0), t.size(1), 2 * m});
}

GoldenReport check_golden_case(const TensorFile& golden, const Encode& encode, const GoldenRun& run) {
  const GoldenMetadata metadata(golden);
  const auto inputs = tape_inputs(golden);
  golden_tensor(golden, "in.t");
  Bochner bochner;
  if (const std::string variant = metadata.text("variant", "nonparametric"); !primal::decode(variant, bochner.variant))
    throw DataError("", 0, 0, fmt::format("the variant is {}, found '{}'", primal::kind_of(bochner.variant), variant));
  const Index T = metadata.integer("time_dim", golden_tensor(golden, "out.phi").shape().back());
  bochner.check(T);
  const std::string sample = "in." + std::string(bochner.sample());
  if (!bochner.sample().empty()) golden_tensor(golden, sample);
  const Value phi = encode(bochner, T, inputs.at("in.t"), bochner.sample().empty() ? Value() : inputs.at(sample),
                           without_prefix(inputs, "param."));
  GoldenReport report;
  report.attention = primal::print(bochner);
  report.results.push_back(compare_tape(golden, inputs, {{"phi", phi}}, run));
  return report;
}

const Mechanism& mechanism() {
  static const Mechanism value = [] {
    Mechanism bochner;
    bochner.name = "time_bochner";
    bochner.title = "Bochner time encoding";
    bochner.summary = Bochner::help;
    bochner.composition = "model.time=bochner";
    bochner.bibtex = bibtex;
    bochner.tier = Tier::composed;
    bochner.golden.push_back({"time-bochner", [](const TensorFile& golden, DType dtype) {
                                const Encode reference = [](const Bochner& own, Index, const Value& t,
                                                            const Value& sample, const TapeValues& weights) {
                                  return own.reference(t, sample, weights);
                                };
                                return check_golden_case(golden, reference, reference_run(dtype, golden_tolerance));
                              }});
    return bochner;
  }();
  return value;
}

}  // namespace saddle::mechanisms::time_bochner

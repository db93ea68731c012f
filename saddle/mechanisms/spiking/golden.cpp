// Recorded cases of spiking attention, of its neurons and of Shiftmax.
#include <algorithm>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/golden_tape.hpp"
#include "saddle/mechanisms/spiking/shiftmax.hpp"
#include "saddle/mechanisms/spiking/spiking.hpp"
#include "saddle/primal/written/option_text.hpp"

namespace saddle::mechanisms::spiking {

namespace {

using tape::Value;

constexpr double tolerance = 1e-10;

// Metadata words are written with hyphens.
template <class E>
E word(const GoldenMetadata& metadata, const std::string& key, const std::string& fallback) {
  std::string text = metadata.text(key, fallback);
  std::replace(text.begin(), text.end(), '-', '_');
  E value{};
  if (!primal::decode(text, value))
    throw DataError("", 0, 0, "metadata '" + key + "' must be " + primal::kind_of(value) + ", found '" + text + "'");
  return value;
}

std::optional<double> reset_of(const GoldenMetadata& metadata, const std::string& key) {
  const std::string text = metadata.text(key, "0");
  if (text == "null" || text == "None") return std::nullopt;
  return metadata.number(key, 0);
}

// Cases of whole modules and of single neurons name these numbers in two ways.
Neuron neuron_of(const GoldenMetadata& metadata, Neuron neuron) {
  const auto either = [&](const char* one, const char* other) { return metadata.has(one) ? one : other; };
  neuron.tau = metadata.number("tau", neuron.tau);
  neuron.threshold = metadata.number(either("vth", "v_threshold"), neuron.threshold);
  neuron.reset = reset_of(metadata, either("vreset", "v_reset"));
  neuron.decay_input = metadata.flag("decay_input", neuron.decay_input);
  neuron.detach = metadata.flag(either("detach", "detach_reset"), neuron.detach);
  neuron.surrogate = word<Surrogate>(metadata, "surrogate", "sigmoid");
  neuron.alpha = metadata.number(either("alpha", "surrogate_alpha"), neuron.alpha);
  neuron.bound = metadata.number("clamp_bound", neuron.bound);
  return neuron;
}

GoldenReport reported(std::string attention, DType dtype, const TensorFile& golden, const TapeValues& inputs,
                      const TapeValues& outputs) {
  GoldenReport report;
  report.attention = std::move(attention);
  report.results.push_back(compare_tape(golden, inputs, outputs, tolerance,
                                        dtype == DType::f64 ? "reference" : "reference (runs in f64 only)"));
  return report;
}

// Parameters, and in evaluation the running statistics beside them.
TapeValues weights_of(const TapeValues& inputs, bool train) {
  TapeValues weights = without_prefix(inputs, "param.");
  if (!train)
    for (const auto& [name, value] : without_prefix(inputs, "in."))
      if (name.find(".running_") != std::string::npos) weights.emplace(name, value);
  return weights;
}

void require_steps(const GoldenMetadata& metadata, const Value& x) {
  if (metadata.integer("T", x.size(0)) != x.size(0))
    throw DataError("", 0, 0, "in.x has " + std::to_string(x.size(0)) + " time steps, metadata 'T' says otherwise");
}

// [T,B,N,C] -> channels before tokens.
Value channels_first(const Value& x) { return tape::transpose(x, 2, 3); }

// The numbers in the shape that the case has, which may write N as two extents, or T and B as one.
void shape_as_recorded(TapeValues& outputs, const TensorFile& golden) {
  for (auto& [name, value] : outputs) {
    const auto recorded = golden.tensors.find("out." + name);
    if (recorded != golden.tensors.end() && recorded->second.size() == static_cast<Index>(value.data().size()))
      value = tape::reshape(value, recorded->second.shape());
  }
}

}  // namespace

GoldenReport check_ssa(const TensorFile& golden, DType dtype) {
  const GoldenMetadata metadata(golden);
  const auto inputs = tape_inputs(golden);
  golden_tensor(golden, "in.x");
  Value x = inputs.at("in.x");
  require_steps(metadata, x);
  const std::string layout = metadata.text("layout", "TBNC");
  const bool image = layout == "TBCHW";
  if (x.rank() != (image ? 5 : 4) || (!image && layout != "TBNC"))
    throw DataError("", 0, 0,
                    "in.x of shape " + saddle::to_string(x.shape()) + " does not have the layout '" + layout + "'");
  if (image) x = channels_first(tape::reshape(x, {x.size(0), x.size(1), x.size(2), -1}));

  Spiking spiking;
  spiking.variant = word<Variant>(metadata, "variant", "spikformer");
  spiking.steps = x.size(0);
  Plan plan(spiking);
  plan.neuron = neuron_of(metadata, plan.neuron);
  plan.attention = plan.neuron.with_threshold(metadata.number("attn_v_threshold", 0.5));
  plan.scale = metadata.number("scale", plan.scale);
  plan.eps = metadata.number("bn_eps", plan.eps);
  TapeValues outputs = attend(plan, x, {}, metadata.integer("heads", 1),
                              weights_of(inputs, metadata.flag("train", !inputs.contains("in.q_bn.running_mean"))));
  if (spiking.variant == Variant::sdsa) outputs["y"] = outputs["y"] + x;  // official code adds the residual inside

  const bool inner = spiking.variant != Variant::spikformer;
  for (auto& [name, value] : outputs) {
    const bool outer = name == "y" || name == "spikes.proj_lif" || name == "spikes.shortcut_lif";
    if (value.rank() == 4 && (outer ? image : inner)) value = channels_first(value);
  }
  shape_as_recorded(outputs, golden);
  return reported("spiking(variant=" + primal::encode(spiking.variant) + ")", dtype, golden, inputs, outputs);
}

GoldenReport check_bsa(const TensorFile& golden, DType dtype) {
  const GoldenMetadata metadata(golden);
  const auto inputs = tape_inputs(golden);
  const std::string kind = metadata.text("kind", "bsa");
  if (kind == "shiftmax") {
    golden_tensor(golden, "in.score");
    const Shiftmax result = shiftmax(inputs.at("in.score"));
    return reported("shiftmax", dtype, golden, inputs,
                    {{"weight", result.weight}, {"gamma", result.gamma}, {"row_sum", result.row_sum}});
  }
  golden_tensor(golden, "in.x");
  const Value x = inputs.at("in.x");
  require_steps(metadata, x);
  if (kind == "tsn" || kind == "lif-paper" || kind == "lif-spikingjelly") {
    Neuron neuron = kind == "lif-spikingjelly" ? Neuron() : Neuron::ternary();
    if (kind == "lif-paper") neuron.form = Form::binary;
    const Fired fired = fire(x, neuron_of(metadata, neuron));
    return reported(kind, dtype, golden, inputs, {{"s", fired.s}, {"v", fired.v}});
  }
  if (kind != "bsa")
    throw DataError("", 0, 0,
                    "metadata 'kind' is '" + kind + "', known are shiftmax, tsn, lif-paper, lif-spikingjelly and bsa");
  Spiking spiking;
  spiking.steps = x.size(0);
  spiking.product = word<Product>(metadata, "product", "tmp");
  spiking.constraint = word<Constraint>(metadata, "constraint", "shiftmax");
  Plan plan(spiking);
  plan.neuron = neuron_of(metadata, plan.neuron);
  plan.attention = neuron_of(metadata, plan.attention).with_threshold(metadata.number("attn_vth", 0.5));
  plan.scale = metadata.number("scale", plan.scale);
  plan.eps = metadata.number("bn_eps", plan.eps);
  TapeValues outputs = attend(plan, x, {}, metadata.integer("heads", 1),
                              weights_of(inputs, metadata.flag("train", !inputs.contains("in.q_bn.running_mean"))));
  outputs["q_spikes"] = outputs["spikes.q_lif"];
  outputs["k_spikes"] = outputs["spikes.k_lif"];
  outputs["attn"] = outputs["spikes.attn_lif"];
  return reported("spiking", dtype, golden, inputs, outputs);
}

}  // namespace saddle::mechanisms::spiking

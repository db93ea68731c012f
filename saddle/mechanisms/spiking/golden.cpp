// Recorded cases of spiking attention, of its neurons and of Shiftmax.
#include <algorithm>
#include <functional>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/golden_tape.hpp"
#include "saddle/mechanisms/layer_internal.hpp"
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

// A case of the whole layer.
struct Read {
  Spiking spiking;  // what a written form says of it
  Plan plan;        // all of it
  Value x;          // [T,B,N,C]
  Index heads = 1;
  TapeValues weights;
  std::function<void(LayerOutputs&)> as_recorded;
};

GoldenReport reported(std::string attention, DType dtype, const TensorFile& golden, const TapeValues& inputs,
                      const TapeValues& outputs) {
  GoldenReport report;
  report.attention = std::move(attention);
  report.results.push_back(compare_tape(golden, inputs, outputs, reference_run(dtype, tolerance)));
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
void shape_as_recorded(TapeValues& outputs, const std::map<std::string, Shape>& shapes) {
  for (auto& [name, value] : outputs) {
    const auto recorded = shapes.find("out." + name);
    if (recorded != shapes.end() && element_count(recorded->second) == static_cast<Index>(value.data().size()))
      value = tape::reshape(value, recorded->second);
  }
}

Read read_attention(const TensorFile& golden, const GoldenMetadata& metadata, const TapeValues& inputs, Spiking spiking,
                    const Value& x, const char* attention_threshold) {
  spiking.steps = x.size(0);
  Read read{spiking, Plan(spiking), x, metadata.integer("heads", 1), {}, {}};
  read.plan.neuron = neuron_of(metadata, read.plan.neuron);
  read.plan.attention = neuron_of(metadata, read.plan.attention);
  read.plan.attention.threshold = metadata.number(attention_threshold, 0.5);
  read.plan.scale = metadata.number("scale", read.plan.scale);
  read.plan.eps = metadata.number("bn_eps", read.plan.eps);
  read.weights = weights_of(inputs, metadata.flag("train", !golden.tensors.contains("in.q_bn.running_mean")));
  const Neuron& neuron = read.plan.neuron;
  read.spiking.surrogate = read.plan.attention.surrogate;
  read.spiking.tau = neuron.tau;
  read.spiking.threshold = neuron.threshold;
  read.spiking.attention_threshold = read.plan.attention.threshold;
  read.spiking.soft_reset = !neuron.reset;
  read.spiking.reset = neuron.reset.value_or(0);
  read.spiking.detach = neuron.detach;
  return read;
}

Read read_ssa_case(const TensorFile& golden, const TapeValues& inputs) {
  const GoldenMetadata metadata(golden);
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
  Read read = read_attention(golden, metadata, inputs, spiking, x, "attn_v_threshold");
  std::map<std::string, Shape> shapes;
  for (const auto& [name, tensor] : golden.tensors) shapes.emplace(name, tensor.shape());
  read.as_recorded = [shapes, x, image, variant = spiking.variant](LayerOutputs& outputs) {
    if (variant == Variant::sdsa) outputs["y"] = outputs["y"] + x;  // official code adds the residual inside
    const bool inner = variant != Variant::spikformer;
    for (auto& [name, value] : outputs) {
      const bool outer = name == "y" || name == "spikes.proj_lif" || name == "spikes.shortcut_lif";
      if (value.rank() == 4 && (outer ? image : inner)) value = channels_first(value);
    }
    shape_as_recorded(outputs, shapes);
  };
  return read;
}

Read read_bsa_case(const TensorFile& golden, const TapeValues& inputs) {
  const GoldenMetadata metadata(golden);
  golden_tensor(golden, "in.x");
  const Value x = inputs.at("in.x");
  require_steps(metadata, x);
  Spiking spiking;
  spiking.product = word<Product>(metadata, "product", "tmp");
  spiking.constraint = word<Constraint>(metadata, "constraint", "shiftmax");
  Read read = read_attention(golden, metadata, inputs, spiking, x, "attn_vth");
  read.as_recorded = [](LayerOutputs& outputs) {
    outputs["q_spikes"] = outputs.at("spikes.q_lif");
    outputs["k_spikes"] = outputs.at("spikes.k_lif");
    outputs["attn"] = outputs.at("spikes.attn_lif");
  };
  return read;
}

GoldenReport checked(const TensorFile& golden, DType dtype, const TapeValues& inputs, const Read& read) {
  LayerOutputs outputs = attend(read.plan, read.x, {}, read.heads, read.weights);
  read.as_recorded(outputs);
  return reported(primal::print(read.spiking), dtype, golden, inputs, outputs);
}

LayerCase layer_of_case(TapeValues inputs, Read read) {
  const Plan own(read.spiking);
  if (!(own.neuron == read.plan.neuron && own.attention == read.plan.attention && own.scale == read.plan.scale &&
        own.eps == read.plan.eps))
    throw NotSupported(
        "the layer has one slope of its surrogates, one scale of its product, one eps of its norms and inputs that "
        "leak; the case has another",
        {});
  LayerCase layer;
  layer.layer = std::make_shared<const LayerOf<Spiking>>(read.spiking);
  layer.recorded = std::move(inputs);
  layer.tolerance = tolerance;
  layer.jumps = true;
  layer.as_recorded = std::move(read.as_recorded);
  layer.inputs.x = read.x;
  layer.inputs.weights = std::move(read.weights);
  layer.inputs.place.N = read.x.size(2);
  layer.inputs.place.X = read.x.size(3);
  layer.inputs.place.H = read.heads;
  for (const char* map : {"q.weight", "k.weight", "v.weight", "proj.weight"})  // some are convolutions of size 1
    if (const auto found = layer.inputs.weights.find(map); found != layer.inputs.weights.end())
      found->second = tape::reshape(found->second, {found->second.size(0), found->second.size(1)});
  return layer;
}

}  // namespace

GoldenReport check_ssa(const TensorFile& golden, DType dtype) {
  const auto inputs = tape_inputs(golden);
  return checked(golden, dtype, inputs, read_ssa_case(golden, inputs));
}

std::optional<LayerCase> read_ssa(const TensorFile& golden) {
  const auto inputs = tape_inputs(golden);
  return layer_of_case(inputs, read_ssa_case(golden, inputs));
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
  return checked(golden, dtype, inputs, read_bsa_case(golden, inputs));
}

std::optional<LayerCase> read_bsa(const TensorFile& golden) {
  if (GoldenMetadata(golden).text("kind", "bsa") != "bsa") return std::nullopt;
  const auto inputs = tape_inputs(golden);
  return layer_of_case(inputs, read_bsa_case(golden, inputs));
}

}  // namespace saddle::mechanisms::spiking

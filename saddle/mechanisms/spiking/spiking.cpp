#include "saddle/mechanisms/spiking/spiking.hpp"

#include <algorithm>
#include <cmath>

#include "saddle/mechanisms/layer_internal.hpp"
#include "saddle/mechanisms/layer_weights_internal.hpp"

namespace saddle::mechanisms::spiking {

namespace {

// Far beyond the 16 of the papers: each step takes the memory of the whole layer once more.
constexpr Index most_steps = 1024;
// Scores that the module has at once.
constexpr Index score_block = Index{1} << 17;
// Surrogates of float neurons stay finite up to here.
constexpr double highest_threshold = 10;

void check_neurons(const Spiking& spiking) {
  const bool bsa = spiking.variant == Variant::bsa;
  if (const auto& tau = spiking.tau; tau && !(bsa ? *tau > 0 && *tau <= 1 : *tau >= 1 && std::isfinite(*tau)))
    throw InvalidArgument(bsa ? fmt::format("[spiking] tau is {}: the factor of bsa lies above 0 and not above 1", *tau)
                              : fmt::format("[spiking] tau is {}: the divisor of {} must be at least 1", *tau,
                                            primal::encode(spiking.variant)),
                          bsa ? "the default is 0.5; 1 leaks nothing" : "the default is 2; 1 keeps nothing");
  for (const auto& [name, value] :
       {std::pair{"threshold", spiking.threshold}, std::pair{"attention_threshold", spiking.attention_threshold}})
    if (!(value > 0 && value <= highest_threshold))
      throw InvalidArgument(
          fmt::format("[spiking] {} is {}: it must lie above 0 and not above {}", name, value, highest_threshold),
          "published neurons have 1, and 0.5 behind the attention");
  if (spiking.soft_reset && (bsa || spiking.reset != 0))
    throw InvalidArgument(bsa ? "[spiking] 'soft_reset' belongs to the neuron of the binary variants, bsa has another"
                              : "[spiking] a soft reset has no value to reset to, but 'reset' is given",
                          bsa ? "leave it out, or use one such as variant=spikformer" : "leave out one of them");
  const double lowest = std::min(spiking.threshold, spiking.attention_threshold);
  if (!(spiking.reset < lowest) || !std::isfinite(spiking.reset) || (bsa && !(spiking.reset > -lowest)))
    throw InvalidArgument(
        fmt::format("[spiking] reset is {}: a neuron that fired would fire for ever, it must lie {} {}", spiking.reset,
                    bsa ? fmt::format("between {} and", -lowest) : "below", lowest),
        "the default is 0");
}

}  // namespace

Plan::Plan(const Spiking& spiking)
    : variant(spiking.variant), product(spiking.product), constraint(spiking.constraint) {
  if (variant == Variant::bsa) {
    attention = Neuron::ternary();
    attention.surrogate = spiking.surrogate;
    neuron = attention;
    if (product == Product::bmp) {  // the same neuron without its negative side
      neuron.form = Form::binary;
      neuron.surrogate = Surrogate::sigmoid;
    }
  }
  for (Neuron* each : {&neuron, &attention}) {
    each->tau = spiking.tau.value_or(each->tau);
    each->threshold = spiking.threshold;
    each->reset = spiking.soft_reset ? std::nullopt : std::optional(spiking.reset);
    each->detach = spiking.detach;
  }
  attention.threshold = spiking.attention_threshold;
}

void Spiking::check(const LayerPlace& place) const {
  check_heads(place, name);
  if (steps < 1)
    throw InvalidArgument(fmt::format("[spiking] {} time steps are asked for, at least 1 is needed", steps),
                          "steps=4 is what the papers use for images");
  if (steps > most_steps)
    throw InvalidArgument(fmt::format("[spiking] {} time steps are asked for, at most {} can be", steps, most_steps),
                          "steps=4 is what the papers use for images, 10 or 16 for event cameras");
  check_neurons(*this);
  if (variant == Variant::bsa) return;
  const Spiking usual;
  for (const auto& [differs, option] : {std::pair{product != usual.product, "product"},
                                        {constraint != usual.constraint, "constraint"},
                                        {surrogate != usual.surrogate, "surrogate"}})
    if (differs)
      throw InvalidArgument(
          fmt::format("[spiking] '{}' belongs to variant=bsa, found variant={}", option, primal::encode(variant)),
          "leave it out, or use variant=bsa");
}

primal::Cost Spiking::cost(const LayerPlace& place, Index B, primal::Pass pass, DType dtype) const {
  const Plan plan(*this);
  const Index N = place.N, X = place.X, H = place.H, D = X / std::max<Index>(H, 1);
  const double T = static_cast<double>(steps), tokens = static_cast<double>(N * X);
  const double element = static_cast<double>(size_of(dtype));
  const bool backward = pass == primal::Pass::backward;
  primal::Cost cost;
  // The same input at every step is projected once, spikes of it are not the same.
  const Index maps = plan.has_values() ? 3 : 2;
  cost.multiply_adds =
      (plan.input_spikes() ? T : 1.0) * product_cost(N, X, maps * X, pass) + T * product_cost(N, X, X, pass);
  if (variant == Variant::qkformer_token || variant == Variant::sdsa) {
    cost.multiply_adds += T * (backward ? 4 : 2) * tokens;
  } else {
    const Index inner = plan.linear() ? std::min(N, D) : N;
    cost.multiply_adds += 2 * T * product_cost(N, X, inner, pass);
    // Without its weights the way back computes them again.
    if (!plan.linear() && backward) cost.multiply_adds += T * product_cost(N, X, N, primal::Pass::forward);
    if (!plan.linear()) cost.exps = T * static_cast<double>(H) * static_cast<double>(N) * static_cast<double>(N);
  }
  cost.bytes = (backward ? 3 : 2) * element * tokens;
  // Potentials and spikes of each neuron, at every step; for the way back also what norms and neurons keep, and their
  // gradients. Maps of spikes are there at every step too. Scores of Shiftmax are made a block at a time.
  const double each = static_cast<double>(maps), mapped = plan.input_spikes() ? T : 0;
  cost.memory =
      element * tokens * (backward ? each + T * (5 * each + 2) + (each + 1) * mapped : T * 2 * (each + 1) + mapped);
  cost = static_cast<double>(B) * cost;
  if (!plan.linear() && constraint == Constraint::shiftmax && variant == Variant::bsa)
    cost.memory +=
        element * (backward ? 2.0 : 1.0) *
        std::min(static_cast<double>(score_block), static_cast<double>(B * H) * T * static_cast<double>(N * N));
  return with_weights(cost, (maps + 1) * X * (X + 3), pass, dtype);
}

LayerOutputs Spiking::reference(const LayerInputs& inputs) const {
  check(inputs.place);
  if (inputs.x.rank() == 4) return attend(Plan(*this), inputs.x, inputs.key_mask, inputs.place.H, inputs.weights);
  const Index B = inputs.x.size(0), N = inputs.x.size(1), X = inputs.x.size(2);
  const tape::Value x = tape::reshape(inputs.x, {1, B, N, X}) + tape::zeros({steps, 1, 1, 1});
  LayerOutputs outputs = attend(Plan(*this), x, inputs.key_mask, inputs.place.H, inputs.weights);
  outputs["y"] = tape::mean(outputs["y"], 0);
  return outputs;
}

const Mechanism& mechanism() {
  static const Mechanism value = [] {
    Mechanism spiking = layer_mechanism<Spiking>("Spiking self-attention", R"(@inproceedings{wang2025bipolar,
  title     = {Bipolar Self-attention for Spiking Transformers},
  author    = {Wang, S. and others},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2025}
})");
    spiking.golden = {{"ssa", check_ssa}, {"bsa", check_bsa}};
    spiking.golden_layers = {{"ssa", read_ssa}, {"bsa", read_bsa}};
    return spiking;
  }();
  return value;
}

}  // namespace saddle::mechanisms::spiking

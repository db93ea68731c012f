// Spiking self-attention: SSA and its relatives with binary spikes, and bipolar self-attention (BSA) with ternary
// spikes and Shiftmax.
#pragma once

#include <optional>

#include "saddle/mechanisms/registry.hpp"
#include "saddle/mechanisms/spiking/neuron.hpp"

namespace saddle::mechanisms::spiking {

enum class Variant { bsa, spikformer, spikingformer, qkformer_ssa, qkformer_token, sdsa };
// Of BSA: spikes of queries and keys are ternary or binary, and what holds a row of scores.
enum class Product { tmp, bmp };
enum class Constraint { shiftmax, softmax, none };

struct Spiking {
  static constexpr std::string_view name = "spiking";
  static constexpr std::string_view help = "attention between spikes over time steps, by additions and bit shifts";

  Variant variant = Variant::bsa;
  Index steps = 4;
  Product product = Product::tmp;
  Constraint constraint = Constraint::shiftmax;
  Surrogate surrogate = Surrogate::sigmoid;
  bool detach = true;
  std::optional<double> tau;  // of the variant where it is not given
  double threshold = 1, attention_threshold = 0.5, reset = 0;
  bool soft_reset = false;

  static void options(auto& self, auto&& visit) {
    visit({"variant", primal::Written::named, "whose attention"}, self.variant);
    visit({"steps", primal::Written::named, "time steps that the input is given to"}, self.steps);
    visit({"product", primal::Written::named, "of bsa: ternary (tmp) or binary (bmp) queries and keys"}, self.product);
    visit({"constraint", primal::Written::named, "of bsa: what normalises a row of scores"}, self.constraint);
    visit({"surrogate", primal::Written::named, "of ternary neurons: the derivative of a spike"}, self.surrogate);
    visit({"detach", primal::Written::named, "no gradient through the spike that resets a neuron"}, self.detach);
    visit({"tau", primal::Written::named, "leak of neurons: of bsa a factor, by default 0.5; else a divisor, 2"},
          self.tau);
    visit({"threshold", primal::Written::named, "potential from which a neuron fires"}, self.threshold);
    visit({"attention_threshold", primal::Written::named, "the same behind the attention"}, self.attention_threshold);
    visit({"reset", primal::Written::named, "potential of a neuron that fired"}, self.reset);
    visit(
        {"soft_reset", primal::Written::named, "of all but bsa: a spike takes the threshold off the potential instead"},
        self.soft_reset);
  }

  bool causal() const { return false; }
  SADDLE_API void check(const LayerPlace& place) const;
  SADDLE_API primal::Cost cost(const LayerPlace& place, Index B, primal::Pass pass, DType dtype) const;
  // Weights {q,k,v,proj}.weight [X,X], .bias where there is one, {..}_bn.weight, bias and, for evaluation,
  // running_mean and running_var. Gives y, the mean over the steps, or, of x [T,B,N,X], all of them.
  LayerOutputs reference(const LayerInputs& inputs) const;

  bool operator==(const Spiking&) const = default;
};

// What a variant is made of.
struct Plan {
  SADDLE_API explicit Plan(const Spiking& spiking);

  Variant variant;
  Product product;
  Constraint constraint;
  Neuron neuron;     // of queries, keys and, where they are spikes, values, inputs and outputs
  Neuron attention;  // behind the attention product
  double scale = 0.125;
  double eps = 1e-5;  // of batch norms

  bool input_spikes() const { return variant == Variant::spikingformer || variant == Variant::sdsa; }
  bool output_spikes() const {
    return variant == Variant::spikformer || variant == Variant::qkformer_ssa || variant == Variant::qkformer_token;
  }
  bool has_values() const { return variant != Variant::qkformer_token; }
  bool value_spikes() const { return variant != Variant::bsa; }
  bool biased() const { return variant == Variant::spikformer; }  // q, k, v; proj always is
  // The product of queries, keys and values is linear: in any order, scaled.
  bool linear() const { return variant != Variant::bsa || constraint == Constraint::none; }
};

// All steps: x [T,B,N,C], key_mask [B,N] or undefined -> y [T,B,N,C], without a residual, and the spikes by the names
// of the recorded cases, as tokens [T,B,N,C]. Batch norms use running statistics where the weights have them.
SADDLE_API LayerOutputs attend(const Plan& plan, const tape::Value& x, const tape::Value& key_mask, Index heads,
                               const std::map<std::string, tape::Value>& weights);

// Recorded cases of `ssa` and `bsa`, and those of them that are cases of the layer.
GoldenReport check_ssa(const TensorFile& golden, DType dtype);
GoldenReport check_bsa(const TensorFile& golden, DType dtype);
std::optional<LayerCase> read_ssa(const TensorFile& golden);
std::optional<LayerCase> read_bsa(const TensorFile& golden);

const Mechanism& mechanism();

}  // namespace saddle::mechanisms::spiking

template <>
inline constexpr std::array<std::string_view, 6> saddle::primal::enum_words<saddle::mechanisms::spiking::Variant>{
    "bsa", "spikformer", "spikingformer", "qkformer_ssa", "qkformer_token", "sdsa"};
template <>
inline constexpr std::array<std::string_view, 2> saddle::primal::enum_words<saddle::mechanisms::spiking::Product>{
    "tmp", "bmp"};
template <>
inline constexpr std::array<std::string_view, 3> saddle::primal::enum_words<saddle::mechanisms::spiking::Constraint>{
    "shiftmax", "softmax", "none"};

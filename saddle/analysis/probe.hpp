// What a trained model did on a few samples, as plain arrays: analyses need no torch to look at it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/base/tensor.hpp"
#include "saddle/base/view.hpp"
#include "saddle/mechanisms/spiking/energy.hpp"

namespace saddle::analysis {

struct ProbedLayer {
  std::string attention;     // written form
  Array<double, 4> heads;    // [B,H,N,E], outputs of the heads before the output projection
  Array<double, 4> weights;  // [B,H,N,K], keys of a head behind its last are 0; empty for mechanisms without weights
  Array<double, 3> tokens;   // [B,N,X], behind the block; empty in models with blocks of their own
  // What else the layer has to show, by name. Declared attentions: keys [B,H,N,D] and values [B,H,N,E] as they are
  // projected. primal_attention: escore, rscore, phi_q, phi_k and sample of its reference, and lambda [1,1,H,s].
  std::map<std::string, Array<double, 4>> parts = {};
  // Of the dot products of softmax, where it is another than the written form says: models have their own rules.
  std::optional<double> scale = {};
};

// How tokens leave an input: padding in their places, or what follows moves up.
enum class Removal { pad, close };

struct Probe {
  std::string split;           // "train" or "test"
  std::vector<Index> samples;  // [B]
  std::vector<Index> labels;   // [B]
  std::vector<Index> lengths;  // [B], tokens that exist
  Array<double, 2> kinds;      // [B,N]: 0 special or padding, 1 language, 2 vision; empty: there are no such kinds
  Array<double, 3> tokens;     // [B,N,X], before the first block; empty in models with blocks of their own
  std::vector<ProbedLayer> layers;
  bool first_token = false;                     // the model answers from its first token, not from the average of all
  bool last_token = false;                      // or from the last one that exists
  std::vector<std::vector<std::string>> names;  // [B], of the tokens; empty: they have numbers only
  std::vector<mechanisms::spiking::LayerEnergy> energy;  // of layers that spike
  bool energy_of_all = false;  // every linear layer and product of the model is in it, not spiking attentions alone
  // Probabilities of the classes [S,classes] that the model gives to a sample (a number below B) without the tokens of
  // each of S sets. Empty where there is no model to ask, or its inputs are not made of steps.
  std::function<Matrix(Index sample, const std::vector<std::vector<Index>>& removed, Removal removal)> ask;
};

// The weights of a layer between tokens, [B,H,N,N], 0 where one of them does not exist. A pooled key stands for the
// tokens of its window that exist, in equal parts, so these weights times the values of the tokens are the outputs.
// Empty where the layer has no weights, or none that belong to tokens.
SADDLE_API Array<double, 4> token_weights(const Probe& probe, const ProbedLayer& layer);

// A model with what it did on the training and on the test split.
struct ProbedModel {
  std::string name;                       // of the data and the run, for titles
  std::map<std::string, Tensor> weights;  // parameters by their dotted names
  std::vector<std::string> classes;
  std::vector<Probe> probes;

  // Throws InvalidArgument when the model was not probed on it.
  SADDLE_API const Probe& probe(const std::string& split) const;
};

// What a model did, from named tensors of any dtype; each name may begin with "train." or "test.", which is meant
// without. One tensor for all layers, leading dimensions of 1 may be missing:
//   weights or attention [L,B,H,N,N]   heads [L,B,H,N,E]   tokens [L+1,B,N,X], those before the first layer first
//   keys [L,B,H,N,D]   values [L,B,H,N,E]
// or, for layers that differ, layers.0.weights [B,H,N,N], layers.0.heads, layers.0.tokens [B,N,X] and so on, and tokens
// [B,N,X]; the other parts of a layer have such names only. Also labels [B], lengths [B], by default N, and kinds
// [B,N]. Metadata `attention`, or layers.0.attention, say what layers compute, and `readout` first_token or last_token
// that the model answers from it. Throws DataError for other names and for shapes that contradict each other.
SADDLE_API ProbedModel probed_model(const TensorFile& file, const std::string& name);

}  // namespace saddle::analysis

// Mechanisms of the layer level: x [B,N,X] -> y [B,N,X] with weights of their own.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/base/tape.hpp"
#include "saddle/primal/cost.hpp"
#include "saddle/primal/part.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::mechanisms {

// Where a layer stands in a model.
struct LayerPlace {
  Index X = 64;        // model width
  Index H = 1;         // heads
  Index N = 0;         // tokens at most; 0: not known
  primal::Grid grid;   // of the tokens behind the prefix, if they are an image
  Index prefix = 0;    // tokens before the grid, such as a class token
  Index index = 0;     // number of the layer, from 0
  bool bias = true;    // of the projections of x
  double dropout = 0;  // of attention weights, while training
};

// What the reference of a layer is given. Weights have the names that the torch module has, too.
struct LayerInputs {
  tape::Value x;         // [B,N,X]; of mechanisms in time also [T,B,N,X]
  tape::Value key_mask;  // [B,N], 1 where a token exists; undefined: everywhere
  std::map<std::string, tape::Value> weights;
  LayerPlace place;
  tape::Value context = {};  // [B,N,X] that keys and values are made of, where a mechanism can; undefined: x
};

// "y" and whatever else a mechanism has to show: "core", "attn", "loss" ..
using LayerOutputs = std::map<std::string, tape::Value>;

// A mechanism with its options: the value that `cat(variant=qkv)` stands for.
class SADDLE_API Layer {
 public:
  virtual ~Layer() = default;

  virtual std::string_view name() const = 0;  // of the mechanism
  virtual std::string text() const = 0;       // the written form
  virtual std::vector<primal::OptionHelp> options() const = 0;
  virtual bool causal() const = 0;  // no token sees a later one
  // Throws InvalidArgument where it cannot stand.
  virtual void check(const LayerPlace& place) const = 0;
  // B samples of place.N tokens, projections included. `memory` is what the module has at most at once beyond x, y and
  // its weights: in Pass::backward that of a whole training step, with what the forward pass keeps for it and the
  // gradients of x and the weights.
  virtual primal::Cost cost(const LayerPlace& place, Index B, primal::Pass pass, DType dtype) const = 0;
  // In double, by the obvious loops.
  virtual LayerOutputs reference(const LayerInputs& inputs) const = 0;

  // Its options as they are declared, for who knows the type: layer.part<Cat>().
  template <primal::Part P>
  const P& part() const {
    return *static_cast<const P*>(part_of(P::name));
  }

 private:
  // Throws InvalidArgument for another mechanism's name.
  virtual const void* part_of(std::string_view mechanism) const = 0;
};

using LayerPtr = std::shared_ptr<const Layer>;

// The layer that a text stands for; null when it stands for a declared attention or for nothing. Throws
// InvalidArgument for wrong options.
SADDLE_API LayerPtr find_layer(std::string_view text);

// Helpers for costs: a product of [n,k] and [k,m], and `rows` tokens through a linear layer, with its way back, which
// takes twice the work.
SADDLE_API double product_cost(Index n, Index k, Index m, primal::Pass pass);

}  // namespace saddle::mechanisms

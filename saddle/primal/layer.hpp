// A whole attention layer in double without torch: projections, heads, output projection, residual, and the gradients
// of all of them. The judge of every layer and module.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "saddle/primal/call.hpp"

namespace saddle::primal {

// x [B,N,X] -> q, k, v by affine maps, heads, concat, output projection; + x when the attention declares a residual.
// Weights as named in the golden cases: wq, wk [H*D,X], bq, bk [H*D], wv [H*E,X], bv [H*E], wo [X,H*E], bo [X]; biases
// are optional. Any further parameters (beta, kernel, bias) belong to the attention.
struct Layer {
  Attention attention;
  Index heads = 1;
  std::map<std::string, Tensor> parameters;
};

struct LayerForward {
  Tensor y;              // [B,N,X]
  Tensor heads;          // [B,H,N,E] head outputs before the output projection
  double head_distance;  // mean over head pairs, batch and tokens of |y_i^s - y_i^t|, 0 for one head
};

// The attention inside; defaults to the reference.
struct LayerKernel {
  std::function<void(const Call&, const Outputs&)> forward;
  std::function<void(const Call&, const Gradients&)> backward;
};
SADDLE_API LayerKernel reference_kernel();

// key_mask [B,N] and mask [B,H,N,N] are optional.
SADDLE_API LayerForward layer_forward(const Layer& layer, const Tensor& x, const TensorView& key_mask,
                                      const TensorView& mask, const LayerKernel& kernel = reference_kernel());
// Gradients of <dy, y> for x and every parameter, named as the parameters; x is "x".
SADDLE_API std::map<std::string, Tensor> layer_backward(const Layer& layer, const Tensor& x, const TensorView& key_mask,
                                                        const TensorView& mask, const Tensor& dy,
                                                        const LayerKernel& kernel = reference_kernel());

// heads [B,H,N,E] -> mean L2 distance between pairs of heads.
SADDLE_API double head_distance(const Tensor& heads);

}  // namespace saddle::primal

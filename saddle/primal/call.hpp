// One call of a declared attention: the value, the data, what comes out, and the gradients.
#pragma once

#include <map>
#include <string>

#include "saddle/base/export.hpp"
#include "saddle/base/tensor.hpp"
#include "saddle/primal/attention.hpp"

namespace saddle::primal {

// Weights are dropped with probability p and the others divided by 1 - p. Which ones is a pure function of the seed,
// the offset and (b,h,i,j): the backward pass, and any number of threads, drop the same. See dropout.hpp.
struct Dropout {
  double p = 0;  // in steps of 2^-16
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  // one per call that shares a seed: the step, or the layer

  bool operator==(const Dropout&) const = default;
};

struct Call {
  Attention attention;
  TensorView q;                                  // [B,H,N,D]
  TensorView k;                                  // [B,H,M,D]
  TensorView v;                                  // [B,H,M,E]
  TensorView key_mask;                           // [B,M], optional: keys that exist
  TensorView mask;                               // [B,H,N,M], optional: keys a query sees; zero strides broadcast
  TensorView skip;                               // [B,H,N,E], with residual: r(x), added to the output
  std::map<std::string, TensorView> parameters;  // beta [1|H], kernel [1|H,..], bias [1|H,E]; absent: initial values
  Dropout dropout;                               // of the weights

  SADDLE_API Dims dims() const;
  DType dtype() const { return q.dtype; }
};

struct Outputs {
  TensorView y;  // [B,H,N,E]
  TensorView
      weights;     // [B,H,N,K], optional, before dropout; K the largest key count of a head, 0 where a head has fewer
  TensorView lse;  // [B,H,N], optional: log of the row sum, -inf for a row that sees nothing; f32 or f64 to be of use
  TensorView column_sums;  // [B,H,K], optional: attention each key receives
};

struct Gradients {
  TensorView dy;                                 // [B,H,N,E], given
  TensorView y, lse;                             // outputs of the forward pass, optional: saves computing them again
  TensorView dq, dk, dv;                         // shapes of q, k, v; each optional
  TensorView dskip;                              // [B,H,N,E], optional
  std::map<std::string, TensorView> parameters;  // shapes of the parameters; each optional
};

// The largest number of keys over the heads, K.
SADDLE_API Index weight_columns(const Attention& attention, const Dims& dims);

// Throws InvalidArgument when shapes, dtypes or the declaration do not fit together.
SADDLE_API void validate(const Call& call);
SADDLE_API void validate(const Call& call, const Outputs& outputs);
SADDLE_API void validate(const Call& call, const Gradients& gradients);

// The key mask [B,M] of samples with these many keys: padding by lengths.
SADDLE_API Tensor padding_mask(const std::vector<Index>& lengths, Index M);

// The parameter of one head as numbers: the one given with the call, or its initial value.
SADDLE_API std::vector<double> parameter_of(const Call& call, const std::string& name, Index head);

}  // namespace saddle::primal

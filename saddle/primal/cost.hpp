// What a declared attention costs, counted from its formulas: arithmetic, memory traffic, extra memory.
#pragma once

#include "saddle/base/dtype.hpp"
#include "saddle/base/export.hpp"
#include "saddle/primal/attention.hpp"
#include "saddle/primal/visible_pairs.hpp"

namespace saddle::primal {

struct Cost {
  double multiply_adds = 0;
  double additions = 0;  // of pooling, kept apart from the multiply-adds
  double exps = 0;
  double bytes = 0;   // inputs read and outputs written once
  double memory = 0;  // bytes beyond inputs and outputs, nothing recomputed

  SADDLE_API Cost& operator+=(const Cost& other);
};
SADDLE_API Cost operator+(Cost a, const Cost& b);
SADDLE_API Cost operator*(double factor, Cost a);

// dual: sum over the keys with kappa. primal: W and z first, finite Phi only.
enum class Form { dual, primal };
enum class Pass { forward, backward };

// One head of one sample; all heads and samples; the whole layer of model width X with its projections.
SADDLE_API Cost head_cost(const Attention& attention, const Dims& dims, Index head, Form form, Pass pass,
                          DType dtype = DType::f32);
SADDLE_API Cost attention_cost(const Attention& attention, const Dims& dims, Form form, Pass pass,
                               DType dtype = DType::f32);
SADDLE_API Cost layer_cost(const Attention& attention, const Dims& dims, Index X, Form form, Pass pass,
                           DType dtype = DType::f32);

// primal iff it exists and F E (N+M) < N M (D+E), summed over heads.
SADDLE_API Form cheaper_form(const Attention& attention, const Dims& dims);

}  // namespace saddle::primal

#include "saddle/mechanisms/attention_conv2d/attention_conv2d.hpp"

#include "saddle/mechanisms/citation.hpp"

namespace saddle::mechanisms::attention_conv2d {

const Mechanism& mechanism() {
  static const Mechanism value =
      declared("attention_conv2d", "Attention-Conv2D", "queries and keys convolved on a grid by a learnable kernel",
               "softmax+conv2d", primal_dual_bibtex);
  return value;
}

}  // namespace saddle::mechanisms::attention_conv2d

#include "saddle/mechanisms/attention_conv1d/attention_conv1d.hpp"

#include "saddle/mechanisms/citation.hpp"

namespace saddle::mechanisms::attention_conv1d {

const Mechanism& mechanism() {
  static const Mechanism value =
      declared("attention_conv1d", "Attention-Conv1D", "queries and keys convolved by a learnable kernel",
               "softmax+conv1d", primal_dual_bibtex);
  return value;
}

}  // namespace saddle::mechanisms::attention_conv1d

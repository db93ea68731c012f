#include "saddle/mechanisms/attention_sh/attention_sh.hpp"

#include "saddle/mechanisms/citation.hpp"

namespace saddle::mechanisms::attention_sh {

const Mechanism& mechanism() {
  static const Mechanism value =
      declared("attention_sh", "Attention-SH", "every head is fitted on keys pooled by its own factor", "softmax+sh",
               primal_dual_bibtex);
  return value;
}

}  // namespace saddle::mechanisms::attention_sh

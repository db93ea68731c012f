#include "saddle/mechanisms/attention_bn/attention_bn.hpp"

#include "saddle/mechanisms/citation.hpp"

namespace saddle::mechanisms::attention_bn {

const Mechanism& mechanism() {
  static const Mechanism value =
      declared("attention_bn", "Attention-BN", "queries and keys recentred by the mean of the keys", "softmax+bn",
               primal_dual_bibtex);
  return value;
}

}  // namespace saddle::mechanisms::attention_bn

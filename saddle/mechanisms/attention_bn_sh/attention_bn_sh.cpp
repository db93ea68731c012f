#include "saddle/mechanisms/attention_bn_sh/attention_bn_sh.hpp"

#include "saddle/mechanisms/citation.hpp"

namespace saddle::mechanisms::attention_bn_sh {

const Mechanism& mechanism() {
  static const Mechanism value =
      declared("attention_bn_sh", "Attention-BN+SH", "pooled keys per head, recentred by their mean", "softmax+bn+sh",
               primal_dual_bibtex);
  return value;
}

}  // namespace saddle::mechanisms::attention_bn_sh

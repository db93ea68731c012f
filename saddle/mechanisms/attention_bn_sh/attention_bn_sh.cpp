#include "saddle/mechanisms/attention_bn_sh/attention_bn_sh.hpp"

namespace saddle::mechanisms::attention_bn_sh {

const Mechanism& mechanism() {
  static const Mechanism value =
      declared("attention_bn_sh", "Attention-BN+SH", "pooled keys per head, recentred by their mean", "softmax+bn+sh",
               R"(@inproceedings{nguyen2023primal,
  title     = {A Primal-Dual Framework for Transformers and Neural Networks},
  author    = {Nguyen, Tan M. and Nguyen, Tam and Ho, Nhat and Bertozzi, Andrea L. and Baraniuk, Richard G. and
               Osher, Stanley J.},
  booktitle = {International Conference on Learning Representations},
  year      = {2023},
  note      = {arXiv:2406.13781}
})");
  return value;
}

}  // namespace saddle::mechanisms::attention_bn_sh

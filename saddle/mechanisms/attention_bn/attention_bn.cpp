#include "saddle/mechanisms/attention_bn/attention_bn.hpp"

namespace saddle::mechanisms::attention_bn {

const Mechanism& mechanism() {
  static const Mechanism value =
      declared("attention_bn", "Attention-BN", "queries and keys recentred by the mean of the keys", "softmax+bn",
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

}  // namespace saddle::mechanisms::attention_bn

#include "saddle/mechanisms/attention_sh/attention_sh.hpp"

namespace saddle::mechanisms::attention_sh {

const Mechanism& mechanism() {
  static const Mechanism value =
      declared("attention_sh", "Attention-SH", "every head is fitted on keys pooled by its own factor", "softmax+sh",
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

}  // namespace saddle::mechanisms::attention_sh

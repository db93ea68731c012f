#include "saddle/mechanisms/attention_conv1d/attention_conv1d.hpp"

namespace saddle::mechanisms::attention_conv1d {

const Mechanism& mechanism() {
  static const Mechanism value = declared("attention_conv1d", "Attention-Conv1D",
                                          "queries and keys convolved by a learnable kernel", "softmax+conv1d",
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

}  // namespace saddle::mechanisms::attention_conv1d

#include "saddle/mechanisms/attention_conv2d/attention_conv2d.hpp"

namespace saddle::mechanisms::attention_conv2d {

const Mechanism& mechanism() {
  static const Mechanism value =
      declared("attention_conv2d", "Attention-Conv2D", "queries and keys convolved on a grid by a learnable kernel",
               "softmax+conv2d",
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

}  // namespace saddle::mechanisms::attention_conv2d

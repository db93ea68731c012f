#include "saddle/mechanisms/softmax/softmax.hpp"

namespace saddle::mechanisms::softmax {

const Mechanism& mechanism() {
  static const Mechanism value =
      declared("softmax", "Softmax attention", "the standard: exp-dot kernel divided by its row sum", "softmax",
               R"(@inproceedings{vaswani2017attention,
  title     = {Attention Is All You Need},
  author    = {Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and Jones, Llion and
               Gomez, Aidan N. and Kaiser, Lukasz and Polosukhin, Illia},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2017}
})");
  return value;
}

}  // namespace saddle::mechanisms::softmax

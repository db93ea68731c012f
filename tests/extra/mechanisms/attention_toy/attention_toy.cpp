#include "saddle/mechanisms/attention_toy/attention_toy.hpp"

namespace saddle::mechanisms::attention_toy {

const Mechanism& mechanism() {
  static const Mechanism value =
      declared("attention_toy", "Toy attention", "unit vectors under an RBF kernel, in a window", "rbf+l2+window",
               "@misc{toy, title = {Nobody published this}}");
  return value;
}

}  // namespace saddle::mechanisms::attention_toy

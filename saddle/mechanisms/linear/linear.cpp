#include "saddle/mechanisms/linear/linear.hpp"

namespace saddle::mechanisms::linear {

const Mechanism& mechanism() {
  static const Mechanism value = [] {
    Mechanism linear = declared("linear", "Linear attention",
                                "finite features, evaluated through W and z in time linear in the length",
                                "linear(elu1)", R"(@inproceedings{katharopoulos2020transformers,
  title     = {Transformers are {RNNs}: Fast Autoregressive Transformers with Linear Attention},
  author    = {Katharopoulos, Angelos and Vyas, Apoorv and Pappas, Nikolaos and Fleuret, Fran{\c{c}}ois},
  booktitle = {International Conference on Machine Learning},
  year      = {2020}
})");
    // The name is that of the kernel, and so are the options.
    linear.declare = [](const primal::Term& term) { return primal::build({term}); };
    return linear;
  }();
  return value;
}

}  // namespace saddle::mechanisms::linear

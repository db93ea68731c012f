#include "saddle/analysis/causal_discovery/causal_discovery.hpp"

#include "saddle/analysis/causal_discovery/analyze_internal.hpp"

namespace saddle::analysis::causal_discovery {

const Analysis& analysis() {
  static const Analysis value{
      "causal_discovery",
      "Causal discovery",
      "causal graph of the tokens of an input from the attention of a head, or of the columns of a table",
      R"(@inproceedings{rohekar2023causal,
  title     = {Causal Interpretation of Self-Attention in Pre-Trained Transformers},
  author    = {Rohekar, Raanan Y. and Gurwicz, Yaniv and Nisimov, Shami},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2023},
  note      = {arXiv:2310.20307}
})",
      {{"causal-discovery", check}},
      on_file,
      on_model,
      on_tensors};
  return value;
}

}  // namespace saddle::analysis::causal_discovery

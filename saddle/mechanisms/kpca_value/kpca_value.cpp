#include "saddle/mechanisms/kpca_value/kpca_value.hpp"

namespace saddle::mechanisms::kpca_value {

const Mechanism& mechanism() {
  static const Mechanism value = [] {
    Mechanism kpca;
    kpca.name = "kpca_value";
    kpca.title = "Values by kernel PCA";
    kpca.summary = "analysis: the values that attention would need to be kernel PCA of its keys, against learned ones";
    kpca.composition = "functions of keys, queries and values";
    kpca.bibtex = R"(@inproceedings{teo2024unveiling,
  title     = {Unveiling the Hidden Structure of Self-Attention via Kernel Principal Component Analysis},
  author    = {Teo, Rachel S.Y. and Nguyen, Tan M.},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2024},
  note      = {arXiv:2406.13762}
})";
    kpca.tier = Tier::own;
    kpca.golden.push_back({"kpca-value", check});
    return kpca;
  }();
  return value;
}

}  // namespace saddle::mechanisms::kpca_value

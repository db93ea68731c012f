// Citations that several mechanisms share.
#pragma once

namespace saddle::mechanisms {

// The framework that every declared mechanism comes from.
inline constexpr const char* primal_dual_bibtex = R"(@inproceedings{nguyen2023primal,
  title     = {A Primal-Dual Framework for Transformers and Neural Networks},
  author    = {Nguyen, Tan M. and Nguyen, Tam and Ho, Nhat and Bertozzi, Andrea L. and Baraniuk, Richard G. and
               Osher, Stanley J.},
  booktitle = {International Conference on Learning Representations},
  year      = {2023},
  note      = {arXiv:2406.13781}
})";

}  // namespace saddle::mechanisms

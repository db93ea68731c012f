// Does a trained softmax attention have the values that kernel PCA of its keys calls for? Its values against that
// formula, per layer and head, and beside them random values.
#pragma once

#include "saddle/analysis/registry.hpp"
#include "saddle/mechanisms/kpca_value/kpca_value.hpp"

namespace saddle::analysis::kpca_value {

// Of one head, over samples.
struct Measures {
  Index samples = 0;                       // that were measured
  std::vector<double> lambda;              // [E], eigenvalues over N, the largest first
  std::vector<double> absolute, relative;  // [E], spread of gamma over pairs of tokens; NaN where it is undefined
  double spread = 0;                       // mean of `relative` over axes where it is defined, NaN if there are none
  double linear_cka = 0;                   // of learned and formula values
  double cosine = 0, matched_cosine = 0;   // of their rows, as they stand and in the best order
};

// Learned values and random normal ones of the same shape.
struct Compared {
  Measures learned, random;
};

// Head h of keys [B,H,N,D] and values [B,H,N,E], lengths [B]. Samples of more than `most` tokens, or with fewer than E
// axes of positive eigenvalues, are left out. Throws InvalidArgument for numbers that are not finite.
SADDLE_API std::vector<Compared> measure(
    const Array<double, 4>& keys, const Array<double, 4>& values, const std::vector<Index>& lengths, Index most = 512,
    mechanisms::kpca_value::Normalisation normalisation = mechanisms::kpca_value::Normalisation::kpca);

// Why the formula says nothing about this attention, given by its written form; empty: it does.
SADDLE_API std::string obstacle(const std::string& attention);

SADDLE_API const Analysis& analysis();

}  // namespace saddle::analysis::kpca_value

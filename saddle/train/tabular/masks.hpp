// What of a table is hidden from a model, and what it is to predict.
#pragma once

#include "saddle/base/random.hpp"
#include "saddle/run/settings.hpp"
#include "saddle/train/tabular/encoding.hpp"

namespace saddle::train::tabular {

// Which rows of a table do what.
enum class Part : char { train, validation, test };

// Entries by their number, row x columns + column.
struct Chosen {
  std::vector<Index> hidden, replaced;
};

// With share 1 all candidates are hidden. Below, about that share of them is chosen, in random order and without
// repetition, and of those the first get random values, as many as mechanisms::npt::randomised_count says; the others
// are hidden.
Chosen choose_entries(std::vector<Index> candidates, double share, const run::TableSettings& settings, Stream& stream);

// Hidden entries of the encoded rows become 0 with a 1 in their last channel; those to be replaced get a class, each as
// likely, or a number of mean 0 and variance 1, and a 0 there.
void hide(Tensor& encoded, const std::vector<nn::NptColumn>& columns, const Chosen& chosen, Stream& stream);

// A table as it is seen in one pass, and the entries that count in the loss: 1 in targets or features [rows, columns].
struct Pass {
  Tensor seen, targets, features;
  std::vector<Index> rows;  // those that are part of the input
};

// `values` [rows, columns], the target last; encoded as they are. While training, targets of training rows are hidden
// as mask_targets says, all others are, and features as mask_features says.
Pass training_pass(const std::vector<double>& values, const std::vector<Part>& parts, const Tensor& encoded,
                   const std::vector<nn::NptColumn>& columns, const run::TableSettings& settings, Stream& stream);
// To score or predict the targets of a part: they are hidden; those of the parts before it are seen if mask_targets is
// below 1. Features are seen.
Pass scoring_pass(const std::vector<double>& values, const std::vector<Part>& parts, const Tensor& encoded,
                  const std::vector<nn::NptColumn>& columns, const run::TableSettings& settings, Part scored);

// The share of the features in the loss of update t of so many.
double share_at(const run::TableSettings& settings, Index t, Index total);

// The rows in batches of at most so many, each with its share of every part, and of every class of `groups` [rows] if
// there are any: as even as whole numbers allow.
std::vector<std::vector<Index>> batches_of(const std::vector<Index>& rows, const std::vector<Part>& parts,
                                           const std::vector<Index>& groups, Index most, Stream& stream);

}  // namespace saddle::train::tabular

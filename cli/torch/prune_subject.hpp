// A trained model with the data that it is pruned by and judged on.
#pragma once

#include "saddle/train/prune_curve.hpp"
#include "saddle/train/setup.hpp"
#include "training.hpp"

namespace saddle::cli {

struct PruneSubject {
  std::string name;  // as it was given
  train::Trained trained;
  train::Setup setup;                 // settings and split of its training
  bool told = false;                  // that these are the settings it was trained with; else defaults
  train::Judged train;                // the samples that trained it
  std::vector<train::Judged> judged;  // validation, or else what trained it; and the test split if wanted
  std::vector<std::string> notes;
};

// Throws InvalidArgument for a file that does not say what it was trained on and for data that do not fit,
// NotSupported for a model without heads to take out.
PruneSubject open_subject(const std::string& run, const PruneArguments& arguments);

// What --seed and --set say, what --samples says (0: as many as is usual) and what --draws says, where heads go by
// these scores. Throw InvalidArgument for scores that do not exist, and for an option that none of them looks at.
train::ScoreOptions score_options(const PruneArguments& arguments, const std::vector<std::string>& by);
Index samples_of(const PruneArguments& arguments, const std::vector<std::string>& by);
Index draws_of(const PruneArguments& arguments, const std::vector<std::string>& by);

// saddle prune --curve
int prune_curve(const PruneArguments& arguments, const Context& context);

}  // namespace saddle::cli

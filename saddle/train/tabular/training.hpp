// One run of a model that sees a table as a whole.
#pragma once

#include "saddle/train/training.hpp"

namespace saddle::train::tabular {

// Whether these settings are for such a model: it was named, or the data are a table with fixed splits.
bool sees_table(const run::Settings& settings);

// As complete() and train() of any run. The epoch is chosen by the loss of the targets of rows that validate; targets
// of test rows are read once, at the end, while their features may be part of the input from the start.
run::Settings complete(run::Settings settings);
Ended train(const run::Settings& settings, const RunOptions& options, Group& group);

}  // namespace saddle::train::tabular

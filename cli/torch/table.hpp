// saddle eval and predict for models of tables, and the rows that they and saddle analyze show to these.
#pragma once

#include "saddle/train/tabular/trained_table.hpp"
#include "training.hpp"

namespace saddle::cli {

// Rows with the columns of the model: those of a file, or the test rows of the table that a name stands for, by default
// of the one that the model was trained on.
data::WholeTable rows_for(const train::tabular::TrainedTable& trained, const std::string& run, const std::string& data,
                          const std::string& folder);

int eval_table(const EvalArguments& arguments, const Context& context);
int predict_table(const PredictArguments& arguments, const Context& context);

}  // namespace saddle::cli

// saddle eval and predict for models of tables.
#pragma once

#include "training.hpp"

namespace saddle::cli {

int eval_table(const EvalArguments& arguments, const Context& context);
int predict_table(const PredictArguments& arguments, const Context& context);

}  // namespace saddle::cli

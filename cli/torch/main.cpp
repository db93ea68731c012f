// The commands of saddle that need libtorch. Users call them through saddle.
#include <algorithm>

#include "output.hpp"
#include "parser.hpp"
#include "saddle/base/denormals.hpp"
#include "saddle/base/memory.hpp"

int main(int argc, char** argv) {
  using namespace saddle::cli;
  saddle::keep_large_blocks();
  const saddle::FlushDenormals flush;  // threads that are started later do as the one that starts them
  prepare_output();
  const Command root{"saddle",
                     "Training commands of saddle.",
                     {},
                     {},
                     nullptr,
                     {train_command(), eval_command(), predict_command(), bench_command(), analyze_command(),
                      prune_command(), check_golden_command()}};
  return run(root, {argv + std::min(1, argc), argv + argc});
}

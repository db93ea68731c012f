// saddle without libtorch: training commands go to the program beside it, with the same words.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "program.hpp"
#include "saddle/analysis/registry.hpp"
#include "saddle/base/error.hpp"
#include "training.hpp"

namespace saddle::cli {

namespace {

namespace fs = std::filesystem;

fs::path torch_program() { return fs::read_symlink("/proc/self/exe").parent_path() / "saddle-torch"; }

[[noreturn]] void hand_over() {
  const fs::path program = torch_program();
  // Threads of OpenMP that wait spin for milliseconds by default, which hurts as soon as a core is shared: with other
  // workers, or with anybody else. Read at the start of a program only, so it is set here.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) ::setenv("GOMP_SPINCOUNT", "10000", 0);
  continue_as(program);
  throw NotSupported(fmt::format("cannot start {}: {}", program.string(), std::strerror(errno)), {},
                     "this saddle was built without libtorch: build with -DSADDLE_TORCH=ON to train");
}

}  // namespace

int run_train(const TrainArguments&, const Context&) { hand_over(); }
int run_eval(const EvalArguments&, const Context&) { hand_over(); }
int run_predict(const PredictArguments&, const Context&) { hand_over(); }
int run_layer_bench(const LayerBenchArguments&, const Context&) { hand_over(); }
int run_analyze(const AnalyzeArguments&, const Context&) { hand_over(); }
int run_prune(const PruneArguments&, const Context&) { hand_over(); }

int run_check_golden(const CheckArguments& arguments, const Context& context) {
  if (fs::exists(torch_program())) hand_over();
  return check_cases(arguments, analysis::golden_checks(), context);
}

}  // namespace saddle::cli

// The commands that need libtorch: what they take. They are carried out by the program saddle-torch; saddle itself
// hands them over.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "command.hpp"
#include "saddle/base/shape.hpp"
#include "saddle/mechanisms/golden.hpp"

namespace saddle::cli {

struct TrainArguments {
  std::map<std::string, std::string> settings;  // by key, "train.lr"; empty text: not given
  std::vector<std::string> attention, assignments, allowed;
  std::string model, last, config, out;
  Index splits = 0;
  bool resume = false, force = false, print_config = false;
};

struct EvalArguments {
  std::string run, data, folder, test, target;
};

struct PredictArguments {
  std::string run, file, out;
  bool impute = false;
};

struct AnalyzeArguments {
  std::string name, html, data, folder;
  std::vector<std::string> inputs;       // runs and files, shown beside each other
  std::vector<std::string> assignments;  // options of the analysis, name=value
  Index samples = 16, sample = -1;       // how many of each split, or this one alone
  bool example = false;
};
std::map<std::string, std::string> analysis_options(const AnalyzeArguments& arguments);

struct PruneArguments {
  static constexpr Index not_given = std::numeric_limits<Index>::min();

  std::vector<std::string> runs, by, assignments;
  std::string keep, remove, out, html, data, folder;
  Index draws = not_given, samples = not_given, seed = not_given;
  bool per_layer = false, force = false, rescale = false, curve = false, test = false;
};

// Whole layers against each other, whatever their attention: projections included.
struct LayerBenchArguments {
  std::vector<std::string> attention, dtype, pass;
  std::vector<Dims> shape;  // B, H, N and D = X / H
  double seconds = 4;
  std::string html = {};  // a page to write
};

struct CheckArguments {
  std::vector<std::string> paths;
  std::string dtype = "f64";
  bool skip_unknown = false;
};
// Runs the checks and prints what they found.
int check_cases(const CheckArguments& arguments, const std::vector<mechanisms::GoldenCheck>& checks,
                const Context& context);

// In saddle these replace the process by saddle-torch with the same words; there they do the work.
int run_train(const TrainArguments& arguments, const Context& context);
int run_eval(const EvalArguments& arguments, const Context& context);
int run_predict(const PredictArguments& arguments, const Context& context);
int run_layer_bench(const LayerBenchArguments& arguments, const Context& context);
int run_analyze(const AnalyzeArguments& arguments, const Context& context);  // on a trained model
int run_prune(const PruneArguments& arguments, const Context& context);
// Without saddle-torch, saddle checks what it has itself.
int run_check_golden(const CheckArguments& arguments, const Context& context);

}  // namespace saddle::cli

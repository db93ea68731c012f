// How deep and how wide a self-attention network should be for its size: the
// fitted rule, the theory's threshold, and the shapes that follow. Depth counts
// layers, width is the embedding size, parameters are those of the layers, 12
// depth width^2, without embeddings.
#pragma once

#include <string>
#include <vector>

#include "saddle/analysis/registry.hpp"

namespace saddle::analysis::depth_width {

// ln width = a + b depth where depth starts to pay, with standard errors and
// covariance of the fit.
struct Fit {
  double a = 5.039, b = 5.55e-2;
  double sigma_a = 0.030, sigma_b = 1.3e-3, cov_ab = 0;
};

// What the rule was fitted on; everything outside is extrapolation.
struct Fitted {
  static constexpr double depth_from = 6, depth_to = 48, params_from = 1e6, params_to = 6e8;
};

// 12 depth width^2
SADDLE_API double params_of(double depth, double width);
// Biases, norms and embeddings of a GPT-2 included: depth (12 width^2 + 13
// width) + (vocabulary + positions + 2) width.
SADDLE_API double exact_params_of(double depth, double width, double vocabulary, double positions);
// Training compute C = 6 N T, both ways.
SADDLE_API double flops_of(double params, double tokens);
SADDLE_API double params_of_compute(double flops, double tokens);

// Width from which this depth pays, depth up to which this width pays, size
// from which this depth pays.
SADDLE_API double transition_width(const Fit& fit, double depth);
SADDLE_API double transition_depth(const Fit& fit, double width);
SADDLE_API double transition_params(const Fit& fit, double depth);
// The shape on the line with so many parameters: 12 best_depth best_width^2 =
// params.
SADDLE_API double best_depth(const Fit& fit, double params);
SADDLE_API double best_width(const Fit& fit, double params);

enum class Regime { too_deep = -1, balanced = 0, could_be_deeper = 1 };
SADDLE_API std::string to_string(Regime regime);

// Where a network stands beside the line.
struct Standing {
  double params;
  double transition_width, transition_params,
      transition_depth;           // of its depth, of its depth, of its width
  double log_width_gap;           // ln width - (a + b depth)
  double log_width_sigma;         // standard error of the line at its depth
  Regime regime;                  // balanced: |gap| <= band sigma
  double best_depth, best_width;  // for as many parameters
};
SADDLE_API Standing standing(const Fit& fit, Index depth, Index width, double band = 1);

// A shape for a number of parameters, on the line and then in whole layers and
// whole multiples of `multiple`.
struct Recommendation {
  double depth_continuous, width_continuous;
  Index depth;            // nearest whole depth, at least 1
  double width;           // that spends all parameters at this depth
  Index width_rounded;    // nearest multiple
  double params_rounded;  // of depth and width_rounded
};
SADDLE_API Recommendation recommend(const Fit& fit, double params, Index multiple = 64);

// Bounds on the separation rank, a measure of how strongly two halves of the
// input are modelled together.
struct Theory {
  double threshold;      // log_3 width: up to here expressiveness grows
                         // double-exponentially with depth
  bool depth_efficient;  // 3^depth < width
  double log3_lower,
      log3_upper;  // of the separation rank; NaN where no bound is stated
};
SADDLE_API Theory theory(Index depth, Index width, Index heads);

// A row of the paper's table of projections. Depth and width are 0 for the
// model that was never trained.
struct Published {
  std::string model;
  Index depth, width;            // as trained
  double params;                 // of the trained shape, or the budget
  Index best_depth, best_width;  // as printed in the paper
};
SADDLE_API const std::vector<Published>& published();

// A shape that was chosen by the rule, or is reported with it, and where that stands.
struct Applied {
  std::string model;
  Index depth, width;
  bool about;  // the width is known roughly
  std::string source;
};
SADDLE_API const std::vector<Applied>& applied();

// Golden cases of the kinds fit, recommend and theory.
SADDLE_API mechanisms::GoldenReport check(const TensorFile& golden, DType dtype);

// As an analysis: of the shape that a file describes or, as tensors, tells by what a model did, and of a trained model.
// Options `band` as of standing(), `multiple` as of recommend().
SADDLE_API Result on_file(const std::string& file, Options& options);
SADDLE_API Result on_model(const ProbedModel& model, Options& options);

SADDLE_API const Analysis& analysis();

}  // namespace saddle::analysis::depth_width

// A plan: the shape for a size or a budget of compute, where a given shape stands, and shapes of the same size beside
// it.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "saddle/analysis/depth_width/depth_width.hpp"
#include "saddle/analysis/depth_width/model_shape.hpp"

namespace saddle::analysis::depth_width {

struct PlanRequest {
  static constexpr Index not_given = std::numeric_limits<Index>::min();

  std::string params, flops, tokens;           // "50M", "1.3B", "2e20"; empty: not given
  std::string config;                          // a file that describes a model, or the folder of a run
  Index depth = not_given, width = not_given;  // 1 at least
  Index heads = not_given;                     // for the bounds of the theory; else of the config, or of width 64
  Index multiple = 64;                         // widths are multiples of it
  double band = 1;                             // standard errors of the fit that count as balanced
  bool analyze = false;                        // names stand in messages as in saddle analyze, "--set multiple="
};

// A shape with what the rule says about it.
struct PlanRow {
  std::string mark;  // "given", "recommended", or nothing
  Index depth, width;
  Standing standing;
};

struct Plan {
  std::optional<ModelShape> model;  // of the config
  double params = 0, tokens = 0;    // tokens 0: not given
  bool asked = false;               // for so many parameters; else they are those of the given shape
  std::optional<PlanRow> given;
  Recommendation recommended{};
  std::vector<PlanRow> rows;  // given, then recommended and others of the size by depth
  Theory theory{};            // of the given shape, or else of the recommended one
  Index theory_width = 0;
  std::vector<std::string> notes;
};

// Names stand in messages as on the command line, "--params". What is missing of a given shape follows from the number
// of parameters, or else from the rule. Throws InvalidArgument; IoError and DataError for the config.
SADDLE_API Plan make_plan(const PlanRequest& request);

// The given shape is that of a model of another size than was asked for.
SADDLE_API bool of_another_size(const Plan& plan);
// "width 12288 carries 78.9 layers": two sentences on the given shape and the best one.
SADDLE_API std::string verdict(const Plan& plan);
// Of a row: a recommendation that rounding alone took off the line counts as balanced.
SADDLE_API std::string standing_text(const PlanRow& row, const PlanRequest& request);
// All of it as JSON.
SADDLE_API std::string to_json(const Plan& plan);
// As the page of an analysis: the line with its band, and where the shapes stand.
SADDLE_API Result to_result(const Plan& plan, const PlanRequest& request);

// "49.2 M"
SADDLE_API std::string amount_text(double value);

}  // namespace saddle::analysis::depth_width

// What the page of attention paths shows, wherever the attention comes from.
#pragma once

#include <nlohmann/json.hpp>

#include "saddle/analysis/attention_paths/attention_paths.hpp"

namespace saddle::analysis::attention_paths {

// A solved task.
struct Solved {
  const Prior& prior;
  const Array<double, 3>& xi;    // of the examples
  const std::vector<Vector>& y;  // one for each question about them
  const Matrix& u;
  const std::vector<HeadScore>& scores;
};

nlohmann::ordered_json json_of(const std::vector<HeadScore>& scores);

// Scores of heads alone.
Result score_report(const std::vector<HeadScore>& scores);
// Also the order parameter, kernels of the strongest paths, and how well the leading components of the kernel know the
// labels. `document` gets their numbers.
Result report(const Solved& solved, nlohmann::ordered_json& document);

}  // namespace saddle::analysis::attention_paths

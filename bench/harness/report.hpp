// The results of a run as one value, as JSON, and as a page with plots.
#pragma once

#include <string>
#include <vector>

#include "model_run.hpp"

namespace saddle::bench {

struct Report {
  std::string suite;
  std::vector<Limits> limits;
  std::vector<Result> results;
  std::vector<ModelResult> models;
  std::string base;  // the revision compared with; empty: none

  // No red check and no missed bar.
  bool passed() const;
};

// The document of schema saddle.bench/1, without its schema.
Json to_json(const Report& report);
// One self-contained page: limits, bars, roofline, scaling in N and in threads, every row and model.
std::string to_html(const Report& report);

}  // namespace saddle::bench

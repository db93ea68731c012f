// The results of a run as one value, as JSON, and as a page with plots.
#pragma once

#include <string>
#include <vector>

#include "model_run.hpp"

namespace saddle::bench {

// A whole attention layer, projections included.
struct LayerResult {
  std::string attention;
  Dims dims;
  std::string dtype, pass;
  int threads = 1;
  double check = 0;  // distance from the reference
  bool passed = true;
  double multiply_adds = 0, memory = -1;  // bytes; -1: not known
  Timing time = {};
};

struct Report {
  std::string suite;
  std::vector<Limits> limits;
  std::vector<Result> results;
  std::vector<ModelResult> models;
  std::vector<GraphResult> graphs;
  std::vector<LayerResult> layers;
  std::string base;  // the revision compared with; empty: none

  // No red check and no missed bar.
  bool passed() const;
};

// The document of schema saddle.bench/1, without its schema; layers have one of their own.
Json to_json(const Report& report);
// One self-contained page: limits, bars, roofline, scaling in N and in threads, every row and model.
std::string to_html(const Report& report);

}  // namespace saddle::bench

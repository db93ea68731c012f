// The cost of an attention in both evaluation forms: one head, all heads, the whole layer; forward and backward.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "output.hpp"
#include "saddle/kernels/implementation.hpp"

namespace saddle::cli {

struct CostRow {
  std::string scope;         // head, attention (all heads and samples), layer (with its projections)
  std::vector<Index> heads;  // scope head: neighbours that cost the same
  Index keys = 0;            // scope head: after pooling
  primal::Pass pass = primal::Pass::forward;
  primal::Cost dual;
  std::optional<primal::Cost> primal;  // where that form exists
};

struct CostTable {
  std::vector<CostRow> rows;
  std::vector<std::string> no_primal;  // why there is no primal form
  primal::Form cheaper = primal::Form::dual;
  Index width = 0;  // X
};

CostTable cost_table(const kernels::Request& request, Index width);
std::string to_text(const CostTable& table);
Json to_json(const CostTable& table);
Json cost_json(const primal::Cost& cost);

}  // namespace saddle::cli

// Which keys the running sums take up, and when.
#pragma once

#include <cstdint>
#include <vector>

#include "saddle/primal/call.hpp"

namespace saddle::kernels::linear_kernel {

struct KeyOrder {
  std::vector<Index> index;    // the keys that some query sees, in order of arrival
  std::vector<Index> arrival;  // the first query that sees each; empty: all queries see all of them
  std::vector<Index> unseen;   // the other keys
  Index first = 0;             // the first query that sees anything

  Index size() const { return static_cast<Index>(index.size()); }
  bool causal() const { return !arrival.empty(); }
};

// Of one head of sample b with K keys. keep [K] tells which exist, empty: all. windows [K]: the tokens behind pooled
// keys; empty where every key is one token, or no key set asks for them.
KeyOrder key_order(const primal::Call& call, Index b, Index K, const std::vector<std::uint8_t>& keep,
                   const primal::Windows& windows);

}  // namespace saddle::kernels::linear_kernel

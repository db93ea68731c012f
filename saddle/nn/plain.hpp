// A scope in which everything here is made of plain torch operations: for exporters that trace, and for comparison.
#pragma once

#include "saddle/nn/export.hpp"

namespace saddle::nn {

// While one lives, this thread runs no kernel of this library.
class SADDLE_TORCH_API PlainOperations {
 public:
  PlainOperations();
  ~PlainOperations();
  PlainOperations(const PlainOperations&) = delete;
  PlainOperations& operator=(const PlainOperations&) = delete;

  static bool are_wanted();

 private:
  bool before_;
};

}  // namespace saddle::nn

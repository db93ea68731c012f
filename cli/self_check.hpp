// Quick checks that this installation computes correctly.
#pragma once

#include <string>
#include <vector>

namespace saddle::cli {

struct SelfCheck {
  std::string name, detail, hint;
  bool passed = false;
};
std::vector<SelfCheck> self_checks();

}  // namespace saddle::cli

// Quick checks that this installation computes correctly.
#pragma once

#include <string>
#include <vector>

namespace saddle::cli {

struct SelfTest {
  std::string name, detail, hint;
  bool passed = false;
};
std::vector<SelfTest> self_tests();

}  // namespace saddle::cli

// What the battery loops over: every written form and shape in the cases.toml of every mechanism.
#pragma once

#include <string>
#include <vector>

#include "saddle/base/shape.hpp"
#include "saddle/primal/attention.hpp"

namespace saddle::battery {

struct BatteryCase {
  std::string mechanism, attention;
  Dims dims;
};

// Only pairs whose shape the attention allows; a written form without any such shape throws.
std::vector<BatteryCase> all_cases();
// The smallest shape of every written form, for the expensive checks.
std::vector<BatteryCase> small_cases();

// "softmax_bn_beta_0_6__2_2_7_7_4_4".
std::string test_name(const BatteryCase& battery_case);

}  // namespace saddle::battery

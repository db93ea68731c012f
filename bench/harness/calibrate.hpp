// The rates of this machine: its limits, and the share of them that each implementation reaches.
#pragma once

#include <functional>
#include <string>

#include "saddle/kernels/rates.hpp"

namespace saddle::bench {

// Takes a few times `seconds`; below 1 it leaves out the bandwidth of memory and keeps the typical one.
kernels::Rates calibrate(double seconds, const std::function<void(const std::string&)>& progress);

}  // namespace saddle::bench

// Values that a file does not have, in series.
#pragma once

#include <span>
#include <string>

#include "saddle/base/view.hpp"

namespace saddle::data {

// What to put in their place: the straight line between the neighbours in the same series and channel, at both ends the
// nearest value; zero; or an error.
enum class Missing { interpolate, zero, refuse };

// Replaces every NaN of a series [length, channels] and returns how many there were. A channel without any value
// becomes zero.
Index fill_missing(std::span<float> values, Index channels, Missing policy);

// "3 missing values were interpolated"
std::string missing_note(Index count, Missing policy);

}  // namespace saddle::data

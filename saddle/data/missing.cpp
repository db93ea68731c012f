#include "saddle/data/missing.hpp"

#include <fmt/format.h>

#include <cmath>

namespace saddle::data {

namespace {

// One channel: `count` values, `step` apart.
void interpolate(float* values, Index count, Index step) {
  const auto at = [&](Index t) -> float& { return values[t * step]; };
  for (Index t = 0, before = -1; t < count; ++t) {
    if (!std::isnan(at(t))) {
      before = t;
      continue;
    }
    Index after = t;
    while (after < count && std::isnan(at(after))) ++after;
    const float none = 0;
    const float left = before >= 0 ? at(before) : after < count ? at(after) : none;
    const float right = after < count ? at(after) : left;
    for (Index i = t; i < after; ++i) {
      const double part = static_cast<double>(i - before) / static_cast<double>(after - before);
      at(i) = static_cast<float>(left + (static_cast<double>(right) - left) * part);
    }
    before = t = after - 1;
  }
}

}  // namespace

Index fill_missing(std::span<float> values, Index channels, Missing policy) {
  Index count = 0;
  for (const float value : values) count += std::isnan(value) ? 1 : 0;
  if (count == 0) return 0;
  if (policy == Missing::interpolate) {
    const Index length = static_cast<Index>(values.size()) / channels;
    for (Index c = 0; c < channels; ++c) interpolate(values.data() + c, length, channels);
  } else {
    for (float& value : values)
      if (std::isnan(value)) value = 0;
  }
  return count;
}

std::string missing_note(Index count, Missing policy) {
  return fmt::format("{} missing {} {}", count, count == 1 ? "value was" : "values were",
                     policy == Missing::zero ? "set to 0" : "interpolated");
}

}  // namespace saddle::data

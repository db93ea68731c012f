// What a model of events knows of their times, as text: mercer(degree=3), bochner(variant=normal), positions.
#pragma once

#include <variant>

#include "saddle/mechanisms/time_bochner/time_bochner.hpp"
#include "saddle/mechanisms/time_mercer/time_mercer.hpp"

namespace saddle::mechanisms::time_attention {

// The order alone: a learned row for every place, counted from the last event.
struct Positions {
  static constexpr std::string_view name = "positions";
  static constexpr std::string_view help = "no times, a learned row for every place in the order";

  static void options(auto&, auto&&) {}

  bool operator==(const Positions&) const = default;
};

using TimeEncoder = std::variant<time_mercer::Mercer, time_bochner::Bochner, Positions>;

// Names may begin with time_, as those of the mechanisms do. Throws InvalidArgument.
SADDLE_API TimeEncoder parse_time_encoder(std::string_view text);
SADDLE_API std::string to_text(const TimeEncoder& encoder);
// Throws InvalidArgument where an encoding cannot have the width T.
SADDLE_API void check(const TimeEncoder& encoder, Index T);
// Multiply-adds of N times.
SADDLE_API double cost(const TimeEncoder& encoder, Index N, Index T);

}  // namespace saddle::mechanisms::time_attention

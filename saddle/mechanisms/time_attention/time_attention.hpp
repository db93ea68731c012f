// Attention over events with their times: the encoding of a time stands beside the embedding of its event.
#pragma once

#include "saddle/mechanisms/time_attention/time_encoder.hpp"

namespace saddle::mechanisms::time_attention {

const Mechanism& mechanism();

// The backbone of the published model, in double.
struct SADDLE_API Backbone {
  TimeEncoder encoder;
  Index heads = 1, blocks = 1;
  double norm_eps = 1e-8;
  double mask_value = -4294967295.0;  // of scores that are not seen: a row without keys stays finite

  // item [B,N], 0 where there is none; t [B,N]; sample: random numbers of the encoder, if it takes any. Weights as
  // golden cases name them -> [B,N,d].
  tape::Value sequence(const tape::Value& item, const tape::Value& t, const tape::Value& sample,
                       const std::map<std::string, tape::Value>& weights) const;
};

// Recorded cases, by whatever computes the backbone's sequence; losses and scores are made of it here.
using Sequence = std::function<tape::Value(const Backbone& backbone, const tape::Value& item, const tape::Value& t,
                                           const tape::Value& sample, const TapeValues& weights)>;
SADDLE_API GoldenReport check_golden_case(const TensorFile& golden, const Sequence& sequence, const GoldenRun& run);
inline constexpr double golden_tolerance = 1e-9;

// Rows item [..] of a table [V+1,d], of which row 0 counts as zero -> [..,d].
SADDLE_API tape::Value embedded(const tape::Value& table, const tape::Value& item);

}  // namespace saddle::mechanisms::time_attention

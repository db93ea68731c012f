// Mercer's time encoding: truncated Fourier series at several learned base frequencies.
#pragma once

#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms::time_mercer {

enum class Variant { code, flex, paper };

struct SADDLE_API Mercer {
  static constexpr std::string_view name = "mercer";
  static constexpr std::string_view help = "truncated Fourier series at several learned base frequencies";

  Index degree = 5;
  Variant variant = Variant::code;

  static void options(auto& self, auto&& visit) {
    visit({"degree", primal::Written::named, "terms of each series"}, self.degree);
    visit({"variant", primal::Written::named,
           "code: series of harmonics are summed; flex: all periods are free; paper: basis functions side by side"},
          self.variant);
  }

  // Base frequencies of an encoding of width T. Throws InvalidArgument where T does not fit.
  Index frequencies(Index T) const;
  // Multiply-adds of N times.
  double cost(Index N, Index T) const;
  // t [B,N] -> [B,N,T] with k base frequencies, m = degree: T = k, in the paper k (2m+1). Weights: exponent [k], or
  // period [k,m] (flex), coef [k,2m] and bias [k]; omega [k] and sqrt_c [k,2m+1] (paper).
  tape::Value reference(const tape::Value& t, const std::map<std::string, tape::Value>& weights) const;

  bool operator==(const Mercer&) const = default;
};

// Recorded cases, by whatever encodes t [B,N] in width T.
using Encode =
    std::function<tape::Value(const Mercer& mercer, Index T, const tape::Value& t, const TapeValues& weights)>;
SADDLE_API GoldenReport check_golden_case(const TensorFile& golden, const Encode& encode, const GoldenRun& run);
inline constexpr double golden_tolerance = 1e-9;

const Mechanism& mechanism();

}  // namespace saddle::mechanisms::time_mercer

template <>
inline constexpr std::array<std::string_view, 3> saddle::primal::enum_words<saddle::mechanisms::time_mercer::Variant>{
    "code", "flex", "paper"};

// Bochner's time encoding: cosines and sines at frequencies of a learned distribution, whose products are a
// translation-invariant kernel of the times.
#pragma once

#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms::time_bochner {

enum class Variant { nonparametric, normal, invcdf_mlp, log_normal, uniform, paper };

struct SADDLE_API Bochner {
  static constexpr std::string_view name = "bochner";
  static constexpr std::string_view help = "cosines and sines at frequencies of a learned distribution";

  Variant variant = Variant::nonparametric;

  static void options(auto& self, auto&& visit) {
    visit({"variant", primal::Written::named, "where the frequencies come from"}, self.variant);
  }

  // The random numbers [T/2] of one pass by their name, eps, u or period; "": it takes none.
  std::string_view sample() const;
  // Throws InvalidArgument where the width T of the encoding is odd.
  void check(Index T) const;
  // Multiply-adds of N times.
  double cost(Index N, Index T) const;
  // t [B,N], sample [T/2] or undefined, weights as golden cases name them -> [B,N,T]. Weights: sin_exponent,
  // cos_exponent [T/2], beta [T] (nonparametric), mean [T/2] (normal), mlp0..2.weight [T/2,T/2] and .bias (invcdf-mlp),
  // shift and log_scale [1] (log-normal), omega [T/2] (paper).
  tape::Value reference(const tape::Value& t, const tape::Value& sample,
                        const std::map<std::string, tape::Value>& weights) const;

  bool operator==(const Bochner&) const = default;
};

// Recorded cases, by whatever encodes t [B,N] in width T.
using Encode = std::function<tape::Value(const Bochner& bochner, Index T, const tape::Value& t,
                                         const tape::Value& sample, const TapeValues& weights)>;
SADDLE_API GoldenReport check_golden_case(const TensorFile& golden, const Encode& encode, const GoldenRun& run);
inline constexpr double golden_tolerance = 1e-9;

const Mechanism& mechanism();

// The paper that all time encodings come from.
extern const char* const bibtex;

// 10^-x
tape::Value negative_power(const tape::Value& x);

}  // namespace saddle::mechanisms::time_bochner

template <>
inline constexpr std::array<std::string_view, 6> saddle::primal::enum_words<saddle::mechanisms::time_bochner::Variant>{
    "nonparametric", "normal", "invcdf-mlp", "log-normal", "uniform", "paper"};

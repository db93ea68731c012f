// The task of the paper: which of two hidden Markov chains made a sequence, and heads of attention that help or not.
#pragma once

#include "saddle/analysis/attention_paths/attention_paths.hpp"
#include "saddle/base/random.hpp"

namespace saddle::analysis::attention_paths::hidden_markov {

constexpr Index half = 100, features = 2 * half;         // of a state, of a token
constexpr Index tokens = 31, width = features + tokens;  // one more feature per position

struct Sequences {
  Array<double, 3> x;  // [P,width,tokens]
  Vector y;            // +1 for the first half of them, -1 for the other
};

// Two hidden states that stay with probability 0.7 in class +1 and 0.3 in class -1. A state shows as sqrt(2) on its
// half of the features, in noise whose part outside the plane of the two states is `perpendicular` times as strong.
// Token 0 marks the start; one feature per token tells its position.
SADDLE_API Sequences draw(Index P, double perpendicular, Stream& stream);

// Weights [width,width] of heads, as attention_from_w takes them.
// Looks at the token before if both are in the same state, else at the start.
SADDLE_API Matrix good_head();
// Averages all tokens.
SADDLE_API Matrix uniform_head();
// Gaussian: looks wherever it happens to.
SADDLE_API Matrix random_head(Stream& stream);
// Side by side, [H,width,width].
SADDLE_API Array<double, 3> layer_of(const std::vector<Matrix>& heads);

}  // namespace saddle::analysis::attention_paths::hidden_markov

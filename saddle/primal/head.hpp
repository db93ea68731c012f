// The regression of one head of one sample: its training set after pooling, its transformed tokens, who sees what.
#pragma once

#include "saddle/primal/call.hpp"

namespace saddle::primal {

struct Head {
  Index sample = 0, head = 0;
  Tokens tokens;                           // q [N,D], k [K,D] after pooling and the transforms before per_query
  Matrix v;                                // [K,E] after pooling
  std::vector<std::uint8_t> keep;          // [K] keys that exist
  Array<std::uint8_t, 2> visible;          // [N,K] key sets, masks and padding together
  std::vector<std::vector<double>> theta;  // parameters of each transform
  std::size_t per_query = 0;               // first transform whose statistics differ between queries

  // Kept for the way back.
  std::vector<Tokens> inputs;              // of each transform before per_query
  Windows windows;                         // of the pooling, empty without
  std::vector<std::uint8_t> keep_tokens;   // [M] keys before pooling
  std::vector<std::uint8_t> keep_queries;  // [N] where queries and keys are the same tokens, else empty
};

// Gradients with respect to what enters a head.
struct HeadGradient {
  Tokens tokens;                           // of q [N,D], k [K,D] coming in, [M,D] going out
  Matrix v;                                // [K,E] coming in, [M,E] going out
  std::vector<std::vector<double>> theta;  // added to
};

// Reads sample b, head h of a valid call.
SADDLE_API Head prepare_head(const Call& call, Index b, Index h);
// A zero gradient of the right shapes.
SADDLE_API HeadGradient zero_gradient(const Head& head);
// Takes the gradient back through transforms and pooling to the inputs of the call.
SADDLE_API void pullback_head(const Call& call, const Head& head, HeadGradient& gradient);

// The tokens seen by query i: its row of q and all keys, through the per-query transforms; `inputs` as in Head.
struct QueryTokens {
  Tokens tokens;
  std::vector<Tokens> inputs;
};
SADDLE_API QueryTokens per_query_tokens(const Call& call, const Head& head, Index i);
// gradient of QueryTokens.tokens -> added to the rows of gradient.tokens
SADDLE_API void per_query_pullback(const Call& call, const Head& head, Index i, const QueryTokens& query,
                                   Tokens dtokens, HeadGradient& gradient);

// y [N,E] of one head, plus bias and skip, into the output of the call.
SADDLE_API void write_head(const Call& call, const Head& head, const Matrix& y, const TensorView& out);
// dy [N,E] of one head.
SADDLE_API Matrix read_dy(const Gradients& gradients, Index b, Index h);
// The gradients of all heads, in order b * H + h, into those of the call; sums in fixed order.
SADDLE_API void write_gradients(const Call& call, const std::vector<HeadGradient>& heads, const Gradients& gradients);

}  // namespace saddle::primal

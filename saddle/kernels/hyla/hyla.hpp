// The inner part of HYLA: scores of all heads, normalised over heads or keys, and the value network that they generate
// for each pair of tokens. Forward and backward in memory that grows with N, not with N^2. T is float or double. Each
// output has one owner and sums have a fixed order: the bits do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "saddle/base/export.hpp"
#include "saddle/base/view.hpp"

namespace saddle::kernels::hyla {

// s_hij = <q_ih, k_jh> / sqrt(D) + bias_h,max(i-j,0) becomes the weight a_hij:
enum class Norm {
  rms_head,  // s_hij / sqrt(mean_h s_hij^2 + eps)
  softmax,   // over the keys j
  none
};

// The heads' outputs o_ih [E]:
enum class Network {
  mlp_relu,   // sum_j a_hij relu(sum_g a_gij v_jg)
  plain,      // sum_j a_hij v_jh
  mlp_linear  // sum_j a_hij sum_g a_gij v_jg
};

struct HylaShape {
  Index B = 0, N = 0, H = 0, D = 0, E = 0;
};

// Pairs (i,j) are dropped with probability p, for all samples and heads alike, and weights of the others are divided by
// the share that is kept. Which ones is a pure function of the seed and (i,j).
struct PairDropout {
  double p = 0;  // in steps of 2^-16
  std::uint64_t seed = 0;
};

// q, k [B,N,H,D], v [B,N,H,E]. The numbers of a head lie side by side, other strides are free. Tokens that do not exist
// are not read: as keys nobody sees them, as queries their outputs and gradients are 0.
template <class T>
struct HylaCall {
  HylaShape shape;
  Norm norm = Norm::rms_head;
  Network network = Network::mlp_relu;
  bool causal = false;  // keys j <= i only
  double rms_eps = 1e-6;
  View<const T, 4> q, k, v;
  View<const T, 2> bias;                 // [H,N], by distance; null: none
  const std::uint8_t* exists = nullptr;  // [B,N]; null: all
  PairDropout dropout;
};

// o [B,N,H,E]
template <class T>
SADDLE_API void forward(const HylaCall<T>& call, const View<T, 4>& o);

// The gradient of sum <d_o, o>: d_q, d_k, d_v, and d_bias [H,N] if that is not null.
template <class T>
SADDLE_API void backward(const HylaCall<T>& call, const View<const T, 4>& d_o, const View<T, 4>& d_q,
                         const View<T, 4>& d_k, const View<T, 4>& d_v, const View<T, 2>& d_bias);

}  // namespace saddle::kernels::hyla

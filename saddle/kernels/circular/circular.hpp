// Products with circulant matrices, one per head or per channel, in O(N log N): the inner part of
// circular-convolutional attention, forward and backward. T is float or double. Each output has one owner and sums have
// a fixed order: the bits do not depend on the number of threads.
#pragma once

#include "saddle/base/export.hpp"
#include "saddle/base/view.hpp"

namespace saddle::kernels::circular {

struct CircularShape {
  Index B = 0, H = 0, N = 0, D = 0;
};

// Sequence b has n = lengths[b] tokens, or N. Indices of w are taken modulo n.
enum class Direction {
  convolution,  // y_i = sum_{j<n} w_{i-j} v_j
  correlation   // y_i = sum_{j<n} w_{j-i} v_j
};

// The direct form costs n^2, the other n log n. `automatic` takes the faster one; kernels per channel have fft only.
enum class Form { automatic, direct, fft };

// w [B,H,N,D], v [B,H,N,D]. The channels of v, dy, y, dv lie side by side, their other strides are free. w has stride 1
// along the channels, or 0: one kernel for all channels of a head, see per_head. Nothing at or beyond the length of a
// sequence is read; results there are 0.
template <class T>
struct CircularCall {
  CircularShape shape;
  Direction direction = Direction::convolution;
  const Index* lengths = nullptr;  // [B], each in [0,N]; null: all N
  View<const T, 4> w, v;
  Form form = Form::automatic;
};

// A kernel [B,H,N] for all D channels of a head, or a place for its gradient.
template <class T>
View<T, 4> per_head(const View<T, 3>& w, Index D) {
  return {w.data, {w.shape[0], w.shape[1], w.shape[2], D}, {w.stride[0], w.stride[1], w.stride[2], 0}};
}

// y [B,H,N,D]
template <class T>
SADDLE_API void forward(const CircularCall<T>& call, const View<T, 4>& y);

// dy [B,H,N,D] -> dw, dv; a null view is not wanted. The strides of dw tell what is summed: 0 along the channels as in
// w, 0 along the batch for a kernel that all sequences share.
template <class T>
SADDLE_API void backward(const CircularCall<T>& call, const View<const T, 4>& dy, const View<T, 4>& dw,
                         const View<T, 4>& dv);

// y_i = sum_{d<=i} exp(z_d) v_{i-d} / sum_{d<=i} exp(z_d) with scores z [B,H,N] and v [B,H,N,D]. A row whose scores are
// all -inf gives 0.
template <class T>
struct CausalCall {
  CircularShape shape;
  const Index* lengths = nullptr;  // [B], each in [0,N]; null: all N
  View<const T, 3> z;
  View<const T, 4> v;
  Form form = Form::automatic;
};

// y [B,H,N,D]
template <class T>
SADDLE_API void causal_forward(const CausalCall<T>& call, const View<T, 4>& y);

// y as causal_forward left it, dy [B,H,N,D] -> dz [B,H,N], dv; a null view is not wanted.
template <class T>
SADDLE_API void causal_backward(const CausalCall<T>& call, const View<const T, 4>& y, const View<const T, 4>& dy,
                                const View<T, 3>& dz, const View<T, 4>& dv);

}  // namespace saddle::kernels::circular

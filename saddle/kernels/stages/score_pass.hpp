// What the passes of the cores over scores have in common: how they are cut into tasks, the numbers of a query that go
// from one pass to the next, and what they cost.
#pragma once

#include <vector>

#include "saddle/base/parallel.hpp"
#include "saddle/kernels/implementation.hpp"
#include "saddle/kernels/stages/score_problem.hpp"

namespace saddle::kernels {

// The loop over the tasks of a call, in one thread if there are fewer multiply-adds than are worth waking others for.
LoopOptions loop_for(const Dims& dims, double least_shared_work);

// Backward, few heads are cut into ranges of keys, as long as the partial dq of the ranges stay small. A range adds
// part_bytes, of all heads together; the number depends on the shape alone.
constexpr Index enough_tasks = 8;
constexpr double most_partial_bytes = 32e6;
Index key_ranges(const Dims& dims, double part_bytes);

// dq [N,D] = the sum of parts [ranges,N,D] in this order.
template <class T>
void add_ranges(const T* parts, Index ranges, Index N, Index D, Rows<T> dq);

// The log-sum-exp [count] of the queries from i on.
template <class T>
void store_lse(const TensorView& lse, Index b, Index h, Index i, const T* values, Index count);
template <class T>
void load_lse(const TensorView& lse, Index b, Index h, Index i, T* values, Index count);

// delta [count] = dy_i . y_i over rows [count,E].
template <class T>
void row_deltas(Rows<const T> dy, Rows<const T> y, Index count, Index E, T* delta);

// scale=std divides by deviations that may nearly vanish (few keys, equal keys); gradients multiply rounding by their
// inverse square.
bool is_steep(const primal::Attention& attention);

// Counts and predicted time of the dual form; gradients may be computed in a wider type. Memory is left to the core.
Estimate score_estimate(const Request& request, std::string_view implementation, DType gradients);

}  // namespace saddle::kernels

// Forward and backward pass of one head: which sums are built, in which order, and by how many tasks.
#pragma once

#include "saddle/kernels/linear/core.hpp"

namespace saddle::kernels::linear_kernel {

// Tokens are cut into parts that depend on their number only. Each part sums up on its own and the parts are added in
// order, so that the bits are the same whether parts run one after the other or side by side.
struct Parts {
  Index tokens = 0, length = 1, count = 0;

  explicit Parts(Index tokens);
  Range operator[](Index p) const { return {p * length, std::min(tokens, (p + 1) * length)}; }
};

// How the parts of one head run.
enum class Tasks { in_order, side_by_side };

template <class T>
struct ForwardPass {
  T* h = nullptr;  // [N]
  Rows<T> y;       // or store, as in Core::Read
  std::function<void(Index i, Index count, Rows<const T> rows)> store;
  State<T> carry;  // causal only, or null: sums over earlier keys; leaves with those of this head added
};
// work: to be used by parts that run in order, null: an own one.
template <class T>
void run_forward(const Core<T>& core, const Problem<T>& problem, const ForwardPass<T>& pass, Tasks tasks,
                 Workspace<T>* work = nullptr);

template <class T>
struct BackwardPass {
  Rows<const T> dy;
  Rows<T> dq, dk, dv;  // null: not wanted
};
template <class T>
void run_backward(const Core<T>& core, const Problem<T>& problem, const BackwardPass<T>& pass, Tasks tasks,
                  Workspace<T>* work = nullptr);

// Bytes that a head needs at most, with the given number of tasks at a time.
template <class T>
double pass_memory(Index N, Index K, Index D, Index E, Index F, Index monomials, Index tasks);

}  // namespace saddle::kernels::linear_kernel

// The sweeps over the tokens of one head that do the arithmetic, one table of them per instruction set.
#pragma once

#include <functional>

#include "saddle/base/cpu.hpp"
#include "saddle/base/dtype.hpp"
#include "saddle/kernels/linear/feature_plan.hpp"
#include "saddle/kernels/linear/key_order.hpp"
#include "saddle/kernels/stages/score_problem.hpp"
#include "saddle/primal/normaliser.hpp"

namespace saddle::kernels::linear_kernel {

// Tokens taken at once: their features, and the products inside a causal chunk, stay in the first-level cache.
inline constexpr Index chunk = 64;

struct Range {
  Index begin = 0, end = 0;
};

// Rows of T, or of bf16 that are converted where they are used.
template <class T>
struct TokenRows {
  Rows<const T> rows;
  Rows<const BFloat16> raw;
};

// One head: rows after pooling and transforms.
template <class T>
struct Problem {
  Index N = 0, D = 0, E = 0, F = 0;
  TokenRows<T> q, k, v;  // [N,D], [K,D], [K,E]
  const FeaturePlan<T>* features = nullptr;
  const KeyOrder* keys = nullptr;
  primal::NormaliserRule normaliser;
};

// The sums over keys W = sum_j Phi(k_j) v_j^T and z = sum_j Phi(k_j), or their gradients: w [F, padded(E)], or
// transposed [E, padded(F)], and z [padded(F)] behind it.
template <class T>
struct State {
  T* w = nullptr;
  T* z = nullptr;
  explicit operator bool() const { return w != nullptr; }
};

template <class T>
struct StateShape {
  Index E = 0, F = 0;
  Index w() const { return std::max(F * padded<T>(E), E * padded<T>(F)); }
  Index size() const { return w() + padded<T>(F); }
  State<T> at(T* data) const { return {data, data + w()}; }
};

// Scratch memory of one task, not initialised. What a pass does not use stays null.
template <class T>
struct Workspace {
  enum class Pass { forward, backward };
  // For at most `rows` tokens at once.
  Workspace(Index D, Index E, const FeaturePlan<T>& plan, bool causal, Pass pass, Index rows = chunk);
  // At most.
  static double bytes(Index D, Index E, Index F, Index monomials);

  T *q, *k, *v, *y;                               // [chunk, D|E]: copies of rows, results
  T *phi_q, *phi_k;                               // [chunk, F]
  T *g = nullptr, *dphi = nullptr;                // [chunk, E|F]: dy/h, gradients of features
  T *phi_kt = nullptr, *vt = nullptr;             // [F|E, chunk]
  T *scores = nullptr, *dscores = nullptr;        // [chunk, chunk]
  T *state = nullptr, *transposed = nullptr;      // a State and its transpose
  T *monomials = nullptr, *dmonomials = nullptr;  // with room for a vector on both sides
  T scale[chunk] = {}, sums[chunk] = {}, ones[chunk], zeros[chunk] = {};

 private:
  Buffer<T> memory_;
};

// A row of `h` or `c` holds one number per query of the head.
template <class T>
struct Core {
  Isa isa = Isa::scalar;

  // sum += the given keys, counted in arrival order; causal ones arrive among the given queries. transposed: w is
  // [E,F].
  void (*add_keys)(const Problem<T>& problem, Range queries, Range keys, bool transposed, State<T> sum,
                   Workspace<T>& work) = nullptr;

  // y_i and h_i [N] of the given queries. They see `before`, and those of `keys` that have arrived; those are added to
  // `running`, which is seen too. y: rows to write into; else store(i, count, rows) gets them.
  struct Read {
    Range queries, keys;
    State<T> before, running;
    T* h = nullptr;
    Rows<T> y;
    std::function<void(Index i, Index count, Rows<const T> rows)> store;
  };
  void (*read)(const Problem<T>& problem, const Read& read, Workspace<T>& work) = nullptr;

  // Gradients at the queries: dq, and the share that the chunk of a key has in its dk and dv. Sums are transposed
  // here. h and c_i = dy_i.y_i/h_i are left for the keys. dsum (or null) += Phi(q_i) g_i^T and -c_i Phi(q_i).
  struct QueryGradients {
    Range queries, keys;
    State<T> before, running, dsum;
    Rows<const T> dy;
    T *h = nullptr, *c = nullptr;
    Rows<T> dq, dk, dv;  // null: not wanted
  };
  void (*query_gradients)(const Problem<T>& problem, const QueryGradients& pass, Workspace<T>& work) = nullptr;

  // Gradients at the keys, last to first: from `after`, the sums over later queries, and, chunk by chunk, from those of
  // `queries` after the chunk, which are added to `running`. Without queries all keys see `after` alone.
  struct KeyGradients {
    Range queries, keys;
    State<T> after, running;
    Rows<const T> dy;
    const T *h = nullptr, *c = nullptr;
    Rows<T> dk, dv;  // null: not wanted; with queries: added to
  };
  void (*key_gradients)(const Problem<T>& problem, const KeyGradients& pass, Workspace<T>& work) = nullptr;

  // sum += the given queries: Phi(q_i) g_i^T and -c_i Phi(q_i), with g_i = dy_i/h_i.
  void (*add_queries)(const Problem<T>& problem, const KeyGradients& pass, Range queries, State<T> sum,
                      Workspace<T>& work) = nullptr;
};

// The table for an instruction set that this processor has.
template <class T>
const Core<T>& core(Isa isa);

template <class T>
const Core<T>& scalar_core();
template <class T>
const Core<T>& avx2_core();
template <class T>
const Core<T>& avx512_core();

}  // namespace saddle::kernels::linear_kernel

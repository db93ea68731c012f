// The tiled core: what it is given for one head, and its entry points per instruction set.
#pragma once

#include "saddle/base/cpu.hpp"
#include "saddle/kernels/stages/score_problem.hpp"
#include "saddle/kernels/tiled/visibility.hpp"
#include "saddle/primal/normaliser.hpp"

namespace saddle::kernels {

// Which weights of a head are dropped; see primal/dropout.hpp.
struct HeadDropout {
  std::uint32_t threshold = 0;  // of 16 random bits; 0: none
  std::uint64_t seed = 0;
  std::uint32_t offset = 0, head = 0;
  double factor = 1;  // 1/(1 - p)
};

template <class T>
struct TiledHead {
  ScoreProblem<T> problem;
  const Visibility* visibility = nullptr;
  primal::NormaliserRule normaliser;
  HeadDropout dropout;
  bool finite = false;  // all keys and values are known to be
};

// What the forward pass writes for one block of queries; pointers are those of its first query. Null: not wanted.
template <class T>
struct TiledOutputs {
  Rows<T> y;           // [queries,E]
  T* log_h = nullptr;  // [queries], -inf where nothing is visible, NaN for negative h
  // For the backward pass: weight = g(score - reference)/h, h = 0 where nothing is visible; both or neither. The
  // reference, in units of the core, is 0 unless g = exp.
  T* reference = nullptr;    // [queries]
  T* h = nullptr;            // [queries]
  Rows<T> weights;           // [queries,K], hidden tiles are left as they are
  T* column_sums = nullptr;  // [K], added to
};

// For the backward pass; dq, dk, dv, drow, dcolumn as in Stage::Targets. dk and dv are added to and start at zero;
// their rows, and those of the padded copies, have room for whole vectors.
template <class T>
struct TiledGradients {
  Rows<const T> dy;  // [N,E]
  // Of row sums only, [N]: reference and h as the forward pass gives them, or log h of exp if those are null; and
  // delta = dy_i . y_i.
  const T* log_h = nullptr;
  const T* reference = nullptr;
  const T* h = nullptr;
  const T* delta = nullptr;
  Rows<T> dq, dk, dv;
  T* drow = nullptr;
  T* dcolumn = nullptr;
};

// Per-thread memory of the core, allocated once per thread and call.
template <class T>
struct TiledScratch {
  explicit TiledScratch(std::size_t count);
  TiledScratch(TiledScratch&&) = default;
  TiledScratch& operator=(TiledScratch&&) = default;
  T* data() { return aligned_; }
  std::size_t size() const { return size_; }

 private:
  std::vector<T> memory_;
  T* aligned_;
  std::size_t size_;
};

template <class T>
struct TiledKernels {
  Isa isa;
  Index queries;                       // per block
  Index lanes;                         // of a vector
  Index (*scratch)(Index D, Index E);  // elements
  // Queries [i0, min(N, i0 + queries)) against all keys.
  void (*forward)(const TiledHead<T>& head, const TiledOutputs<T>& outputs, Index i0, T* scratch);
  // The same queries against the keys [j0,j1).
  void (*backward)(const TiledHead<T>& head, const TiledGradients<T>& gradients, Index i0, Index j0, Index j1,
                   T* scratch);
};

template <class T>
struct TiledTables {
  static const TiledKernels<T>& scalar();
  static const TiledKernels<T>& avx2();
  static const TiledKernels<T>& avx512();
};

// The table for the best instruction set in use.
template <class T>
const TiledKernels<T>& tiled_kernels();

}  // namespace saddle::kernels

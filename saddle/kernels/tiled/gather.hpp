// Rows of one head brought together: in a fused projection those of other heads lie between them, and walking over
// these again for every block of queries costs more than one copy.
#pragma once

#include <algorithm>
#include <vector>

#include "saddle/kernels/stages/rows.hpp"
#include "saddle/kernels/tiled/tiled_core.hpp"

namespace saddle::kernels {

// Keys and values are gathered head by head, unless a head has more of them than this.
inline constexpr Index most_gathered_bytes = 8'000'000;

template <class T>
bool is_scattered(const ScoreProblem<T>& p) {
  constexpr Index few_queries = 64;  // a copy would not pay
  if (p.N < few_queries || p.K * (p.D + p.E) * static_cast<Index>(sizeof(T)) > most_gathered_bytes) return false;
  return p.k.stride != p.D || p.v.stride != p.E;
}

// The head with its keys and values [j0,j1) side by side in memory of this thread, those of others undefined.
template <class T>
TiledHead<T> gathered(const TiledHead<T>& head, Index j0, Index j1) {
  thread_local std::vector<T> memory;
  const ScoreProblem<T>& p = head.problem;
  if (std::ssize(memory) < p.K * (p.D + p.E)) memory.resize(p.K * (p.D + p.E));
  T *k = memory.data(), *v = k + p.K * p.D;
  constexpr Index ahead = 16, line = 64 / static_cast<Index>(sizeof(T));  // no hardware foresees such strides
  for (Index j = j0; j < j1; ++j) {
    const Index next = std::min(j + ahead, j1 - 1);
    for (Index c = 0; c < p.D; c += line) __builtin_prefetch(p.k[next] + c);
    for (Index e = 0; e < p.E; e += line) __builtin_prefetch(p.v[next] + e);
    std::copy_n(p.k[j], p.D, k + j * p.D);
    std::copy_n(p.v[j], p.E, v + j * p.E);
  }
  TiledHead<T> other = head;
  other.problem.k = {k, p.D};
  other.problem.v = {v, p.E};
  return other;
}

// Sums over queries for the rows [j0,j1) of a target: in the target itself where its rows are dense and have room for
// whole vectors, else in memory from which write() copies them.
template <class T>
class RowSums {
 public:
  RowSums(Rows<T> target, Index K, Index width, Index lanes, Index j0, Index j1)
      : target_(target), sums_(target), width_(width), j0_(j0), j1_(j1) {
    if (!target) return;
    const Index padded = (width + lanes - 1) / lanes * lanes;
    if (target.stride != width || padded != width) {
      memory_ = stages::Buffer<T>(K, padded);
      sums_ = memory_.rows();
    }
    std::fill(sums_[j0], sums_[j0] + (j1 - j0) * sums_.stride, T{0});
  }

  Rows<T> rows() const { return sums_; }
  void write() const {
    if (!memory_) return;
    for (Index j = j0_; j < j1_; ++j) std::copy_n(sums_[j], width_, target_[j]);
  }

 private:
  Rows<T> target_, sums_;
  stages::Buffer<T> memory_;
  Index width_, j0_, j1_;
};

}  // namespace saddle::kernels

// The vector work of the HYLA kernel, one table of it per instruction set. Lanes are keys: keys come in tiles of W = 4
// vectors, and a panel [tiles][H][width][W] holds k or v of a sample, so that number t of a row belongs to key
// tile W + t. Queries come a few at a time. What is per pair of tokens exists for one tile of keys only (weights under
// a softmax for all of them).
#pragma once

#include <algorithm>

#include "saddle/base/cpu.hpp"
#include "saddle/kernels/hyla/hyla.hpp"
#include "saddle/kernels/linear/buffer.hpp"

namespace saddle::kernels::hyla {

using linear_kernel::Buffer;
using linear_kernel::Fill;

inline constexpr Index tile_vectors = 4;  // vectors in a tile
inline constexpr Index most_rows = 12;    // queries at once

// One sample and how it is computed.
template <class T>
struct Problem {
  Index N = 0, H = 0, D = 0, E = 0;
  Norm norm = Norm::rms_head;
  Network network = Network::mlp_relu;
  bool causal = false;
  T eps = 0;
  PairDropout dropout;
  Index keys = 0, width = 0;           // up to the last one that exists; W
  const T *k = nullptr, *v = nullptr;  // panels, zeros where no key exists
  const T* exists = nullptr;           // [tiles W], 1 or 0
  const T* bias = nullptr;             // [H][bias_stride], number N-1-i+j for the pair (i,j); null: none
  Index bias_stride = 0;

  Index tiles() const { return (keys + width - 1) / width; }
};

// Queries of a sample, their gradients if they go back; everything in the order [count][H][D or E].
template <class T>
struct Rows {
  Index count = 0;
  const Index* position = nullptr;  // rising
  const T* q = nullptr;             // times 1/sqrt(D)
  T* o = nullptr;                   // forward: written
  const T* d_o = nullptr;           // backward: read
  T* d_q = nullptr;                 // backward: written, for q as it is here
};

// Sums of a backward pass: panels, and [H][bias_stride] if there is a bias.
template <class T>
struct Sums {
  T *k = nullptr, *v = nullptr, *bias = nullptr;
};

// Memory of a thread; its parts are named where they are used.
template <class T>
struct Scratch {
  Scratch(const Problem<T>& p, bool backward) {
    const Index tiles = p.norm == Norm::softmax ? p.tiles() : 1, pairs = p.H * p.width, lanes = p.width / tile_vectors;
    // Under a softmax whole rows are kept, as many as fit a cache.
    constexpr Index most = Index{1} << 19;
    rows = std::clamp<Index>(most / std::max<Index>(1, tiles * pairs * static_cast<Index>(sizeof(T))), 2, most_rows);
    const bool drops = p.dropout.p > 0;
    weights = buffer(tiles * rows * pairs);
    seen = buffer(rows * p.width);
    inverse = buffer(rows * p.width);
    hidden = buffer(rows_abreast * p.E * p.width);
    sums = buffer(rows * p.H * std::max(p.D, p.E) * lanes);
    if (drops) keep = buffer(tiles * rows * p.width);
    if (drops) dropped = buffer(rows * pairs);
    if (!backward) return;
    gradients = buffer(tiles * rows * pairs);
    hidden_gradients = buffer(rows_abreast * p.E * p.width);
    inner = buffer(rows * p.H);
    turned_q = buffer(rows * p.H * p.D);
    turned_o = buffer(rows * p.H * p.E);
  }

  static constexpr Index rows_abreast = 4;  // queries whose hidden values exist at once
  Index rows = 0;
  Buffer<T> weights, gradients;  // [tiles or 1][rows][H][W]
  Buffer<T> dropped;             // [rows][H][W]
  Buffer<T> keep;                // [tiles or 1][rows][W]
  Buffer<T> seen, inverse;       // [rows][W]
  Buffer<T> hidden, hidden_gradients;
  Buffer<T> sums, inner, turned_q, turned_o;

 private:
  static Buffer<T> buffer(Index size) { return Buffer<T>(size, Fill::none); }
};

template <class T>
struct Core {
  Index lanes = 1;
  void (*forward)(const Problem<T>& problem, const Rows<T>& rows, Scratch<T>& scratch);
  void (*backward)(const Problem<T>& problem, const Rows<T>& rows, Scratch<T>& scratch, const Sums<T>& sums);
};

template <class T>
const Core<T>& core(Isa isa);

template <class T>
const Core<T>& scalar_core();
template <class T>
const Core<T>& avx2_core();
template <class T>
const Core<T>& avx512_core();

}  // namespace saddle::kernels::hyla

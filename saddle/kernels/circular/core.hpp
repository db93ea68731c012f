// The vector work of the circular kernel, one table of it per instruction set. A signal is an array of points, each a
// row of 2L numbers: the real parts of L complex numbers, then the imaginary parts. A lane never meets another, so
// butterflies need no shuffles; two real channels share a complex lane, because a product with the spectrum of a real
// kernel keeps them apart. Spectra stay in the order in which the stages leave them.
#pragma once

#include <span>

#include "saddle/base/cpu.hpp"
#include "saddle/kernels/circular/circular.hpp"
#include "saddle/kernels/circular/plan.hpp"

namespace saddle::kernels::circular {

// Elements [lane, lane + count) of the rows of a signal: row i is data[i stride ..].
template <class T>
struct Run {
  T* data = nullptr;
  Index stride = 0, lane = 0, count = 0;
};

// Rows [begin,end) of a result have a second share, in the row `shift` further on.
struct Fold {
  Index begin = 0, end = 0, shift = 0;
};

// The spectrum of a kernel: one complex number (re,im) for all lanes of a point, or a row for each point.
template <class T>
struct Spectrum {
  T* data = nullptr;
  bool per_lane = false;
};

template <class T>
struct Core {
  Isa isa = Isa::scalar;
  Index lanes = 1;  // L

  // x [length, 2L] = rows [begin,end) of the runs, each times factor[row] (null: 1); zeros elsewhere
  void (*load)(std::span<const Run<const T>> runs, Index begin, Index end, Index length, const T* factor, T* x);
  // rows [begin,end) of the runs = x, folded, times scale and factor[row]
  void (*store)(const T* x, std::span<const Run<T>> runs, Index begin, Index end, Fold fold, T scale, const T* factor);
  // the same, added to what is there
  void (*store_add)(const T* x, std::span<const Run<T>> runs, Index begin, Index end, Fold fold, T scale,
                    const T* factor);

  // x becomes its spectrum; and back, times the length
  void (*analyse)(const Plan<T>& plan, T* x);
  void (*synthesise)(const Plan<T>& plan, T* x);
  // x becomes w * x, or the correlation with w, times the length
  void (*convolve)(const Plan<T>& plan, T* x, Spectrum<const T> w, Direction direction);
  // For y = w * v or the correlation: s (+)= spectrum of dw (w.per_lane: for each lane, else their sum), dy becomes dv,
  // times the length, if w is there, else is lost; v is lost.
  void (*gradients)(const Plan<T>& plan, T* dy, T* v, Spectrum<const T> w, Direction direction, Spectrum<T> s,
                    bool add);

  // Rows of `vectors` x L numbers from here on.
  // c [rows] += sum_{k<depth} a[k-r] b_k: b and c with the given stride, a also at negative places
  void (*toeplitz)(const T* a, const T* b, Index depth, T* c, Index rows, Index stride, Index vectors);
  // sums[r] = sum_{k<depth} <a_k, b_{k-r}> for r in [0,rows): b also at negative places
  void (*match)(const T* a, const T* b, Index depth, T* sums, Index rows, Index stride, Index vectors);

  // sums[i] = <a_i, b_i> over a.count numbers, for i in [begin,end)
  void (*inner)(const Run<const T>& a, const Run<const T>& b, Index begin, Index end, T* sums);
  // e = exp(z - top)
  void (*exponentials)(const T* z, Index count, T top, T* e);
};

template <class T>
const Core<T>& core(Isa isa);

template <class T>
const Core<T>& scalar_core();
template <class T>
const Core<T>& avx2_core();
template <class T>
const Core<T>& avx512_core();

}  // namespace saddle::kernels::circular

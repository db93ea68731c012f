// The vector work of dense layers, one table of it per instruction set. Products are tiles of a packed operand; the
// rest goes over rows once.
#pragma once

#include "saddle/base/cpu.hpp"
#include "saddle/base/dtype.hpp"
#include "saddle/kernels/stages/score_problem.hpp"

namespace saddle::kernels::dense {

// times_slope: times the derivative that an earlier gelu kept.
enum class Activation { none, gelu, times_slope };

// What becomes of sums c [rows,columns]: y = activation(c + bias + residual). slope keeps the derivative of the gelu,
// if it is set: with the value it costs a few instructions, without it as many as the value.
template <class Y>
struct Finish {
  const float* bias = nullptr;  // [columns]
  Rows<const Y> residual;
  Rows<Y> slope, y;
  Activation activation = Activation::none;

  // For the part of the matrix that starts at (row, column).
  Finish at(Index row, Index column) const {
    const auto part = [&](auto rows) {
      if (rows) rows.data += row * rows.stride + column;
      return rows;
    };
    return {bias ? bias + column : nullptr, part(residual), part(slope), part(y), activation};
  }
};

// x [.,C] -> y = (x - mean) rstd gamma + beta, row by row.
template <class X, class Y>
struct LayerNorm {
  Index C = 0;
  double eps = 1e-5;
  Rows<const X> x;
  const float *gamma = nullptr, *beta = nullptr;  // [C] or null
  Rows<Y> y;
  float *mean = nullptr, *rstd = nullptr;  // one per row
};

template <class X, class Y>
struct LayerNormBackward {
  Index C = 0;
  Rows<const X> x;
  Rows<const Y> dy;
  const float *gamma = nullptr, *mean = nullptr, *rstd = nullptr;
  Rows<X> dx;           // null: not wanted
  Rows<const X> added;  // to dx; may be null
};

// p = decay p - step m / (scale sqrt(v) + eps), or decay p - step m, after m and v have taken in the gradient.
struct AdamRule {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 1, step = 0, scale = 1;
  bool adaptive = true;
};

// y = residual + x factor where the counter-based bits of an element keep it, else residual. Bits are those of
// primal/dropout.hpp for query e / 512 * 64 + e % 64 and key e / 64 % 8. y may be x or residual.
template <class T>
struct Dropout {
  const T *x = nullptr, *residual = nullptr;  // residual may be null
  T* y = nullptr;
  std::uint64_t seed = 0;
  std::uint32_t threshold = 0;
  double factor = 1;
};

struct Core {
  Isa isa = Isa::scalar;
  Index width = 0;  // columns of a packed panel

  // c [rows,width] = a [rows,depth] b [depth,width]
  void (*multiply)(const float* a, Index a_stride, const float* b, Index depth, float* c, Index rows) = nullptr;
  // c [rows,width] += a^T b with a [depth,rows]
  void (*add_transposed)(const float* a, Index a_stride, const float* b, Index depth, float* c, Index rows) = nullptr;
  // to [columns,width] = transpose of from [rows,columns], zeros beyond the rows
  void (*transpose)(const float* from, Index from_stride, Index rows, Index columns, float* to) = nullptr;
  // to [rows,columns], row stride `to_stride` = from; sums (or null) += its columns
  void (*copy)(Rows<const float> from, Index rows, Index columns, float* to, Index to_stride, float* sums) = nullptr;

  // A number that follows from all bits of n neighbours and `before`, likely another one if they change
  std::uint64_t (*digest)(const float* from, Index n, std::uint64_t before) = nullptr;

  // n neighbours in the other type, rounded to nearest even
  void (*widen)(const BFloat16* from, float* to, Index n) = nullptr;
  void (*narrow)(const float* from, BFloat16* to, Index n) = nullptr;

  void (*finish)(const float* c, Index c_stride, Index rows, Index columns, const Finish<float>& to) = nullptr;

  // dpre = dy slope of the rows [begin,end); sums [columns] = the columns of dpre as stored
  void (*gelu_backward_f32)(Rows<const float> dy, Rows<const float> slope, Rows<float> dpre, Index begin, Index end,
                            Index columns, float* sums) = nullptr;
  void (*gelu_backward_bf16)(Rows<const BFloat16> dy, Rows<const BFloat16> slope, Rows<BFloat16> dpre, Index begin,
                             Index end, Index columns, float* sums) = nullptr;

  // Of the rows [begin,end). The backward pass writes sums [2,C]: dgamma and dbeta of these rows.
  template <class X, class Y>
  struct Normalise {
    void (*forward)(const LayerNorm<X, Y>& norm, Index begin, Index end) = nullptr;
    void (*backward)(const LayerNormBackward<X, Y>& norm, Index begin, Index end, float* sums) = nullptr;
  };
  Normalise<float, float> normalise_f32;
  Normalise<float, BFloat16> normalise_f32_bf16;
  Normalise<BFloat16, float> normalise_bf16_f32;
  Normalise<BFloat16, BFloat16> normalise_bf16;

  // Of the elements [begin,end), begin a multiple of 512.
  void (*dropout_f32)(const Dropout<float>& drop, Index begin, Index end) = nullptr;
  void (*dropout_bf16)(const Dropout<BFloat16>& drop, Index begin, Index end) = nullptr;

  void (*adam_f32)(const AdamRule& rule, float* p, const float* g, float* m, float* v, Index count) = nullptr;
  void (*adam_f64)(const AdamRule& rule, double* p, const double* g, double* m, double* v, Index count) = nullptr;
};

// The table for the best instruction set of this machine.
const Core& core();

const Core& scalar_core();
const Core& avx2_core();
const Core& avx512_core();

}  // namespace saddle::kernels::dense

#include "saddle/kernels/dense/sweeps.hpp"

#include <algorithm>
#include <vector>

#include "saddle/base/parallel.hpp"

namespace saddle::kernels::dense {

namespace {

constexpr Index chunk_rows = 64;
constexpr Index chunk_elements = 16384;  // a multiple of 512
constexpr Index chunk_parameters = 16384;

// sweep(begin, end, sums) for chunks of M rows, each with sums [width] of its own; calls add(sums) for each in order.
template <class Sweep, class Add>
void sum_chunks(Index M, Index width, Sweep&& sweep, Add&& add) {
  const Index chunks = (M + chunk_rows - 1) / chunk_rows;
  std::vector<float> sums(static_cast<std::size_t>(chunks * width));
  parallel_for(M, chunk_rows,
               [&](Index begin, Index end) { sweep(begin, end, sums.data() + begin / chunk_rows * width); });
  for (Index chunk = 0; chunk < chunks; ++chunk) add(sums.data() + chunk * width);
}

void add_to(float* total, const float* sums, Index count) {
  for (Index c = 0; c < count; ++c) total[c] += sums[c];
}

template <class X, class Y>
const Core::Normalise<X, Y>& normalise(const Core& simd) {
  if constexpr (std::is_same_v<X, float>) {
    if constexpr (std::is_same_v<Y, float>)
      return simd.normalise_f32;
    else
      return simd.normalise_f32_bf16;
  } else {
    if constexpr (std::is_same_v<Y, float>)
      return simd.normalise_bf16_f32;
    else
      return simd.normalise_bf16;
  }
}

}  // namespace

template <class T>
void gelu_backward(Rows<const T> dy, Rows<const T> slope, Rows<T> dpre, Index M, Index columns, float* sums) {
  const auto sweep = [&](Index begin, Index end, float* part) {
    if constexpr (std::is_same_v<T, float>)
      core().gelu_backward_f32(dy, slope, dpre, begin, end, columns, part);
    else
      core().gelu_backward_bf16(dy, slope, dpre, begin, end, columns, part);
  };
  if (!sums) {
    parallel_for(M, chunk_rows, [&](Index begin, Index end) { sweep(begin, end, nullptr); });
    return;
  }
  std::fill_n(sums, columns, 0.0f);
  sum_chunks(M, columns, sweep, [&](const float* part) { add_to(sums, part, columns); });
}
template SADDLE_API void gelu_backward(Rows<const float>, Rows<const float>, Rows<float>, Index, Index, float*);
template SADDLE_API void gelu_backward(Rows<const BFloat16>, Rows<const BFloat16>, Rows<BFloat16>, Index, Index,
                                       float*);

template <class X, class Y>
void layer_norm(const LayerNorm<X, Y>& norm, Index M) {
  const auto forward = normalise<X, Y>(core()).forward;
  parallel_for(M, chunk_rows, [&](Index begin, Index end) { forward(norm, begin, end); });
}
template SADDLE_API void layer_norm(const LayerNorm<float, float>&, Index);
template SADDLE_API void layer_norm(const LayerNorm<float, BFloat16>&, Index);
template SADDLE_API void layer_norm(const LayerNorm<BFloat16, float>&, Index);
template SADDLE_API void layer_norm(const LayerNorm<BFloat16, BFloat16>&, Index);

template <class X, class Y>
void layer_norm_backward(const LayerNormBackward<X, Y>& norm, Index M, float* dgamma, float* dbeta) {
  const auto backward = normalise<X, Y>(core()).backward;
  std::fill_n(dgamma, norm.C, 0.0f);
  std::fill_n(dbeta, norm.C, 0.0f);
  sum_chunks(
      M, 2 * norm.C, [&](Index begin, Index end, float* part) { backward(norm, begin, end, part); },
      [&](const float* part) {
        add_to(dgamma, part, norm.C);
        add_to(dbeta, part + norm.C, norm.C);
      });
}
template SADDLE_API void layer_norm_backward(const LayerNormBackward<float, float>&, Index, float*, float*);
template SADDLE_API void layer_norm_backward(const LayerNormBackward<float, BFloat16>&, Index, float*, float*);
template SADDLE_API void layer_norm_backward(const LayerNormBackward<BFloat16, float>&, Index, float*, float*);
template SADDLE_API void layer_norm_backward(const LayerNormBackward<BFloat16, BFloat16>&, Index, float*, float*);

template <class T>
void dropout(const Dropout<T>& drop, Index count) {
  const auto sweep = [] {
    if constexpr (std::is_same_v<T, float>)
      return core().dropout_f32;
    else
      return core().dropout_bf16;
  }();
  parallel_for(count, chunk_elements, [&](Index begin, Index end) { sweep(drop, begin, end); });
}
template SADDLE_API void dropout(const Dropout<float>&, Index);
template SADDLE_API void dropout(const Dropout<BFloat16>&, Index);

template <class T>
void adam_step(std::span<const AdamSlice<T>> slices) {
  struct Piece {
    const AdamSlice<T>* slice;
    Index begin, end;
  };
  std::vector<Piece> pieces;
  for (const AdamSlice<T>& slice : slices)
    for (Index i = 0; i < slice.count; i += chunk_parameters)
      pieces.push_back({&slice, i, std::min(slice.count, i + chunk_parameters)});
  const Core& simd = core();
  const auto step = [&](Index i) {
    const auto& [slice, begin, end] = pieces[static_cast<std::size_t>(i)];
    const auto update = [&] {
      if constexpr (std::is_same_v<T, float>)
        return simd.adam_f32;
      else
        return simd.adam_f64;
    }();
    update(slice->rule, slice->p + begin, slice->g + begin, slice->m + begin, slice->v + begin, end - begin);
  };
  parallel_for(static_cast<Index>(pieces.size()), 1, step, {Schedule::dynamic});
}
template SADDLE_API void adam_step(std::span<const AdamSlice<float>>);
template SADDLE_API void adam_step(std::span<const AdamSlice<double>>);

}  // namespace saddle::kernels::dense

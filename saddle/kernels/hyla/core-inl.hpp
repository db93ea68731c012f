// The table of core.hpp for one instruction set.
#if defined(SADDLE_KERNELS_HYLA_CORE_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_HYLA_CORE_INL_HPP_
#undef SADDLE_KERNELS_HYLA_CORE_INL_HPP_
#else
#define SADDLE_KERNELS_HYLA_CORE_INL_HPP_
#endif

#include "saddle/kernels/hyla/network-inl.hpp"
#include "saddle/kernels/hyla/weights-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::hyla::HWY_NAMESPACE {

// x [count] = each sum of lanes.
template <class T>
void reduce(const T* sums, Index count, T* x) {
  const Tag<T> d;
  for (Index n = 0; n < count; ++n) x[n] = hn::GetLane(hn::SumOfLanes(d, hn::LoadU(d, sums + n * lanes<T>)));
}

// to [width][rows] of each head, from [rows][H][width].
template <class T>
void turn(const T* from, Index rows, Index H, Index wide, T* to) {
  for (Index r = 0; r < rows; ++r)
    for (Index h = 0; h < H; ++h)
      for (Index c = 0; c < wide; ++c) to[(h * wide + c) * rows + r] = from[(r * H + h) * wide + c];
}

template <class T>
void forward(const Problem<T>& p, const Rows<T>& rows, Scratch<T>& scratch) {
  const Index W = width<T>, H = p.H, E = p.E, head_sums = E * lanes<T>;
  Weights<T> weights(p, rows, scratch);
  T* const sums = scratch.sums.data();
  std::fill_n(sums, rows.count * H * head_sums, T{0});
  if (p.norm == Norm::softmax) weights.prepare_rows();
  for (Index tile = 0; tile < weights.tiles(); ++tile) {
    if (p.norm != Norm::softmax) weights.prepare(tile);
    const Index vectors = weights.vectors(tile);
    const T* const a = weights.after_dropout(tile);
    const T* const v = p.v + tile * H * E * W;
    if (p.network == Network::plain) {
      for (Index h = 0; h < H; ++h)
        add_products(a + h * W, H * W, rows.count, v + h * E * W, E, vectors, sums + h * head_sums, H * head_sums);
      continue;
    }
    for (Index r = 0; r < rows.count; r += Scratch<T>::rows_abreast) {
      const Index count = std::min(Scratch<T>::rows_abreast, rows.count - r);
      T* const z = scratch.hidden.data();
      mix(p, a + r * H * W, v, count, vectors, z);
      for (Index n = 0; n < count; ++n)
        add_products(a + (r + n) * H * W, W, H, z + n * E * W, E, vectors, sums + (r + n) * H * head_sums, head_sums);
    }
  }
  reduce(sums, rows.count * H * E, rows.o);
}

// From the gradient of the weights of a tile to those of queries, keys and bias.
template <class T>
void leave(const Problem<T>& p, const Rows<T>& rows, Weights<T>& weights, Scratch<T>& scratch, Index tile,
           const Sums<T>& totals) {
  const Index W = width<T>, H = p.H, D = p.D, vectors = weights.vectors(tile);
  T* const ds = weights.score_gradients(tile);
  if (totals.bias) add_bias(p, rows, ds, tile, vectors, totals.bias);
  for (Index h = 0; h < H; ++h) {
    const Index panel = (tile * H + h) * D * W;
    add_products(ds + h * W, H * W, rows.count, p.k + panel, D, vectors, scratch.sums.data() + h * D * lanes<T>,
                 H * D * lanes<T>);
    simd::multiply_wide(scratch.turned_q.data() + h * D * rows.count, rows.count, ds + h * W, H * W, rows.count,
                        totals.k + panel, W, D, vectors);
  }
}

template <class T>
void backward(const Problem<T>& p, const Rows<T>& rows, Scratch<T>& scratch, const Sums<T>& totals) {
  const Index W = width<T>, H = p.H, D = p.D, E = p.E, row = H * W;
  const bool softmax = p.norm == Norm::softmax;
  Weights<T> weights(p, rows, scratch);
  std::fill_n(scratch.sums.data(), rows.count * H * D * lanes<T>, T{0});
  std::fill_n(scratch.inner.data(), rows.count * H, T{0});
  turn(rows.q, rows.count, H, D, scratch.turned_q.data());
  if (p.network == Network::plain)
    turn(rows.d_o, rows.count, H, E, scratch.turned_o.data());
  else  // each row by itself: [E][H]
    for (Index r = 0; r < rows.count; ++r)
      turn(rows.d_o + r * H * E, H, Index{1}, E, scratch.turned_o.data() + r * H * E);

  if (softmax) weights.prepare_rows();
  for (Index tile = 0; tile < weights.tiles(); ++tile) {
    if (!softmax) weights.prepare(tile);
    const Index vectors = weights.vectors(tile), panel = tile * H * E * W;
    const T* const a = weights.after_dropout(tile);
    T* const da = weights.gradients(tile);
    std::fill_n(da, rows.count * row, T{0});
    if (p.network == Network::plain) {
      for (Index h = 0; h < H; ++h) {
        simd::multiply_wide(rows.d_o + h * E, H * E, p.v + panel + h * E * W, W, E, da + h * W, row, rows.count,
                            vectors);
        simd::multiply_wide(scratch.turned_o.data() + h * E * rows.count, rows.count, a + h * W, row, rows.count,
                            totals.v + panel + h * E * W, W, E, vectors);
      }
    } else {
      for (Index r = 0; r < rows.count; r += Scratch<T>::rows_abreast) {
        const Index count = std::min(Scratch<T>::rows_abreast, rows.count - r);
        T *const z = scratch.hidden.data(), *const dz = scratch.hidden_gradients.data();
        mix(p, a + r * row, p.v + panel, count, vectors, z);
        std::fill_n(dz, count * E * W, T{0});
        for (Index n = 0; n < count; ++n) {
          simd::multiply_wide(scratch.turned_o.data() + (r + n) * H * E, H, a + (r + n) * row, W, H, dz + n * E * W, W,
                              E, vectors);
          simd::multiply_wide(rows.d_o + (r + n) * H * E, E, z + n * E * W, W, E, da + (r + n) * row, W, H, vectors);
        }
        if (p.network == Network::mlp_relu) stop_at_zero(z, count * E * W, dz);
        unmix(p, a + r * row, p.v + panel, dz, count, vectors, da + r * row, totals.v + panel);
      }
    }
    if (softmax)
      weights.add_inner(tile);
    else
      leave(p, rows, weights, scratch, tile, totals);
  }
  if (softmax)
    for (Index tile = 0; tile < weights.tiles(); ++tile) leave(p, rows, weights, scratch, tile, totals);
  reduce(scratch.sums.data(), rows.count * H * D, rows.d_q);
}

template <class T>
const Core<T>& table() {
  static const Core<T> core{lanes<T>, forward<T>, backward<T>};
  return core;
}

}  // namespace saddle::kernels::hyla::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

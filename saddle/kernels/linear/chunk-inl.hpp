// The rows of a chunk of tokens, with their features, and the products between the queries and keys of a causal chunk.
#if defined(SADDLE_KERNELS_LINEAR_CHUNK_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_LINEAR_CHUNK_INL_HPP_
#undef SADDLE_KERNELS_LINEAR_CHUNK_INL_HPP_
#else
#define SADDLE_KERNELS_LINEAR_CHUNK_INL_HPP_
#endif

#include "saddle/kernels/linear/features-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::linear_kernel::HWY_NAMESPACE {

// Queries that share the bounds of their causal products.
inline constexpr Index rows_at_once = 16;

inline bool side_by_side(const Index* at, Index count) {
  for (Index t = 1; t < count; ++t)
    if (at[t] != at[0] + t) return false;
  return true;
}

// to [width] = from [width]
HWY_INLINE void widen(const BFloat16* from, Index width, float* to) {
  const Tag<float> d;
  const hn::Rebind<std::uint32_t, Tag<float>> wide;
  const hn::Rebind<std::uint16_t, Tag<float>> narrow;
  const auto* const bits = reinterpret_cast<const std::uint16_t*>(from);
  Index c = 0;
  for (; c + lanes<float> <= width; c += lanes<float>)
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(narrow, bits + c)))), d, to + c);
  for (; c < width; ++c) to[c] = static_cast<float>(from[c]);
}

// Rows begin, begin + 1, .. or at[0], at[1], .. with width elements: in place if they can be read as whole vectors,
// else copied with zeros behind them.
template <class T>
Rows<const T> fetch(const TokenRows<T>& from, Index begin, const Index* at, Index count, Index width, T* copy) {
  const Index stride = padded<T>(width);
  if (from.rows && stride == width && (!at || side_by_side(at, count)))
    return {from.rows[at ? at[0] : begin], from.rows.stride};
  for (Index t = 0; t < count; ++t) {
    const Index row = at ? at[t] : begin + t;
    if (from.rows)
      std::copy_n(from.rows[row], width, copy + t * stride);
    else if constexpr (std::is_same_v<T, float>)
      widen(from.raw[row], width, copy + t * stride);
    std::fill(copy + t * stride + width, copy + (t + 1) * stride, T{0});
  }
  return {copy, stride};
}

// Where results of the same rows go: in place if possible, else into `copy`, from where deliver() takes them.
template <class T>
Rows<T> place(Rows<T> to, Index begin, const Index* at, Index count, Index width, T* copy) {
  const Index stride = padded<T>(width);
  if (stride == width && (!at || side_by_side(at, count))) return {to[at ? at[0] : begin], to.stride};
  return {copy, stride};
}
template <class T>
void deliver(Rows<T> results, Rows<T> to, Index begin, const Index* at, Index count, Index width, const T* copy,
             bool add) {
  if (results.data != copy) return;
  for (Index t = 0; t < count; ++t) {
    T* const row = to[at ? at[t] : begin + t];
    for (Index c = 0; c < width; ++c) row[c] = add ? row[c] + results[t][c] : results[t][c];
  }
}

// Keys of a chunk, in arrival order, with their features in phi_k.
template <class T>
struct Keys {
  Index count = 0;
  const Index* at = nullptr;
  const Index* arrival = nullptr;
  Rows<const T> k, v;
  Index seen[chunk] = {};  // of a causal chunk: how many of them each of its queries sees
};

template <class T>
Keys<T> fetch_keys(const Problem<T>& p, Range range, Workspace<T>& work) {
  Keys<T> keys;
  keys.count = range.end - range.begin;
  keys.at = p.keys->index.data() + range.begin;
  keys.k = fetch(p.k, 0, keys.at, keys.count, p.D, work.k);
  keys.v = fetch(p.v, 0, keys.at, keys.count, p.E, work.v);
  map_features(*p.features, keys.k, keys.count, work.phi_k, work);
  return keys;
}

// The keys from `next` on, before `end`, that arrive among the queries [i, i + count). Moves `next` behind them.
template <class T>
Keys<T> arriving_keys(const Problem<T>& p, Index& next, Index end, Index i, Index count, Workspace<T>& work) {
  const Index begin = next;
  const Index* const arrival = p.keys->arrival.data();
  while (next < end && arrival[next] < i + count) ++next;
  if (next == begin) return {};
  Keys<T> keys = fetch_keys(p, {begin, next}, work);
  keys.arrival = arrival + begin;
  for (Index t = 0, n = 0; t < count; ++t) {
    while (n < keys.count && keys.arrival[n] <= i + t) ++n;
    keys.seen[t] = n;
  }
  return keys;
}

// out [count,chunk] = a_i . b_j for the queries of a chunk and its keys, 0 for keys that a query does not see.
// a [count,depth], b as columns [depth,chunk].
template <class T>
HWY_INLINE void masked_product(const Keys<T>& keys, Index count, Rows<const T> a, Index depth, const T* b, T* out) {
  for (Index r = 0; r < count; r += rows_at_once) {
    const Index rows = std::min(rows_at_once, count - r);
    const Index columns = padded<T>(keys.seen[r + rows - 1]);
    product<Along::k>(Product<T>{rows, columns, depth, a[r], a.stride, b, chunk, out + r * chunk, chunk});
    for (Index t = r; t < r + rows; ++t)
      std::fill(out + t * chunk + keys.seen[t], out + t * chunk + padded<T>(keys.count), T{0});
  }
}

// c [count,columns] = scale (c + s b) with s [count,chunk] of masked_product and b [keys,columns].
template <class T>
HWY_INLINE void add_masked(const Keys<T>& keys, Index count, const T* s, Rows<const T> b, Index columns, Rows<T> c,
                           const T* scale = nullptr) {
  for (Index r = 0; r < count; r += rows_at_once) {
    const Index rows = std::min(rows_at_once, count - r);
    product<Along::k>(Product<T>{rows, columns, keys.seen[r + rows - 1], s + r * chunk, chunk, b.data, b.stride, c[r],
                                 c.stride, true, scale ? scale + r : nullptr});
  }
}

// c [keys,columns] = s^T b with b [count,columns]; a key is seen by no query before i0 + from.
template <class T>
HWY_INLINE void masked_transposed(const Keys<T>& keys, Index i0, Index count, const T* s, Rows<const T> b,
                                  Index columns, Rows<T> c) {
  for (Index j = 0; j < keys.count; j += rows_at_once) {
    const Index rows = std::min(rows_at_once, keys.count - j), from = keys.arrival[j] - i0;
    product<Along::row>(
        Product<T>{rows, columns, count - from, s + from * chunk + j, chunk, b[from], b.stride, c[j], c.stride});
  }
}

}  // namespace saddle::kernels::linear_kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

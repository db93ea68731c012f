// Scores of one block of queries against one block of keys, transposed: a row is a key, lanes are queries.
#if defined(SADDLE_KERNELS_TILED_SCORES_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_TILED_SCORES_INL_HPP_
#undef SADDLE_KERNELS_TILED_SCORES_INL_HPP_
#else
#define SADDLE_KERNELS_TILED_SCORES_INL_HPP_
#endif

#include <cmath>
#include <limits>

#include "saddle/kernels/simd/exp-inl.hpp"
#include "saddle/kernels/simd/philox-inl.hpp"
#include "saddle/kernels/simd/tile-inl.hpp"
#include "saddle/kernels/tiled/tiled_core.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::HWY_NAMESPACE {

template <class T>
inline constexpr Index block_queries = tile_vectors* lanes<T>;
// A multiple of tile_rows; block_keys x block_queries weights stay in the first-level cache beside the operands.
inline constexpr Index block_keys = 96;

// g = exp, of scores in units of score_unit.
template <class T>
struct ExpScore {
  static constexpr bool exponential = true;
  explicit ExpScore(const Kappa&) {}
  HWY_INLINE Vector<T> operator()(Vector<T> s) const { return exp_score(Tag<T>{}, s); }
};

// g = (s + coef0)^degree or the truncated exponential series, and the derivative.
template <class T>
struct PolynomialScore {
  static constexpr bool exponential = false;
  explicit PolynomialScore(const Kappa& kappa)
      : taylor_(kappa.kind == Kappa::Kind::taylor), degree_(kappa.degree), coef0_(static_cast<T>(kappa.coef0)) {}

  HWY_INLINE Vector<T> operator()(Vector<T> s) const { return taylor_ ? series(s, degree_) : power(s, degree_); }
  HWY_INLINE Vector<T> derivative(Vector<T> s) const {
    const Tag<T> d;
    if (taylor_) return degree_ > 0 ? series(s, degree_ - 1) : hn::Zero(d);
    return hn::Mul(hn::Set(d, static_cast<T>(degree_)), power(s, degree_ - 1));
  }

 private:
  HWY_INLINE Vector<T> power(Vector<T> s, Index degree) const {
    const Tag<T> d;
    const Vector<T> x = hn::Add(s, hn::Set(d, coef0_));
    Vector<T> y = hn::Set(d, T{1});
    for (Index t = 0; t < degree; ++t) y = hn::Mul(y, x);
    return y;
  }
  HWY_INLINE Vector<T> series(Vector<T> s, Index degree) const {  // Horner: 1 + s(1 + s/2(1 + s/3(..)))
    const Tag<T> d;
    Vector<T> y = hn::Set(d, T{1});
    for (Index t = degree; t > 0; --t)
      y = hn::MulAdd(hn::Mul(s, hn::Set(d, T{1} / static_cast<T>(t))), y, hn::Set(d, T{1}));
    return y;
  }

  bool taylor_;
  Index degree_;
  T coef0_;
};

// Who is visible and who is dropped in a block of keys, 64 queries to a word.
struct BlockBits {
  std::uint64_t seen[block_keys];
  std::uint64_t kept[block_keys];
  bool masked = false;        // seen says something
  bool dropped = false;       // kept says something
  std::uint64_t queries = 0;  // bits of the queries of this block

  // Looks at queries [i0,i1) and keys [j0, j0 + n); false when nothing is visible.
  template <class T>
  bool look(const TiledHead<T>& head, Index i0, Index i1, Index j0, Index n) {
    queries = i1 - i0 == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << (i1 - i0)) - 1;
    const Cover cover = head.visibility->cover(i0, i1, j0, j0 + n);
    if (cover == Cover::none) return false;
    masked = cover == Cover::some;
    if (masked) {
      head.visibility->columns(i0, j0, n, seen);
      std::uint64_t any = 0, all = queries;
      for (Index c = 0; c < n; ++c) {
        any |= seen[c] &= queries;
        all &= seen[c];
      }
      if (any == 0) return false;
      masked = all != queries;
    }
    if (!masked) std::fill_n(seen, n, queries);
    dropped = head.dropout.threshold > 0;
    if (dropped) {
      const HeadDropout& drop = head.dropout;
      keep_bits(drop.seed, drop.offset, drop.head, drop.threshold, i0, i1 - i0, j0, n, kept);
    }
    return true;
  }
};

template <class T>
HWY_INLINE hn::Mask<Tag<T>> mask_of(std::uint64_t bits, int vector) {
  const std::uint64_t own = bits >> (vector * lanes<T>);
  std::uint8_t bytes[8];
  std::memcpy(bytes, &own, 8);
  return hn::LoadMaskBits(Tag<T>{}, bytes);
}

// Calls f(integral_constant<int, vectors>) with as few vectors as hold these queries: the last block is seldom whole.
template <class T, class F>
HWY_INLINE void with_vectors(Index queries, F&& f) {
  if (queries <= lanes<T>) return f(std::integral_constant<int, 1>{});
  if constexpr (tile_vectors > 2)
    if (queries <= 2 * lanes<T>) return f(std::integral_constant<int, 2>{});
  f(std::integral_constant<int, tile_vectors>{});
}

// s [ROWS, VECTORS] = start + column + k [ROWS,D] qt [D,..] for the keys at `k`.
template <int ROWS, int VECTORS, class T>
HWY_INLINE void score_rows(const T* k, Index stride, const T* qt, Index D, const T* start, const T* column,
                           Vector<T> (&s)[ROWS][VECTORS]) {
  const Tag<T> d;
  SADDLE_UNROLL(8)
  for (int i = 0; i < ROWS; ++i) {
    const Vector<T> c = column != nullptr ? hn::Set(d, column[i]) : hn::Zero(d);
    SADDLE_UNROLL(8)
    for (int v = 0; v < VECTORS; ++v) s[i][v] = hn::Add(c, hn::Load(d, start + v * lanes<T>));
  }
  multiply<ROWS, VECTORS, Along::k>(k, stride, qt, block_queries<T>, D, s);
}

// Calls f(integral_constant<int, rows>, first row) over n rows: whole tiles, then pairs, then single rows.
template <class F>
HWY_INLINE void for_row_tiles(Index n, F&& f) {
  Index i = 0;
  for (; i + tile_rows <= n; i += tile_rows) f(std::integral_constant<int, tile_rows>{}, i);
  for (; i + 2 <= n; i += 2) f(std::integral_constant<int, 2>{}, i);
  for (; i < n; ++i) f(std::integral_constant<int, 1>{}, i);
}

// c [n, VECTORS of block_queries] = start + column + rows [n, depth] b [depth, ..]; null start or column: 0.
template <int VECTORS, class T>
HWY_NOINLINE void product_block(Rows<const T> rows, Index n, const T* b, Index depth, const T* start, const T* column,
                                T* c) {
  const Tag<T> d;
  constexpr Index L = lanes<T>, Q = block_queries<T>;
  HWY_ALIGN static const T none[Q] = {};
  for_row_tiles(n, [&](auto count, Index i) HWY_ATTR {
    Vector<T> s[count][VECTORS];
    score_rows<count, VECTORS>(rows[i], rows.stride, b, depth, start != nullptr ? start : none,
                               column != nullptr ? column + i : nullptr, s);
    SADDLE_UNROLL(8)
    for (int r = 0; r < count; ++r) SADDLE_UNROLL(8)
    for (int v = 0; v < VECTORS; ++v) hn::Store(s[r][v], d, c + (i + r) * Q + v * L);
  });
}

// Whether n rows of v or k hold finite numbers only.
template <class T>
HWY_INLINE bool are_finite(Rows<const T> rows, Index n, Index width) {
  const Tag<T> d;
  const Index whole = width / lanes<T> * lanes<T>;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(width - whole));
  Vector<T> zeros = hn::Zero(d);
  for (Index c = 0; c < n; ++c) {
    for (Index e = 0; e < whole; e += lanes<T>) {
      const Vector<T> x = hn::LoadU(d, rows[c] + e);
      zeros = hn::Add(zeros, hn::Sub(x, x));
    }
    if (whole == width) continue;
    const Vector<T> x = hn::MaskedLoad(rest, d, rows[c] + whole);
    zeros = hn::Add(zeros, hn::Sub(x, x));
  }
  return hn::AllTrue(d, hn::Eq(zeros, hn::Zero(d)));
}

// Rows this far apart, in bytes, share few cache sets: a block of them read column by column would not stay.
inline constexpr Index far_apart = 1024;

// The rows of a key block as factors of weights that may be hidden: 0 times NaN must not reach queries that do not see
// the key. Rows that are not finite and hidden from some query are left out of a copy; their numbers go to `odd`. Rows
// far apart are copied too. finite: all rows are known to be.
template <class T>
HWY_INLINE Rows<const T> guarded_rows(Rows<const T> rows, Index n, Index width, bool finite, const BlockBits& bits,
                                      T* copy, Index* odd, Index& odd_count) {
  odd_count = 0;
  if (!finite && (bits.masked || bits.dropped) && !are_finite(rows, n, width))
    for (Index c = 0; c < n; ++c)
      if ((bits.seen[c] != bits.queries || bits.dropped) && !are_finite<T>({rows[c], 0}, 1, width))
        odd[odd_count++] = c;
  if (odd_count == 0 && (rows.stride == width || rows.stride * static_cast<Index>(sizeof(T)) < far_apart)) return rows;
  for (Index c = 0, at = 0; c < n; ++c) {
    if (at < odd_count && odd[at] == c) {
      std::fill_n(copy + c * width, width, T{0});
      ++at;
    } else {
      std::copy_n(rows[c], width, copy + c * width);
    }
  }
  return {copy, width};
}

// The part of sums [width, queries] that rows left out of the copy give to the queries that do see them.
template <class T>
HWY_INLINE void add_odd_rows(Rows<const T> rows, Index width, const T* weights, const Index* odd, Index odd_count,
                             Index queries, T* sums) {
  for (Index at = 0; at < odd_count; ++at)
    for (Index i = 0; i < queries; ++i) {
      const T weight = weights[odd[at] * block_queries<T> + i];
      if (weight == 0) continue;
      for (Index e = 0; e < width; ++e) sums[e * block_queries<T> + i] += weight * rows[odd[at]][e];
    }
}

// qt [D, block_queries]: the queries [i0, i0 + count), shifted, times factor; zero for the lanes past them. Whether
// there is a shift is asked once: asked for every number it becomes masked loads from a null pointer, which are slow.
template <class T>
HWY_INLINE void load_queries(const ScoreProblem<T>& p, Index i0, Index count, T factor, T* qt) {
  const Tag<T> d;
  const auto load = [&](auto&& vector, auto&& element) HWY_ATTR {
    transpose(p.q[i0], p.q.stride, count, p.D, qt, block_queries<T>, block_queries<T>, vector, element);
  };
  const T *shift = p.q_shift, *scale = p.q_factor;
  if (shift == nullptr) {
    load([&](Vector<T> x, Index) HWY_ATTR { return hn::Mul(x, hn::Set(d, factor)); },
         [&](T x, Index) HWY_ATTR { return x * factor; });
  } else {
    load(
        [&](Vector<T> x, Index c) HWY_ATTR {
          x = hn::Mul(hn::Sub(x, hn::LoadU(d, shift + c)), hn::LoadU(d, scale + c));
          return hn::Mul(x, hn::Set(d, factor));
        },
        [&](T x, Index c) HWY_ATTR { return (x - shift[c]) * scale[c] * factor; });
  }
}

}  // namespace saddle::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

// Forward pass of one block of queries: scores, weights and the expansion, key block by key block.
#if defined(SADDLE_KERNELS_TILED_FORWARD_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_TILED_FORWARD_INL_HPP_
#undef SADDLE_KERNELS_TILED_FORWARD_INL_HPP_
#else
#define SADDLE_KERNELS_TILED_FORWARD_INL_HPP_
#endif

#include "saddle/kernels/tiled/scores-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::HWY_NAMESPACE {

// Lanes of one query block.
template <class T>
struct QueryLanes {
  HWY_ALIGN T start[block_queries<T>];  // added to every score: r_i less the reference
  HWY_ALIGN T reference[block_queries<T>];
  HWY_ALIGN T top[block_queries<T>];   // largest score so far, less the reference
  HWY_ALIGN T sum[block_queries<T>];   // of g
  HWY_ALIGN T rest[block_queries<T>];  // what rounding has taken from the sum
  HWY_ALIGN T factor[block_queries<T>];
};

// The weights of one block of keys before normalisation, into p [keys, block_queries]; their sums are added to `sum`,
// the largest scores kept in `top`. Everything happens while the scores are in registers. DROPPED: weights that are not
// kept become 0, but count in the sums.
template <int VECTORS, bool DROPPED, class T, class G>
HWY_NOINLINE void weigh_visible(const ScoreProblem<T>& problem, const G& g, const T* qt, const T* start,
                                const T* column, const std::uint64_t* kept, Index j0, Index n, T* p, T* top, T* sum) {
  const Tag<T> d;
  constexpr Index L = lanes<T>, Q = block_queries<T>;
  Vector<T> highest[VECTORS], total[VECTORS];
  for (int v = 0; v < VECTORS; ++v) {
    highest[v] = hn::Load(d, top + v * L);
    total[v] = hn::Load(d, sum + v * L);
  }
  for_row_tiles(n, [&](auto rows, Index i) HWY_ATTR {
    constexpr int ROWS = decltype(rows)::value;
    Vector<T> s[ROWS][VECTORS];
    score_rows<ROWS, VECTORS>(problem.k[j0 + i], problem.k.stride, qt, problem.D, start,
                              column != nullptr ? column + i : nullptr, s);
    SADDLE_UNROLL(8)
    for (int r = 0; r < ROWS; ++r) SADDLE_UNROLL(8)
    for (int v = 0; v < VECTORS; ++v) {
      if constexpr (G::exponential) highest[v] = hn::Max(highest[v], s[r][v]);
      Vector<T> weight = g(s[r][v]);
      total[v] = hn::Add(total[v], weight);
      if constexpr (DROPPED) weight = hn::IfThenElseZero(mask_of<T>(kept[i + r], v), weight);
      hn::Store(weight, d, p + (i + r) * Q + v * L);
    }
  });
  for (int v = 0; v < VECTORS; ++v) {
    hn::Store(highest[v], d, top + v * L);
    hn::Store(total[v], d, sum + v * L);
  }
}

// The same where some pairs are hidden or dropped, from scores in p. Hidden weights are 0; dropped ones too, but they
// count in the sums.
template <int VECTORS, class T, class G>
HWY_NOINLINE void weigh_masked(const G& g, Index n, const BlockBits& bits, T* p, T* top, T* sum) {
  const Tag<T> d;
  constexpr Index L = lanes<T>, Q = block_queries<T>;
  for (int v = 0; v < VECTORS; ++v) {
    Vector<T> highest = hn::Load(d, top + v * L), total = hn::Load(d, sum + v * L);
    for (Index i = 0; i < n; ++i) {
      Vector<T> s = hn::Load(d, p + i * Q + v * L);
      const auto seen = mask_of<T>(bits.seen[i], v);
      if constexpr (G::exponential) {
        s = hn::IfThenElse(seen, s, hn::Set(d, -std::numeric_limits<T>::infinity()));
        highest = hn::Max(highest, s);
      }
      Vector<T> weight = hn::IfThenElseZero(seen, g(s));
      total = hn::Add(total, weight);
      if (bits.dropped) weight = hn::IfThenElseZero(mask_of<T>(bits.kept[i], v), weight);
      hn::Store(weight, d, p + i * Q + v * L);
    }
    hn::Store(highest, d, top + v * L);
    hn::Store(total, d, sum + v * L);
  }
}

// One block of queries on its way over the keys.
template <class T, class G>
class ForwardBlock {
  static constexpr Index L = lanes<T>, Q = block_queries<T>;
  static constexpr T infinity = std::numeric_limits<T>::infinity();
  static constexpr T unit = G::exponential ? static_cast<T>(score_unit<T>) : T{1};
  // A reference serves as long as the largest score stays within these of it: far from overflow on both sides.
  static constexpr T highest_above = 32, lowest_below = -64;

 public:
  static Index scratch(Index D, Index E) { return Q * (D + E + block_keys) + block_keys * std::max(D, E); }

  ForwardBlock(const TiledHead<T>& head, Index i0, T* scratch)
      : head_(head),
        p_(head.problem),
        g_(p_.kappa),
        i0_(i0),
        i1_(std::min(p_.N, i0 + Q)),
        qt_(scratch),
        ot_(qt_ + Q * p_.D),
        w_(ot_ + Q * p_.E),
        copy_(w_ + Q * block_keys) {
    load_queries(p_, i0_, i1_ - i0_, static_cast<T>(p_.a) * unit, qt_);
    std::fill_n(ot_, Q * p_.E, T{0});
    for (Index i = 0; i < Q; ++i) {
      x_.reference[i] = 0;
      x_.top[i] = -infinity;
      x_.sum[i] = 0;
      x_.rest[i] = 0;
      x_.start[i] = p_.row != nullptr && i0_ + i < i1_ ? p_.row[i0_ + i] * unit : T{0};
    }
  }

  void run(const TiledOutputs<T>& out) {
    const auto [first, last] = head_.visibility->key_range(i0_, i1_);
    for (Index j0 = first; j0 < last; j0 += block_keys) {
      const Index n = std::min(block_keys, last - j0);
      if (!bits_.look(head_, i0_, i1_, j0, n)) continue;
      for (Index c = 0; c < n; ++c) seen_ |= bits_.seen[c];
      weigh(j0, n);
      if (out.y) expand(j0, n);
    }
    finish(out);
    if (out.weights || out.column_sums != nullptr) write_weights(out, first, last);
  }

 private:
  const T* columns(Index j0, Index n) {
    if (p_.column == nullptr) return nullptr;
    for (Index c = 0; c < n; ++c) column_[c] = p_.column[j0 + c] * unit;
    return column_;
  }

  // Weights of a key block relative to the reference; where the scores leave its range, it moves and the block is done
  // again. Scores so large that their rounding alone leaves the range get the reference taken off at the end.
  void weigh(Index j0, Index n) {
    const T* column = columns(j0, n);
    for (int attempt = 0; attempt < 3; ++attempt) {
      HWY_ALIGN T top[Q], sum[Q] = {};
      std::fill_n(top, Q, -infinity);
      tile(column, j0, n, top, sum);
      if (!G::exponential || !moves_reference(top)) {
        add_sum(sum);
        for (Index i = 0; i < Q; ++i) x_.top[i] = std::max(x_.top[i], top[i]);
        return;
      }
    }
    weigh_coarse(column, j0, n);
  }

  // The same with the reference taken off whole scores: at the largest one nothing is left, whatever its rounding.
  void weigh_coarse(const T* column, Index j0, Index n) {
    HWY_ALIGN T row[Q] = {}, top[Q], sum[Q] = {};
    for (Index i = 0; i < i1_ - i0_ && p_.row != nullptr; ++i) row[i] = p_.row[i0_ + i] * unit;
    product_block<tile_vectors, T>({p_.k[j0], p_.k.stride}, n, qt_, p_.D, row, column, w_);
    for (Index i = 0; i < Q; ++i) {
      top[i] = -infinity;
      for (Index c = 0; c < n; ++c)
        if ((bits_.seen[c] >> i & 1) != 0) top[i] = std::max(top[i], w_[c * Q + i]);
      const bool moves = std::isfinite(top[i]) && (x_.sum[i] == 0 || top[i] > x_.reference[i]);
      if (moves) move_reference(i, top[i] - x_.reference[i]);
      x_.reference[i] = moves ? top[i] : x_.reference[i];
      x_.start[i] = row[i] - x_.reference[i];
      for (Index c = 0; c < n; ++c) w_[c * Q + i] -= x_.reference[i];
      top[i] = -infinity;
    }
    weigh_masked<tile_vectors>(g_, n, bits_, w_, top, sum);
    add_sum(sum);
    for (Index i = 0; i < Q; ++i) x_.top[i] = std::max(x_.top[i], top[i]);
  }

  // Compensated: sums over thousands of blocks keep all their digits.
  void add_sum(const T* sum) {
    const Tag<T> d;
    for (Index i = 0; i < Q; i += L) {
      const Vector<T> total = hn::Load(d, x_.sum + i);
      const Vector<T> more = hn::Sub(hn::Load(d, sum + i), hn::Load(d, x_.rest + i));
      const Vector<T> next = hn::Add(total, more);
      hn::Store(hn::Sub(hn::Sub(next, total), more), d, x_.rest + i);
      hn::Store(next, d, x_.sum + i);
    }
  }

  void tile(const T* column, Index j0, Index n, T* top, T* sum) {
    with_vectors<T>(i1_ - i0_, [&](auto vectors) HWY_ATTR {
      if (!bits_.masked) {
        const auto weigh_all = bits_.dropped ? weigh_visible<vectors, true, T, G> : weigh_visible<vectors, false, T, G>;
        weigh_all(p_, g_, qt_, x_.start, column, bits_.kept, j0, n, w_, top, sum);
      } else {
        product_block<vectors, T>({p_.k[j0], p_.k.stride}, n, qt_, p_.D, x_.start, column, w_);
        weigh_masked<vectors>(g_, n, bits_, w_, top, sum);
      }
    });
  }

  // top [Q]: the largest visible scores of the block less the reference.
  bool moves_reference(const T* top) {
    bool moves = false;
    for (Index i = 0; i < Q; ++i) {
      const T highest = std::max(x_.top[i], top[i]);
      moves |= highest > highest_above || (highest < lowest_below && highest > -infinity);
    }
    if (!moves) return false;
    for (Index i = 0; i < Q; ++i) {
      const T highest = std::max(x_.top[i], top[i]);
      if (highest > highest_above || (highest < lowest_below && highest > -infinity)) move_reference(i, highest);
    }
    return true;
  }

  // Sums so far are of exp(s - reference): they shrink by exp(-step).
  void move_reference(Index i, T step) {
    x_.reference[i] += step;
    x_.start[i] -= step;
    x_.top[i] -= step;
    if (x_.sum[i] == 0) return;
    const T factor = std::exp2(-step * static_cast<T>(1.4426950408889634) / unit);
    x_.sum[i] *= factor;
    x_.rest[i] *= factor;
    for (Index e = 0; e < p_.E; ++e) ot_[e * Q + i] *= factor;
  }

  void expand(Index j0, Index n) {
    Index odd[block_keys], odd_count = 0;
    const Rows<const T> v{p_.v[j0], p_.v.stride};
    const Rows<const T> rows = guarded_rows(v, n, p_.E, head_.finite, bits_, copy_, odd, odd_count);
    with_vectors<T>(i1_ - i0_, [&](auto vectors) HWY_ATTR {
      multiply_panel<Along::row, T, vectors>(rows.data, rows.stride, w_, n, ot_, p_.E);
    });
    add_odd_rows(v, p_.E, w_, odd, odd_count, i1_ - i0_, ot_);
  }

  // h and log h of every query, then y.
  void finish(const TiledOutputs<T>& out) {
    const Tag<T> d;
    HWY_ALIGN T log_h[Q], drop[Q];
    const primal::NormaliserRule& rule = head_.normaliser;
    const bool plain = G::exponential && rule.row_sum && rule.den_eps == 0;
    if (plain) {
      for (Index i = 0; i < Q; i += L) {
        const Vector<T> sum = hn::Load(d, x_.sum + i);
        const auto some = hn::Not(hn::Eq(sum, hn::Zero(d)));  // NaN is some
        hn::Store(hn::IfThenElseZero(some, hn::Div(hn::Set(d, T{1}), sum)), d, x_.factor + i);
        if (out.log_h == nullptr) continue;
        const Vector<T> log = hn::MulAdd(hn::Load(d, x_.reference + i), hn::Set(d, T{1} / unit), hn::Log(d, sum));
        hn::Store(hn::IfThenElse(hn::IsNaN(sum), sum, hn::IfThenElse(some, log, hn::Set(d, -infinity))), d, log_h + i);
      }
    } else {
      for (Index i = 0; i < i1_ - i0_; ++i) log_h[i] = finish_row(i);
    }
    if (out.log_h != nullptr) std::copy_n(log_h, i1_ - i0_, out.log_h);
    if (out.h != nullptr)
      for (Index i = 0; i < i1_ - i0_; ++i) {
        out.reference[i] = x_.reference[i];
        out.h[i] = x_.factor[i] == 0 ? T{0} : 1 / x_.factor[i];
      }
    for (Index i = 0; i < Q; ++i) drop[i] = x_.factor[i] * static_cast<T>(head_.dropout.factor);
    if (out.y) transpose_back(ot_, Q, drop, out.y.data, out.y.stride, i1_ - i0_, p_.E);
    std::fill(x_.factor + (i1_ - i0_), x_.factor + Q, T{0});
  }

  // The general normaliser, in double: factor = 1/h relative to the reference, 0 where nothing weighs anything. Returns
  // log h.
  T finish_row(Index i) {
    const primal::NormaliserRule& rule = head_.normaliser;
    const double reference = static_cast<double>(x_.reference[i]) / unit, sum = x_.sum[i];
    const bool seen = (seen_ >> i & 1) != 0;
    double h = rule.fixed, shift = 0;
    if (rule.row_sum && G::exponential) {
      shift = std::max(reference, std::log(rule.den_eps));
      h = sum * std::exp(reference - shift) + rule.den_eps * std::exp(-shift);
    } else if (rule.row_sum) {
      h = sum + rule.den_eps;
    }
    if (!seen || h == 0) h = 0;
    x_.factor[i] = h == 0 ? T{0} : static_cast<T>(std::exp(G::exponential ? reference - shift : 0) / h);
    if (h == 0) return -infinity;
    return h > 0 ? static_cast<T>(shift + std::log(h)) : std::numeric_limits<T>::quiet_NaN();
  }

  // Second pass over the keys, now that the normaliser is known. Dropout is left out.
  void write_weights(const TiledOutputs<T>& out, Index first, Index last) {
    const Tag<T> d;
    const Index queries = i1_ - i0_;
    for (Index j0 = first; j0 < last; j0 += block_keys) {
      const Index n = std::min(block_keys, last - j0);
      if (!bits_.look(head_, i0_, i1_, j0, n)) continue;
      bits_.dropped = false;
      HWY_ALIGN T top[Q] = {}, sum[Q] = {};
      tile(columns(j0, n), j0, n, top, sum);
      if (out.weights) transpose_back(w_, Q, x_.factor, out.weights.data + j0, out.weights.stride, queries, n);
      if (out.column_sums == nullptr) continue;
      for (Index c = 0; c < n; ++c) {
        Vector<T> total = hn::Zero(d);
        for (Index i = 0; i < Q; i += L) {
          const Vector<T> factor = hn::Load(d, x_.factor + i);
          const Vector<T> weight = hn::Mul(hn::Load(d, w_ + c * Q + i), factor);
          total = hn::Add(total, hn::IfThenZeroElse(hn::Eq(factor, hn::Zero(d)), weight));  // lanes without a query
        }
        out.column_sums[j0 + c] += hn::GetLane(hn::SumOfLanes(d, total));
      }
    }
  }

  const TiledHead<T>& head_;
  const ScoreProblem<T>& p_;
  G g_;
  Index i0_, i1_;
  T *qt_, *ot_, *w_, *copy_;
  std::uint64_t seen_ = 0;
  BlockBits bits_;
  QueryLanes<T> x_;
  T column_[block_keys];
};

template <class T>
void forward_block(const TiledHead<T>& head, const TiledOutputs<T>& outputs, Index i0, T* scratch) {
  if (head.problem.kappa.kind == Kappa::Kind::exp)
    ForwardBlock<T, ExpScore<T>>(head, i0, scratch).run(outputs);
  else
    ForwardBlock<T, PolynomialScore<T>>(head, i0, scratch).run(outputs);
}

}  // namespace saddle::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

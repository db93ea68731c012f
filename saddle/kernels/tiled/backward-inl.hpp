// Backward pass of one block of queries: the weights again from log h, then the gradients, key block by key block.
#if defined(SADDLE_KERNELS_TILED_BACKWARD_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_TILED_BACKWARD_INL_HPP_
#undef SADDLE_KERNELS_TILED_BACKWARD_INL_HPP_
#else
#define SADDLE_KERNELS_TILED_BACKWARD_INL_HPP_
#endif

#include "saddle/kernels/tiled/scores-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::HWY_NAMESPACE {

template <class T>
HWY_INLINE Index vectors_of(Index width) {
  return (width + lanes<T> - 1) / lanes<T>;
}

// What the lanes of a query block bring to the backward pass.
template <class T>
struct BackwardLanes {
  HWY_ALIGN T start[block_queries<T>];    // added to every score
  HWY_ALIGN T inverse[block_queries<T>];  // factor of g: 1/h, or 1 where start holds log h already
  HWY_ALIGN T delta[block_queries<T>];    // sum_j A_ij dA_ij of a row sum, else 0
  HWY_ALIGN T all[block_queries<T>];      // a weight from which on one key has all there is, as far as rounding tells
  bool sums = false;                      // the normaliser is the row sum of an exponential: no weight exceeds 1
};

// Scores may be coarse; NaN stays.
template <class T>
HWY_INLINE Vector<T> at_most_one(Vector<T> weight) {
  const Vector<T> one = hn::Set(Tag<T>(), T{1});
  return hn::IfThenElse(hn::Gt(weight, one), one, weight);
}

// A [keys, block_queries] and ds = A (dA - delta) for one block of visible keys, g = exp over row sums.
// SCALED: start holds a reference, and inverse 1/h; else start holds log h. DROPPED: A comes back as it is applied,
// times drop_factor where it stays, and dA likewise.
template <int VECTORS, bool SCALED, bool DROPPED, class T>
HWY_NOINLINE void differentiate_visible(const ScoreProblem<T>& problem, const T* qt, const T* gt,
                                        const BackwardLanes<T>& x, const T* column, const std::uint64_t* kept,
                                        T drop_factor, Rows<const T> k, Rows<const T> v, Index n, T* a, T* ds) {
  const Tag<T> d;
  const Vector<T> drop = hn::Set(d, drop_factor);
  constexpr Index L = lanes<T>, Q = block_queries<T>;
  for_row_tiles(n, [&](auto rows, Index i) HWY_ATTR {
    constexpr int ROWS = decltype(rows)::value;
    Vector<T> s[ROWS][VECTORS];
    score_rows<ROWS, VECTORS>(k[i], k.stride, qt, problem.D, x.start, column != nullptr ? column + i : nullptr, s);
    SADDLE_UNROLL(8)
    for (int r = 0; r < ROWS; ++r) SADDLE_UNROLL(8)
    for (int u = 0; u < VECTORS; ++u) {
      Vector<T> weight = exp_score(d, s[r][u]);
      if constexpr (SCALED) weight = at_most_one<T>(hn::Mul(weight, hn::Load(d, x.inverse + u * L)));
      hn::Store(weight, d, a + (i + r) * Q + u * L);
      s[r][u] = hn::Zero(d);
    }
    multiply<ROWS, VECTORS, Along::k>(v[i], v.stride, gt, Q, problem.E, s);
    SADDLE_UNROLL(8)
    for (int r = 0; r < ROWS; ++r) SADDLE_UNROLL(8)
    for (int u = 0; u < VECTORS; ++u) {
      const Index at = (i + r) * Q + u * L;
      const Vector<T> weight = hn::Load(d, a + at), delta = hn::Load(d, x.delta + u * L);
      Vector<T> own = s[r][u];
      if constexpr (DROPPED) {
        const auto stays = mask_of<T>(kept[i + r], u);
        own = hn::IfThenElseZero(stays, hn::Mul(own, drop));
        hn::Store(hn::IfThenElseZero(stays, hn::Mul(weight, drop)), d, a + at);
      }
      Vector<T> change = hn::Mul(weight, hn::Sub(own, delta));
      if constexpr (SCALED) change = hn::IfThenZeroElse(hn::Ge(weight, hn::Load(d, x.all + u * L)), change);
      hn::Store(change, d, ds + at);
    }
  });
}

// The general case, from scores in a and dA in ds: any g, hidden and dropped pairs. A comes back as it is applied.
template <int VECTORS, class T, class G>
HWY_NOINLINE void differentiate_masked(const G& g, const BackwardLanes<T>& x, Index n, const BlockBits& bits,
                                       T drop_factor, T* a, T* ds) {
  const Tag<T> d;
  constexpr Index L = lanes<T>, Q = block_queries<T>;
  const Vector<T> drop = hn::Set(d, drop_factor);
  for (int u = 0; u < VECTORS; ++u) {
    const Vector<T> inverse = hn::Load(d, x.inverse + u * L), delta = hn::Load(d, x.delta + u * L);
    const Vector<T> all = hn::Load(d, x.all + u * L);
    for (Index i = 0; i < n; ++i) {
      const Index at = i * Q + u * L;
      const auto seen = mask_of<T>(bits.seen[i], u);
      const Vector<T> s = hn::Load(d, a + at);
      Vector<T> weight = hn::IfThenElseZero(seen, hn::Mul(g(s), inverse));
      if (G::exponential && x.sums) weight = at_most_one<T>(weight);
      Vector<T> slope = weight;
      if constexpr (!G::exponential) slope = hn::IfThenElseZero(seen, hn::Mul(g.derivative(s), inverse));
      Vector<T> own = hn::IfThenElseZero(seen, hn::Load(d, ds + at));
      Vector<T> applied = weight;
      if (bits.dropped) {
        const auto kept = mask_of<T>(bits.kept[i], u);
        own = hn::IfThenElseZero(kept, hn::Mul(own, drop));
        applied = hn::IfThenElseZero(kept, hn::Mul(weight, drop));
      }
      Vector<T> change = hn::Mul(slope, hn::Sub(own, delta));
      // A key with all the weight: dA - delta is 0 up to rounding, which steep transforms would blow up.
      if constexpr (G::exponential) change = hn::IfThenZeroElse(hn::Ge(weight, all), change);
      hn::Store(applied, d, a + at);
      hn::Store(change, d, ds + at);
    }
  }
}

template <class T, class G>
class BackwardBlock {
  static constexpr Index L = lanes<T>, Q = block_queries<T>;
  static constexpr T infinity = std::numeric_limits<T>::infinity();
  static constexpr T unit = G::exponential ? static_cast<T>(score_unit<T>) : T{1};

 public:
  static Index scratch(Index D, Index E) {
    return Q * (2 * D + E + 2 * block_keys + (vectors_of<T>(D) + vectors_of<T>(E)) * L) + block_keys * D;
  }

  BackwardBlock(const TiledHead<T>& head, const TiledGradients<T>& gradients, Index i0, T* scratch)
      : head_(head),
        p_(head.problem),
        out_(gradients),
        g_(p_.kappa),
        i0_(i0),
        count_(std::min(p_.N, i0 + Q) - i0),
        d_vectors_(vectors_of<T>(p_.D)),
        e_vectors_(vectors_of<T>(p_.E)) {
    const auto take = [&](Index n) {
      T* piece = scratch;
      scratch += n;
      return piece;
    };
    qt_ = take(Q * p_.D);
    gt_ = take(Q * p_.E);
    dqt_ = take(Q * p_.D);
    a_ = take(Q * block_keys);
    ds_ = take(Q * block_keys);
    q_ = take(Q * d_vectors_ * L);
    g_rows_ = take(Q * e_vectors_ * L);
    k_copy_ = take(block_keys * p_.D);
    load();
  }

  void run(Index j0, Index j1) {
    const auto [first, last] = head_.visibility->key_range(i0_, i0_ + count_);
    general_ |= last - first == 1;  // all weight on one key, see x_.all
    for (Index j = std::max(j0, first); j < std::min(j1, last); j += block_keys)
      step(j, std::min(block_keys, std::min(j1, last) - j));
    HWY_ALIGN T factor[Q];
    std::fill_n(factor, Q, static_cast<T>(p_.a));
    if (out_.dq) transpose_back(dqt_, Q, factor, out_.dq[i0_], out_.dq.stride, count_, p_.D);
    if (out_.drow != nullptr)
      for (Index i = 0; i < count_; ++i) out_.drow[i0_ + i] = row_sum_[i];
  }

 private:
  // Queries and dy of the block in both orders; rows padded with zeros to whole vectors.
  void load() {
    load_queries(p_, i0_, count_, static_cast<T>(p_.a) * unit, qt_);
    const auto same = [](Vector<T> x, Index) HWY_ATTR { return x; };
    const auto same1 = [](T x, Index) HWY_ATTR { return x; };
    transpose(out_.dy[i0_], out_.dy.stride, count_, p_.E, gt_, Q, Q, same, same1);
    for (Index i = 0; i < count_; ++i) {
      const T *q = p_.q[i0_ + i], *dy = out_.dy[i0_ + i];
      T *to = q_ + i * d_vectors_ * L, *g = g_rows_ + i * e_vectors_ * L;
      const T a = static_cast<T>(p_.a);
      if (p_.q_shift != nullptr)
        for (Index c = 0; c < p_.D; ++c) to[c] = (q[c] - p_.q_shift[c]) * p_.q_factor[c] * a;
      else
        for (Index c = 0; c < p_.D; ++c) to[c] = q[c] * a;
      std::fill(to + p_.D, to + d_vectors_ * L, T{0});
      std::copy_n(dy, p_.E, g);
      std::fill(g + p_.E, g + e_vectors_ * L, T{0});
    }
    std::fill_n(dqt_, Q * p_.D, T{0});
    std::fill_n(row_sum_, Q, T{0});
    for (Index i = 0; i < Q; ++i) load_lane(i, i < count_);
    x_.sums = head_.normaliser.row_sum;
    for (Index i = 0; i < Q; ++i) x_.all[i] = all_weight(i);
  }

  // With h of the forward pass the roundings of scores cancel; with log h they do not, and grow with what is added.
  // NaN: the normaliser is fixed, a weight may have any size.
  T all_weight(Index i) const {
    if (!head_.normaliser.row_sum) return std::numeric_limits<T>::quiet_NaN();
    T largest = 2;
    if (out_.h == nullptr && std::isfinite(x_.start[i])) largest = std::max(largest, std::fabs(x_.start[i]));
    return std::max(T{1} / 2, 1 - 4 * largest * std::numeric_limits<T>::epsilon());
  }

  void load_lane(Index i, bool exists) {
    const primal::NormaliserRule& rule = head_.normaliser;
    const T row = p_.row != nullptr && exists ? p_.row[i0_ + i] * unit : T{0};
    x_.delta[i] = rule.row_sum && exists ? out_.delta[i0_ + i] : T{0};
    x_.start[i] = row;
    x_.inverse[i] = 0;
    if (!exists) return;
    if (!rule.row_sum) {
      x_.inverse[i] = static_cast<T>(1 / rule.fixed);
      general_ = true;
    } else if (out_.h != nullptr) {
      x_.start[i] = row - out_.reference[i0_ + i];
      x_.inverse[i] = out_.h[i0_ + i] == 0 ? T{0} : 1 / out_.h[i0_ + i];
      scaled_ = true;
    } else {
      x_.start[i] = out_.log_h[i0_ + i] == -infinity ? -infinity : row - out_.log_h[i0_ + i] * unit;
      x_.inverse[i] = 1;
    }
  }

  void step(Index j0, Index n) {
    if (!bits_.look(head_, i0_, i0_ + count_, j0, n)) return;
    HWY_ALIGN T column[block_keys];
    if (p_.column != nullptr)
      for (Index c = 0; c < n; ++c) column[c] = p_.column[j0 + c] * unit;
    const Rows<const T> k{p_.k[j0], p_.k.stride}, v{p_.v[j0], p_.v.stride};
    const T* columns = p_.column != nullptr ? column : nullptr;
    const T drop_factor = static_cast<T>(head_.dropout.factor);
    with_vectors<T>(count_, [&](auto vectors) HWY_ATTR {
      if (G::exponential && !bits_.masked && !general_) {
        const auto differentiate = scaled_ ? (bits_.dropped ? differentiate_visible<vectors, true, true, T>
                                                            : differentiate_visible<vectors, true, false, T>)
                                           : (bits_.dropped ? differentiate_visible<vectors, false, true, T>
                                                            : differentiate_visible<vectors, false, false, T>);
        differentiate(p_, qt_, gt_, x_, columns, bits_.kept, drop_factor, k, v, n, a_, ds_);
      } else {
        product_block<vectors, T>(k, n, qt_, p_.D, x_.start, columns, a_);
        product_block<vectors, T>(v, n, gt_, p_.E, nullptr, nullptr, ds_);
        differentiate_masked<vectors>(g_, x_, n, bits_, drop_factor, a_, ds_);
      }
    });
    if (out_.dv) add_products(a_, g_rows_, p_.E, {out_.dv[j0], out_.dv.stride}, n);
    if (out_.dk) add_products(ds_, q_, p_.D, {out_.dk[j0], out_.dk.stride}, n);
    if (out_.dq) {
      Index odd[block_keys], odd_count = 0;
      const Rows<const T> rows = guarded_rows(k, n, p_.D, head_.finite, bits_, k_copy_, odd, odd_count);
      with_vectors<T>(count_, [&](auto vectors) HWY_ATTR {
        multiply_panel<Along::row, T, vectors>(rows.data, rows.stride, ds_, n, dqt_, p_.D);
      });
      add_odd_rows(k, p_.D, ds_, odd, odd_count, count_, dqt_);
    }
    if (out_.drow != nullptr)
      for (Index c = 0; c < n; ++c)
        for (Index i = 0; i < count_; ++i) row_sum_[i] += ds_[c * Q + i];
    if (out_.dcolumn != nullptr)
      for (Index c = 0; c < n; ++c)
        for (Index i = 0; i < count_; ++i) out_.dcolumn[j0 + c] += ds_[c * Q + i];
  }

  // to [n, width] += weights [n, queries] rows [queries, width], rows padded to whole vectors.
  void add_products(const T* weights, const T* rows, Index width, Rows<T> to, Index n) const {
    const Index vectors = vectors_of<T>(width);
    if (width <= lanes_of<NarrowTag<T>>)
      multiply_rows<1, T, NarrowTag<T>>(weights, Q, rows, L, count_, to.data, to.stride, n);
    else
      multiply_wide(weights, Q, rows, vectors * L, count_, to.data, to.stride, n, vectors);
  }

  const TiledHead<T>& head_;
  const ScoreProblem<T>& p_;
  const TiledGradients<T>& out_;
  G g_;
  Index i0_, count_, d_vectors_, e_vectors_;
  T *qt_, *gt_, *dqt_, *a_, *ds_, *q_, *g_rows_, *k_copy_;
  bool general_ = false;  // for differentiate_masked, whatever is visible
  bool scaled_ = false;   // lanes need x_.inverse
  BlockBits bits_;
  BackwardLanes<T> x_;
  T row_sum_[Q];
};

template <class T>
void backward_block(const TiledHead<T>& head, const TiledGradients<T>& gradients, Index i0, Index j0, Index j1,
                    T* scratch) {
  if (head.problem.kappa.kind == Kappa::Kind::exp)
    BackwardBlock<T, ExpScore<T>>(head, gradients, i0, scratch).run(j0, j1);
  else
    BackwardBlock<T, PolynomialScore<T>>(head, gradients, i0, scratch).run(j0, j1);
}

}  // namespace saddle::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

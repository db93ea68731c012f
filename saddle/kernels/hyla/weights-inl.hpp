// Weights of a few queries for tiles of keys: scores, what each query sees, norm, dropout, and the way back.
#if defined(SADDLE_KERNELS_HYLA_WEIGHTS_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_HYLA_WEIGHTS_INL_HPP_
#undef SADDLE_KERNELS_HYLA_WEIGHTS_INL_HPP_
#else
#define SADDLE_KERNELS_HYLA_WEIGHTS_INL_HPP_
#endif

#include "saddle/base/random.hpp"
#include "saddle/kernels/hyla/network-inl.hpp"
#include "saddle/kernels/simd/exp-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::hyla::HWY_NAMESPACE {

template <class T>
class Weights {
 public:
  Weights(const Problem<T>& problem, const Rows<T>& rows, Scratch<T>& scratch)
      : p_(problem), rows_(rows), s_(scratch), row_(problem.H * W) {
    const Index seen = p_.causal ? std::min(p_.keys, rows.position[rows.count - 1] + 1) : p_.keys;
    vectors_ = (seen + lanes<T> - 1) / lanes<T>;
  }

  Index tiles() const { return (vectors_ + hyla::tile_vectors - 1) / hyla::tile_vectors; }
  // Vectors of a tile that some query sees.
  Index vectors(Index tile) const { return std::min(hyla::tile_vectors, vectors_ - tile * hyla::tile_vectors); }

  // Makes the weights of one tile.
  void prepare(Index tile) {
    scores(tile);
    look(tile);
    hide(tile, T{0});
    if (p_.norm == Norm::rms_head) divide_by_heads(tile);
  }

  // The same of all tiles, under a softmax.
  void prepare_rows() {
    for (Index tile = 0; tile < tiles(); ++tile) {
      scores(tile);
      look(tile);
      hide(tile, unseen);
    }
    for (Index r = 0; r < rows_.count; ++r)
      for (Index h = 0; h < p_.H; ++h) divide_by_keys(r, h);
  }

  // [rows][H][W]
  const T* after_dropout(Index tile) {
    if (!(p_.dropout.p > 0)) return weights(tile);
    const Tag<T> d;
    for (Index r = 0; r < rows_.count; ++r) {
      draw(rows_.position[r], tile, kept(tile) + r * W);
      for (Index h = 0; h < p_.H; ++h)
        each(tile, [&](Index n) HWY_ATTR {
          const Index at = r * row_ + h * W + n;
          hn::StoreU(hn::Mul(hn::LoadU(d, weights(tile) + at), hn::LoadU(d, kept(tile) + r * W + n)), d,
                     s_.dropped.data() + at);
        });
    }
    return s_.dropped.data();
  }

  // Of the weights after dropout, [rows][H][W], to be filled.
  T* gradients(Index tile) { return s_.gradients.data() + place(tile) * s_.rows * row_; }

  // Softmax: adds what the tile has of sum_j a_hij da_hij.
  void add_inner(Index tile) {
    const Tag<T> d;
    for (Index r = 0; r < rows_.count; ++r)
      for (Index h = 0; h < p_.H; ++h) {
        Vec<T> sum = hn::Zero(d);
        each(tile, [&](Index n) HWY_ATTR {
          sum = hn::MulAdd(hn::LoadU(d, weights(tile) + r * row_ + h * W + n), gradient(tile, r, h, n), sum);
        });
        s_.inner.data()[r * p_.H + h] += hn::GetLane(hn::SumOfLanes(d, sum));
      }
  }

  // Of the scores, in the place of those of the weights. What a query does not see has none.
  T* score_gradients(Index tile) {
    const Tag<T> d;
    for (Index r = 0; r < rows_.count; ++r)
      each(tile, [&](Index n) HWY_ATTR {
        const auto weight = [&](Index h) HWY_ATTR { return hn::LoadU(d, weights(tile) + r * row_ + h * W + n); };
        const auto set = [&](Index h, Vec<T> x) HWY_ATTR { hn::StoreU(x, d, gradients(tile) + r * row_ + h * W + n); };
        if (p_.norm == Norm::softmax) {
          for (Index h = 0; h < p_.H; ++h) {
            const Vec<T> inner = hn::Set(d, s_.inner.data()[r * p_.H + h]);
            set(h, hn::Mul(weight(h), hn::Sub(gradient(tile, r, h, n), inner)));
          }
          return;
        }
        // a_h = s_h f with f = (mean_h s_h^2 + eps)^(-1/2): ds_h = f (da_h - a_h mean_h a_h da_h)
        Vec<T> mean = hn::Zero(d), factor = hn::Set(d, T{1});
        if (p_.norm == Norm::rms_head) {
          for (Index h = 0; h < p_.H; ++h) mean = hn::MulAdd(weight(h), gradient(tile, r, h, n), mean);
          mean = hn::Mul(mean, hn::Set(d, T{1} / static_cast<T>(p_.H)));
          factor = hn::LoadU(d, s_.inverse.data() + r * W + n);
        }
        factor = hn::Mul(factor, hn::LoadU(d, s_.seen.data() + r * W + n));
        for (Index h = 0; h < p_.H; ++h)
          set(h, hn::Mul(factor, hn::NegMulAdd(weight(h), mean, gradient(tile, r, h, n))));
      });
    return gradients(tile);
  }

 private:
  static constexpr Index W = width<T>;
  static constexpr T unseen = std::numeric_limits<T>::lowest();

  Index place(Index tile) const { return p_.norm == Norm::softmax ? tile : 0; }
  T* weights(Index tile) { return s_.weights.data() + place(tile) * s_.rows * row_; }
  T* kept(Index tile) { return s_.keep.data() + place(tile) * s_.rows * W; }

  template <class F>
  HWY_INLINE void each(Index tile, F&& f) const {
    for (Index v = 0; v < vectors(tile); ++v) f(v * lanes<T>);
  }

  // Of a weight before dropout.
  HWY_INLINE Vec<T> gradient(Index tile, Index r, Index h, Index n) {
    const Tag<T> d;
    const Vec<T> x = hn::LoadU(d, gradients(tile) + r * row_ + h * W + n);
    return p_.dropout.p > 0 ? hn::Mul(x, hn::LoadU(d, kept(tile) + r * W + n)) : x;
  }

  void scores(Index tile) {
    T* const to = weights(tile);
    for (Index r = 0; r < rows_.count; ++r)
      for (Index h = 0; h < p_.H; ++h) {
        T* const row = to + r * row_ + h * W;
        if (p_.bias)
          std::copy_n(p_.bias + h * p_.bias_stride + p_.N - 1 - rows_.position[r] + tile * W, W, row);
        else
          std::fill_n(row, W, T{0});
      }
    for (Index h = 0; h < p_.H; ++h)
      simd::multiply_wide(rows_.q + h * p_.D, p_.H * p_.D, p_.k + (tile * p_.H + h) * p_.D * W, W, p_.D, to + h * W,
                          row_, rows_.count, vectors(tile));
  }

  // seen [rows][W] = 1 or 0
  void look(Index tile) {
    const Tag<T> d;
    for (Index r = 0; r < rows_.count; ++r)
      each(tile, [&](Index n) HWY_ATTR {
        Vec<T> x = hn::LoadU(d, p_.exists + tile * W + n);
        if (p_.causal) {
          const Vec<T> behind = hn::Iota(d, static_cast<T>(tile * W + n - rows_.position[r]));
          x = hn::IfThenElseZero(hn::Le(behind, hn::Zero(d)), x);
        }
        hn::StoreU(x, d, s_.seen.data() + r * W + n);
      });
  }

  // Scores of what is not seen = `other`.
  void hide(Index tile, T other) {
    const Tag<T> d;
    for (Index r = 0; r < rows_.count; ++r)
      each(tile, [&](Index n) HWY_ATTR {
        const auto seen = hn::Gt(hn::LoadU(d, s_.seen.data() + r * W + n), hn::Zero(d));
        for (Index h = 0; h < p_.H; ++h) {
          T* const at = weights(tile) + r * row_ + h * W + n;
          hn::StoreU(hn::IfThenElse(seen, hn::LoadU(d, at), hn::Set(d, other)), d, at);
        }
      });
  }

  void divide_by_heads(Index tile) {
    const Tag<T> d;
    const Vec<T> share = hn::Set(d, T{1} / static_cast<T>(p_.H)), eps = hn::Set(d, p_.eps), one = hn::Set(d, T{1});
    for (Index r = 0; r < rows_.count; ++r)
      each(tile, [&](Index n) HWY_ATTR {
        T* const column = weights(tile) + r * row_ + n;
        Vec<T> squares = hn::Zero(d);
        for (Index h = 0; h < p_.H; ++h) {
          const Vec<T> s = hn::LoadU(d, column + h * W);
          squares = hn::MulAdd(s, s, squares);
        }
        const Vec<T> factor = hn::Div(one, hn::Sqrt(hn::MulAdd(squares, share, eps)));
        hn::StoreU(factor, d, s_.inverse.data() + r * W + n);
        for (Index h = 0; h < p_.H; ++h) hn::StoreU(hn::Mul(factor, hn::LoadU(d, column + h * W)), d, column + h * W);
      });
  }

  // The softmax of one row.
  void divide_by_keys(Index r, Index h) {
    const Tag<T> d;
    const auto each_vector = [&](auto&& f) HWY_ATTR {
      for (Index tile = 0; tile < tiles(); ++tile)
        each(tile, [&](Index n) HWY_ATTR { f(weights(tile) + r * row_ + h * W + n); });
    };
    Vec<T> most = hn::Set(d, unseen), total = hn::Zero(d);
    each_vector([&](T* at) HWY_ATTR { most = hn::Max(most, hn::LoadU(d, at)); });
    const Vec<T> top = hn::MaxOfLanes(d, most), least = hn::Set(d, T{-800}), hidden = hn::Set(d, unseen);
    each_vector([&](T* at) HWY_ATTR {
      const Vec<T> s = hn::LoadU(d, at);
      const Vec<T> e = simd::exp_fast(d, hn::Max(hn::Sub(s, top), least));  // which takes no -inf
      const Vec<T> x = hn::IfThenElseZero(hn::Gt(s, hidden), e);
      total = hn::Add(total, x);
      hn::StoreU(x, d, at);
    });
    const Vec<T> factor = hn::Div(hn::Set(d, T{1}), hn::SumOfLanes(d, total));
    each_vector([&](T* at) HWY_ATTR { hn::StoreU(hn::Mul(factor, hn::LoadU(d, at)), d, at); });
  }

  // keep [W] = 0 where the pair of query i and a key of the tile is dropped, else one over the share that is not.
  void draw(Index i, Index tile, T* keep) const {
    constexpr double steps = 65536;
    const auto dropped = static_cast<std::uint32_t>(p_.dropout.p * steps + 0.5);
    const T factor = static_cast<T>(steps / (steps - dropped));
    const std::uint64_t seed = p_.dropout.seed;
    std::array<std::uint32_t, 4> bits{};  // for eight keys
    for (Index n = 0; n < W; ++n) {
      const Index j = tile * W + n;
      if (n == 0 || j % 8 == 0)
        bits = philox({static_cast<std::uint32_t>(j / 8), static_cast<std::uint32_t>(i), 0, 0},
                      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
      keep[n] = (bits[static_cast<std::size_t>(j % 8 / 2)] >> (16 * (j % 2)) & 0xffff) < dropped ? T{0} : factor;
    }
  }

  const Problem<T>& p_;
  const Rows<T>& rows_;
  Scratch<T>& s_;
  Index row_;  // numbers of a query in a tile
  Index vectors_ = 0;
};

// sums [H][bias_stride] += gradients of the scores [rows][H][W] of a tile.
template <class T>
void add_bias(const Problem<T>& p, const Rows<T>& rows, const T* ds, Index tile, Index vectors, T* sums) {
  const Tag<T> d;
  const Index W = width<T>;
  for (Index r = 0; r < rows.count; ++r)
    for (Index h = 0; h < p.H; ++h) {
      T* const to = sums + h * p.bias_stride + p.N - 1 - rows.position[r] + tile * W;
      for (Index n = 0; n < vectors * lanes<T>; n += lanes<T>)
        hn::StoreU(hn::Add(hn::LoadU(d, to + n), hn::LoadU(d, ds + (r * p.H + h) * W + n)), d, to + n);
    }
}

}  // namespace saddle::kernels::hyla::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

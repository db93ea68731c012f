// The reduction R_s: head s is fitted on average-pooled keys and values (Attention-SH).
#pragma once

#include <span>

#include "saddle/base/export.hpp"
#include "saddle/primal/part.hpp"
#include "saddle/primal/transform.hpp"

namespace saddle::primal {

enum class PoolShape { one_d, two_d };
template <>
inline constexpr std::array<std::string_view, 2> enum_words<PoolShape>{"1d", "2d"};

// What happens to the tokens that do not fill a last window.
enum class Tail { partial, drop };
template <>
inline constexpr std::array<std::string_view, 2> enum_words<Tail>{"partial", "drop"};

// When a query sees a pooled key: any or all of its kept tokens are visible. automatic: all if causal, else any.
enum class Visibility { automatic, any, all };
template <>
inline constexpr std::array<std::string_view, 3> enum_words<Visibility>{"auto", "any", "all"};

struct Pooling {
  std::vector<Index> factors;  // one per head; empty: 2^floor(s/2), or 1,2 for two heads
  PoolShape pool = PoolShape::one_d;
  Grid grid;         // 2d: the tokens after the prefix, default the most square grid
  Index prefix = 0;  // 2d: leading tokens that are not pooled
  Tail tail = Tail::partial;
  Visibility visibility = Visibility::automatic;
  Leak leak = Leak::forbid;

  static constexpr std::string_view name = "sh";
  static constexpr std::string_view help = "average-pool keys and values, one factor per head (Attention-SH)";
  static void options(auto& self, auto&& visit) {
    visit({"factors", Written::positional, "one factor per head, default 2^floor(s/2)"}, self.factors);
    visit({"pool", Written::named, "1d, or 2d over a grid of tokens"}, self.pool);
    visit({"grid", Written::named, "rows x columns of the tokens, default the most square grid"}, self.grid);
    visit({"prefix", Written::named, "2d: leading tokens left unpooled"}, self.prefix);
    visit({"tail", Written::named, "partial: a last short window averages what it has; drop: it is left out"},
          self.tail);
    visit({"visibility", Written::named, "a pooled key is seen if any or all of its tokens are; auto"},
          self.visibility);
    visit({"leak", Written::named, "allow: visibility=any under a causal key set"}, self.leak);
  }
  bool operator==(const Pooling&) const = default;
};
static_assert(Part<Pooling>);

// The factors in force for H heads.
SADDLE_API std::vector<Index> pooling_factors(const Pooling& pooling, Index H);

// The factor in force for one of H heads.
SADDLE_API Index pooling_factor(const Pooling& pooling, Index H, Index head);

// Windows of tokens, one per pooled key, in order.
using Windows = std::vector<std::vector<Index>>;
SADDLE_API Windows pooling_windows(const Pooling& pooling, Index factor, Index M);
// How many pooled keys that gives, without building them.
SADDLE_API Index pooled_count(const Pooling& pooling, Index factor, Index M);

// x [M,C] -> [windows,C]: the mean over the kept tokens of each window, 0 for a window without any.
SADDLE_API Matrix pool(const Windows& windows, const Matrix& x, std::span<const std::uint8_t> keep);
// dy [windows,C] -> dx [M,C]
SADDLE_API Matrix pool_pullback(const Windows& windows, const Matrix& dy, std::span<const std::uint8_t> keep, Index M);

}  // namespace saddle::primal

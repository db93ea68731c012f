#include "saddle/primal/visible_pairs.hpp"

#include <algorithm>
#include <cmath>

namespace saddle::primal {

namespace {

constexpr Index most_rows = 256;              // counted one by one, each in constant time
constexpr Index most_pairs = Index{1} << 12;  // asked for one by one where no formula is known

double as_double(Index n) { return static_cast<double>(n); }

// Keys begin <= j < end.
struct Interval {
  Index begin = 0, end = 0;
  Index size() const { return std::max<Index>(0, end - begin); }
};
Interval operator&(Interval a, Interval b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

// Query i sees i - back <= j <= i + ahead by the parts that are bands.
struct Band {
  Index back, ahead;
  Interval row(Index i, Index M) const { return Interval{i - back, i + ahead + 1} & Interval{0, M}; }
};

bool is_irregular(const KeySet& part) {
  return std::holds_alternative<Strided>(part) || std::holds_alternative<Fixed>(part) ||
         std::holds_alternative<GlobalWindow>(part);
}

Band band_of(const std::vector<KeySet>& keys, const Dims& dims) {
  Band band{dims.N, dims.M};
  for (const KeySet& part : keys) {
    if (std::visit([](const auto& p) { return p.causal; }, part)) band.ahead = 0;
    if (const auto* window = std::get_if<Window>(&part))
      band = {std::min(band.back, window->radius), std::min(band.ahead, window->radius)};
    if (const auto* local = std::get_if<Local>(&part)) band.back = std::min(band.back, local->ctx - 1);
  }
  return band;
}

// Pairs with j - i <= reach: the sum of clamp(i + reach + 1, 0, M).
double pairs_up_to(Index reach, Index N, Index M) {
  const auto sum_to = [&](Index last) {
    const double x = as_double(std::max<Index>(0, last)), m = as_double(M), ramp = std::min(x, m);
    return ramp * (ramp + 1) / 2 + (x - ramp) * m;
  };
  const Index within = std::clamp(reach, -N, M);
  return sum_to(N + within) - sum_to(within);
}

double pairs_of(Band band, Index N, Index M) {
  return pairs_up_to(band.ahead, N, M) - pairs_up_to(-band.back - 1, N, M);
}

// Behind the global tokens, where both indices count from the first other one, the window narrows the band.
double pairs_of(Band band, const GlobalWindow& part, const Dims& dims) {
  const Index N = std::max<Index>(0, dims.N - part.n_global), M = std::max<Index>(0, dims.M - part.n_global);
  const Band narrow{std::min(band.back, part.radius), std::min(band.ahead, part.radius)};
  return pairs_of(band, dims.N, dims.M) - pairs_of(band, N, M) + pairs_of(narrow, N, M);
}

// Keys of [begin, end), at most i for the causal ones, that query i sees by one part.
Index seen(const Strided& part, Index, Index i, Interval keys) {
  if (keys.size() == 0) return 0;
  return (i - keys.begin) / part.ctx - (keys.end > i ? -1 : (i - keys.end) / part.ctx);
}

Index seen(const Fixed& part, Index head, Index i, Interval keys) {
  const Index own = i / part.ctx * part.ctx, group = part.vertsize * part.blocksize;
  const Index first = part.ctx - (head % part.num_verts + 1) * group;
  const auto summaries_below = [&](Index j) {
    return j / part.ctx * group + std::clamp<Index>(j % part.ctx - first, 0, group);
  };
  const Interval earlier = keys & Interval{0, own};
  const Index summaries = earlier.size() == 0 ? 0 : summaries_below(earlier.end) - summaries_below(earlier.begin);
  return summaries + (keys & Interval{own, i + 1}).size();
}

Index seen(const KeySetPart auto&, Index, Index, Interval keys) { return keys.size(); }

// Windows of `factor` tokens, K of them, of which any or all tokens lie in the interval.
Index windows_in(Interval tokens, Visibility rule, Index factor, Index K, Index M) {
  if (tokens.size() == 0) return 0;
  if (rule == Visibility::any)
    return Interval{tokens.begin / factor, std::min(K, (tokens.end - 1) / factor + 1)}.size();
  return Interval{(tokens.begin + factor - 1) / factor, tokens.end == M ? K : std::min(K, tokens.end / factor)}.size();
}

// Sums row(i) over all queries, or over rows spread evenly; each at another place of its share, so that no period of
// the pattern is met.
template <class Row>
double sum_rows(Index N, Row&& row) {
  const Index rows = std::min(N, most_rows);
  constexpr double golden = 0.6180339887498949;
  double sum = 0;
  for (Index r = 0; r < rows; ++r) {
    const double place = as_double(r + 1) * golden;
    const double i =
        rows == N ? as_double(r) : (as_double(r) + place - std::floor(place)) * as_double(N) / as_double(rows);
    sum += as_double(row(std::min(N - 1, static_cast<Index>(i))));
  }
  return sum * as_double(N) / as_double(rows);
}

double count_one_by_one(const Attention& attention, const Dims& dims, Index head) {
  Index count = 0;
  if (!attention.pooling) {
    for (Index i = 0; i < dims.N; ++i)
      for (Index j = 0; j < dims.M; ++j) count += sees(attention.keys, head, i, j);
    return as_double(count);
  }
  const Visibility rule = visibility_of(attention, *attention.pooling);
  for (const auto& window : pooling_windows(*attention.pooling, factor_of(attention, dims, head), dims.M))
    for (Index i = 0; i < dims.N; ++i) {
      const auto sees_token = [&](Index t) { return sees(attention.keys, head, i, t); };
      count += rule == Visibility::any ? std::any_of(window.begin(), window.end(), sees_token)
                                       : std::all_of(window.begin(), window.end(), sees_token);
    }
  return as_double(count);
}

}  // namespace

double visible_pairs(const Attention& attention, const Dims& dims, Index head) {
  const auto& keys = attention.keys;
  const Index K = keys_of(attention, dims, head), M = dims.M;
  if (keys.empty() || dims.N == 0 || M == 0) return as_double(dims.N) * as_double(K);
  const Band band = band_of(keys, dims);
  const auto irregular = std::count_if(keys.begin(), keys.end(), is_irregular);
  if (irregular == 0 && !attention.pooling) return pairs_of(band, dims.N, M);
  if (irregular == 0 && attention.pooling->pool == PoolShape::one_d) {
    const Visibility rule = visibility_of(attention, *attention.pooling);
    const Index factor = factor_of(attention, dims, head);
    return sum_rows(dims.N, [&](Index i) { return windows_in(band.row(i, M), rule, factor, K, M); });
  }
  if (irregular == 1 && !attention.pooling) {
    const KeySet& part = *std::find_if(keys.begin(), keys.end(), is_irregular);
    if (const auto* global = std::get_if<GlobalWindow>(&part)) return pairs_of(band, *global, dims);
    return sum_rows(dims.N, [&](Index i) {
      return std::visit([&](const auto& p) { return seen(p, head, i, band.row(i, M)); }, part);
    });
  }
  if (dims.N <= most_pairs / M) return count_one_by_one(attention, dims, head);
  // Several patterns at once show no more than the sparsest; pooled keys are shown as often as tokens.
  double fewest = as_double(dims.N) * as_double(M);
  for (const KeySet& part : keys) {
    Attention alone;
    alone.keys = {part};
    fewest = std::min(fewest, visible_pairs(alone, dims, head));
  }
  return fewest * as_double(K) / as_double(M);
}

}  // namespace saddle::primal

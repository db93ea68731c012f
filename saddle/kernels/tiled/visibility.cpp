#include "saddle/kernels/tiled/visibility.hpp"

#include <algorithm>

namespace saddle::kernels {

namespace {

using primal::Causal;
using primal::Fixed;
using primal::GlobalWindow;
using primal::KeySet;
using primal::Local;
using primal::Strided;
using primal::Window;

constexpr Index far = Index{1} << 40;
constexpr std::uint64_t all_bits = ~std::uint64_t{0};

// Bits of the queries in [begin, end), for 64 queries from i0.
std::uint64_t between(Index i0, Index begin, Index end) {
  const Index lo = std::clamp<Index>(begin - i0, 0, 64), hi = std::clamp<Index>(end - i0, 0, 64);
  if (lo >= hi) return 0;
  return (all_bits >> (64 - (hi - lo))) << lo;
}

// The queries that see key j: all parts but `strided` give one or two runs of them.
std::uint64_t seen_by(const Causal&, Index, Index i0, Index j) { return between(i0, j, far); }
std::uint64_t seen_by(const Window& p, Index, Index i0, Index j) { return between(i0, j - p.radius, j + p.radius + 1); }
std::uint64_t seen_by(const Local& p, Index, Index i0, Index j) { return between(i0, j, j + p.ctx); }
std::uint64_t seen_by(const Strided& p, Index, Index i0, Index j) {
  std::uint64_t bits = 0;
  const Index first = i0 <= j ? j : j + (i0 - j + p.ctx - 1) / p.ctx * p.ctx;
  for (Index i = first; i < i0 + 64; i += p.ctx) bits |= std::uint64_t{1} << (i - i0);
  return bits;
}
std::uint64_t seen_by(const Fixed& p, Index head, Index i0, Index j) {
  const Index stride = p.ctx / p.blocksize, J = j / p.blocksize;
  if ((stride - 1 - J % stride) / p.vertsize == head % p.num_verts) return between(i0, j, far);
  return between(i0, j, (J / stride + 1) * stride * p.blocksize);
}
std::uint64_t seen_by(const GlobalWindow& p, Index, Index i0, Index j) {
  if (j < p.n_global) return all_bits;
  return between(i0, j - p.radius, j + p.radius + 1) | between(i0, 0, p.n_global);
}
std::uint64_t seen_by(const primal::Padding&, Index, Index, Index) { return all_bits; }
std::uint64_t seen_by(const primal::Explicit&, Index, Index, Index) { return all_bits; }

// Keys that some query of [i0,i1) may see.
using Range = std::pair<Index, Index>;
Range reach(const Causal&, Index, Index i1) { return {0, i1}; }
Range reach(const Window& p, Index i0, Index i1) { return {i0 - p.radius, i1 + p.radius}; }
Range reach(const Local& p, Index i0, Index i1) { return {i0 - p.ctx + 1, i1}; }
Range reach(const Strided&, Index, Index i1) { return {0, i1}; }
Range reach(const Fixed&, Index, Index i1) { return {0, i1}; }
Range reach(const GlobalWindow& p, Index i0, Index i1) {
  if (i0 < p.n_global) return {0, far};
  return {p.n_global > 0 ? 0 : i0 - p.radius, i1 + p.radius};
}
Range reach(const primal::Padding&, Index, Index) { return {0, far}; }
Range reach(const primal::Explicit&, Index, Index) { return {0, far}; }

// Queries [i0,i1) by keys [j0,j1).
struct Tile {
  Index i0, i1, j0, j1;
};

Cover near(const Tile& t, Index back, Index ahead) {  // visible: i - back <= j <= i + ahead
  if (t.j1 - 1 < t.i0 - back || t.j0 > t.i1 - 1 + ahead) return Cover::none;
  return t.j0 >= t.i1 - 1 - back && t.j1 - 1 <= t.i0 + ahead ? Cover::all : Cover::some;
}

Cover cover_of(const Causal&, const Tile& t) { return near(t, far, 0); }
Cover cover_of(const Window& p, const Tile& t) { return near(t, p.radius, p.radius); }
Cover cover_of(const Local& p, const Tile& t) { return near(t, p.ctx - 1, 0); }
Cover cover_of(const Strided&, const Tile& t) { return t.j0 >= t.i1 ? Cover::none : Cover::some; }
Cover cover_of(const Fixed&, const Tile& t) { return t.j0 >= t.i1 ? Cover::none : Cover::some; }
Cover cover_of(const GlobalWindow& p, const Tile& t) {
  if (t.j1 <= p.n_global || t.i1 <= p.n_global) return Cover::all;
  const Cover window = near(t, p.radius, p.radius);
  return window == Cover::none && (t.j0 < p.n_global || t.i0 < p.n_global) ? Cover::some : window;
}
Cover cover_of(const primal::Padding&, const Tile&) { return Cover::all; }
Cover cover_of(const primal::Explicit&, const Tile&) { return Cover::all; }

bool is_set(const TensorView& tensor, Index offset) {
  const DType type = tensor.dtype;
  if (type == DType::u8 || type == DType::boolean) return static_cast<const std::uint8_t*>(tensor.data)[offset] != 0;
  return load(tensor, offset) != 0;
}

}  // namespace

Visibility::Visibility(const primal::Call& call, Index b, Index h, Index K, const std::vector<std::uint8_t>& keep,
                       const primal::Windows& windows)
    : call_(call), sample_(b), head_(h), N_(call.dims().N), K_(K), windows_(windows) {
  if (call.attention.pooling) any_ = visibility_of(call.attention, *call.attention.pooling) == primal::Visibility::any;
  if (std::find(keep.begin(), keep.end(), 0) != keep.end()) {
    kept_before_.assign(K + 1, 0);
    for (Index j = 0; j < K; ++j) kept_before_[j + 1] = kept_before_[j] + (keep[j] != 0);
  }
  if (call.attention.pooling && call.key_mask)
    for (Index t = 0; t < call.dims().M; ++t)
      keep_token_.push_back(is_set(call.key_mask, b * call.key_mask.stride[0] + t * call.key_mask.stride[1]));
  everything_ = kept_before_.empty() && call.attention.keys.empty() && !call.mask;
}

std::pair<Index, Index> Visibility::key_range(Index i0, Index i1) const {
  Index lo = 0, hi = K_;
  if (!call_.attention.keys.empty()) {
    Index first = 0, last = far;
    for (const KeySet& part : call_.attention.keys) {
      const Range range = std::visit([&](const auto& p) { return reach(p, i0, i1); }, part);
      first = std::max(first, range.first);
      last = std::min(last, range.second);
    }
    if (windows_.empty()) {
      lo = std::min(first, K_);
      hi = std::min(last, K_);
    } else {  // first and last tokens grow from window to window
      lo = std::partition_point(windows_.begin(), windows_.end(), [&](const auto& w) { return w.back() < first; }) -
           windows_.begin();
      hi = std::partition_point(windows_.begin(), windows_.end(), [&](const auto& w) { return w.front() < last; }) -
           windows_.begin();
    }
  }
  if (!kept_before_.empty()) {  // without the missing keys at both ends
    while (lo < hi && kept_before_[lo + 1] == kept_before_[lo]) ++lo;
    while (lo < hi && kept_before_[hi] == kept_before_[hi - 1]) --hi;
  }
  return {lo, std::max(lo, hi)};
}

Cover Visibility::cover(Index i0, Index i1, Index j0, Index j1) const {
  if (everything_) return Cover::all;
  Cover cover = call_.mask ? Cover::some : Cover::all;
  if (!kept_before_.empty()) {
    const Index kept = kept_before_[j1] - kept_before_[j0];
    if (kept == 0) return Cover::none;
    if (kept < j1 - j0) cover = Cover::some;
  }
  Tile tile{i0, i1, j0, j1};
  if (!windows_.empty()) {
    tile.j0 = windows_[j0].front();
    tile.j1 = windows_[j1 - 1].back() + 1;
  }
  for (const KeySet& part : call_.attention.keys) {
    const Cover own = std::visit([&](const auto& p) { return cover_of(p, tile); }, part);
    if (own == Cover::none) return own;
    if (own == Cover::some) cover = own;
  }
  return cover;
}

bool Visibility::keeps(Index token) const { return keep_token_.empty() || keep_token_[token] != 0; }

std::uint64_t Visibility::mask_bits(Index i0, Index token) const {
  const auto& stride = call_.mask.stride;
  const Index at = sample_ * stride[0] + head_ * stride[1] + token * stride[3];
  std::uint64_t bits = 0;
  for (Index i = i0; i < std::min(i0 + 64, N_); ++i)
    bits |= std::uint64_t{is_set(call_.mask, at + i * stride[2])} << (i - i0);
  return bits;
}

// The queries that see a token, before pooling.
std::uint64_t Visibility::token_bits(Index i0, Index token) const {
  std::uint64_t bits = between(i0, 0, N_);
  for (const KeySet& part : call_.attention.keys)
    bits &= std::visit([&](const auto& p) { return seen_by(p, head_, i0, token); }, part);
  if (call_.mask && bits != 0) bits &= mask_bits(i0, token);
  return bits;
}

void Visibility::columns(Index i0, Index j0, Index count, std::uint64_t* bits) const {
  for (Index c = 0; c < count; ++c) {
    const Index j = j0 + c;
    if (!kept_before_.empty() && kept_before_[j + 1] == kept_before_[j]) {
      bits[c] = 0;
    } else if (windows_.empty()) {
      bits[c] = token_bits(i0, j);
    } else {
      std::uint64_t any = 0, all = all_bits;
      for (Index t : windows_[j]) {
        if (!keeps(t)) continue;
        const std::uint64_t own = token_bits(i0, t);
        any |= own;
        all &= own;
      }
      bits[c] = any_ ? any : any & all;
    }
  }
}

}  // namespace saddle::kernels

// Which keys of a head its queries see, asked for tiles of queries by keys: key sets, masks, padding and pooling in one
// answer, without ever holding N x K of it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/primal/call.hpp"

namespace saddle::kernels {

// How many pairs of a tile are visible, as far as it can be told without looking at each; `some` may turn out to be
// none or all.
enum class Cover { none, some, all };

class SADDLE_API Visibility {
 public:
  // Sample b, head h of a call with K keys after pooling. keep [K] tells which exist (empty: all), windows the tokens
  // behind each (empty: no pooling); call and windows must outlive this.
  Visibility(const primal::Call& call, Index b, Index h, Index K, const std::vector<std::uint8_t>& keep,
             const primal::Windows& windows);

  // Every query sees every key.
  bool everything() const { return everything_; }
  // Keys outside [first, second) are hidden from all queries of [i0,i1).
  std::pair<Index, Index> key_range(Index i0, Index i1) const;
  Cover cover(Index i0, Index i1, Index j0, Index j1) const;
  // Bit b of bits[c] tells whether query i0 + b sees key j0 + c, for 64 queries and `count` keys. Queries past the last
  // see nothing.
  void columns(Index i0, Index j0, Index count, std::uint64_t* bits) const;

 private:
  std::uint64_t token_bits(Index i0, Index token) const;
  std::uint64_t mask_bits(Index i0, Index token) const;
  bool keeps(Index token) const;

  const primal::Call& call_;
  Index sample_, head_, N_, K_;
  const primal::Windows& windows_;
  bool any_ = true;  // a pooled key is seen when any of its tokens is; else all of them
  bool everything_ = false;
  std::vector<Index> kept_before_;        // [K+1] existing keys before each; empty: all exist
  std::vector<std::uint8_t> keep_token_;  // [M] of pooled keys; empty: all exist
};

}  // namespace saddle::kernels

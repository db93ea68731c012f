// A sample of a call in the order of the core: panels of keys and values, and its queries a few at a time.
#pragma once

#include <cmath>
#include <vector>

#include "saddle/kernels/hyla/core.hpp"

namespace saddle::kernels::hyla {

template <class T>
class Sample {
 public:
  Sample(const HylaCall<T>& call, const Core<T>& core, Index b) : call_(call), b_(b) {
    const HylaShape& s = call.shape;
    p_.N = s.N;
    p_.H = s.H;
    p_.D = s.D;
    p_.E = s.E;
    p_.norm = call.norm;
    p_.network = call.network;
    p_.causal = call.causal;
    p_.eps = static_cast<T>(call.rms_eps);
    p_.dropout = call.dropout;
    p_.width = core.lanes * tile_vectors;
    for (Index i = 0; i < s.N; ++i)
      if (!call.exists || call.exists[b * s.N + i] != 0) positions_.push_back(i);
    p_.keys = positions_.empty() ? 0 : positions_.back() + 1;

    exists_ = Buffer<T>(p_.tiles() * p_.width);
    for (const Index i : positions_) exists_.data()[i] = 1;
    p_.exists = exists_.data();
    k_ = packed(call.k[b], s.D);
    v_ = packed(call.v[b], s.E);
    p_.k = k_.data();
    p_.v = v_.data();
    if (!call.bias) return;
    p_.bias_stride = 2 * s.N + p_.width;
    bias_ = Buffer<T>(s.H * p_.bias_stride, Fill::none);
    for (Index h = 0; h < s.H; ++h)
      for (Index n = 0; n < p_.bias_stride; ++n)
        bias_.data()[h * p_.bias_stride + n] = call.bias(h, std::max<Index>(s.N - 1 - n, 0));
    p_.bias = bias_.data();
  }

  const Problem<T>& problem() const { return p_; }
  T scale() const { return static_cast<T>(1 / std::sqrt(static_cast<double>(p_.D))); }

  // body(rows) for the queries of one group, at most `most` at a time; rows.q is filled in.
  template <class Body>
  void each_rows(Index group, Index groups, Index most, Body&& body) const {
    const Index count = static_cast<Index>(positions_.size()), end = count * (group + 1) / groups;
    std::vector<T> q(static_cast<std::size_t>(most * p_.H * p_.D));
    for (Index first = count * group / groups; first < end; first += most) {
      Rows<T> rows;
      rows.count = std::min(most, end - first);
      rows.position = &positions_[static_cast<std::size_t>(first)];
      gather(call_.q[b_], rows, scale(), q.data());
      rows.q = q.data();
      body(rows);
    }
  }

  // to [rows][H][C] = rows of `from` [N,H,C], times a factor.
  void gather(const View<const T, 3>& from, const Rows<T>& rows, T factor, T* to) const {
    for (Index r = 0; r < rows.count; ++r)
      for (Index h = 0; h < p_.H; ++h) {
        const T* const row = &from(rows.position[r], h, 0);
        for (Index c = 0; c < from.shape[2]; ++c) *to++ = factor * row[c];
      }
  }
  // The way back.
  void scatter(const T* from, const Rows<T>& rows, T factor, const View<T, 3>& to) const {
    for (Index r = 0; r < rows.count; ++r)
      for (Index h = 0; h < p_.H; ++h) {
        T* const row = &to(rows.position[r], h, 0);
        for (Index c = 0; c < to.shape[2]; ++c) row[c] = factor * *from++;
      }
  }

 private:
  // x [N,H,C] -> [tiles][H][C][W], 0 where no token exists.
  Buffer<T> packed(const View<const T, 3>& x, Index C) const {
    const Index W = p_.width;
    Buffer<T> panel(p_.tiles() * p_.H * C * W);
    for (Index block = 0; block < p_.tiles() * p_.H; ++block) {
      const Index h = block % p_.H, first = block / p_.H * W, end = std::min(first + W, p_.keys);
      T* const to = panel.data() + block * C * W;
      for (Index j = first; j < end; j += stripe)
        for (Index c = 0; c < C; ++c)
          for (Index n = j; n < std::min(j + stripe, end); ++n)
            if (exists_.data()[n] != 0) to[c * W + n - first] = x(n, h, c);
    }
    return panel;
  }

  // Rows that are turned at once: their cache lines stay until all of their numbers are taken.
  static constexpr Index stripe = 8;

  const HylaCall<T>& call_;
  Index b_;
  Problem<T> p_;
  std::vector<Index> positions_;  // of the tokens that exist
  Buffer<T> k_, v_, exists_, bias_;
};

}  // namespace saddle::kernels::hyla

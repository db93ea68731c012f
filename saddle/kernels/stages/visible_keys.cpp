#include "saddle/kernels/stages/visible_keys.hpp"

#include <algorithm>

namespace saddle::kernels::stages {

namespace {

using namespace primal;

void append(Spans& spans, Index begin, Index end) {
  if (begin >= end) return;
  if (!spans.empty() && begin <= spans.back().end)
    spans.back().end = std::max(spans.back().end, end);
  else
    spans.push_back({begin, end});
}

// The tokens among M that query i of a head sees by one part of the key set.
struct SpansOfPart {
  Index head, i, M;
  Spans& spans;

  void add(Index begin, Index end) const { append(spans, std::max<Index>(begin, 0), std::min(end, M)); }
  void operator()(const Causal&) const { add(0, i + 1); }
  void operator()(const Window& part) const { add(i - part.radius, i + part.radius + 1); }
  void operator()(const Local& part) const { add(i - part.ctx + 1, i + 1); }
  void operator()(const Padding&) const { add(0, M); }
  void operator()(const Explicit&) const { add(0, M); }
  void operator()(const Strided& part) const {
    for (Index j = i % part.ctx; j <= i; j += part.ctx) add(j, j + 1);
  }
  void operator()(const GlobalWindow& part) const {
    if (i < part.n_global) return add(0, M);
    add(0, part.n_global);
    add(i - part.radius, i + part.radius + 1);
  }
  // The group's columns of every earlier stride, and all of the own stride up to i.
  void operator()(const Fixed& part) const {
    const Index stride = part.ctx, own = i / stride * stride;
    const Index group = head % part.num_verts;
    const Index last = stride - group * part.vertsize * part.blocksize, first = last - part.vertsize * part.blocksize;
    for (Index start = 0; start < own; start += stride) add(start + first, start + last);
    add(own, i + 1);
  }
};

void intersect(const Spans& a, const Spans& b, Spans& both) {
  both.clear();
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    append(both, std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end));
    if (a[i].end < b[j].end)
      ++i;
    else
      ++j;
  }
}

}  // namespace

VisibleKeys::VisibleKeys(const Call& call, Index b, Index h, Kept keep_tokens, Index K, bool pooled)
    : call_(call),
      b_(b),
      h_(h),
      M_(call.dims().M),
      K_(K),
      factor_(factor_of(call.attention, call.dims(), h)),
      keep_tokens_(keep_tokens),
      pooled_(pooled) {
  if (!pooled) return;
  rule_ = visibility_of(call.attention, *call.attention.pooling);
  tokens_.resize(M_);
}

void VisibleKeys::tokens_of(Index i, Spans& spans) {
  spans.assign(1, {0, M_});
  if (M_ == 0) spans.clear();
  for (const KeySet& set : call_.attention.keys) {
    part_.clear();
    std::visit(SpansOfPart{h_, i, M_, part_}, set);
    intersect(spans, part_, other_);
    std::swap(spans, other_);
  }
  if (!call_.mask) return;
  const auto& stride = call_.mask.stride;
  const auto* seen =
      static_cast<const std::uint8_t*>(call_.mask.data) + b_ * stride[0] + h_ * stride[1] + i * stride[2];
  other_.clear();
  for (const Span& span : spans)
    for (Index j = span.begin; j < span.end; ++j)
      if (seen[j * stride[3]] != 0) append(other_, j, j + 1);
  std::swap(spans, other_);
}

// A span of tokens shows a span of 1d windows; only those at its ends can be cut.
void VisibleKeys::pool_span(Span tokens, Spans& spans) const {
  const auto any_kept = [&](Index begin, Index end) {
    for (Index t = begin; t < std::min(end, M_); ++t)
      if (kept_at(keep_tokens_, t)) return true;
    return false;
  };
  spans.clear();
  Index first = tokens.begin / factor_, last = (tokens.end - 1) / factor_;
  if (rule_ == Visibility::all) {
    if (any_kept(first * factor_, tokens.begin)) ++first;
    if (any_kept(tokens.end, (last + 1) * factor_)) --last;
  } else if (first == last) {
    if (!any_kept(tokens.begin, tokens.end)) return;
  } else {
    if (!any_kept(tokens.begin, (first + 1) * factor_)) ++first;
    if (!any_kept(last * factor_, tokens.end)) --last;
  }
  append(spans, first, std::min(last + 1, K_));
}

void VisibleKeys::pool_spans(Spans& spans) {
  if (windows_.empty()) windows_ = pooling_windows(*call_.attention.pooling, factor_, M_);
  std::fill(tokens_.begin(), tokens_.end(), std::uint8_t{0});
  for (const Span& span : spans)
    for (Index t = span.begin; t < span.end; ++t) tokens_[t] = kept_at(keep_tokens_, t);
  spans.clear();
  for (Index J = 0; J < K_; ++J) {
    bool any = false, all = true;
    for (Index t : windows_[J]) {
      any |= tokens_[t] != 0;
      all &= tokens_[t] != 0 || !kept_at(keep_tokens_, t);
    }
    if (any && (rule_ == Visibility::any || all)) append(spans, J, J + 1);
  }
}

void VisibleKeys::of(Index i, Spans& spans) {
  tokens_of(i, spans);
  if (!pooled_ || spans.empty()) return;
  if (spans.size() == 1 && call_.attention.pooling->pool == PoolShape::one_d) {
    const Span tokens = spans.front();
    pool_span(tokens, spans);
  } else {
    pool_spans(spans);
  }
}

}  // namespace saddle::kernels::stages

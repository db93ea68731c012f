// Key sets M_x: which keys a query sees. Parts are and-ed; padding and explicit masks come with the call.
#pragma once

#include <variant>

#include "saddle/base/export.hpp"
#include "saddle/primal/part.hpp"

namespace saddle::primal {

// Query i sees key j <= i.
struct Causal {
  static constexpr std::string_view name = "causal";
  static constexpr std::string_view help = "query i sees keys j <= i";
  static constexpr bool causal = true;
  static void options(auto&, auto&&) {}
  bool sees(Index, Index i, Index j) const { return j <= i; }
  bool operator==(const Causal&) const = default;
};

// |i - j| <= radius.
struct Window {
  Index radius = 16;

  static constexpr std::string_view name = "window";
  static constexpr std::string_view help = "|i-j| <= radius";
  static constexpr bool causal = false;
  static void options(auto& self, auto&& visit) {
    visit({"radius", Written::positional, "reach on both sides"}, self.radius);
  }
  bool sees(Index, Index i, Index j) const { return i - j <= radius && j - i <= radius; }
  bool operator==(const Window&) const = default;
};

// i - ctx < j <= i.
struct Local {
  Index ctx = 16;

  static constexpr std::string_view name = "local";
  static constexpr std::string_view help = "i - ctx < j <= i, a causal window";
  static constexpr bool causal = true;
  static void options(auto& self, auto&& visit) {
    visit({"ctx", Written::positional, "number of keys, the own one included"}, self.ctx);
  }
  bool sees(Index, Index i, Index j) const { return j <= i && j > i - ctx; }
  bool operator==(const Local&) const = default;
};

// j <= i and (i - j) mod ctx = 0.
struct Strided {
  Index ctx = 16;

  static constexpr std::string_view name = "strided";
  static constexpr std::string_view help = "j <= i and (i-j) mod ctx = 0";
  static constexpr bool causal = true;
  static void options(auto& self, auto&& visit) { visit({"ctx", Written::positional, "stride"}, self.ctx); }
  bool sees(Index, Index i, Index j) const { return j <= i && (i - j) % ctx == 0; }
  bool operator==(const Strided&) const = default;
};

// In blocks of `blocksize`, stride = ctx/blocksize: a block row sees its own stride and, in all earlier ones, the
// columns of the head's group. The offsets stride-1, stride-2, .. are cut into groups of vertsize; head h uses group h
// mod num_verts.
struct Fixed {
  Index ctx = 16;
  Index num_verts = 1;
  Index vertsize = 1;
  Index blocksize = 1;

  static constexpr std::string_view name = "fixed";
  static constexpr std::string_view help = "causal: own stride, and summary columns of all earlier strides";
  static constexpr bool causal = true;
  static void options(auto& self, auto&& visit) {
    visit({"ctx", Written::positional, "stride in tokens"}, self.ctx);
    visit({"num_verts", Written::named, "number of groups over which heads are spread"}, self.num_verts);
    visit({"vertsize", Written::named, "summary columns of a group, in blocks"}, self.vertsize);
    visit({"blocksize", Written::named, "tokens of a block"}, self.blocksize);
  }
  bool sees(Index head, Index i, Index j) const {
    if (j > i) return false;
    const Index stride = ctx / blocksize, I = i / blocksize, J = j / blocksize;
    const Index group = (stride - 1 - J % stride) / vertsize;
    return J / stride == I / stride || group == head % num_verts;
  }
  bool operator==(const Fixed&) const = default;
};

// |i - j| <= radius, or i or j among the first n_global tokens.
struct GlobalWindow {
  Index radius = 16;
  Index n_global = 1;

  static constexpr std::string_view name = "global_window";
  static constexpr std::string_view help = "window, plus the first n_global tokens that see and are seen by all";
  static constexpr bool causal = false;
  static void options(auto& self, auto&& visit) {
    visit({"radius", Written::positional, "reach on both sides"}, self.radius);
    visit({"n_global", Written::named, "number of global tokens"}, self.n_global);
  }
  bool sees(Index, Index i, Index j) const {
    return (i - j <= radius && j - i <= radius) || i < n_global || j < n_global;
  }
  bool operator==(const GlobalWindow&) const = default;
};

// Declares that the call brings a key mask or lengths; a call without is refused.
struct Padding {
  static constexpr std::string_view name = "padding";
  static constexpr std::string_view help = "the call must bring a key mask";
  static constexpr bool causal = false;
  static void options(auto&, auto&&) {}
  bool sees(Index, Index, Index) const { return true; }
  bool operator==(const Padding&) const = default;
};

// Declares that the call brings a mask of queries by keys; a call without is refused.
struct Explicit {
  static constexpr std::string_view name = "explicit";
  static constexpr std::string_view help = "the call must bring a mask of queries by keys";
  static constexpr bool causal = false;
  static void options(auto&, auto&&) {}
  bool sees(Index, Index, Index) const { return true; }
  bool operator==(const Explicit&) const = default;
};

// A key set tells whether query i of a head sees key j, and whether it never looks ahead.
template <class P>
concept KeySetPart = Part<P> && requires(const P part, Index head, Index i, Index j) {
  { part.sees(head, i, j) } -> std::same_as<bool>;
  { P::causal } -> std::convertible_to<bool>;
};

using KeySet = std::variant<Causal, Window, Local, Strided, Fixed, GlobalWindow, Padding, Explicit>;
static_assert(KeySetPart<Causal> && KeySetPart<Window> && KeySetPart<Local> && KeySetPart<Strided> &&
              KeySetPart<Fixed> && KeySetPart<GlobalWindow> && KeySetPart<Padding> && KeySetPart<Explicit>);

inline bool sees(const std::vector<KeySet>& keys, Index head, Index i, Index j) {
  for (const KeySet& part : keys)
    if (!std::visit([&](const KeySetPart auto& p) { return p.sees(head, i, j); }, part)) return false;
  return true;
}

inline bool is_causal(const std::vector<KeySet>& keys) {
  for (const KeySet& part : keys)
    if (std::visit([](const KeySetPart auto& p) { return p.causal; }, part)) return true;
  return false;
}

}  // namespace saddle::primal

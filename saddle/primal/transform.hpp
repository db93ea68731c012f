// The input transform T of the primal layer: the same map for queries and keys, with the statistics of the keys only.
#pragma once

#include <span>
#include <string>
#include <variant>

#include "saddle/base/export.hpp"
#include "saddle/base/shape.hpp"
#include "saddle/primal/part.hpp"

namespace saddle::primal {

// Tokens of one head of one sample: q [n,D], k [M,D].
struct Tokens {
  Matrix q, k;
};

// Which tokens exist: keys [M], and queries [n] where they are the same tokens as the keys (empty: all exist).
struct Kept {
  std::span<const std::uint8_t> keys, queries;
};

// Asks for something that lets a causal layer see the future.
enum class Leak { forbid, allow };
template <>
inline constexpr std::array<std::string_view, 2> enum_words<Leak>{"forbid", "allow"};

enum class ScaleMode { none, std };
template <>
inline constexpr std::array<std::string_view, 2> enum_words<ScaleMode>{"none", "std"};

// Which keys the statistics are taken from. automatic: subset for causal key sets, global otherwise.
enum class Stats { automatic, global, subset };
template <>
inline constexpr std::array<std::string_view, 3> enum_words<Stats>{"auto", "global", "subset"};

enum class Learn { no, shared, head };
template <>
inline constexpr std::array<std::string_view, 3> enum_words<Learn>{"no", "shared", "head"};

enum class Axis { feature, token };
template <>
inline constexpr std::array<std::string_view, 2> enum_words<Axis>{"feature", "token"};

// T x = (x - beta mu)/s with mu, s^2 mean and variance of the keys; s = 1 unless scale=std. theta = beta [1].
struct BatchNorm {
  double beta = 1;
  ScaleMode scale = ScaleMode::none;
  double eps = 1e-5;
  Stats stats = Stats::automatic;
  Learn learn = Learn::no;
  Leak leak = Leak::forbid;

  static constexpr std::string_view name = "bn";
  static constexpr std::string_view help = "batch norm with the statistics of the keys (Attention-BN)";
  static void options(auto& self, auto&& visit) {
    visit({"beta", Written::named, "weight of the mean"}, self.beta);
    visit({"scale", Written::named, "none, or std: divide by sqrt(var + eps)"}, self.scale);
    visit({"eps", Written::named, "added to the variance"}, self.eps);
    visit({"stats", Written::named, "keys that give the statistics: global, subset (those a query sees), auto"},
          self.stats);
    visit({"learn", Written::named, "train beta: no, shared by all heads, or one per head"}, self.learn);
    visit({"leak", Written::named, "allow: stats=global under a causal key set"}, self.leak);
  }

  static constexpr std::string_view parameter = "beta";
  Shape theta_shape() const { return {}; }
  bool shared() const { return learn != Learn::head; }
  bool learnable() const { return learn != Learn::no; }
  std::vector<double> initial() const { return {beta}; }
  SADDLE_API void apply(Tokens& tokens, const Kept& kept, std::span<const double> theta) const;
  SADDLE_API void pullback(const Tokens& input, const Kept& kept, std::span<const double> theta, Tokens& gradient,
                           std::span<double> dtheta) const;
  bool operator==(const BatchNorm&) const = default;
};

// T x = x/|x|, and 0 at 0.
struct L2 {
  static constexpr std::string_view name = "l2";
  static constexpr std::string_view help = "divide by the Euclidean norm";
  static void options(auto&, auto&&) {}

  static constexpr std::string_view parameter = "";
  SADDLE_API void apply(Tokens& tokens, const Kept& kept, std::span<const double> theta) const;
  SADDLE_API void pullback(const Tokens& input, const Kept& kept, std::span<const double> theta, Tokens& gradient,
                           std::span<double> dtheta) const;
  bool operator==(const L2&) const = default;
};

// Convolution (no flip, zero padding) over the features of a token, or over tokens. theta = kernel [size].
struct Conv1d {
  Index size = 3;
  Axis axis = Axis::feature;
  bool share = false;
  Leak leak = Leak::forbid;

  static constexpr std::string_view name = "conv1d";
  static constexpr std::string_view help = "learnable convolution over features or tokens (Attention-Conv1D)";
  static void options(auto& self, auto&& visit) {
    visit({"size", Written::positional, "odd kernel size"}, self.size);
    visit({"axis", Written::named, "feature or token"}, self.axis);
    visit({"share", Written::named, "one kernel for all heads"}, self.share);
    visit({"leak", Written::named, "allow: axis=token under a causal key set"}, self.leak);
  }

  static constexpr std::string_view parameter = "kernel";
  Shape theta_shape() const { return {size}; }
  bool shared() const { return share; }
  bool learnable() const { return true; }
  SADDLE_API std::vector<double> initial() const;
  SADDLE_API void apply(Tokens& tokens, const Kept& kept, std::span<const double> theta) const;
  SADDLE_API void pullback(const Tokens& input, const Kept& kept, std::span<const double> theta, Tokens& gradient,
                           std::span<double> dtheta) const;
  bool operator==(const Conv1d&) const = default;
};

// The same over a row-major grid of features, or of tokens. theta = kernel [rows,columns].
struct Conv2d {
  Grid size{3, 3};
  Grid grid;
  Axis axis = Axis::feature;
  bool share = false;
  Leak leak = Leak::forbid;

  static constexpr std::string_view name = "conv2d";
  static constexpr std::string_view help = "learnable convolution over a grid of features or tokens (Attention-Conv2D)";
  static void options(auto& self, auto&& visit) {
    visit({"size", Written::positional, "odd kernel size, rows x columns"}, self.size);
    visit({"grid", Written::named, "rows x columns of the grid, default the most square one"}, self.grid);
    visit({"axis", Written::named, "feature or token"}, self.axis);
    visit({"share", Written::named, "one kernel for all heads"}, self.share);
    visit({"leak", Written::named, "allow: axis=token under a causal key set"}, self.leak);
  }

  static constexpr std::string_view parameter = "kernel";
  Shape theta_shape() const { return {size.rows, size.columns}; }
  bool shared() const { return share; }
  bool learnable() const { return true; }
  SADDLE_API std::vector<double> initial() const;
  SADDLE_API void apply(Tokens& tokens, const Kept& kept, std::span<const double> theta) const;
  SADDLE_API void pullback(const Tokens& input, const Kept& kept, std::span<const double> theta, Tokens& gradient,
                           std::span<double> dtheta) const;
  bool operator==(const Conv2d&) const = default;
};

// A transform acts on tokens in place and pulls gradients back: `gradient` comes in with respect to the output and
// leaves with respect to the input, dtheta is added to. theta holds the parameters of one head.
template <class P>
concept TransformPart = Part<P> &&
    requires(const P part, Tokens& tokens, const Kept& kept, std::span<const double> theta, std::span<double> dtheta) {
  { P::parameter } -> std::convertible_to<std::string_view>;
  part.apply(tokens, kept, theta);
  part.pullback(tokens, kept, theta, tokens, dtheta);
};

// A transform with parameters says their shape per head, whether heads share them, and how they start.
template <class P>
concept ParametricTransform = TransformPart<P> && requires(const P part) {
  { part.theta_shape() } -> std::same_as<Shape>;
  { part.shared() } -> std::same_as<bool>;
  { part.learnable() } -> std::same_as<bool>;
  { part.initial() } -> std::same_as<std::vector<double>>;
};

using Transform = std::variant<BatchNorm, L2, Conv1d, Conv2d>;
static_assert(ParametricTransform<BatchNorm> && TransformPart<L2> && ParametricTransform<Conv1d> &&
              ParametricTransform<Conv2d>);

// True when the transform mixes tokens of the sequence, so that queries and keys must be whole sequences.
SADDLE_API bool mixes_tokens(const Transform& transform);

// rows x columns = size with rows <= columns and rows as large as possible.
SADDLE_API Grid most_square_grid(Index size);

}  // namespace saddle::primal

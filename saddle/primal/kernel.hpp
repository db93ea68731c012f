// The kernel kappa(x,x') = Phi(x).Phi(x') of the primal layer.
#pragma once

#include <functional>
#include <optional>
#include <variant>

#include "saddle/base/export.hpp"
#include "saddle/primal/part.hpp"

namespace saddle::primal {

// What is known about the values of kappa; it decides whether a row sum is a legal normaliser.
enum class Sign { positive, vanishing, changing };

// Kernels of the form kappa(x,x') = g(s) with s = a <x,x'> + c (|x|^2 + |x'|^2).
struct ScoreForm {
  double a = 1, c = 0;
  std::function<double(double)> g, derivative;
  bool exponential = false;  // g = exp: rows are evaluated relative to their largest score
};

// kappa = exp(scale <x,x'>), scale 1/sqrt(D) unless given. With a row sum this is softmax attention.
struct ExpDot {
  std::optional<double> scale;

  static constexpr std::string_view name = "softmax";
  static constexpr std::string_view help = "exp(scale <x,x'>), infinite Taylor features";
  static void options(auto& self, auto&& visit) {
    visit({"scale", Written::named, "factor of the dot product, default 1/sqrt(D)"}, self.scale);
  }
  Sign sign() const { return Sign::positive; }
  SADDLE_API ScoreForm score(Index D) const;
  bool operator==(const ExpDot&) const = default;
};

// kappa = exp(-gamma |x - x'|^2), gamma 1/(2 sqrt(D)) unless given.
struct Rbf {
  std::optional<double> gamma;

  static constexpr std::string_view name = "rbf";
  static constexpr std::string_view help = "exp(-gamma |x-x'|^2), infinite features";
  static void options(auto& self, auto&& visit) {
    visit({"gamma", Written::named, "inverse squared width, default 1/(2 sqrt(D))"}, self.gamma);
  }
  Sign sign() const { return Sign::positive; }
  SADDLE_API ScoreForm score(Index D) const;
  bool operator==(const Rbf&) const = default;
};

// kappa = <x,x'>.
struct Dot {
  static constexpr std::string_view name = "dot";
  static constexpr std::string_view help = "<x,x'>, features x";
  static void options(auto&, auto&&) {}
  Sign sign() const { return Sign::changing; }
  SADDLE_API ScoreForm score(Index D) const;
  Index features(Index D) const { return D; }
  bool operator==(const Dot&) const = default;
};

// kappa = (<x,x'> + coef0)^degree.
struct Polynomial {
  Index degree = 2;
  double coef0 = 1;

  static constexpr std::string_view name = "poly";
  static constexpr std::string_view help = "(<x,x'> + coef0)^degree, monomial features";
  static void options(auto& self, auto&& visit) {
    visit({"degree", Written::named, "power, at least 1"}, self.degree);
    visit({"coef0", Written::named, "constant added to the dot product, at least 0"}, self.coef0);
  }
  Sign sign() const { return degree % 2 == 0 ? Sign::vanishing : Sign::changing; }
  SADDLE_API ScoreForm score(Index D) const;
  SADDLE_API Index features(Index D) const;
  bool operator==(const Polynomial&) const = default;
};

enum class FeatureMapKind { elu1, relu, taylor, random };
template <>
inline constexpr std::array<std::string_view, 4> enum_words<FeatureMapKind>{"elu1", "relu", "taylor", "random"};

// kappa = phi(x).phi(x') for a finite map phi: elu(x)+1, relu(x), the Taylor map of exp up to `order`, or `count`
// random positive features. The last two approximate softmax.
struct Linear {
  FeatureMapKind map = FeatureMapKind::elu1;
  Index order = 2;
  Index count = 256;
  Index seed = 0;

  static constexpr std::string_view name = "linear";
  static constexpr std::string_view help = "phi(x).phi(x') with a finite feature map phi";
  static void options(auto& self, auto&& visit) {
    visit({"map", Written::positional, "elu1, relu, taylor or random"}, self.map);
    visit({"order", Written::named, "highest degree of the taylor map"}, self.order);
    visit({"count", Written::named, "number of random features"}, self.count);
    visit({"seed", Written::named, "seed of the random features"}, self.seed);
  }
  SADDLE_API Sign sign() const;
  SADDLE_API Index features(Index D) const;
  bool operator==(const Linear&) const = default;
};

// A kernel part says what signs its values take and, if Phi is finite, how many features it has at width D.
template <class K>
concept KernelPart = Part<K> && requires(const K kernel) {
  { kernel.sign() } -> std::same_as<Sign>;
};
template <class K>
concept ScoreKernel = KernelPart<K> && requires(const K kernel, Index D) {
  { kernel.score(D) } -> std::same_as<ScoreForm>;
};
template <class K>
concept FiniteKernel = KernelPart<K> && requires(const K kernel, Index D) {
  { kernel.features(D) } -> std::same_as<Index>;
};

using Kernel = std::variant<ExpDot, Rbf, Dot, Polynomial, Linear>;

static_assert(ScoreKernel<ExpDot> && ScoreKernel<Rbf> && ScoreKernel<Dot> && ScoreKernel<Polynomial>);
static_assert(FiniteKernel<Dot> && FiniteKernel<Polynomial> && FiniteKernel<Linear>);

SADDLE_API std::string_view name_of(const Kernel& kernel);
SADDLE_API Sign sign_of(const Kernel& kernel);
// The score form at width D, or nothing when kappa is only known through its features (elu1, relu, random).
SADDLE_API std::optional<ScoreForm> score_form(const Kernel& kernel, Index D);
// F, the number of features at width D, or nothing when Phi is infinite.
SADDLE_API std::optional<Index> feature_count(const Kernel& kernel, Index D);

}  // namespace saddle::primal

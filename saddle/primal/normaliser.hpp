// The scalar normaliser h of the primal layer: f(x) = W Phi(x)/h(x) + b.
#pragma once

#include <cmath>
#include <variant>

#include "saddle/primal/kernel.hpp"

namespace saddle::primal {

// h(x) = sum of kappa(x,k_j) over the visible keys, plus den_eps.
struct RowSum {
  std::optional<double> den_eps;  // unset: 0 for infinite positive kernels, 1e-6 for finite features

  static constexpr std::string_view name = "sum";
  static constexpr std::string_view help = "h(x) = sum of kappa(x,k_j) over the visible keys + den_eps";
  static void options(auto& self, auto&& visit) {
    visit({"den_eps", Written::named, "added to the sum; default 0, or 1e-6 for finite features"}, self.den_eps);
  }
  bool operator==(const RowSum&) const = default;
};

// h(x) = 1: the plain kernel expansion.
struct One {
  static constexpr std::string_view name = "one";
  static constexpr std::string_view help = "h(x) = 1";
  static void options(auto&, auto&&) {}
  double value(Index, Index) const { return 1; }
  bool operator==(const One&) const = default;
};

// h(x) = value.
struct Constant {
  double constant = 1;

  static constexpr std::string_view name = "constant";
  static constexpr std::string_view help = "h(x) = value";
  static void options(auto& self, auto&& visit) {
    visit({"value", Written::positional, "any number but 0"}, self.constant);
  }
  double value(Index, Index) const { return constant; }
  bool operator==(const Constant&) const = default;
};

// h(x) = (N M)^(1/4), the square root of the length when queries and keys are equally many (padding included): the
// normaliser of the linear attention in the LRA code base.
struct SqrtLength {
  static constexpr std::string_view name = "sqrt_length";
  static constexpr std::string_view help = "h(x) = sqrt(length), padding included";
  static void options(auto&, auto&&) {}
  double value(Index N, Index M) const { return std::pow(static_cast<double>(N) * static_cast<double>(M), 0.25); }
  bool operator==(const SqrtLength&) const = default;
};

// A normaliser that does not depend on the data is a number, given the numbers of queries and keys of the head.
template <class P>
concept FixedNormaliser = Part<P> && requires(const P part, Index N, Index M) {
  { part.value(N, M) } -> std::same_as<double>;
};

using Normaliser = std::variant<RowSum, One, Constant, SqrtLength>;
static_assert(Part<RowSum> && FixedNormaliser<One> && FixedNormaliser<Constant> && FixedNormaliser<SqrtLength>);

// What a kernel gets when nothing is written: a row sum, unless its sign changes by construction (dot, odd poly).
inline Normaliser default_normaliser(const Kernel& kernel) {
  const bool signed_by_design = sign_of(kernel) == Sign::changing && !std::holds_alternative<Linear>(kernel);
  return signed_by_design ? Normaliser(One{}) : Normaliser(RowSum{});
}

// The den_eps in force for a row sum over this kernel.
inline double den_eps_of(const RowSum& sum, const Kernel& kernel) {
  const bool infinite = std::holds_alternative<ExpDot>(kernel) || std::holds_alternative<Rbf>(kernel);
  return sum.den_eps.value_or(infinite ? 0.0 : 1e-6);
}

// h in force for a head with N queries and K keys: either a row sum with den_eps, or a fixed number.
struct NormaliserRule {
  bool row_sum = false;
  double den_eps = 0;
  double fixed = 1;
};
inline NormaliserRule normaliser_rule(const Normaliser& normaliser, const Kernel& kernel, Index N, Index K) {
  return std::visit(
      [&]<class P>(const P& part) -> NormaliserRule {
        if constexpr (FixedNormaliser<P>)
          return {false, 0, part.value(N, K)};
        else
          return {true, den_eps_of(part, kernel), 1};
      },
      normaliser);
}

}  // namespace saddle::primal

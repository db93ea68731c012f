#include "saddle/primal/kernel.hpp"

#include <cmath>
#include <limits>

#include "saddle/primal/features.hpp"

namespace saddle::primal {

namespace {

double root(Index D) { return std::sqrt(static_cast<double>(D)); }

// sum_{t<=order} s^t/t!, the truncated exponential.
double truncated_exp(double s, Index order) {
  double sum = 1, term = 1;
  for (Index t = 1; t <= order; ++t) sum += term *= s / static_cast<double>(t);
  return sum;
}

}  // namespace

ScoreForm ExpDot::score(Index D) const {
  const auto exp = [](double s) { return std::exp(s); };
  return {scale.value_or(1 / root(D)), 0, exp, exp, true};
}

ScoreForm Rbf::score(Index D) const {
  const auto exp = [](double s) { return std::exp(s); };
  const double width = gamma.value_or(0.5 / root(D));
  return {2 * width, -width, exp, exp, true};
}

ScoreForm Dot::score(Index) const {
  return {1, 0, [](double s) { return s; }, [](double) { return 1.0; }};
}

ScoreForm Polynomial::score(Index) const {
  const auto p = static_cast<double>(degree);
  return {1, 0, [p, c = coef0](double s) { return std::pow(s + c, p); },
          [p, c = coef0](double s) { return p * std::pow(s + c, p - 1); }};
}

// Without the constant only the monomials of the full degree remain.
Index Polynomial::features(Index D) const {
  const Index all = monomial_count(D, degree);
  return coef0 == 0 && all < std::numeric_limits<Index>::max() ? all - monomial_count(D, degree - 1) : all;
}

// An even truncation of exp has no real root; an odd one changes sign.
Sign Linear::sign() const {
  switch (map) {
    case FeatureMapKind::elu1:
    case FeatureMapKind::random: return Sign::positive;
    case FeatureMapKind::relu: return Sign::vanishing;
    case FeatureMapKind::taylor: return order % 2 == 0 ? Sign::positive : Sign::changing;
  }
  return Sign::changing;
}

Index Linear::features(Index D) const {
  switch (map) {
    case FeatureMapKind::elu1:
    case FeatureMapKind::relu: return D;
    case FeatureMapKind::taylor: return monomial_count(D, order);
    case FeatureMapKind::random: return count;
  }
  return 0;
}

std::string_view name_of(const Kernel& kernel) {
  return std::visit([](const auto& k) { return std::string_view(k.name); }, kernel);
}

Sign sign_of(const Kernel& kernel) {
  return std::visit([](const KernelPart auto& k) { return k.sign(); }, kernel);
}

std::optional<ScoreForm> score_form(const Kernel& kernel, Index D) {
  if (const auto* linear = std::get_if<Linear>(&kernel)) {
    if (linear->map != FeatureMapKind::taylor) return std::nullopt;
    return ScoreForm{1 / root(D), 0, [t = linear->order](double s) { return truncated_exp(s, t); },
                     [t = linear->order](double s) { return t == 0 ? 0.0 : truncated_exp(s, t - 1); }};
  }
  return std::visit(
      [D]<class K>(const K& k) -> std::optional<ScoreForm> {
        if constexpr (ScoreKernel<K>) return k.score(D);
        return std::nullopt;
      },
      kernel);
}

std::optional<Index> feature_count(const Kernel& kernel, Index D) {
  return std::visit(
      [D]<class K>(const K& k) -> std::optional<Index> {
        if constexpr (FiniteKernel<K>) return k.features(D);
        return std::nullopt;
      },
      kernel);
}

}  // namespace saddle::primal

#include "saddle/primal/features.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"

namespace saddle::primal {

// One prepared map; the members serve all kinds, unused ones stay empty.
struct FeatureMap::Table {
  enum class Kind { identity, elu1, relu, monomial, random } kind = Kind::identity;
  Index D = 0, F = 0;
  double input_scale = 1;                   // monomial, random: applied to x first
  std::vector<std::vector<int>> exponents;  // monomial: [F][D]
  std::vector<double> weight;               // monomial: coefficient of each feature
  Matrix directions;                        // random: w_r [F,D]
};

namespace {

double factorial(int n) { return std::tgamma(n + 1.0); }

double power(double x, int n) {
  double result = 1;
  for (; n > 0; --n) result *= x;
  return result;
}

int total(const std::vector<int>& exponents) {
  int sum = 0;
  for (int n : exponents) sum += n;
  return sum;
}

void append_monomials(std::vector<int>& exponents, std::size_t at, int left, std::vector<std::vector<int>>& out) {
  if (at + 1 == exponents.size()) {
    exponents[at] = left;
    out.push_back(exponents);
    return;
  }
  for (int n = left; n >= 0; --n) {
    exponents[at] = n;
    append_monomials(exponents, at + 1, left - n, out);
  }
}

// Taylor map of exp(<x,x'>/sqrt(D)): prod_d (x_d/D^(1/4))^n_d / sqrt(n_1! ... n_D!).
void prepare_taylor(FeatureMap::Table& table, Index order) {
  table.input_scale = std::pow(static_cast<double>(table.D), -0.25);
  table.exponents = monomials(table.D, order);
  for (const auto& exponents : table.exponents) {
    double product = 1;
    for (int n : exponents) product *= factorial(n);
    table.weight.push_back(1 / std::sqrt(product));
  }
}

// (<x,x'> + c)^p = sum over |n| <= p of p!/(n_1! ... n_D! (p-|n|)!) c^(p-|n|) prod_d (x_d x'_d)^n_d.
void prepare_polynomial(FeatureMap::Table& table, const Polynomial& kernel) {
  const int degree = static_cast<int>(kernel.degree);
  for (auto& exponents : monomials(table.D, kernel.degree)) {
    const int rest = degree - total(exponents);
    if (kernel.coef0 == 0 && rest > 0) continue;
    double coefficient = factorial(degree) / factorial(rest) * power(kernel.coef0, rest);
    for (int n : exponents) coefficient /= factorial(n);
    table.exponents.push_back(std::move(exponents));
    table.weight.push_back(std::sqrt(coefficient));
  }
}

void prepare_random(FeatureMap::Table& table, const Linear& kernel) {
  table.input_scale = std::pow(static_cast<double>(table.D), -0.25);
  table.directions = random_directions(kernel, table.D);
}

FeatureMap::Table prepare(const Kernel& kernel, Index D) {
  using Kind = FeatureMap::Table::Kind;
  FeatureMap::Table table;
  table.D = D;
  if (const auto* polynomial = std::get_if<Polynomial>(&kernel)) {
    table.kind = Kind::monomial;
    prepare_polynomial(table, *polynomial);
  } else if (const auto* linear = std::get_if<Linear>(&kernel)) {
    switch (linear->map) {
      case FeatureMapKind::elu1: table.kind = Kind::elu1; break;
      case FeatureMapKind::relu: table.kind = Kind::relu; break;
      case FeatureMapKind::taylor:
        table.kind = Kind::monomial;
        prepare_taylor(table, linear->order);
        break;
      case FeatureMapKind::random:
        table.kind = Kind::random;
        prepare_random(table, *linear);
        break;
    }
  }
  table.F = *feature_count(kernel, D);
  return table;
}

}  // namespace

FeatureMap::FeatureMap(const Kernel& kernel, Index D) {
  if (!feature_count(kernel, D))
    throw NotSupported("the feature map of kernel '" + std::string(name_of(kernel)) + "' is infinite",
                       {"the primal form needs an explicit finite Phi"},
                       "use the dual form, or linear(taylor) and linear(random) to approximate softmax");
  if (*feature_count(kernel, D) > most_features)
    throw NotSupported(
        "kernel '" + std::string(name_of(kernel)) + "' has too many features at D = " + std::to_string(D),
        {"the primal form would need " + std::to_string(*feature_count(kernel, D)) + " features"},
        "use the dual form, a lower degree or a smaller width");
  table_ = std::make_unique<const Table>(prepare(kernel, D));
}

FeatureMap::~FeatureMap() = default;
FeatureMap::FeatureMap(FeatureMap&&) noexcept = default;
FeatureMap& FeatureMap::operator=(FeatureMap&&) noexcept = default;

Index FeatureMap::width() const { return table_->D; }
Index FeatureMap::size() const { return table_->F; }

void FeatureMap::map(const double* x, double* phi) const {
  const Table& t = *table_;
  switch (t.kind) {
    case Table::Kind::identity:
      for (Index d = 0; d < t.D; ++d) phi[d] = x[d];
      break;
    case Table::Kind::elu1:
      for (Index d = 0; d < t.D; ++d) phi[d] = x[d] > 0 ? x[d] + 1 : std::exp(x[d]);
      break;
    case Table::Kind::relu:
      for (Index d = 0; d < t.D; ++d) phi[d] = x[d] > 0 ? x[d] : 0;
      break;
    case Table::Kind::monomial:
      for (std::size_t f = 0; f < t.exponents.size(); ++f) {
        double product = t.weight[f];
        for (std::size_t d = 0; d < t.exponents[f].size(); ++d)
          product *= power(x[d] * t.input_scale, t.exponents[f][d]);
        phi[f] = product;
      }
      break;
    case Table::Kind::random: {
      double square = 0;
      for (Index d = 0; d < t.D; ++d) square += x[d] * x[d] * t.input_scale * t.input_scale;
      for (Index r = 0; r < t.F; ++r) {
        double dot = 0;
        for (Index d = 0; d < t.D; ++d) dot += t.directions(r, d) * x[d] * t.input_scale;
        phi[r] = std::exp(dot - square / 2) / std::sqrt(static_cast<double>(t.F));
      }
      break;
    }
  }
}

void FeatureMap::pullback(const double* x, const double* dphi, double* dx) const {
  const Table& t = *table_;
  switch (t.kind) {
    case Table::Kind::identity:
      for (Index d = 0; d < t.D; ++d) dx[d] += dphi[d];
      break;
    case Table::Kind::elu1:
      for (Index d = 0; d < t.D; ++d) dx[d] += dphi[d] * (x[d] > 0 ? 1 : std::exp(x[d]));
      break;
    case Table::Kind::relu:
      for (Index d = 0; d < t.D; ++d) dx[d] += x[d] > 0 ? dphi[d] : 0;
      break;
    case Table::Kind::monomial:
      for (std::size_t f = 0; f < t.exponents.size(); ++f) {
        const auto& n = t.exponents[f];
        for (std::size_t d = 0; d < n.size(); ++d) {
          if (n[d] == 0) continue;
          double product = t.weight[f] * t.input_scale * n[d] * power(x[d] * t.input_scale, n[d] - 1);
          for (std::size_t e = 0; e < n.size(); ++e)
            if (e != d) product *= power(x[e] * t.input_scale, n[e]);
          dx[d] += dphi[f] * product;
        }
      }
      break;
    case Table::Kind::random: {
      std::vector<double> phi(t.F);
      map(x, phi.data());
      for (Index r = 0; r < t.F; ++r) {
        const double weight = dphi[r] * phi[r] * t.input_scale;
        for (Index d = 0; d < t.D; ++d) dx[d] += weight * (t.directions(r, d) - x[d] * t.input_scale);
      }
      break;
    }
  }
}

Matrix random_directions(const Linear& kernel, Index D) {
  Matrix directions({kernel.count, D});
  Stream stream(static_cast<std::uint64_t>(kernel.seed), "features");
  for (double& w : directions) w = stream.normal();
  return directions;
}

Index monomial_count(Index D, Index degree) {
  Index count = 1;
  for (Index t = 1; t <= degree; ++t) {
    Index product = 0;
    if (__builtin_mul_overflow(count, D + t, &product)) return std::numeric_limits<Index>::max();
    count = product / t;
  }
  return degree < 0 ? 0 : count;
}

std::vector<std::vector<int>> monomials(Index D, Index degree) {
  std::vector<std::vector<int>> out;
  std::vector<int> exponents(D, 0);
  for (Index t = 0; t <= degree; ++t) append_monomials(exponents, 0, static_cast<int>(t), out);
  return out;
}

}  // namespace saddle::primal

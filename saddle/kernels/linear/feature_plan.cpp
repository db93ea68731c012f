#include "saddle/kernels/linear/feature_plan.hpp"

#include <algorithm>
#include <cmath>

#include "saddle/primal/features.hpp"

namespace saddle::kernels::linear_kernel {

namespace {

using primal::FeatureMapKind;

// All monomials of D variables up to `degree` as runs, with 1/sqrt(n_1! ... n_D!) and the degree of each.
struct Monomials {
  std::vector<Index> degree;
  std::vector<double> root;  // 1/sqrt(prod n_d!)
};

template <class T>
Monomials plan_monomials(FeaturePlan<T>& plan, Index top) {
  const Index D = plan.D;
  Monomials all{{0}, {1}};
  std::vector<Index> power{0};  // of the leading variable
  // start[d]: where the monomials of the last degree begin whose leading variable is d or later; only the constant has
  // none.
  std::vector<Index> start(D + 1, 0);
  start[D] = 1;
  for (Index t = 1; t <= top; ++t) {
    const Index end = start[D];
    std::vector<Index> next(D + 1);
    plan.top_runs = plan.runs.size();
    if (t > 1) plan.lower = end;
    for (Index d = 0; d < D; ++d) {
      const auto to = static_cast<Index>(all.root.size());
      const Index from = t == 1 ? 0 : start[d];
      next[d] = to;
      if (t > 1) plan.runs.push_back({to, from, end - from, d});
      for (Index f = from; f < end; ++f) {
        const bool repeated = t > 1 && f < start[d + 1];
        power.push_back(repeated ? power[f] + 1 : 1);
        all.root.push_back(all.root[f] / std::sqrt(static_cast<double>(power.back())));
        all.degree.push_back(t);
      }
    }
    next[D] = static_cast<Index>(all.root.size());
    start = std::move(next);
  }
  plan.monomials = static_cast<Index>(all.root.size());
  if (top <= 1) plan.lower = plan.monomials;
  return all;
}

template <class T>
void set_weights(FeaturePlan<T>& plan, const std::vector<double>& weights) {
  plan.weights = Buffer<T>(padded<T>(plan.F) + 2 * padded<T>(1));
  std::transform(weights.begin(), weights.end(), plan.weights.data() + padded<T>(1),
                 [](double weight) { return static_cast<T>(weight); });
}

template <class T>
void plan_taylor(FeaturePlan<T>& plan, Index order) {
  plan.kind = FeaturePlan<T>::Kind::monomial;
  plan.input_scale = static_cast<T>(std::pow(static_cast<double>(plan.D), -0.25));
  set_weights(plan, plan_monomials(plan, order).root);
}

// Weights sqrt(p!/(n_1! ... n_D! (p-|n|)!) c^(p-|n|)); without c only the full degree remains.
template <class T>
void plan_polynomial(FeaturePlan<T>& plan, const primal::Polynomial& kernel) {
  plan.kind = FeaturePlan<T>::Kind::monomial;
  const Monomials all = plan_monomials(plan, kernel.degree);
  plan.first = plan.monomials - plan.F;
  std::vector<double> weights;
  for (Index f = plan.first; f < plan.monomials; ++f) {
    double square = 1;  // p!/(p-|n|)! c^(p-|n|)
    for (Index t = 0; t < kernel.degree; ++t)
      square *= t < all.degree[f] ? static_cast<double>(kernel.degree - t) : kernel.coef0;
    weights.push_back(all.root[f] * std::sqrt(square));
  }
  set_weights(plan, weights);
}

template <class T>
void plan_random(FeaturePlan<T>& plan, const primal::Linear& kernel) {
  plan.kind = FeaturePlan<T>::Kind::random;
  const double scale = std::pow(static_cast<double>(plan.D), -0.25);
  plan.input_scale = static_cast<T>(scale);
  plan.offset = static_cast<T>(-0.5 * std::log(static_cast<double>(plan.F)));
  plan.columns = Buffer<T>(plan.D * padded<T>(plan.F));
  plan.rows = Buffer<T>(plan.F * padded<T>(plan.D));
  const Matrix directions = primal::random_directions(kernel, plan.D);
  for (Index f = 0; f < plan.F; ++f)
    for (Index d = 0; d < plan.D; ++d) {
      const T w = static_cast<T>(scale * directions(f, d));
      plan.columns.data()[d * padded<T>(plan.F) + f] = w;
      plan.rows.data()[f * padded<T>(plan.D) + d] = w;
    }
}

}  // namespace

template <class T>
FeaturePlan<T>::FeaturePlan(const primal::Kernel& kernel, Index width)
    : D(width), F(feature_count(kernel, width).value_or(0)) {
  if (const auto* polynomial = std::get_if<primal::Polynomial>(&kernel)) {
    plan_polynomial(*this, *polynomial);
  } else if (const auto* map = std::get_if<primal::Linear>(&kernel)) {
    switch (map->map) {
      case FeatureMapKind::elu1: kind = Kind::elu1; break;
      case FeatureMapKind::relu: kind = Kind::relu; break;
      case FeatureMapKind::taylor: plan_taylor(*this, map->order); break;
      case FeatureMapKind::random: plan_random(*this, *map); break;
    }
  }
}

template struct FeaturePlan<float>;
template struct FeaturePlan<double>;

// The numbers per monomial are those that exist while the plan is made; random directions are held thrice then.
double plan_memory(const primal::Kernel& kernel, Index D, std::size_t element) {
  const auto F = static_cast<double>(feature_count(kernel, D).value_or(0));
  const auto width = static_cast<double>(D), size = static_cast<double>(element);
  if (const auto* polynomial = std::get_if<primal::Polynomial>(&kernel))
    return static_cast<double>(primal::monomial_count(D, polynomial->degree)) * 64 +
           32 * width * static_cast<double>(polynomial->degree);
  const auto* map = std::get_if<primal::Linear>(&kernel);
  if (map && map->map == FeatureMapKind::taylor) return F * 64 + 32 * width * static_cast<double>(map->order);
  if (map && map->map == FeatureMapKind::random) return F * width * 8 + size * (F + 16) * (width + 16) * 2;
  return 0;
}

}  // namespace saddle::kernels::linear_kernel

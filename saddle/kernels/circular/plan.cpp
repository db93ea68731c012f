#include "saddle/kernels/circular/plan.hpp"

#include <cmath>
#include <list>
#include <mutex>
#include <numbers>

namespace saddle::kernels::circular {

namespace {

// f(radix) for the stages of a length, and what is left of it: 1, or a product of other primes. Odd radices come first:
// the last stage is where a product is taken, best with four points at once.
template <class F>
Index for_each_radix(Index length, const F& f) {
  for (int radix : {7, 5, 3})
    for (; length % radix == 0; length /= radix) f(radix);
  int twos = 0;
  for (; length % 2 == 0; length /= 2) ++twos;
  if (twos % 2 == 1) f(2);
  for (int fours = twos / 2; fours > 0; --fours) f(4);
  return length;
}

// Vector instructions per point.
double butterfly_cost(int radix) {
  switch (radix) {
    case 2: return 9;
    case 3: return 13;
    case 4: return 12;
    case 5: return 18;
    default: return 26;
  }
}

// exp(-2 pi i k/n), reduced to the first eighth of the circle, where cos and sin round best.
std::pair<double, double> root(Index k, Index n) {
  k %= n;
  if (2 * k > n) {
    const auto [c, s] = root(n - k, n);
    return {c, -s};
  }
  if (4 * k > n) {  // half a turn back: n may be odd, so in units of 1/(2n)
    const double angle = std::numbers::pi * static_cast<double>(n - 2 * k) / static_cast<double>(n);
    return {-std::cos(angle), -std::sin(angle)};
  }
  if (8 * k > n) {
    const double angle = std::numbers::pi * static_cast<double>(n - 4 * k) / static_cast<double>(2 * n);
    return {std::sin(angle), -std::cos(angle)};
  }
  const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
  return {std::cos(angle), -std::sin(angle)};
}

template <class T>
std::shared_ptr<const Plan<T>> make_plan(Index length) {
  auto made = std::make_shared<Plan<T>>();
  made->length = length;
  for_each_radix(length, [&](int radix) {
    const Index part = length / radix;
    made->stages.push_back({radix, length, part, static_cast<Index>(made->turns.size())});
    if (part > 1)
      for (Index j = 0; j < part; ++j)
        for (Index p = 1; p < radix; ++p) {
          const auto [re, im] = root(j * p, length);
          made->turns.push_back(static_cast<T>(re));
          made->turns.push_back(static_cast<T>(im));
        }
    length = part;
  });
  if (made->stages.empty()) made->stages.push_back({});
  return made;
}

// The last ones used, newest first.
template <class T>
class Plans {
 public:
  std::shared_ptr<const Plan<T>> get(Index length) {
    {
      const std::lock_guard lock(mutex_);
      if (auto known = find(length)) return known;
    }
    auto made = make_plan<T>(length);
    const std::lock_guard lock(mutex_);
    if (auto known = find(length)) return known;
    plans_.push_front(made);
    bytes_ += bytes(*made);
    while (bytes_ > plan_memory && plans_.size() > 1) {
      bytes_ -= bytes(*plans_.back());
      plans_.pop_back();
    }
    return made;
  }

 private:
  static std::size_t bytes(const Plan<T>& plan) { return sizeof(plan) + plan.turns.size() * sizeof(T); }
  std::shared_ptr<const Plan<T>> find(Index length) {
    for (auto at = plans_.begin(); at != plans_.end(); ++at)
      if ((*at)->length == length) {
        plans_.splice(plans_.begin(), plans_, at);
        return plans_.front();
      }
    return nullptr;
  }

  std::mutex mutex_;
  std::list<std::shared_ptr<const Plan<T>>> plans_;
  std::size_t bytes_ = 0;
};

}  // namespace

double transform_cost(Index length) {
  double cost = 4;
  for_each_radix(length, [&](int radix) { cost += butterfly_cost(radix); });
  return cost * static_cast<double>(length);
}

Index linear_length(Index n) {
  const Index least = 2 * n - 1;
  Index best = 1;
  while (best < least) best *= 2;
  const Index most = best;
  double best_cost = transform_cost(best);
  for (Index sevens = 1; sevens < most; sevens *= 7)
    for (Index fives = sevens; fives < most; fives *= 5)
      for (Index threes = fives; threes < most; threes *= 3) {
        Index length = threes;
        while (length < least) length *= 2;
        const double cost = transform_cost(length);
        if (cost < best_cost) {
          best = length;
          best_cost = cost;
        }
      }
  return best;
}

Index circular_length(Index n) {
  return for_each_radix(n, [](int) {}) == 1 ? n : linear_length(n);
}

template <class T>
std::shared_ptr<const Plan<T>> plan(Index length) {
  static Plans<T> plans;
  return plans.get(length);
}
template std::shared_ptr<const Plan<float>> plan(Index length);
template std::shared_ptr<const Plan<double>> plan(Index length);

}  // namespace saddle::kernels::circular

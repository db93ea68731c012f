#include <algorithm>
#include <numeric>

#include "saddle/analysis/causal_discovery/chi_square_internal.hpp"
#include "saddle/analysis/causal_discovery/partial_correlation_internal.hpp"
#include "saddle/analysis/causal_discovery/subset_search_internal.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

// The oracle has nothing to share between sets.
class Plain {
 public:
  Plain(const DSeparation& test, Index x, Index y, Nodes pool, Index size)
      : test_(test), x_(x), y_(y), pool_(std::move(pool)), given_(static_cast<std::size_t>(size)) {}
  void condition(Index depth, Index i) { given_[static_cast<std::size_t>(depth)] = pool_[static_cast<std::size_t>(i)]; }
  double p_value() { return test_.p_value(x_, y_, {}); }
  double p_value(Index depth, Index i) {
    condition(depth, i);
    return test_.p_value(x_, y_, given_);
  }

 private:
  const DSeparation& test_;
  Index x_, y_;
  Nodes pool_, given_;
};

Residuals conditioning(const FisherZ& test, const Search& w) { return {test, w.x, w.y, w.pool, w.size}; }
Strata conditioning(const ChiSquare& test, const Search& w) { return {test, w.x, w.y, w.pool, w.size}; }
Plain conditioning(const DSeparation& test, const Search& w) { return {test, w.x, w.y, w.pool, w.size}; }

// Goes through the subsets depth first, so that those with a common beginning share what conditioning on it costs.
template <class Conditioning>
class Walk {
 public:
  Walk(Conditioning conditioning, double alpha, const Search& wanted)
      : conditioning_(std::move(conditioning)),
        alpha_(alpha),
        wanted_(wanted),
        members_(static_cast<std::size_t>(wanted.size)) {
    for (const Nodes* nodes : wanted.tested) {
      std::vector<char> inside;
      for (const Index z : wanted.pool) inside.push_back(std::binary_search(nodes->begin(), nodes->end(), z) ? 1 : 0);
      tested_.push_back(std::move(inside));
    }
  }

  Outcome run() {
    if (wanted_.size == 0) {
      if (wanted_.tested.empty()) {
        outcome_.tests = 1;
        if (conditioning_.p_value() > alpha_) outcome_.separating = Nodes{};
      }
    } else {
      extend(0, 0);
    }
    return outcome_;
  }

 private:
  bool known() const {
    return std::any_of(tested_.begin(), tested_.end(), [&](const std::vector<char>& inside) {
      return std::all_of(members_.begin(), members_.end(),
                         [&](Index i) { return inside[static_cast<std::size_t>(i)] != 0; });
    });
  }

  // Chooses member `depth` among the positions from `from`; true once a set separates.
  bool extend(Index depth, Index from) {
    const Index last = static_cast<Index>(wanted_.pool.size()) - (wanted_.size - depth);
    Index& member = members_[static_cast<std::size_t>(depth)];
    for (Index i = from; i <= last; ++i) {
      member = i;
      if (depth + 1 < wanted_.size) {
        conditioning_.condition(depth, i);
        if (extend(depth + 1, i + 1)) return true;
      } else if (!known()) {
        if (++outcome_.tests % sign_of_life == 0 && wanted_.progress != nullptr) wanted_.progress->count();
        if (!(conditioning_.p_value(depth, i) > alpha_)) continue;
        outcome_.separating.emplace();
        for (const Index each : members_) outcome_.separating->push_back(wanted_.pool[static_cast<std::size_t>(each)]);
        return true;
      }
    }
    return false;
  }

  Conditioning conditioning_;
  double alpha_;
  const Search& wanted_;
  Nodes members_;  // positions in the pool
  std::vector<std::vector<char>> tested_;
  Outcome outcome_;
};

}  // namespace

Outcome search(const IndependenceTest& test, double alpha, const Search& wanted) {
  if (static_cast<Index>(wanted.pool.size()) < wanted.size) return {};
  return std::visit([&](const auto& each) { return Walk(conditioning(each, wanted), alpha, wanted).run(); }, test);
}

bool next_subset(Nodes& set, Index n) {
  const auto k = static_cast<Index>(set.size());
  for (Index i = k; i-- > 0;) {
    if (set[static_cast<std::size_t>(i)] == n - k + i) continue;
    std::iota(set.begin() + i, set.end(), set[static_cast<std::size_t>(i)] + 1);
    return true;
  }
  return false;
}

bool worth_threads(const IndependenceTest& test, double tests) {
  const auto* counted = std::get_if<ChiSquare>(&test);
  const double nanoseconds = counted != nullptr ? 1.5 * static_cast<double>(counted->samples()) : 200;
  return tests * nanoseconds > 200e3;
}

}  // namespace saddle::analysis::causal_discovery

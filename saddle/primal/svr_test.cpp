#include "saddle/primal/svr.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"

#ifdef SADDLE_HAVE_LIBSVM
#include <libsvm/svm.h>
#endif

namespace saddle::primal {
namespace {

enum class Kind { rbf, flat_rbf, linear, softmax, duplicates, rank_one, zero, identity };
constexpr Kind all_kinds[] = {Kind::rbf,        Kind::flat_rbf, Kind::linear, Kind::softmax,
                              Kind::duplicates, Kind::rank_one, Kind::zero,   Kind::identity};

struct Case {
  Matrix gram, targets;
  SvrOptions options;
};

// A Gram matrix [M,M] over M random keys of width D.
Matrix random_gram(Kind kind, Index M, Index D, Stream& random) {
  Matrix k({M, D});
  // On a grid, so that dot products are exact even in single precision.
  for (double& x : k) x = std::round(64 * random.normal()) / 64;
  if (kind == Kind::duplicates) {
    for (Index j = M / 2; j < M; ++j) {
      for (Index d = 0; d < D; ++d) k(j, d) = k(j - M / 2, d);
    }
  }
  Matrix G({M, M});
  for (Index i = 0; i < M; ++i) {
    for (Index j = 0; j < M; ++j) {
      double dot = 0, distance = 0;
      for (Index d = 0; d < D; ++d) {
        dot += k(i, d) * k(j, d);
        distance += (k(i, d) - k(j, d)) * (k(i, d) - k(j, d));
      }
      switch (kind) {
        case Kind::rbf:
        case Kind::duplicates: G(i, j) = std::exp(-0.5 * distance); break;
        case Kind::flat_rbf: G(i, j) = std::exp(-0.01 * distance); break;
        case Kind::linear: G(i, j) = dot; break;
        case Kind::softmax: G(i, j) = std::exp(dot / std::sqrt(static_cast<double>(D))); break;
        case Kind::rank_one: G(i, j) = k(i, 0) * k(j, 0); break;
        case Kind::zero: break;
        case Kind::identity: G(i, j) = i == j; break;
      }
    }
  }
  if (kind == Kind::softmax) {
    std::vector<double> h;
    for (Index i = 0; i < M; ++i) {
      double sum = 0;
      for (Index j = 0; j < M; ++j) sum += G(i, j);
      h.push_back(sum);
    }
    for (Index i = 0; i < M; ++i) {
      for (Index j = 0; j < M; ++j) G(i, j) /= h[static_cast<std::size_t>(i)] * h[static_cast<std::size_t>(j)];
    }
  }
  return G;
}

Matrix random_targets(Index M, Index E, Stream& random) {
  Matrix y({M, E});
  for (double& x : y) x = random.normal();
  return y;
}

Case make_case(Kind kind, Index M, Index D, Index E, double C, double epsilon, bool bias, std::uint64_t seed) {
  Stream random(seed, "svr_test");
  Case c{random_gram(kind, M, D, random), random_targets(M, E, random), {}};
  c.options.C = C;
  c.options.epsilon = epsilon;
  c.options.bias = bias;
  c.options.threads = 1;
  return c;
}

struct Judgement {
  double primal = 0, dual = 0, kkt = 0;
};

// P, D and the KKT residual of channel e from their definitions, using nothing but a, a~ and b of the solution.
Judgement judge(const Case& c, const SvrSolution& s, Index e) {
  const Index M = c.gram.shape()[0];
  const double C = c.options.C, epsilon = c.options.epsilon;
  Judgement out;
  double sum = 0, quadratic = 0, linear = 0, slack = 0;
  for (Index j = 0; j < M; ++j) {
    const double a = s.alpha(j, e), a_t = s.alpha_t(j, e), y = c.targets(j, e);
    double f = s.b(e);
    for (Index i = 0; i < M; ++i) f += c.gram(j, i) * (s.alpha(i, e) - s.alpha_t(i, e));
    const double xi = std::max(0.0, y - f - epsilon), xi_t = std::max(0.0, f - y - epsilon);
    for (double term : {y - f - epsilon - xi, f - y - epsilon - xi_t, -xi, -xi_t, -a, -a_t, a - C, a_t - C,
                        std::abs(a * (epsilon + xi - y + f)), std::abs(a_t * (epsilon + xi_t + y - f)),
                        std::abs((C - a) * xi), std::abs((C - a_t) * xi_t)}) {
      EXPECT_FALSE(std::isnan(term));
      out.kkt = std::max(out.kkt, term);
    }
    EXPECT_NEAR(s.f(j, e), f, 1e-9 * (1 + std::abs(f)));
    EXPECT_NEAR(s.xi(j, e), xi, 1e-9 * (1 + std::abs(f)));
    EXPECT_NEAR(s.xi_t(j, e), xi_t, 1e-9 * (1 + std::abs(f)));
    EXPECT_EQ(s.beta(j, e), a - a_t);
    EXPECT_EQ(a * a_t, 0.0);
    sum += a - a_t;
    quadratic += 0.5 * (a - a_t) * (f - s.b(e));
    linear += y * (a - a_t) - epsilon * (a + a_t);
    slack += xi + xi_t;
  }
  if (c.options.bias) {
    out.kkt = std::max(out.kkt, std::abs(sum));
  } else {
    EXPECT_EQ(s.b(e), 0.0);
  }
  out.primal = quadratic + C * slack;
  out.dual = linear - quadratic;
  return out;
}

SvrSolution expect_solved(const Case& c) {
  SvrSolution s = solve_svr(c.gram, c.targets, c.options);
  EXPECT_TRUE(s.converged());
  for (Index e = 0; e < c.targets.shape()[1]; ++e) {
    const SvrChannel& info = s.channels[static_cast<std::size_t>(e)];
    const Judgement j = judge(c, s, e);
    EXPECT_LE(std::abs(j.primal - j.dual), 1e-8 * (1 + std::abs(j.primal))) << info.message;
    EXPECT_LE(j.kkt, 1e-8 * (1 + c.options.C)) << info.message;
    EXPECT_NEAR(info.primal, j.primal, 1e-8 * (1 + std::abs(j.primal)));
    EXPECT_NEAR(info.dual, j.dual, 1e-8 * (1 + std::abs(j.dual)));
    EXPECT_TRUE(info.message.empty());
  }
  return s;
}

TEST(Svr, SolvesEveryShape) {
  std::uint64_t seed = 0;
  for (Kind kind : all_kinds) {
    for (Index M : {1, 2, 3, 15, 40}) {
      for (double C : {1e-4, 1.0, 1e4}) {
        for (double epsilon : {0.0, 0.1, 10.0}) {
          for (bool bias : {false, true}) {
            SCOPED_TRACE("kind " + std::to_string(static_cast<int>(kind)) + " M " + std::to_string(M) + " C " +
                         std::to_string(C) + " epsilon " + std::to_string(epsilon) + " bias " + std::to_string(bias));
            expect_solved(make_case(kind, M, 3, 2, C, epsilon, bias, ++seed));
          }
        }
      }
    }
  }
}

RC_GTEST_PROP(Svr, SolvesRandomProblems, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const auto kind = *rc::gen::elementOf(std::vector<Kind>(std::begin(all_kinds), std::end(all_kinds)));
  const Index M = *rc::gen::inRange<Index>(1, 60);
  const Index D = *rc::gen::inRange<Index>(1, 6);
  const double C = std::pow(10.0, *rc::gen::inRange(-3, 5));
  const double epsilon = *rc::gen::element(0.0, 0.01, 0.1, 1.0);
  Case c = make_case(kind, M, D, 1, C, epsilon, *rc::gen::arbitrary<bool>(), seed);
  // Targets on a grid put many keys exactly on the edge of the tube.
  if (*rc::gen::arbitrary<bool>()) {
    for (double& y : c.targets) y = std::round(y);
  }
  const SvrSolution s = solve_svr(c.gram, c.targets, c.options);
  const Judgement j = judge(c, s, 0);
  RC_ASSERT(s.converged());
  RC_ASSERT(std::abs(j.primal - j.dual) <= 1e-8 * (1 + std::abs(j.primal)));
  RC_ASSERT(j.kkt <= 1e-8 * (1 + C));
}

RC_GTEST_PROP(Svr, PermutingKeysPermutesTheSolution, ()) {
  const Index M = *rc::gen::inRange<Index>(2, 30);
  const Case c =
      make_case(Kind::rbf, M, 3, 1, 2.0, 0.1, *rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<std::uint64_t>());
  Case reversed = c;
  for (Index i = 0; i < M; ++i) {
    reversed.targets(i, 0) = c.targets(M - 1 - i, 0);
    for (Index j = 0; j < M; ++j) reversed.gram(i, j) = c.gram(M - 1 - i, M - 1 - j);
  }
  const SvrSolution s = solve_svr(c.gram, c.targets, c.options);
  const SvrSolution r = solve_svr(reversed.gram, reversed.targets, c.options);
  for (Index i = 0; i < M; ++i) RC_ASSERT(std::abs(s.f(i, 0) - r.f(M - 1 - i, 0)) < 1e-8);
}

TEST(Svr, InterpolatesWithoutTubeAndBound) {
  for (bool bias : {false, true}) {
    const Case c = make_case(Kind::rbf, 20, 6, 3, 1e6, 0.0, bias, 5);
    const SvrSolution s = expect_solved(c);
    for (Index j = 0; j < 20; ++j) {
      for (Index e = 0; e < 3; ++e) EXPECT_NEAR(s.f(j, e), c.targets(j, e), 1e-10);
    }
  }
}

TEST(Svr, TargetsInsideTheTubeNeedNoSupportVectors) {
  const SvrSolution s = expect_solved(make_case(Kind::rbf, 12, 3, 2, 1.0, 100.0, false, 6));
  for (const SvrChannel& channel : s.channels) EXPECT_EQ(channel.support_vectors, 0);
  EXPECT_TRUE(std::all_of(s.f.begin(), s.f.end(), [](double f) { return f == 0; }));
}

TEST(Svr, BiasIsTheMidpointWhenNothingIsFree) {
  Case c = make_case(Kind::identity, 2, 1, 1, 1.0, 1.0, true, 7);
  c.targets(0, 0) = 0.5;
  c.targets(1, 0) = 1.0;
  EXPECT_NEAR(expect_solved(c).b(0), 0.75, 1e-12);
  // Both keys at their bounds: y - G beta = (9, -9), so b is allowed in [-8, 8], shifted by the mean of the targets.
  c.targets(0, 0) = 13;
  c.targets(1, 0) = -7;
  const SvrSolution s = expect_solved(c);
  EXPECT_EQ(s.alpha(0, 0), 1.0);
  EXPECT_EQ(s.alpha_t(1, 0), 1.0);
  EXPECT_NEAR(s.b(0), 3.0, 1e-12);
}

TEST(Svr, ReadsStridedViews) {
  const Case c = make_case(Kind::rbf, 9, 2, 2, 1.0, 0.1, true, 8);
  Matrix wide({9, 4});
  for (Index j = 0; j < 9; ++j) {
    for (Index e = 0; e < 2; ++e) wide(j, 2 * e) = c.targets(j, 1 - e);
  }
  const MatrixView backwards{wide.data() + 2, {9, 2}, {4, -2}};
  EXPECT_EQ(solve_svr(c.gram, backwards, c.options).beta, solve_svr(c.gram, c.targets, c.options).beta);
}

TEST(Svr, SameBitsForAnyNumberOfThreads) {
  Case c = make_case(Kind::softmax, 150, 4, 7, 2e4, 0.1, true, 9);
  c.options.threads = 1;
  const SvrSolution one = expect_solved(c);
  for (int threads : {2, 5}) {
    c.options.threads = threads;
    const SvrSolution many = solve_svr(c.gram, c.targets, c.options);
    EXPECT_EQ(many.beta, one.beta);
    EXPECT_EQ(many.f, one.f);
    EXPECT_EQ(many.b, one.b);
  }
}

TEST(Svr, SaysWhenSomethingIsNotFinite) {
  Case c = make_case(Kind::rbf, 6, 2, 2, 1.0, 0.1, false, 10);
  c.targets(3, 1) = std::numeric_limits<double>::quiet_NaN();
  SvrSolution s = solve_svr(c.gram, c.targets, c.options);
  EXPECT_EQ(s.channels[0].status, SvrStatus::converged);
  EXPECT_EQ(s.channels[1].status, SvrStatus::not_finite);
  EXPECT_FALSE(s.channels[1].message.empty());
  EXPECT_TRUE(std::isnan(s.f(0, 1)));
  c.gram(2, 4) = std::numeric_limits<double>::infinity();
  s = solve_svr(c.gram, c.targets, c.options);
  EXPECT_EQ(s.channels[0].status, SvrStatus::not_finite);
  EXPECT_FALSE(s.converged());
}

TEST(Svr, SaysWhenTheGramMatrixIsNone) {
  Case c = make_case(Kind::zero, 2, 1, 1, 1.0, 0.1, false, 11);
  c.gram(0, 1) = c.gram(1, 0) = 1;
  EXPECT_EQ(solve_svr(c.gram, c.targets, c.options).channels[0].status, SvrStatus::not_positive_semidefinite);
  c.gram(1, 0) = 0;
  EXPECT_EQ(solve_svr(c.gram, c.targets, c.options).channels[0].status, SvrStatus::not_positive_semidefinite);
  c.gram(0, 1) = 0;
  c.gram(0, 0) = -1;
  const SvrSolution s = solve_svr(c.gram, c.targets, c.options);
  EXPECT_EQ(s.channels[0].status, SvrStatus::not_positive_semidefinite);
  EXPECT_NE(s.channels[0].message.find("negative eigenvalue"), std::string::npos);
}

TEST(Svr, SaysWhenIterationsRunOut) {
  Case c = make_case(Kind::linear, 60, 2, 1, 100.0, 0.1, true, 12);
  c.options.max_iterations = 1;
  const SvrSolution s = solve_svr(c.gram, c.targets, c.options);
  EXPECT_EQ(s.channels[0].status, SvrStatus::iteration_limit);
  EXPECT_NE(s.channels[0].message.find("max_iterations = 1"), std::string::npos);
  EXPECT_EQ(s.channels[0].iterations, 1);
  EXPECT_TRUE(std::isfinite(s.channels[0].kkt));
}

TEST(Svr, RefusesWrongArguments) {
  const Case good = make_case(Kind::rbf, 4, 2, 1, 1.0, 0.1, false, 13);
  const auto refuses = [&](const Matrix& gram, const Matrix& targets, const SvrOptions& options) {
    EXPECT_THROW(solve_svr(gram, targets, options), InvalidArgument);
  };
  refuses(Matrix({4, 3}), good.targets, good.options);
  refuses(Matrix({0, 0}), Matrix({0, 1}), good.options);
  refuses(good.gram, Matrix({5, 1}), good.options);
  for (double C : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    SvrOptions options;
    options.C = C;
    refuses(good.gram, good.targets, options);
  }
  SvrOptions options;
  options.epsilon = -1e-3;
  refuses(good.gram, good.targets, options);
  options = {};
  options.max_iterations = 0;
  refuses(good.gram, good.targets, options);
  options = {};
  options.kkt_tolerance = 0;
  refuses(good.gram, good.targets, options);
  EXPECT_TRUE(solve_svr(good.gram, Matrix({4, 0}), good.options).converged());
}

#ifdef SADDLE_HAVE_LIBSVM

// Fitted values [M] of libsvm, which always has a bias, for channel e.
std::vector<double> libsvm_fit(const Case& c, Index e) {
  const Index M = c.gram.shape()[0];
  std::vector<std::vector<svm_node>> rows;
  std::vector<svm_node*> x;
  std::vector<double> y;
  for (Index i = 0; i < M; ++i) {
    std::vector<svm_node> row{{0, static_cast<double>(i + 1)}};
    for (Index j = 0; j < M; ++j) row.push_back({static_cast<int>(j + 1), c.gram(i, j)});
    row.push_back({-1, 0});
    rows.push_back(row);
    y.push_back(c.targets(i, e));
  }
  for (auto& row : rows) x.push_back(row.data());
  svm_problem problem{static_cast<int>(M), y.data(), x.data()};
  svm_parameter parameter{};
  parameter.svm_type = EPSILON_SVR;
  parameter.kernel_type = PRECOMPUTED;
  parameter.C = c.options.C;
  parameter.p = c.options.epsilon;
  parameter.eps = 1e-10;
  parameter.cache_size = 20;
  svm_set_print_string_function([](const char*) {});
  svm_model* model = svm_train(&problem, &parameter);
  std::vector<double> f;
  for (svm_node* row : x) f.push_back(svm_predict(model, row));
  svm_free_and_destroy_model(&model);
  return f;
}

TEST(Svr, AgreesWithLibsvm) {
  std::uint64_t seed = 100;
  for (Kind kind : {Kind::rbf, Kind::linear, Kind::softmax, Kind::duplicates}) {
    for (Index M : {5, 30}) {
      for (double C : {0.1, 1.0, 20.0}) {
        Case c = make_case(kind, M, 6, 1, C, 0.1, true, ++seed);
        // libsvm keeps kernel values in single precision.
        for (double& g : c.gram) g = static_cast<float>(g);
        // Row-normalised weights are of order 1/M^2, so the box must be of order M^2 to matter.
        if (kind == Kind::softmax) c.options.C *= static_cast<double>(M * M);
        const SvrSolution s = expect_solved(c);
        const std::vector<double> f = libsvm_fit(c, 0);
        // b is unique only if some key is free.
        bool any_free = false;
        for (Index j = 0; j < M; ++j) any_free |= s.beta(j, 0) != 0 && std::abs(s.beta(j, 0)) < c.options.C;
        const double shift = any_free ? 0.0 : f[0] - s.f(0, 0);
        for (Index j = 0; j < M; ++j) EXPECT_NEAR(s.f(j, 0) + shift, f[static_cast<std::size_t>(j)], 1e-6);
      }
    }
  }
}

#endif

}  // namespace
}  // namespace saddle::primal

#include "saddle/kernels/amx/amx_core.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "saddle/base/cpu.hpp"

namespace saddle::kernels {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

class AmxCore : public testing::Test {
 protected:
  void SetUp() override {
    if (best_isa() < Isa::amx) GTEST_SKIP() << "this machine, or SADDLE_MAX_ISA, has no AMX";
  }
};

using Sees = std::function<bool(Index i, Index j)>;

// One head with random rows, what the core makes of it, and the same in double.
struct Problem {
  Index N, K, D, E;
  double a = 0;
  std::vector<BFloat16> q, k, v, dy;
  std::vector<float> q_shift, q_factor, row;
  std::vector<std::uint8_t> keep;
  primal::Call call;
  Tensor tokens_q, tokens_k, tokens_v, mask;
  Sees sees = [](Index, Index) { return true; };

  Problem(Index n, Index keys, Index d, Index e, double spread = 1) : N(n), K(keys), D(d), E(e) {
    a = 1 / std::sqrt(static_cast<double>(D));
    std::mt19937 random(static_cast<unsigned>(N + 1000 * K + 7 * D + 3 * E));
    std::normal_distribution<double> normal;
    const auto fill = [&](std::vector<BFloat16>& x, Index count, double factor) {
      x.resize(static_cast<std::size_t>(count));
      for (BFloat16& value : x) value = BFloat16(factor * normal(random));
    };
    fill(q, N * D, spread);
    fill(k, K * D, 1);
    fill(v, K * E, 1);
    fill(dy, N * E, 1);
    tokens_q = Tensor(DType::bf16, {1, 1, N, D});
    tokens_k = Tensor(DType::bf16, {1, 1, K, D});
    tokens_v = Tensor(DType::bf16, {1, 1, K, E});
    call.q = tokens_q.view();
    call.k = tokens_k.view();
    call.v = tokens_v.view();
  }
  void see(const primal::KeySet& part, Sees rule) {
    call.attention.keys.push_back(part);
    sees = std::move(rule);
  }
  void see(Sees rule) {
    sees = std::move(rule);
    mask = Tensor(DType::boolean, {1, 1, N, K});
    for (Index i = 0; i < N; ++i)
      for (Index j = 0; j < K; ++j) mask.set(i * K + j, sees(i, j));
    call.mask = mask.view();
  }
  bool visible(Index i, Index j) const {
    return sees(i, j) && (keep.empty() || keep[static_cast<std::size_t>(j)] != 0);
  }
  double query(Index i, Index c) const {
    const double x = static_cast<double>(q[static_cast<std::size_t>(i * D + c)]);
    if (q_factor.empty()) return x;
    return (x - q_shift[static_cast<std::size_t>(c)]) * q_factor[static_cast<std::size_t>(c)];
  }
};

struct Result {
  std::vector<float> y, lse, dq, dk, dv;
};

Rows<const BFloat16> rows(const std::vector<BFloat16>& x, Index width) { return {x.data(), width}; }

// Runs the core: forward in tasks of `task` queries, backward in ranges of `range` keys, float or bfloat16 rows.
Result compute(const Problem& problem, Index task = amx_queries, Index range = 1 << 20, bool full = false) {
  const auto [N, K, D, E] = std::array{problem.N, problem.K, problem.D, problem.E};
  const primal::Windows windows;
  const Visibility visibility(problem.call, 0, 0, K, problem.keep, windows);
  std::vector<float> wide[4];
  const auto source = [&](const std::vector<BFloat16>& x, Index width, int slot) {
    AmxRows out;
    if (full) {
      for (BFloat16 value : x) wide[slot].push_back(static_cast<float>(value));
      out.full = {wide[slot].data(), width};
    } else {
      out.half = rows(x, width);
    }
    return out;
  };
  const AmxRows q = source(problem.q, D, 0), k = source(problem.k, D, 1), v = source(problem.v, E, 2),
                dy = source(problem.dy, E, 3);
  AmxKeys keys;
  AmxHead head{.N = N, .K = K, .D = D, .E = E, .q = q, .a = problem.a, .keys = &keys, .visibility = &visibility};
  if (!problem.q_factor.empty()) {
    head.q_shift = problem.q_shift.data();
    head.q_factor = problem.q_factor.data();
  }
  if (!problem.row.empty()) head.row = problem.row.data();
  const std::uint8_t* keep = problem.keep.empty() ? nullptr : problem.keep.data();

  Result result;
  const auto size = [](Index n) { return static_cast<std::size_t>(n); };
  std::vector<BFloat16> half(size(N * E), BFloat16(nan_value));
  std::vector<float> y(size(N * E), nan_value);
  result.lse.assign(size(N), nan_value);
  keys.pack(AmxKeys::Pass::forward, K, D, E, k, v, keep);
  AmxOutputs rounded, exact;
  rounded.half = {half.data(), E};
  rounded.lse = result.lse.data();
  exact.full = {y.data(), E};
  for (Index i = 0; i < N; i += task) {
    amx_forward(head, rounded, i, std::min(N, i + task));
    amx_forward(head, exact, i, std::min(N, i + task));
  }
  for (std::size_t i = 0; i < half.size(); ++i) {
    EXPECT_TRUE(half[i] == BFloat16(y[i]) || std::isnan(y[i])) << i;
    result.y.push_back(static_cast<float>(half[i]));
  }

  std::vector<float> delta(size(N));
  for (Index i = 0; i < N; ++i) {
    double sum = 0;
    for (Index e = 0; e < E; ++e)
      sum += static_cast<double>(problem.dy[size(i * E + e)]) * static_cast<double>(y[size(i * E + e)]);
    delta[size(i)] = static_cast<float>(sum);
  }
  keys.pack(AmxKeys::Pass::backward, K, D, E, k, v, keep);
  AmxQueries queries;
  queries.pack(head, dy, result.lse.data(), delta.data());
  result.dq.assign(size(N * D), 0);
  result.dk.assign(size(K * D), nan_value);
  result.dv.assign(size(K * E), nan_value);
  AmxScratch scratch;
  for (Index j = 0; j < K; j += range) {
    std::vector<float> part(size(N * D), nan_value);
    const Index end = std::min(K, j + range);
    amx_backward(head, queries, {{part.data(), D}, {result.dk.data(), D}, {result.dv.data(), E}}, j, end, scratch);
    for (std::size_t i = 0; i < part.size(); ++i) result.dq[i] += part[i];
    // As bfloat16 the same, rounded, and denormal numbers as 0.
    std::vector<BFloat16> dq(part.size()), dk(result.dk.size()), dv(result.dv.size());
    amx_backward(head, queries, {{}, {}, {}, {dq.data(), D}, {dk.data(), D}, {dv.data(), E}}, j, end, scratch);
    const auto expect_rounded = [&](const std::vector<BFloat16>& found, const std::vector<float>& from, Index first,
                                    Index last) {
      for (Index i = first; i < last; ++i) {
        const float x =
            std::fabs(from[size(i)]) < std::numeric_limits<float>::min() ? 0 * from[size(i)] : from[size(i)];
        const bool equal =
            std::isnan(x) ? std::isnan(static_cast<float>(found[size(i)])) : found[size(i)] == BFloat16(x);
        EXPECT_TRUE(equal) << i << " " << x;
      }
    };
    expect_rounded(dq, part, 0, N * D);
    expect_rounded(dk, result.dk, j * D, end * D);
    expect_rounded(dv, result.dv, j * E, end * E);
  }
  return result;
}

struct Expected {
  std::vector<double> y, lse, dq, dk, dv;
};

Expected expect(const Problem& problem) {
  const auto [N, K, D, E] = std::array{problem.N, problem.K, problem.D, problem.E};
  const auto size = [](Index n) { return static_cast<std::size_t>(n); };
  Expected out{std::vector<double>(size(N * E)), std::vector<double>(size(N), -infinity),
               std::vector<double>(size(N * D)), std::vector<double>(size(K * D)), std::vector<double>(size(K * E))};
  for (Index i = 0; i < N; ++i) {
    std::vector<double> s(size(K), -infinity), dp(size(K));
    double top = -infinity, sum = 0, delta = 0;
    for (Index j = 0; j < K; ++j) {
      if (!problem.visible(i, j)) continue;
      s[size(j)] = problem.row.empty() ? 0 : problem.row[size(i)];
      for (Index c = 0; c < D; ++c)
        s[size(j)] += problem.a * problem.query(i, c) * static_cast<double>(problem.k[size(j * D + c)]);
      for (Index e = 0; e < E; ++e)
        dp[size(j)] +=
            static_cast<double>(problem.dy[size(i * E + e)]) * static_cast<double>(problem.v[size(j * E + e)]);
      top = std::max(top, s[size(j)]);
    }
    if (top == -infinity) continue;
    for (double x : s) sum += std::exp(x - top);
    out.lse[size(i)] = top + std::log(sum);
    std::vector<double> p(size(K));
    for (Index j = 0; j < K; ++j) {
      p[size(j)] = std::exp(s[size(j)] - top) / sum;
      delta += p[size(j)] * dp[size(j)];
    }
    for (Index j = 0; j < K; ++j) {
      if (p[size(j)] == 0) continue;
      const double ds = p[size(j)] * (dp[size(j)] - delta) * problem.a;
      for (Index e = 0; e < E; ++e) {
        out.y[size(i * E + e)] += p[size(j)] * static_cast<double>(problem.v[size(j * E + e)]);
        out.dv[size(j * E + e)] += p[size(j)] * static_cast<double>(problem.dy[size(i * E + e)]);
      }
      for (Index c = 0; c < D; ++c) {
        out.dq[size(i * D + c)] += ds * static_cast<double>(problem.k[size(j * D + c)]);
        out.dk[size(j * D + c)] += ds * problem.query(i, c);
      }
    }
  }
  return out;
}

// Relative distance in l2, and the largest error against the largest value or 1.
struct Distance {
  double l2 = 0, max = 0;
};
Distance distance(const std::vector<float>& got, const std::vector<double>& want) {
  double error = 0, norm = 0, largest = 0, scale = 1;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double x = got[i] - want[i];
    error += x * x;
    norm += want[i] * want[i];
    largest = std::isnan(x) ? infinity : std::max(largest, std::fabs(x));
    scale = std::max(scale, std::fabs(want[i]));
  }
  return {std::sqrt(error / std::max(norm, 1e-12 * static_cast<double>(want.size()))), largest / scale};
}

void expect_near(const Problem& problem, const Result& got, double gradient_l2 = 6e-3) {
  const Expected want = expect(problem);
  const Distance y = distance(got.y, want.y);
  EXPECT_LE(y.l2, 4.5e-3);  // 3.5e-3 on average; a few keys average less
  EXPECT_LE(y.max, 1e-2);
  for (std::size_t i = 0; i < want.lse.size(); ++i) {
    if (want.lse[i] == -infinity) {
      EXPECT_EQ(got.lse[i], -infinity) << i;
    } else {
      EXPECT_NEAR(got.lse[i], want.lse[i], 1e-2 * std::max(1.0, std::fabs(want.lse[i]))) << i;
    }
  }
  const std::pair<const char*, Distance> gradients[] = {
      {"dq", distance(got.dq, want.dq)}, {"dk", distance(got.dk, want.dk)}, {"dv", distance(got.dv, want.dv)}};
  for (const auto& [name, d] : gradients) {
    EXPECT_TRUE(d.l2 <= gradient_l2 || d.max <= 2e-3) << name << " " << d.l2 << " " << d.max;
    EXPECT_LE(d.max, 1e-2) << name;
  }
}

TEST_F(AmxCore, AnyNumberOfQueriesAndKeys) {
  for (Index N : {1, 2, 3, 7, 17, 33, 65, 130})
    for (Index K : {1, 2, 3, 7, 17, 33, 65, 130}) {
      SCOPED_TRACE(testing::Message() << N << " queries, " << K << " keys");
      const Problem problem(N, K, 24, 40);
      expect_near(problem, compute(problem));
    }
}

TEST_F(AmxCore, AnyWidths) {
  for (Index D : {3, 16, 24, 32, 40, 64, 80, 128, 256})
    for (Index E : {1, 16, 24, 32, 40, 64, 80, 128, 256}) {
      SCOPED_TRACE(testing::Message() << "D " << D << ", E " << E);
      const Problem problem(70, 150, D, E);
      expect_near(problem, compute(problem));
    }
}

TEST_F(AmxCore, MoreKeysThanStayInCache) {
  const Problem problem(40, 5000, 32, 32);
  expect_near(problem, compute(problem));
}

TEST_F(AmxCore, MeanErrorIsSmall) {
  for (Index D : {32, 64, 128}) {
    const Problem problem(256, 512, D, D);
    const Distance y = distance(compute(problem).y, expect(problem).y);
    EXPECT_LE(y.l2, 3.5e-3) << D;
  }
}

TEST_F(AmxCore, KeySets) {
  for (Index N : {5, 64, 200}) {
    Problem causal(N, N, 64, 64);
    causal.see(primal::Causal{}, [](Index i, Index j) { return j <= i; });
    expect_near(causal, compute(causal));
    Problem window(N, N, 64, 64);
    window.see(primal::Window{9}, [](Index i, Index j) { return std::abs(i - j) <= 9; });
    expect_near(window, compute(window));
  }
}

TEST_F(AmxCore, MasksAndQueriesThatSeeNothing) {
  for (double spread : {1.0, 30.0}) {
    Problem problem(100, 140, 32, 40, spread);
    problem.see([](Index i, Index j) { return i % 7 != 3 && (i * 31 + j * 17) % 5 < 2; });
    const Result got = compute(problem);
    expect_near(problem, got, 1e-2);
    for (Index e = 0; e < 40; ++e) EXPECT_EQ(got.y[3 * 40 + static_cast<std::size_t>(e)], 0);
    for (Index c = 0; c < 32; ++c) EXPECT_EQ(got.dq[3 * 32 + static_cast<std::size_t>(c)], 0);
  }
}

TEST_F(AmxCore, HiddenKeysMayHoldAnything) {
  Problem problem(50, 90, 40, 24);
  problem.keep.assign(90, 1);
  for (std::size_t j : {0u, 31u, 32u, 70u, 88u, 89u}) problem.keep[j] = 0;
  const Expected want = expect(problem);
  for (std::size_t j = 0; j < 90; ++j) {
    if (problem.keep[j] != 0) continue;
    for (std::size_t c = 0; c < 40; ++c) problem.k[j * 40 + c] = BFloat16(c % 2 == 0 ? nan_value : infinity);
    for (std::size_t e = 0; e < 24; ++e) problem.v[j * 24 + e] = BFloat16(nan_value);
  }
  const Result got = compute(problem);
  EXPECT_LE(distance(got.y, want.y).l2, 4.5e-3);
  EXPECT_LE(distance(got.dq, want.dq).l2, 6e-3);
  EXPECT_LE(distance(got.dk, want.dk).l2, 6e-3);
  EXPECT_LE(distance(got.dv, want.dv).l2, 6e-3);
  for (std::size_t e = 0; e < 24; ++e) EXPECT_EQ(got.dv[31 * 24 + e], 0);
}

TEST_F(AmxCore, LargeLogits) {
  for (double spread : {5.0, 100.0, 1e4, 1e6}) {
    SCOPED_TRACE(spread);
    const Problem problem(70, 200, 64, 64, spread);
    const Result got = compute(problem);
    const Expected want = expect(problem);
    EXPECT_LE(distance(got.y, want.y).max, 1e-2);
    for (std::size_t i = 0; i < want.lse.size(); ++i)
      EXPECT_NEAR(got.lse[i], want.lse[i], 1e-2 + 1e-5 * std::fabs(want.lse[i])) << i;
    if (spread > 1e4) continue;  // a float lse of 1e7 has no fraction
    EXPECT_LE(distance(got.dv, want.dv).max, 1e-2);
  }
}

TEST_F(AmxCore, ReferenceFollowsScoresThatGrow) {
  Problem problem(40, 400, 32, 32);
  for (std::size_t i = 0; i < problem.q.size(); ++i) problem.q[i] = BFloat16(1.0f);
  for (std::size_t j = 0; j < 400; ++j)
    for (std::size_t c = 0; c < 32; ++c)
      problem.k[j * 32 + c] = BFloat16(c == j % 32 ? 3.0f * static_cast<float>(j) : 0.0f);
  expect_near(problem, compute(problem));
}

TEST_F(AmxCore, SignAndSizeOfTheScale) {
  for (double a : {-0.3, 0.0, 0.02}) {
    Problem problem(40, 70, 32, 32);
    problem.a = a;
    expect_near(problem, compute(problem));
    Problem large(40, 70, 32, 32, 50);
    large.a = a;
    EXPECT_LE(distance(compute(large).y, expect(large).y).max, 1e-2) << a;
  }
}

TEST_F(AmxCore, ShiftedQueriesAndRowTerm) {
  Problem problem(70, 70, 24, 32);
  for (Index c = 0; c < 24; ++c) {
    problem.q_shift.push_back(0.25f * static_cast<float>(c % 3));
    problem.q_factor.push_back(c % 2 == 0 ? 0.5f : 1.5f);
  }
  for (Index i = 0; i < 70; ++i) problem.row.push_back(0.1f * static_cast<float>(i) - 3);
  expect_near(problem, compute(problem), 8e-3);
}

TEST_F(AmxCore, NaNStaysInItsRow) {
  Problem problem(40, 50, 32, 32);
  for (std::size_t c = 0; c < 32; ++c) problem.q[5 * 32 + c] = BFloat16(nan_value);
  const Result got = compute(problem);
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(std::isnan(got.y[i * 32]), i == 5) << i;
}

TEST_F(AmxCore, SameBitsForEverySplit) {
  Problem problem(300, 300, 64, 64);
  problem.see(primal::Causal{}, [](Index i, Index j) { return j <= i; });
  const Result whole = compute(problem, 384), parts = compute(problem, amx_queries, 2 * amx_keys);
  EXPECT_EQ(whole.y, parts.y);
  EXPECT_EQ(whole.lse, parts.lse);
  EXPECT_EQ(whole.dk, parts.dk);
  EXPECT_EQ(whole.dv, parts.dv);
  EXPECT_LE(distance(parts.dq, std::vector<double>(whole.dq.begin(), whole.dq.end())).l2, 1e-6);
}

TEST_F(AmxCore, FloatRowsAreRounded) {
  const Problem problem(70, 90, 40, 24);
  const Result half = compute(problem), full = compute(problem, amx_queries, 1 << 20, true);
  EXPECT_EQ(half.y, full.y);
  EXPECT_EQ(half.lse, full.lse);
  EXPECT_EQ(half.dq, full.dq);
  EXPECT_EQ(half.dk, full.dk);
  EXPECT_EQ(half.dv, full.dv);
}

}  // namespace
}  // namespace saddle::kernels

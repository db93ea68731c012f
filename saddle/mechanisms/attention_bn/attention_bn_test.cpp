// Attention-BN against the fused form of the specification of BN and SH 3.1: softmax attention with changed queries and
// the original keys, values and gradients (property 7 of section 10).
#include <gtest/gtest.h>

#include "saddle/primal/testing_internal.hpp"

namespace saddle::primal {
namespace {

using namespace testing;

// Statistics of the kept keys of sample b, head h: n, mean [D], r = 1/(var + eps) [D] or 1.
struct Statistics {
  double n = 0;
  std::vector<double> mean, r;
};

struct Fused {
  const Sample& s;
  bool std_mode;
  double eps = 1e-5;
  Dims dims = s.dims();

  bool keep(Index b, Index j) const { return !s.call().key_mask || s.key_mask.at(b * dims.M + j) != 0; }
  double k(Index b, Index h, Index j, Index d) const { return s.k.at(((b * dims.H + h) * dims.M + j) * dims.D + d); }
  double q(Index b, Index h, Index i, Index d) const { return s.q.at(((b * dims.H + h) * dims.N + i) * dims.D + d); }
  double beta(Index h) const { return s.parameters.at("beta").at(s.parameters.at("beta").size() == 1 ? 0 : h); }

  Statistics statistics(Index b, Index h) const {
    Statistics result{0, std::vector<double>(dims.D, 0.0), std::vector<double>(dims.D, 1.0)};
    for (Index j = 0; j < dims.M; ++j) result.n += keep(b, j);
    for (Index d = 0; d < dims.D; ++d) {
      double variance = 0;
      for (Index j = 0; j < dims.M; ++j) result.mean[d] += keep(b, j) * k(b, h, j, d) / result.n;
      for (Index j = 0; j < dims.M; ++j)
        variance += keep(b, j) * std::pow(k(b, h, j, d) - result.mean[d], 2) / result.n;
      if (std_mode) result.r[d] = 1 / (variance + eps);
    }
    return result;
  }

  // q~ = (q - beta mu)/(var + eps), original keys, plain softmax.
  Sample softmax() const {
    Sample plain = s;
    plain.attention = parse("softmax");
    plain.attention.keys = s.attention.keys;
    plain.parameters.clear();
    for (Index b = 0; b < dims.B; ++b)
      for (Index h = 0; h < dims.H; ++h) {
        const Statistics st = statistics(b, h);
        for (Index i = 0; i < dims.N; ++i)
          for (Index d = 0; d < dims.D; ++d)
            plain.q.set(((b * dims.H + h) * dims.N + i) * dims.D + d, (q(b, h, i, d) - beta(h) * st.mean[d]) * st.r[d]);
      }
    return plain;
  }

  // The closed form of the specification, from the gradients dq~ and dk0 of the softmax attention.
  std::map<std::string, Tensor> gradients(const Tensor& dy) const {
    auto g = testing::gradients(softmax(), dy);
    g["beta"] = Tensor(DType::f64, s.parameters.at("beta").shape());
    for (Index b = 0; b < dims.B; ++b)
      for (Index h = 0; h < dims.H; ++h) {
        const Statistics st = statistics(b, h);
        const Index at_beta = g["beta"].size() == 1 ? 0 : h;
        for (Index d = 0; d < dims.D; ++d) {
          double s1 = 0, dr = 0;
          for (Index i = 0; i < dims.N; ++i) {
            const Index at = ((b * dims.H + h) * dims.N + i) * dims.D + d;
            const double dq = g["q"].at(at);
            s1 += dq * st.r[d];
            dr += dq * (q(b, h, i, d) - beta(h) * st.mean[d]);
            g["q"].set(at, dq * st.r[d]);
          }
          g["beta"].set(at_beta, g["beta"].at(at_beta) - s1 * st.mean[d]);
          const double dvariance = std_mode ? -dr * st.r[d] * st.r[d] : 0;
          for (Index j = 0; j < dims.M; ++j) {
            if (!keep(b, j)) continue;
            const Index at = ((b * dims.H + h) * dims.M + j) * dims.D + d;
            g["k"].set(at, g["k"].at(at) + (-beta(h) * s1 + 2 * dvariance * (k(b, h, j, d) - st.mean[d])) / st.n);
          }
        }
      }
    return g;
  }
};

class FusedForm : public ::testing::TestWithParam<std::string> {};

TEST_P(FusedForm, EqualsTheDefinition) {
  for (std::uint64_t seed : {1, 2, 3})
    for (bool masked : {false, true}) {
      Sample s = sample(GetParam(), {2, 3, 5, 6, 4, 3}, seed);
      if (masked) {
        add_key_mask(s, false, seed);
        for (Index b = 0; b < 2; ++b) s.key_mask.set(b * 6 + 1, 1);  // no sample without keys
        add_mask(s, seed);
      }
      const Fused fused{s, GetParam().find("std") != std::string::npos};
      const Tensor y = run(s), dy = cotangent(y);
      EXPECT_LT(error_of(run(fused.softmax()), y), 1e-12);
      const auto expected = fused.gradients(dy);
      const auto definition = gradients(s, dy);
      for (const auto& [name, gradient] : definition) EXPECT_LT(error_of(expected.at(name), gradient), 1e-11) << name;
    }
}

INSTANTIATE_TEST_SUITE_P(AttentionBn, FusedForm,
                         ::testing::Values("softmax+bn", "softmax+bn(scale=std)", "softmax+bn(learn=head)",
                                           "softmax+bn(scale=std,learn=head)", "softmax+bn(scale=std)+window(2)",
                                           "softmax+bn(stats=global,leak=allow)+causal"));

// The logit is [q.k - beta mu.k]/sqrt(D): each key is penalised by its mean similarity to all keys.
TEST(FusedForm, PenalisesKeysThatResembleAllOthers) {
  Sample s = sample("softmax+bn", {1, 1, 1, 4, 2, 1});
  for (Index i = 0; i < s.q.size(); ++i) s.q.set(i, 0);  // nothing but the penalty
  for (Index j = 0; j < 4; ++j) {
    s.k.set(2 * j, j < 3 ? 1 : -1);  // three alike, one that differs
    s.k.set(2 * j + 1, 0);
    s.v.set(j, j < 3 ? 0 : 1);
  }
  s.parameters.clear();
  const double mean = 0.5, penalty = std::exp(-mean / std::sqrt(2.0)), bonus = std::exp(mean / std::sqrt(2.0));
  EXPECT_NEAR(run(s).at(0), bonus / (3 * penalty + bonus), 1e-14);
}

}  // namespace
}  // namespace saddle::primal

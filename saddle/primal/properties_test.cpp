// The property tests of the primal-dual specification section 9 and the specification of BN and SH section 10.
// Properties 5 and 7 of the former are about the regression and live in certificate_test.cpp; 6 of the latter is about
// the layer, in layer_test.cpp.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "saddle/primal/testing_internal.hpp"

namespace saddle::primal {
namespace {

using namespace testing;

Index between(Index low, Index high) { return *rc::gen::inRange<Index>(low, high + 1); }

// Random extents; H may be fixed by a pooling.
Dims any_dims(Index H = 0) {
  return {between(1, 2), H > 0 ? H : between(1, 3), between(1, 7), between(1, 9), between(1, 5), between(1, 4)};
}

Sample any_sample(const std::string& text, const Dims& dims, double spread = 1) {
  Sample s = sample(text, dims, *rc::gen::arbitrary<std::uint64_t>(), spread);
  if (*rc::gen::arbitrary<bool>()) add_key_mask(s, false, *rc::gen::arbitrary<std::uint64_t>());
  return s;
}

// The same data under another declaration; parameters stay where the declaration has them.
Sample redeclared(const Sample& s, const std::string& text) {
  Sample other = s;
  other.attention = parse(text);
  const auto known = parameters(other.attention, s.dims());
  std::erase_if(other.parameters, [&](const auto& given) {
    return std::none_of(known.begin(), known.end(), [&](const ParameterInfo& p) { return p.name == given.first; });
  });
  return other;
}

// Row j of every head of a [B,H,M,C] tensor, to be changed.
void for_rows(Tensor& tensor, Index j, const std::function<double(Index c, double value)>& change) {
  const Index M = tensor.shape()[2], C = tensor.shape()[3];
  for (Index bh = 0; bh < tensor.shape()[0] * tensor.shape()[1]; ++bh)
    for (Index c = 0; c < C; ++c) {
      const Index at = (bh * M + j) * C + c;
      tensor.set(at, change(c, tensor.at(at)));
    }
}

// Rows of a [.., M, C] tensor in a new order.
Tensor reordered(const Tensor& tensor, const std::vector<Index>& order) {
  const Index rank = static_cast<Index>(tensor.shape().size());
  const Index C = rank == 2 ? 1 : tensor.shape().back(), M = tensor.shape()[rank == 2 ? 1 : 2];
  Tensor result(tensor.dtype(), tensor.shape());
  for (Index outer = 0; outer < tensor.size() / (M * C); ++outer)
    for (Index j = 0; j < M; ++j)
      for (Index c = 0; c < C; ++c) result.set((outer * M + j) * C + c, tensor.at((outer * M + order[j]) * C + c));
  return result;
}

std::vector<Index> any_order(Index n) {
  std::vector<Index> order(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) order[i] = i;
  Stream(*rc::gen::arbitrary<std::uint64_t>(), "order").shuffle(order);
  return order;
}

// 9.1
RC_GTEST_PROP(PrimalDual, PrimalFormEqualsDualForm, ()) {
  const auto text = *rc::gen::element<std::string>(
      "linear(elu1)", "linear(taylor)", "linear(taylor,order=4)", "linear(elu1)+causal", "linear(taylor)+causal",
      "poly+one", "dot", "linear(random,count=5)+sqrt_length", "linear(elu1)+bn(scale=std)", "linear(elu1)+sh+causal");
  const Sample s = any_sample(text, any_dims());
  RC_ASSERT(error_of(run(s, primal_forward), run(s)) < 1e-12);
}

// 9.2
TEST(PrimalDual, TaylorTendsToSoftmax) {
  const Sample s = sample("softmax", {1, 2, 4, 6, 3, 2}, 3, 0.5);
  const Tensor softmax = run(s);
  double last = INFINITY;
  for (int order : {2, 4, 6, 8}) {
    const double error =
        error_of(run(redeclared(s, "linear(taylor,order=" + std::to_string(order) + ")+sum(den_eps=0)")), softmax);
    EXPECT_LT(error, last / 8);
    last = error;
  }
  EXPECT_LT(last, 1e-7);
}

// 9.3
RC_GTEST_PROP(PrimalDual, OrderOfKeysAndQueries, ()) {
  const auto text = *rc::gen::element<std::string>("softmax", "rbf", "linear(elu1)", "softmax+bn(scale=std)", "dot+l2",
                                                   "softmax+conv1d(3)", "poly+one");
  const Dims dims = any_dims();
  const Sample s = any_sample(text, dims);
  const Tensor y = run(s);
  Sample keys = s;
  const auto order = any_order(dims.M);
  keys.k = reordered(s.k, order);
  keys.v = reordered(s.v, order);
  if (s.call().key_mask) keys.key_mask = reordered(s.key_mask, order);
  RC_ASSERT(error_of(run(keys), y) < 1e-12);
  Sample queries = s;
  const auto rows = any_order(dims.N);
  queries.q = reordered(s.q, rows);
  RC_ASSERT(run(queries) == reordered(y, rows));
}

// 9.4: outputs lie between the smallest and the largest visible value, channel by channel.
RC_GTEST_PROP(PrimalDual, OutputsAreConvexCombinations, ()) {
  const auto text = *rc::gen::element<std::string>("softmax", "linear(elu1)+sum(den_eps=0)", "rbf", "linear(elu1)",
                                                   "softmax+bn", "linear(random,count=8)+sum(den_eps=0)");
  const Dims dims = any_dims();
  const Sample s = any_sample(text, dims);
  const Tensor y = run(s);
  const bool shrunk = text == "linear(elu1)";  // den_eps pulls towards 0
  for (Index b = 0; b < dims.B; ++b)
    for (Index h = 0; h < dims.H; ++h)
      for (Index e = 0; e < dims.E; ++e) {
        double low = INFINITY, high = -INFINITY;
        for (Index j = 0; j < dims.M; ++j) {
          if (s.call().key_mask && s.key_mask.at(b * dims.M + j) == 0) continue;
          const double value = s.v.at(((b * dims.H + h) * dims.M + j) * dims.E + e);
          low = std::min(low, value);
          high = std::max(high, value);
        }
        if (shrunk || low > high) low = std::min(low, 0.0), high = std::max(high, 0.0);
        for (Index i = 0; i < dims.N; ++i) {
          const double value = y.at(((b * dims.H + h) * dims.N + i) * dims.E + e);
          RC_ASSERT((value >= low - 1e-12 && value <= high + 1e-12));
        }
      }
}

// 9.6
RC_GTEST_PROP(PrimalDual, DuplicatingEveryKeyChangesNothing, ()) {
  const Dims dims = any_dims();
  const Sample s = sample("softmax", dims, *rc::gen::arbitrary<std::uint64_t>());
  Sample twice = s;
  twice.k = Tensor(DType::f64, {dims.B, dims.H, 2 * dims.M, dims.D});
  twice.v = Tensor(DType::f64, {dims.B, dims.H, 2 * dims.M, dims.E});
  for (Index bh = 0; bh < dims.B * dims.H; ++bh)
    for (Index j = 0; j < 2 * dims.M; ++j) {
      for (Index d = 0; d < dims.D; ++d)
        twice.k.set((bh * 2 * dims.M + j) * dims.D + d, s.k.at((bh * dims.M + j % dims.M) * dims.D + d));
      for (Index e = 0; e < dims.E; ++e)
        twice.v.set((bh * 2 * dims.M + j) * dims.E + e, s.v.at((bh * dims.M + j % dims.M) * dims.E + e));
    }
  RC_ASSERT(error_of(run(twice), run(s)) < 1e-12);
}

// 10.1
RC_GTEST_PROP(AttentionBn, BetaZeroIsSoftmax, ()) {
  Sample s = any_sample("softmax+bn", any_dims());
  s.parameters["beta"].set(0, 0);
  RC_ASSERT(error_of(run(s), run(redeclared(s, "softmax"))) < 1e-13);
}

// 10.2
RC_GTEST_PROP(AttentionBn, ShiftOfQueriesAndKeysChangesNothing, ()) {
  const auto text = *rc::gen::element<std::string>("softmax+bn", "softmax+bn(scale=std)", "linear(elu1)+bn(scale=std)",
                                                   "softmax+bn(stats=subset)+window(2)", "softmax+bn+causal");
  const Dims dims = any_dims();
  Sample s = any_sample(text, dims);
  s.parameters.clear();  // beta = 1
  const Tensor y = run(s);
  Stream stream(*rc::gen::arbitrary<std::uint64_t>(), "shift");
  std::vector<double> shift(static_cast<std::size_t>(dims.D));
  for (double& value : shift) value = 2 * stream.normal();
  for (Index i = 0; i < dims.N; ++i) for_rows(s.q, i, [&](Index d, double value) { return value + shift[d]; });
  for (Index j = 0; j < dims.M; ++j) for_rows(s.k, j, [&](Index d, double value) { return value + shift[d]; });
  RC_ASSERT(error_of(run(s), y) < 1e-9);
}

// 10.3; two keys at least, or the variance is 0
RC_GTEST_PROP(AttentionBn, RescalingFeaturesChangesNothingWithStd, ()) {
  Dims dims = any_dims();
  dims.M += 1;
  Sample s = sample("softmax+bn(scale=std,eps=0)", dims, *rc::gen::arbitrary<std::uint64_t>());
  s.parameters["beta"].set(0, *rc::gen::element(0.0, 0.6, 1.0));
  const Tensor y = run(s);
  Stream stream(*rc::gen::arbitrary<std::uint64_t>(), "scale");
  std::vector<double> factor(static_cast<std::size_t>(dims.D));
  for (double& value : factor) value = std::exp(stream.normal());
  for (Index i = 0; i < dims.N; ++i) for_rows(s.q, i, [&](Index d, double value) { return value * factor[d]; });
  for (Index j = 0; j < dims.M; ++j) for_rows(s.k, j, [&](Index d, double value) { return value * factor[d]; });
  RC_ASSERT(error_of(run(s), y) < 1e-9);
}

// 10.4
RC_GTEST_PROP(AttentionSh, FactorOneIsSoftmax, ()) {
  const Sample s = any_sample("softmax+sh(1,1)", any_dims(2));
  RC_ASSERT(run(s) == run(redeclared(s, "softmax")));
}

RC_GTEST_PROP(AttentionSh, OneWindowGivesTheMeanValue, ()) {
  const Dims dims = any_dims(1);
  const Sample s = any_sample("softmax+sh(9)", dims);  // M <= 9
  const Tensor y = run(s);
  for (Index b = 0; b < dims.B; ++b)
    for (Index e = 0; e < dims.E; ++e) {
      double sum = 0, kept = 0;
      for (Index j = 0; j < dims.M; ++j) {
        if (s.call().key_mask && s.key_mask.at(b * dims.M + j) == 0) continue;
        sum += s.v.at((b * dims.M + j) * dims.E + e);
        ++kept;
      }
      const double mean = kept > 0 ? sum / kept : 0;
      for (Index i = 0; i < dims.N; ++i) RC_ASSERT(std::fabs(y.at((b * dims.N + i) * dims.E + e) - mean) < 1e-13);
    }
}

// 10.5
RC_GTEST_PROP(AttentionConv, UnitImpulseIsSoftmax, ()) {
  const auto text = *rc::gen::element<std::string>("conv1d(3)", "conv1d(5,share=true)", "conv2d(3x3)", "conv2d(1x5)");
  Sample s = any_sample("softmax+" + text, any_dims());
  s.parameters.clear();
  RC_ASSERT(run(s) == run(redeclared(s, "softmax")));
}

RC_GTEST_PROP(AttentionConv, UnitImpulseOverTokensIsSoftmax, ()) {
  Dims dims = any_dims();
  dims.M = dims.N;
  Sample s = sample(*rc::gen::element<std::string>("softmax+conv1d(3,axis=token)", "softmax+conv2d(3x3,axis=token)"),
                    dims, *rc::gen::arbitrary<std::uint64_t>());
  s.parameters.clear();
  RC_ASSERT(run(s) == run(redeclared(s, "softmax")));
}

// 10.8
RC_GTEST_PROP(AttentionSh, OrderInsideAWindowDoesNotMatter, ()) {
  const Dims dims = any_dims(1);
  const auto text =
      *rc::gen::element<std::string>("softmax+sh(3)", "softmax+bn(scale=std)+sh(3)", "linear(elu1)+sh(3)");
  const Sample s = any_sample(text, dims);
  std::vector<Index> order(static_cast<std::size_t>(dims.M));
  for (Index j = 0; j < dims.M; ++j) order[j] = j;
  for (Index first = 0; first < dims.M; first += 3)
    std::reverse(order.begin() + first, order.begin() + std::min<Index>(first + 3, dims.M));
  Sample other = s;
  other.k = reordered(s.k, order);
  other.v = reordered(s.v, order);
  if (s.call().key_mask) other.key_mask = reordered(s.key_mask, order);
  RC_ASSERT(error_of(run(other), run(s)) < 1e-12);
}

// 10.9, and the same for every default under a causal key set: token t changes only rows from t on.
const std::vector<std::string> leak_free{"softmax+bn+causal",
                                         "softmax+bn(scale=std)+local(3)",
                                         "linear(elu1)+bn+strided(2)",
                                         "softmax+sh(2)+causal",
                                         "softmax+bn+sh(3)+causal",
                                         "softmax+conv1d(3)+causal",
                                         "rbf+fixed(3)+bn",
                                         "linear(elu1)+causal"};

// Outputs before and after a change of key and value t.
std::pair<Tensor, Tensor> around_change(const Sample& s, Index t) {
  Sample changed = s;
  for_rows(changed.k, t, [](Index, double value) { return value + 1; });
  for_rows(changed.v, t, [](Index, double value) { return value - 1; });
  return {run(s), run(changed)};
}

RC_GTEST_PROP(Causal, DefaultsDoNotLeak, ()) {
  const auto text = *rc::gen::elementOf(leak_free);
  const Index n = between(2, 9), t = between(1, n - 1);
  const auto [y, z] = around_change(sample(text, {1, 1, n, n, 3, 2}, *rc::gen::arbitrary<std::uint64_t>()), t);
  for (Index i = 0; i < t * 2; ++i) RC_ASSERT(y.at(i) == z.at(i));
}

TEST(Causal, LaterRowsDoSeeTheChange) {
  for (const std::string& text : leak_free) {
    const auto [y, z] = around_change(sample(text, {1, 1, 6, 6, 3, 2}), 2);
    EXPECT_GT(error_of(y, z), 1e-6) << text;
  }
}

TEST(Causal, WhatIsAllowedToLeakDoes) {
  for (const char* text :
       {"softmax+bn(stats=global,leak=allow)+causal", "softmax+sh(3,visibility=any,leak=allow)+causal",
        "softmax+conv1d(3,axis=token,leak=allow)+causal"}) {
    const auto [y, z] = around_change(sample(text, {1, 1, 6, 6, 3, 2}), 2);
    double difference = 0;  // rows 0 and 1 come before the change
    for (Index i = 0; i < 4; ++i) difference += std::fabs(y.at(i) - z.at(i));
    EXPECT_GT(difference, 1e-6) << text;
  }
}

}  // namespace
}  // namespace saddle::primal

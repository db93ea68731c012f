#include "saddle/analysis/rank_collapse/rank_collapse.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "places.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/io/safetensors.hpp"

namespace saddle::analysis::rank_collapse {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string folder = SADDLE_SOURCE_DIR "/tests/golden/rank-collapse/";
const std::string cases[] = {"blocks_not_connected_n9", "causal_identity_n8",    "causal_unit_orthogonal_n9",
                             "causal_unit_residual_h2", "complete_identity_n8",  "ln_counterexample_fullrank",
                             "padded_causal_n10",       "sliding_w2_n13_random", "uni_sliding_w3_identity_n11"};

TensorFile recorded(const std::string& name) { return io::read_safetensors(folder + name + ".safetensors"); }

mechanisms::GoldenReport checked(const TensorFile& golden) {
  return mechanisms::check_golden(golden, "", DType::f64, analysis().golden);
}

Array<double, 4> gaussian(Stream& stream, std::array<Index, 4> shape, double deviation) {
  Array<double, 4> w(shape);
  for (double& value : w) value = deviation * stream.normal();
  return w;
}

Matrix gaussian(Stream& stream, Index rows, Index columns) {
  Matrix x({rows, columns});
  for (double& value : x) value = stream.normal();
  return x;
}

Array<double, 4> identities(Index layers, Index d) {
  Array<double, 4> w({layers, 1, d, d});
  for (Index l = 0; l < layers; ++l)
    for (Index i = 0; i < d; ++i) w(l, 0, i, i) = 1;
  return w;
}

TEST(RankCollapse, GoldenCases) {
  for (const std::string& name : cases) {
    const auto report = checked(recorded(name));
    EXPECT_TRUE(report.passed()) << name << " " << report.problem;
  }
}

TEST(RankCollapse, GoldenCasesCanFail) {
  for (const std::string name : {"causal_identity_n8", "padded_causal_n10"}) {
    const TensorFile golden = recorded(name);
    for (const auto& [tensor, value] : golden.tensors) {
      TensorFile wrong = golden;
      if (tensor.starts_with("out.") || tensor.starts_with("grad.")) {
        wrong.tensors.at(tensor).set(0, wrong.tensors.at(tensor).at(0) != 0 ? 0 : 1);
        EXPECT_FALSE(checked(wrong).passed()) << name << " " << tensor;
      }
      for (const Shape& shape :
           {Shape{}, Shape{0}, Shape{3}, Shape{2, 3}, Shape{1, 2, 3}, Shape{1, 2, 3, 4}, Shape{0, 0, 0, 0}}) {
        wrong.tensors.at(tensor) = Tensor(value.dtype(), shape);
        EXPECT_FALSE(checked(wrong).passed()) << name << " " << tensor << " " << to_string(shape);
      }
    }
  }
}

TEST(RankCollapse, GoldenFaultsAreNamed) {
  TensorFile golden = recorded("causal_identity_n8");
  golden.metadata["norm"] = "batch";
  EXPECT_THAT(checked(golden).problem, HasSubstr("'batch'"));
  golden = recorded("causal_identity_n8");
  golden.metadata["temperature"] = "-1";
  EXPECT_THAT(checked(golden).problem, HasSubstr("temperature"));
  golden = recorded("causal_identity_n8");
  golden.tensors["out.rate"] = golden.tensors["out.mu"];
  EXPECT_THAT(checked(golden).problem, HasSubstr("nothing here computes out.rate"));
  golden = recorded("causal_identity_n8");
  golden.tensors["grad.mask"] = golden.tensors["grad.x"];
  EXPECT_THAT(checked(golden).problem, HasSubstr("grad.mask"));
  golden = recorded("causal_identity_n8");
  golden.tensors.erase("cot.mu");
  golden.tensors.erase("cot.x");
  EXPECT_THAT(checked(golden).problem, HasSubstr("no cot.mu or cot.x"));
}

TEST(RankCollapse, MeasuresOfKnownMatrices) {
  Matrix same({3, 2}, 2);
  const Measures collapsed = measure(same);
  EXPECT_NEAR(collapsed.mu, 0, 1e-15);
  EXPECT_EQ(collapsed.rank, 1);
  EXPECT_NEAR(collapsed.effective_rank, 1, 1e-12);
  EXPECT_NEAR(collapsed.cos_mean, 1, 1e-12);
  EXPECT_EQ(collapsed.oscillation, 0);

  Matrix axes({2, 2});
  axes(0, 0) = axes(1, 1) = 3;
  const Measures apart = measure(axes);
  EXPECT_NEAR(apart.mu, 3, 1e-12);
  EXPECT_NEAR(apart.mu_relative, std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(apart.effective_rank, 2, 1e-12);
  EXPECT_NEAR(apart.stable_rank, 2, 1e-12);
  EXPECT_NEAR(apart.cos_abs_mean, 0, 1e-12);
  EXPECT_EQ(apart.oscillation, 3);

  const Measures zero = measure(Matrix({3, 2}));
  EXPECT_EQ(zero.mu_relative, 0);
  EXPECT_EQ(zero.rank, 0);
  EXPECT_EQ(zero.cos_mean, 0);
  EXPECT_TRUE(std::isnan(measure(Matrix({1, 2}, 1)).cos_mean));
}

TEST(RankCollapse, MeasuredRateIsTheSlope) {
  std::vector<double> values;
  for (int t = 0; t < 12; ++t) values.push_back(5 * std::pow(0.3, t));
  EXPECT_NEAR(measured_rate(values), 0.3, 1e-12);
  // Rounding noise at the bottom does not count.
  for (int t = 0; t < 30; ++t) values.push_back(1e-16);
  EXPECT_NEAR(measured_rate(values), 0.3, 1e-12);
  EXPECT_TRUE(std::isnan(measured_rate({1})));
  EXPECT_TRUE(std::isnan(measured_rate({1, 0, 0})));
}

TEST(RankCollapse, GuaranteesFollowTheGraph) {
  EXPECT_NEAR(guaranteed_rate(graph_of(complete_mask(8)), 0.1), 0.2, 1e-12);
  EXPECT_NEAR(guaranteed_rate(graph_of(causal_mask(8)), 0.1), 0.9, 1e-12);
  EXPECT_NEAR(guaranteed_rate(graph_of(uni_sliding_mask(7, 3)), 0.1), std::sqrt(0.99), 1e-12);
  EXPECT_EQ(guaranteed_rate(graph_of(blocks_mask(8, 4)), 0.1), 1);
  EXPECT_EQ(guaranteed_rate(graph_of(star_mask(1, 0)), 1), 0);
  EXPECT_EQ(guaranteed_rate(graph_of(complete_mask(3)), 1.0 / 3), 0);
  EXPECT_THROW(guaranteed_rate(graph_of(causal_mask(2)), 2), InvalidArgument);
  EXPECT_THROW(guaranteed_rate(graph_of(causal_mask(2)), std::nan("")), InvalidArgument);
  EXPECT_THROW(oscillation_bound(graph_of(blocks_mask(4, 2)), 0.1, 1, 3), InvalidArgument);
}

// Random stacks of every mask stay below the bound, and their measured rate below the guaranteed one.
TEST(RankCollapse, BoundHolds) {
  Stream stream(3, "bound");
  for (const char* kind : {"complete", "causal", "sliding", "uni_sliding", "prefix", "star"}) {
    Stack stack;
    stack.layers = 12;
    stack.w_q = gaussian(stream, {12, 1, 5, 5}, 0.4);
    stack.w_k = gaussian(stream, {12, 1, 5, 5}, 0.4);
    stack.w_v = identities(12, 5);
    const Trace found = trace(stack, gaussian(stream, 7, 5), make_mask(kind, 7, 2));
    ASSERT_EQ(found.bound.size(), 13u) << kind;
    for (std::size_t t = 0; t < 13; ++t)
      EXPECT_LE(found.measures[t].oscillation, found.bound[t] * (1 + 1e-12)) << kind << " " << t;
    EXPECT_LT(found.measured, found.guaranteed) << kind;
    EXPECT_LT(found.guaranteed, 1) << kind;
  }
}

TEST(RankCollapse, NoBoundWhereTheTheoremIsSilent) {
  Stream stream(4, "silent");
  Stack stack;
  stack.w_q = stack.w_k = gaussian(stream, {1, 1, 3, 3}, 1);
  stack.w_v = identities(1, 3);
  const Matrix x = gaussian(stream, 4, 3);
  EXPECT_FALSE(trace(stack, x, causal_mask(4)).bound.empty());
  EXPECT_TRUE(trace(stack, x, blocks_mask(4, 2)).bound.empty());
  stack.residual = true;
  EXPECT_TRUE(trace(stack, x, causal_mask(4)).bound.empty());
  EXPECT_EQ(trace(stack, x, causal_mask(4)).guaranteed, 1);
  EXPECT_FALSE(trace(stack, x, causal_mask(4)).promised);
  stack.residual = false;
  stack.norm = Norm::unit;
  EXPECT_TRUE(trace(stack, x, causal_mask(4)).bound.empty());
  stack.norm = Norm::none;
  stack.w_v(0, 0, 0, 0) = 2;
  EXPECT_TRUE(trace(stack, x, causal_mask(4)).bound.empty());
}

TEST(RankCollapse, AnyModelCanBeObserved) {
  Stream stream(9, "observe");
  Stack stack;
  stack.layers = 4;
  stack.w_q = stack.w_k = gaussian(stream, {4, 1, 3, 3}, 0.5);
  stack.w_v = identities(4, 3);
  const Trace own = trace(stack, gaussian(stream, 5, 3), causal_mask(5));
  const Trace seen = observe(own.tokens, causal_mask(5), own.attention_min);
  EXPECT_EQ(seen.guaranteed, own.guaranteed);
  EXPECT_EQ(seen.measured, own.measured);
  EXPECT_EQ(seen.measures.back().mu, own.measures.back().mu);
  EXPECT_TRUE(seen.bound.empty());
  EXPECT_EQ(observe(own.tokens, causal_mask(5)).guaranteed, 1);
  EXPECT_EQ(observe(own.tokens, causal_mask(5), {0.1, -0.2, 0.1, 0.1}).guaranteed, 1);
  EXPECT_THROW(observe({}, causal_mask(5)), InvalidArgument);
  EXPECT_THROW(observe(own.tokens, causal_mask(4)), InvalidArgument);
  EXPECT_THROW(observe(own.tokens, causal_mask(5), {0.1}), InvalidArgument);
}

// Two samples of different length through two blocks that average causally.
ProbedModel averaging_model() {
  ProbedModel model;
  model.name = "averages";
  Probe probe;
  probe.split = "test";
  probe.samples = probe.labels = {0, 1};
  probe.lengths = {4, 3};
  Stream stream(10, "model");
  probe.tokens = Array<double, 3>({2, 4, 3});
  for (double& value : probe.tokens) value = stream.normal();
  Array<double, 3> tokens = probe.tokens;
  for (int l = 0; l < 2; ++l) {
    ProbedLayer layer{"softmax", Array<double, 4>({2, 1, 4, 3}), Array<double, 4>({2, 1, 4, 4}), tokens};
    for (Index b = 0; b < 2; ++b)
      for (Index i = 0; i < 4; ++i)
        for (Index c = 0; c < 3; ++c) {
          layer.tokens(b, i, c) = 0;
          for (Index j = 0; j <= i; ++j) {
            layer.weights(b, 0, i, j) = 1.0 / static_cast<double>(i + 1);
            layer.tokens(b, i, c) += tokens(b, j, c) / static_cast<double>(i + 1);
          }
        }
    tokens = layer.tokens;
    probe.layers.push_back(std::move(layer));
  }
  model.probes.push_back(std::move(probe));
  return model;
}

TEST(RankCollapse, LooksIntoModels) {
  const ProbedModel model = averaging_model();
  Options options;
  const Result result = on_model(model, options);
  EXPECT_EQ(result.tables[0].rows.size(), 1u);  // of splits
  EXPECT_EQ(result.tables[1].rows.size(), 3u);  // of blocks
  EXPECT_EQ(result.charts.size(), 4u);          // the last with the bound
  EXPECT_THAT(result.findings[0], HasSubstr("1 of 4 tokens reaches all others (centres)"));
  EXPECT_THAT(result.findings[0], HasSubstr("radius 1"));
  const auto& curve = result.charts[0].curves[0].points;
  EXPECT_LT(curve[2].second, curve[1].second);
  EXPECT_LT(curve[1].second, curve[0].second);
  // Padding plays no part.
  ProbedModel padded = model;
  for (Index c = 0; c < 3; ++c) padded.probes[0].tokens(1, 3, c) = 1e6;
  EXPECT_EQ(on_model(padded, options).json, result.json);
  // Attention without weights leaves the measures.
  ProbedModel bare = model;
  for (ProbedLayer& layer : bare.probes[0].layers) layer.weights = {};
  EXPECT_EQ(on_model(bare, options).charts[0].curves[0].points, curve);
  EXPECT_THAT(on_model(bare, options).findings.back(), HasSubstr("every token is taken to see every other"));
  Options wrong(std::map<std::string, std::string>{{"rank_tol", "1"}});
  EXPECT_THROW(on_model(model, wrong), InvalidArgument);
  // Its layers do nothing but attend: attention alone does the same.
  const auto& alone = result.charts[0].curves.at(1);
  EXPECT_TRUE(alone.dashed);
  for (std::size_t t = 0; t < 3; ++t) EXPECT_NEAR(alone.points[t].second, curve[t].second, 1e-12) << t;
  // The bound is about the oscillation, of attention alone.
  const Chart& oscillation = result.charts[3];
  ASSERT_EQ(oscillation.curves.size(), 3u);
  EXPECT_EQ(oscillation.curves[2].name, "test, theorem");
  for (std::size_t t = 0; t < 3; ++t)
    EXPECT_LE(oscillation.curves[1].points[t].second, oscillation.curves[2].points[t].second * (1 + 1e-12)) << t;
  for (const Curve& each : result.charts[0].curves) EXPECT_THAT(each.name, Not(HasSubstr("theorem")));
  // Neither tokens nor weights leave nothing.
  for (ProbedLayer& layer : bare.probes[0].layers) layer.tokens = {};
  bare.probes[0].tokens = {};
  EXPECT_THROW(on_model(bare, options), NotSupported);
}

// Depth at which mu_relative falls below 1e-3.
Index layers_until_collapse(const Mask& mask, Norm norm, Index most) {
  const Index d = 32;
  Stream stream(0, "collapse");
  Stack stack;
  stack.layers = most;
  stack.w_q = gaussian(stream, {most, 1, d, d}, 1 / std::sqrt(static_cast<double>(d)));
  stack.w_k = gaussian(stream, {most, 1, d, d}, 1 / std::sqrt(static_cast<double>(d)));
  stack.w_v = identities(most, d);
  stack.norm = norm;
  const Trace found = trace(stack, gaussian(stream, d, d), mask);
  const auto first = std::find_if(found.measures.begin(), found.measures.end(),
                                  [](const Measures& m) { return m.mu_relative < 1e-3; });
  return first - found.measures.begin();
}

// Depths measured with other random numbers: 3, 13 to 15, 26 to 28, 177 to 187.
TEST(RankCollapse, MasksCollapseAtTheirOwnPace) {
  for (const Norm norm : {Norm::none, Norm::unit}) {
    EXPECT_EQ(layers_until_collapse(complete_mask(32), norm, 6), 3);
    const Index causal = layers_until_collapse(causal_mask(32), norm, 20);
    EXPECT_GE(causal, 11);
    EXPECT_LE(causal, 17);
    const Index one_sided = layers_until_collapse(uni_sliding_mask(32, 4), norm, 40);
    EXPECT_GE(one_sided, 23);
    EXPECT_LE(one_sided, 31);
    const Index sliding = layers_until_collapse(sliding_mask(32, 4), norm, 220);
    EXPECT_GE(sliding, 160);
    EXPECT_LE(sliding, 205);
  }
}

TEST(RankCollapse, CounterexampleKeepsFullRank) {
  const std::pair<double, std::pair<double, double>> limits[] = {
      {0.5, {-0.382, -0.924}}, {1, {-0.137, -0.991}}, {2, {-0.018, -1.000}}};
  for (const auto& [beta, limit] : limits) {
    const Counterexample example = counterexample(beta, 4000);
    EXPECT_NEAR(example.limit[0], limit.first, 1e-3);
    EXPECT_NEAR(example.limit[1], limit.second, 1e-3);
    const Trace found = trace(example.stack, example.start, example.mask);
    const Matrix& last = found.tokens.back();
    EXPECT_NEAR(last(0, 1), 1, 1e-3) << beta;
    EXPECT_NEAR(last(1, 0), example.limit[0], 2e-3) << beta;
    EXPECT_NEAR(last(1, 1), example.limit[1], 2e-3) << beta;
    EXPECT_EQ(found.measures.back().rank, 2) << beta;
    EXPECT_GT(found.measures.back().mu_relative, 0.9) << beta;
  }
  EXPECT_THROW(counterexample(0, 1), InvalidArgument);
  EXPECT_THROW(counterexample(std::nan(""), 1), InvalidArgument);
}

TEST(RankCollapse, EquilibriumOfDiagonalValues) {
  Stack stack;
  stack.w_q = stack.w_k = stack.w_v = Array<double, 4>({1, 1, 2, 2});
  stack.w_v(0, 0, 0, 0) = 1;
  stack.w_v(0, 0, 1, 1) = 3;
  stack.norm = Norm::unit;
  stack.layers = 5;
  Matrix x({2, 2});
  x(0, 0) = 1;
  x(1, 0) = 0.5;
  x(1, 1) = std::sqrt(0.75);
  const Matrix last = trace(stack, x, causal_mask(2)).tokens.back();
  for (Index i = 0; i < 4; ++i) EXPECT_NEAR(last.data()[i], x.data()[i], 1e-12);
}

double objective(const Stack& stack, const Matrix& x, const Mask& mask, const std::vector<double>& cot_mu,
                 const Matrix& cot_x) {
  const Trace found = trace(stack, x, mask);
  double sum = 0;
  for (std::size_t t = 0; t < cot_mu.size(); ++t) sum += cot_mu[t] * found.measures[t].mu;
  for (Index i = 0; i < cot_x.size(); ++i) sum += cot_x.data()[i] * found.tokens.back().data()[i];
  return sum;
}

TEST(RankCollapse, GradientsAreThoseOfDifferences) {
  Stream stream(5, "gradients");
  for (const Norm norm : {Norm::none, Norm::unit, Norm::layernorm})
    for (const bool residual : {false, true}) {
      Stack stack;
      stack.layers = 3;  // more than there are weights: they are shared
      stack.w_q = gaussian(stream, {2, 2, 4, 3}, 0.5);
      stack.w_k = gaussian(stream, {2, 2, 4, 3}, 0.5);
      stack.w_v = gaussian(stream, {2, 2, 4, 4}, 0.5);
      stack.norm = norm;
      stack.residual = residual;
      Matrix x = gaussian(stream, 5, 4);
      const Mask mask = uni_sliding_mask(5, 2);
      const std::vector<double> cot_mu{0.3, -1, 0.5, 2};
      const Matrix cot_x = gaussian(stream, 5, 4);
      const Gradients g = gradients(stack, x, mask, cot_mu, cot_x);
      const auto expect_differences = [&](double* values, const double* gradient, Index size, const char* what) {
        for (Index i = 0; i < size; i += 3) {
          const double kept = values[i], step = 1e-6;
          values[i] = kept + step;
          const double above = objective(stack, x, mask, cot_mu, cot_x);
          values[i] = kept - step;
          const double below = objective(stack, x, mask, cot_mu, cot_x);
          values[i] = kept;
          EXPECT_NEAR(gradient[i], (above - below) / (2 * step), 1e-6 * std::max(1.0, std::fabs(gradient[i])))
              << what << i << " norm " << static_cast<int>(norm);
        }
      };
      expect_differences(x.data(), g.x.data(), x.size(), "x");
      expect_differences(stack.w_q.data(), g.w_q.data(), g.w_q.size(), "w_q");
      expect_differences(stack.w_k.data(), g.w_k.data(), g.w_k.size(), "w_k");
      expect_differences(stack.w_v.data(), g.w_v.data(), g.w_v.size(), "w_v");
    }
}

TEST(RankCollapse, RefusesWhatDoesNotFit) {
  Stack stack;
  stack.w_q = stack.w_k = Array<double, 4>({1, 1, 3, 2});
  stack.w_v = identities(1, 3);
  const Matrix x({4, 3}, 1);
  EXPECT_NO_THROW(trace(stack, x, causal_mask(4)));
  EXPECT_THROW(trace(stack, x, causal_mask(3)), InvalidArgument);
  EXPECT_THROW(trace(stack, Matrix({4, 2}), causal_mask(4)), InvalidArgument);
  EXPECT_THROW(trace(stack, Matrix({4, 3}, std::nan("")), causal_mask(4)), InvalidArgument);
  EXPECT_THROW(gradients(stack, x, causal_mask(4), {1}, x), InvalidArgument);
  EXPECT_THROW(gradients(stack, x, causal_mask(4), {1, 1}, Matrix({4, 2})), InvalidArgument);
  Stack other = stack;
  other.w_k = Array<double, 4>({1, 2, 3, 2});
  EXPECT_THROW(trace(other, x, causal_mask(4)), InvalidArgument);
  other = stack;
  other.w_v = Array<double, 4>({1, 1, 3, 2});
  EXPECT_THROW(trace(other, x, causal_mask(4)), InvalidArgument);
  other = stack;
  other.layers = -1;
  EXPECT_THROW(trace(other, x, causal_mask(4)), InvalidArgument);
  EXPECT_THROW(measure(Matrix()), InvalidArgument);
  EXPECT_THROW(measure(x, 1), InvalidArgument);
  EXPECT_THROW(norm_from("rms"), InvalidArgument);
}

// A token that sees nothing gets nothing.
TEST(RankCollapse, TokensWithoutKeys) {
  Stack stack;
  stack.w_q = stack.w_k = Array<double, 4>({1, 1, 3, 2});
  stack.w_v = identities(1, 3);
  Mask mask = causal_mask(4);
  mask(0, 0) = 0;
  const Trace found = trace(stack, Matrix({4, 3}, 1), mask);
  EXPECT_EQ(found.tokens.back()(0, 0), 0);
  EXPECT_FALSE(found.graph.self_loops);
  const Trace nothing = trace(stack, Matrix({4, 3}, 1), Mask({4, 4}));
  EXPECT_EQ(nothing.attention_min[0], 0);
  EXPECT_EQ(nothing.guaranteed, 1);
}

}  // namespace
}  // namespace saddle::analysis::rank_collapse

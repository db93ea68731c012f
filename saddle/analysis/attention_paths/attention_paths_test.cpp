#include "saddle/analysis/attention_paths/attention_paths.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "places.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/io/safetensors.hpp"

namespace saddle::analysis::attention_paths {
namespace {

using testing::HasSubstr;

const std::string folder = SADDLE_SOURCE_DIR "/tests/golden/attention-paths/";
const std::string cases[] = {"l1_h3_n20_qk", "l2_h2x2_n10_w", "l2_h2x3_unequal_widths", "l3_h2_n15"};

TensorFile recorded(const std::string& name) { return io::read_safetensors(folder + name + ".safetensors"); }

mechanisms::GoldenReport checked(const TensorFile& golden) {
  return mechanisms::check_golden(golden, "", DType::f64, analysis().golden);
}

template <int Rank>
Array<double, Rank> gaussian(Stream& stream, std::array<Index, Rank> shape) {
  Array<double, Rank> values(shape);
  for (double& value : values) value = stream.normal();
  return values;
}

struct Problem {
  Array<double, 3> xi;
  Vector y;
  Prior prior;
};

Problem problem_of(const std::string& name, const Prior& prior) {
  const TensorFile golden = recorded(name);
  return {to_double<3>(golden.tensors.at("out.xi").view()), to_double<1>(golden.tensors.at("in.y_train").view()),
          prior};
}

const Prior two_by_two{{2, 2}, {10, 10, 10}, {1, 1, 1, 1}, 0.01};
const Prior unequal{{2, 3}, {8, 12, 6}, {1.2, 0.8, 1.5, 0.9}, 0.05};

TEST(AttentionPaths, GoldenCases) {
  for (const std::string& name : cases) {
    const auto report = checked(recorded(name));
    EXPECT_TRUE(report.passed()) << name << " " << report.problem;
  }
}

TEST(AttentionPaths, GoldenCasesCanFail) {
  const TensorFile golden = recorded("l2_h2x2_n10_w");
  for (const auto& [tensor, value] : golden.tensors) {
    TensorFile wrong = golden;
    if (tensor.starts_with("out.") || tensor.starts_with("grad.")) {
      wrong.tensors.at(tensor).set(0, value.at(0) + 0.01);
      EXPECT_FALSE(checked(wrong).passed()) << tensor;
    }
    for (const Shape& shape :
         {Shape{}, Shape{0}, Shape{3}, Shape{2, 3}, Shape{1, 2, 3}, Shape{1, 2, 3, 4}, Shape{0, 0, 0, 0}}) {
      wrong.tensors.at(tensor) = Tensor(value.dtype(), shape);
      EXPECT_FALSE(checked(wrong).passed()) << tensor << " " << to_string(shape);
    }
  }
}

TEST(AttentionPaths, GoldenFaultsAreNamed) {
  const std::pair<std::pair<std::string, std::string>, std::string> faults[] = {
      {{"readout", "median"}, "'median'"},
      {{"attention_style", "dot"}, "'dot'"},
      {{"attention_nonlinearity", "relu"}, "'relu'"},
      {{"variances", "3"}, "list of numbers"},
      {{"variances", "[1, \"a\"]"}, "list of numbers"},
      {{"variances", "[]"}, "empty"},
      {{"variances", "[1, 1]"}, "4 variances"},
      {{"widths", "[10, 10]"}, "3 widths"},
      {{"widths", "[10, 10, 0]"}, "a width is 0"},
      {{"num_heads", "[2, 3]"}, "num_heads"},
      {{"num_heads", "[]"}, "nothing here computes out.attention1"},
      {{"temperature", "-1"}, "temperature"},
  };
  for (const auto& [change, message] : faults) {
    TensorFile golden = recorded("l2_h2x2_n10_w");
    golden.metadata[change.first] = change.second;
    const auto report = checked(golden);
    EXPECT_FALSE(report.passed()) << change.first;
    EXPECT_THAT(report.problem, HasSubstr(message)) << change.first;
  }
  TensorFile golden = recorded("l2_h2x2_n10_w");
  golden.tensors["out.loss"] = golden.tensors["out.mean"];
  EXPECT_THAT(checked(golden).problem, HasSubstr("out.loss"));
  golden = recorded("l2_h2x2_n10_w");
  golden.tensors.erase("cot.network");
  EXPECT_THAT(checked(golden).problem, HasSubstr("no cot.network"));
}

TEST(AttentionPaths, ColumnsOfAttentionSumToOne) {
  Stream stream(1, "attention");
  const auto x = gaussian<3>(stream, {3, 4, 5}), w = gaussian<3>(stream, {2, 4, 4}), q = gaussian<3>(stream, {2, 3, 4});
  for (const Nonlinearity nonlinearity : {Nonlinearity::softmax, Nonlinearity::hardmax})
    for (const Attention& attention : {attention_from_w(x, w, nonlinearity), attention_from_qk(x, q, q, nonlinearity)})
      for (Index p = 0; p < 3; ++p)
        for (Index h = 0; h < 2; ++h)
          for (Index t = 0; t < 5; ++t) {
            double sum = 0, largest = 0;
            for (Index s = 0; s < 5; ++s) {
              sum += attention(p, h, s, t);
              largest = std::max(largest, attention(p, h, s, t));
            }
            EXPECT_NEAR(sum, 1, 1e-12);
            if (nonlinearity == Nonlinearity::hardmax) {
              EXPECT_EQ(largest, 1);
            }
          }
}

TEST(AttentionPaths, MapsOfModelsAreTransposed) {
  Stream stream(9, "maps");
  const auto maps = gaussian<4>(stream, {2, 3, 4, 4});
  const Attention attention = attention_from_maps(maps);
  EXPECT_EQ(attention(1, 2, 3, 0), maps(1, 2, 0, 3));
  EXPECT_EQ(attention(0, 1, 2, 2), maps(0, 1, 2, 2));
  EXPECT_THROW(attention_from_maps(gaussian<4>(stream, {2, 3, 4, 5})), InvalidArgument);
}

// Hardmax is where softmax goes when scores grow.
TEST(AttentionPaths, HardmaxIsTheLimitOfSoftmax) {
  Stream stream(2, "hardmax");
  const auto x = gaussian<3>(stream, {2, 4, 5});
  auto w = gaussian<3>(stream, {2, 4, 4});
  const Attention hard = attention_from_w(x, w, Nonlinearity::hardmax);
  for (double& value : w) value *= 1e4;
  const Attention soft = attention_from_w(x, w);
  for (Index i = 0; i < hard.size(); ++i) EXPECT_NEAR(soft.data()[i], hard.data()[i], 1e-9);
}

// Uniform attention everywhere: all paths see the mean token, and the kernel is that of the means.
TEST(AttentionPaths, UniformAttentionSeesTheMean) {
  Stream stream(3, "uniform");
  const auto x = gaussian<3>(stream, {3, 4, 5});
  const Array<double, 3> zero({2, 4, 4});
  const std::vector<Attention> layers{attention_from_w(x, zero), attention_from_w(x, zero)};
  for (const Readout readout : {Readout::average_pooling, Readout::first_token, Readout::last_token}) {
    const auto xi = attended_input(x, layers, readout, 2);
    for (Index p = 0; p < 3; ++p)
      for (Index i = 0; i < 4; ++i) {
        double mean = 0;
        for (Index t = 0; t < 5; ++t) mean += x(p, i, t) / 5;
        for (Index path = 0; path < 4; ++path) EXPECT_NEAR(xi(p, i, path), std::sqrt(2.0 / 16) * mean, 1e-12);
      }
  }
}

TEST(AttentionPaths, KernelIsTheWeightedSumOfPathKernels) {
  Stream stream(4, "kernel");
  const auto xi = gaussian<3>(stream, {5, 3, 4});
  const auto u = gaussian<2>(stream, {4, 4});
  const Array<double, 4> parts = path_kernels(xi);
  const Matrix whole = kernel(xi, xi, u);
  for (Index m = 0; m < 5; ++m)
    for (Index n = 0; n < 5; ++n) {
      double sum = 0;
      for (Index a = 0; a < 4; ++a)
        for (Index b = 0; b < 4; ++b) sum += u(a, b) * parts(a, b, m, n) / 4;
      EXPECT_NEAR(whole(m, n), sum, 1e-12);
    }
}

TEST(AttentionPaths, GradientIsThatOfDifferences) {
  const Problem problem = problem_of("l2_h2x3_unequal_widths", unequal);
  OrderParameters u = gp_order_parameters(unequal);
  u[0](0, 1) = u[0](1, 0) = 0.2;
  u[1](1, 2) = u[1](2, 1) = -0.3;
  const Action found = action(problem.xi, problem.y, unequal, u);
  const double step = 1e-6;
  for (std::size_t l = 0; l < 2; ++l)
    for (Index i = 0; i < u[l].size(); ++i) {
      OrderParameters above = u, below = u;
      above[l].data()[i] += step;
      below[l].data()[i] -= step;
      const Action a = action(problem.xi, problem.y, unequal, above), b = action(problem.xi, problem.y, unequal, below);
      EXPECT_NEAR(found.gradient[l].data()[i], (a.energy + a.entropy - b.energy - b.entropy) / (2 * step), 1e-7);
    }
}

// Features that are 0 change nothing but the way kernels are computed: from those of pairs of paths, or, where paths
// are many and features few, without.
TEST(AttentionPaths, BothWaysToTheKernelAgree) {
  const Prior prior{{4, 2}, {7, 9, 8}, {1, 1.1, 0.9, 1}, 0.05};
  Stream stream(5, "paths");
  const Array<double, 3> few = gaussian<3>(stream, {11, 2, 8});
  Array<double, 3> padded({11, 6, 8});
  for (Index p = 0; p < 11; ++p)
    for (Index i = 0; i < 2; ++i)
      for (Index path = 0; path < 8; ++path) padded(p, i, path) = few(p, i, path);
  Vector y({11});
  for (Index p = 0; p < 11; ++p) y(p) = p % 3 == 0 ? 1 : -1;
  const Minimum one = minimise(few, y, prior), other = minimise(padded, y, prior);
  EXPECT_TRUE(one.converged && other.converged);
  EXPECT_NEAR(one.energy, other.energy, 1e-10);
  EXPECT_NEAR(one.min_hessian_eigenvalue, other.min_hessian_eigenvalue, 1e-9);
  const Action of_few = action(few, y, prior, one.u), of_padded = action(padded, y, prior, one.u);
  for (std::size_t l = 0; l < 2; ++l)
    for (Index i = 0; i < one.u[l].size(); ++i) {
      EXPECT_NEAR(one.u[l].data()[i], other.u[l].data()[i], 1e-8);
      EXPECT_NEAR(of_few.gradient[l].data()[i], of_padded.gradient[l].data()[i], 1e-12);
    }
}

TEST(AttentionPaths, MinimumIsOne) {
  for (const auto& [name, prior, curvature] : {std::tuple{"l2_h2x2_n10_w", two_by_two, 0.01436252838471218},
                                               std::tuple{"l2_h2x3_unequal_widths", unequal, 0.04223444713909903}}) {
    const Problem problem = problem_of(name, prior);
    const Minimum minimum = minimise(problem.xi, problem.y, prior);
    EXPECT_TRUE(minimum.converged);
    EXPECT_LT(minimum.gradient_max, 1e-12);
    EXPECT_LE(minimum.steps, 30);
    EXPECT_NEAR(minimum.min_hessian_eigenvalue, curvature, 1e-8);
    // It is below where it began.
    const Action start = action(problem.xi, problem.y, prior, gp_order_parameters(prior));
    EXPECT_LT(minimum.energy + minimum.entropy, start.energy + start.entropy);
  }
}

TEST(AttentionPaths, OtherStartsLeadToTheSameMinimum) {
  const Problem problem = problem_of("l2_h2x2_n10_w", two_by_two);
  const Minimum expected = minimise(problem.xi, problem.y, two_by_two);
  Stream stream(6, "starts");
  for (int trial = 0; trial < 6; ++trial) {
    OrderParameters start;
    for (const Index n : {4, 2}) {
      const auto root = gaussian<2>(stream, {n, n});
      Matrix u({n, n});
      for (Index i = 0; i < n; ++i)
        for (Index j = 0; j < n; ++j) {
          u(i, j) = i == j ? 0.3 : 0;
          for (Index k = 0; k < n; ++k) u(i, j) += root(i, k) * root(j, k);
        }
      start.push_back(u);
    }
    const Minimum found = minimise(problem.xi, problem.y, two_by_two, {}, start);
    EXPECT_TRUE(found.converged) << trial;
    for (Index i = 0; i < 16; ++i) EXPECT_NEAR(found.u[0].data()[i], expected.u[0].data()[i], 1e-8) << trial;
  }
}

TEST(AttentionPaths, WideNetworksAreGaussianProcesses) {
  const Problem problem = problem_of("l2_h2x2_n10_w", two_by_two);
  double before = std::numeric_limits<double>::infinity();
  for (const Index width : {100, 10000, 1000000}) {
    Prior prior = two_by_two;
    prior.widths = {width, width, width};
    const Minimum minimum = minimise(problem.xi, problem.y, prior);
    double distance = 0;
    for (Index i = 0; i < 4; ++i)
      for (Index j = 0; j < 4; ++j) distance = std::max(distance, std::fabs(minimum.u[0](i, j) - (i == j ? 1 : 0)));
    EXPECT_LT(distance, before / 10);
    before = distance;
  }
}

TEST(AttentionPaths, PredictionsInterpolateWithoutNoise) {
  Stream stream(7, "interpolate");
  const auto xi = gaussian<3>(stream, {5, 8, 2});
  const Vector y({5}, 1);
  Matrix u({2, 2});
  u(0, 0) = u(1, 1) = 1;
  const Prediction prediction = predict(xi, y, xi, u, 0);
  for (Index i = 0; i < 5; ++i) {
    EXPECT_NEAR(prediction.mean(i), 1, 1e-9);
    EXPECT_NEAR(prediction.variance(i), 0, 1e-9);
  }
  // More examples than features: singular without noise.
  EXPECT_THROW(predict(gaussian<3>(stream, {9, 2, 2}), Vector({9}), xi, u, 0), InvalidArgument);
}

TEST(AttentionPaths, HeadScoresCountEachPairOnce) {
  // Two layers of two heads; paths (0,0), (0,1), (1,0), (1,1).
  Matrix u({4, 4});
  u(0, 0) = 4;
  u(0, 3) = u(3, 0) = -1;
  u(3, 3) = 2;
  const auto scores = head_scores(u, {2, 2});
  ASSERT_EQ(scores.size(), 4u);
  EXPECT_EQ(scores[0].raw, 6);  // layer 0 head 0: 4 + 1 + 1
  EXPECT_EQ(scores[1].raw, 4);
  EXPECT_EQ(scores[2].raw, 6);
  EXPECT_EQ(scores[3].raw, 4);
  EXPECT_EQ(scores[0].score, 1);
  EXPECT_NEAR(scores[3].score, 2.0 / 3, 1e-15);
  EXPECT_EQ(scores[3].layer, 1);
  EXPECT_EQ(scores[3].head, 1);
  const Matrix rest = without_head(u, {2, 2}, 1, 0);
  EXPECT_EQ(rest(0, 0), 0);
  EXPECT_EQ(rest(0, 3), 0);
  EXPECT_EQ(rest(3, 3), 2);
}

// One layer, two heads: the first looks at the token that tells the class, the second at noise.
Probe telling_probe(const std::string& split, Index B, Index classes) {
  const Index N = 4, X = 6;
  Stream stream(11, split);
  Probe probe;
  probe.split = split;
  probe.tokens = Array<double, 3>({B, N, X});
  for (double& value : probe.tokens) value = stream.normal();
  ProbedLayer layer{"softmax", Array<double, 4>({B, 2, N, 3}), Array<double, 4>({B, 2, N, N}), probe.tokens};
  for (Index b = 0; b < B; ++b) {
    const Index label = b % classes;
    probe.samples.push_back(b);
    probe.labels.push_back(label);
    probe.lengths.push_back(b % 3 == 0 ? N - 1 : N);
    for (Index c = 0; c < X; ++c) probe.tokens(b, 0, c) = (c == label ? 3 : 0) + 0.1 * stream.normal();
    for (Index i = 0; i < N; ++i) {
      layer.weights(b, 0, i, 0) = 1;
      layer.weights(b, 1, i, 2) = 1;
    }
  }
  probe.layers.push_back(std::move(layer));
  return probe;
}

TEST(AttentionPaths, LooksIntoModels) {
  for (const Index classes : {2, 3}) {
    ProbedModel model{"telling", {}, {}, {telling_probe("train", 30, classes), telling_probe("test", 30, classes)}};
    const ModelTheory theory = theory_of(model);
    EXPECT_EQ(theory.unconverged, 0);
    EXPECT_GT(theory.accuracy, 0.9);
    EXPECT_EQ(theory.scores[0].score, 1);
    EXPECT_LT(theory.scores[1].score, 0.9);
    Options options;
    const Result result = on_model(model, options);
    EXPECT_THAT(result.findings[0], HasSubstr("head 1 of layer 0"));
    EXPECT_EQ(result.tables[0].rows.size(), 2u);
    EXPECT_EQ(result.maps[0].values.shape()[0], 2);
    // Padding plays no part.
    ProbedModel padded = model;
    for (Index c = 0; c < 6; ++c) padded.probes[0].tokens(0, 3, c) = 1e6;
    padded.probes[0].layers[0].weights(0, 0, 3, 3) = 7;
    EXPECT_EQ(on_model(padded, options).json, result.json);
  }
}

TEST(AttentionPaths, RefusesModelsThatHaveNoPaths) {
  const ProbedModel model{"telling", {}, {}, {telling_probe("train", 12, 2), telling_probe("test", 12, 2)}};
  ProbedModel wrong = model;
  wrong.probes.erase(wrong.probes.begin());
  EXPECT_THROW(theory_of(wrong), InvalidArgument);
  wrong = model;
  wrong.probes[0].labels.assign(12, 0);
  EXPECT_THROW(theory_of(wrong), InvalidArgument);
  wrong = model;
  wrong.probes[1].layers[0].weights = {};
  EXPECT_THROW(theory_of(wrong), NotSupported);
  EXPECT_THROW(theory_of(model, {.most_paths = 1}), NotSupported);
  Options options(std::map<std::string, std::string>{{"temprature", "1"}});
  EXPECT_THROW(on_model(model, options), InvalidArgument);
}

TEST(AttentionPaths, RefusesWhatDoesNotFit) {
  Stream stream(8, "refuse");
  const auto x = gaussian<3>(stream, {3, 4, 5}), w = gaussian<3>(stream, {2, 4, 4});
  EXPECT_THROW(attention_from_w(x, gaussian<3>(stream, {2, 4, 3})), InvalidArgument);
  EXPECT_THROW(attention_from_w(Array<double, 3>({0, 4, 5}), w), InvalidArgument);
  EXPECT_THROW(attention_from_qk(x, w, gaussian<3>(stream, {1, 4, 4})), InvalidArgument);
  const Attention attention = attention_from_w(x, w);
  EXPECT_THROW(attended_input(x, {}, Readout::first_token), InvalidArgument);
  EXPECT_THROW(attended_input(x, {attention}, Readout::first_token, 0), InvalidArgument);
  EXPECT_THROW(attended_input(gaussian<3>(stream, {3, 4, 6}), {attention}, Readout::first_token), InvalidArgument);
  const auto xi = attended_input(x, {attention}, Readout::first_token);
  EXPECT_THROW(path_kernels(xi, 3), InvalidArgument);
  EXPECT_THROW(kernel(xi, xi, Matrix({3, 3})), InvalidArgument);
  const Prior prior{{2}, {5, 5}, {1, 1, 1}, 0.1};
  const Vector y({3}, 1);
  EXPECT_NO_THROW(minimise(xi, y, prior));
  EXPECT_THROW(minimise(xi, Vector({2}), prior), InvalidArgument);
  EXPECT_THROW(minimise(xi, Vector({3}, std::nan("")), prior), InvalidArgument);
  EXPECT_THROW(action(xi, y, prior, {Matrix({2, 2})}), InvalidArgument);  // not positive definite
  EXPECT_THROW(action(xi, y, prior, {Matrix({3, 3}, 1)}), InvalidArgument);
  EXPECT_THROW(action(xi, y, prior, {}), InvalidArgument);
  for (const Prior& wrong :
       {Prior{{3}, {5, 5}, {1, 1, 1}, 0.1}, Prior{{2}, {5}, {1, 1, 1}, 0.1}, Prior{{2}, {5, 5}, {1, 1}, 0.1},
        Prior{{2}, {5, 0}, {1, 1, 1}, 0.1}, Prior{{2}, {5, 5}, {1, 0, 1}, 0.1}, Prior{{2}, {5, 5}, {1, 1, 1}, -1},
        Prior{{}, {5}, {1, 1}, 0.1}, Prior{{0}, {5, 5}, {1, 1, 1}, 0.1}})
    EXPECT_THROW(minimise(xi, y, wrong), InvalidArgument);
  EXPECT_THROW(head_scores(Matrix({3, 3}), {2, 2}), InvalidArgument);
  EXPECT_THROW(head_scores(Matrix(), {}), InvalidArgument);
  EXPECT_THROW(without_head(Matrix({4, 4}), {2, 2}, 2, 0), InvalidArgument);
  EXPECT_THROW(without_head(Matrix({4, 4}), {2, 2}, 0, 2), InvalidArgument);
  EXPECT_THROW(alignment(Matrix({3, 3}), y, 4), InvalidArgument);
  EXPECT_THROW(readout_from("max"), InvalidArgument);
  EXPECT_THROW(nonlinearity_from("max"), InvalidArgument);
}

}  // namespace
}  // namespace saddle::analysis::attention_paths

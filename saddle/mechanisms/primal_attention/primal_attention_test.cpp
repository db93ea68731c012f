// Primal-Attention: the grid of samples, what a mask does, what makes the forms causal or not, and the theory behind
// them: at a stationary point the scores are those of the SVD of the kernel and the objective is 0.
#include "saddle/mechanisms/primal_attention/primal_attention.hpp"

#include <gtest/gtest.h>

#include <Eigen/Dense>

#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/mechanisms/primal_attention/spectrum.hpp"

namespace saddle::mechanisms::primal_attention {
namespace {

using tape::Value;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Numbers = std::vector<double>;

Value random(Stream& stream, Shape shape) {
  Numbers data(static_cast<std::size_t>(element_count(shape)));
  for (double& number : data) number = stream.normal();
  return {std::move(shape), std::move(data)};
}

LayerInputs inputs_of(const PrimalAttention& primal, Index B, Index N, Index X, Index H) {
  Stream stream(5, "primal_attention");
  LayerInputs inputs;
  inputs.place.X = X;
  inputs.place.H = H;
  inputs.place.N = N;
  inputs.x = random(stream, {B, N, X});
  const Index D = X / H, rows = primal.causal() ? D : primal.samples(inputs.place), s = primal.rank;
  for (const char* name : {"q", "k", "out"}) {
    inputs.weights[name + std::string(".weight")] = random(stream, {X, X});
    inputs.weights[name + std::string(".bias")] = random(stream, {X});
  }
  inputs.weights["concat.weight"] = random(stream, {D, 2 * s});
  inputs.weights["concat.bias"] = random(stream, {D});
  inputs.weights["we"] = random(stream, {H, rows, s});
  inputs.weights["wr"] = random(stream, {H, rows, s});
  inputs.weights["lambda"] = random(stream, {H, s});
  return inputs;
}

void expect_near(const Numbers& computed, const Numbers& expected, double tolerance) {
  ASSERT_EQ(computed.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(computed[i], expected[i], tolerance) << i;
}

// Numbers of token t of [B,N,X], B = 1.
Numbers token(const Value& y, Index t) {
  const auto first = y.data().begin() + t * y.size(2);
  return {first, first + y.size(2)};
}

TEST(PrimalAttention, SamplesAnEvenGridInWholeNumbers) {
  EXPECT_EQ(sampled_tokens(13, 6), (std::vector<Index>{0, 2, 4, 7, 9, 12}));
  EXPECT_EQ(sampled_tokens(5, 5), (std::vector<Index>{0, 1, 2, 3, 4}));
  EXPECT_EQ(sampled_tokens(3, 5), (std::vector<Index>{0, 0, 1, 1, 2}));
  EXPECT_EQ(sampled_tokens(9, 1), (std::vector<Index>{0}));
  EXPECT_EQ(sampled_tokens(1, 3), (std::vector<Index>{0, 0, 0}));
  // 10 * 29 / 29 and the like are exact, while steps of 10/29 added in float or double fall below.
  for (const Index n : {2, 3, 30, 299, 300})
    for (const Index N : {2, 31, 300, 4097}) EXPECT_EQ(sampled_tokens(N, n).back(), N - 1) << N << " " << n;
  LayerPlace place;
  place.N = 0;
  EXPECT_EQ(PrimalAttention{}.samples(place), 300);
  place.N = 299;
  EXPECT_EQ(PrimalAttention{}.samples(place), 299);
  place.N = 4096;
  EXPECT_EQ(PrimalAttention{}.samples(place), 300);
}

TEST(PrimalAttention, RefusesWhatCannotBe) {
  LayerPlace place;
  EXPECT_NO_THROW(PrimalAttention{}.check(place));
  const auto refuses = [&](auto&& change) {
    PrimalAttention primal;
    change(primal);
    EXPECT_THROW(primal.check(place), InvalidArgument);
  };
  refuses([](auto& p) { p.rank = 0; });
  refuses([](auto& p) { p.multiple = -1; });
  refuses([](auto& p) { p.rank = p.multiple = Index{1} << 40; });
  refuses([](auto& p) { p.rank = p.multiple = 2000; });
  refuses([](auto& p) { p.eta = -0.1; });
  refuses([](auto& p) { p.eta = std::numeric_limits<double>::quiet_NaN(); });
  refuses([](auto& p) {
    p.form = Form::causal;
    p.trace = Trace::with_x;
  });
  place.H = 3;
  refuses([](auto&) {});
  EXPECT_THROW(find_layer("primal_attention(form=both)"), InvalidArgument);
  EXPECT_EQ(find_layer("primal_attention(rank=30,trace=with_x)")->text(), "primal_attention(trace=with_x)");
}

TEST(PrimalAttention, SaysWhichWeightIsMissing) {
  const PrimalAttention primal;
  LayerInputs inputs = inputs_of(primal, 1, 4, 4, 2);
  inputs.weights.erase("lambda");
  try {
    primal.reference(inputs);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("'lambda'"), std::string::npos) << error.what();
  }
}

// Padding takes part in everything but the heads' outputs at its own places, where the bias of `out` is left.
TEST(PrimalAttention, MasksTheOutputAlone) {
  PrimalAttention primal;
  primal.rank = 3;
  LayerInputs inputs = inputs_of(primal, 1, 5, 8, 2);
  const auto plain = primal.reference(inputs);
  inputs.key_mask = Value({1, 5}, {1, 1, 1, 0, 0});
  const auto masked = primal.reference(inputs);
  EXPECT_EQ(masked.at("escore").data(), plain.at("escore").data());
  EXPECT_EQ(masked.at("loss").data(), plain.at("loss").data());
  for (Index t = 0; t < 5; ++t)
    EXPECT_EQ(token(masked.at("y"), t), t < 3 ? token(plain.at("y"), t) : inputs.weights.at("out.bias").data()) << t;
  primal.form = Form::causal;
  LayerInputs causal = inputs_of(primal, 1, 5, 8, 2);
  const Numbers y = primal.reference(causal).at("y").data();
  causal.key_mask = inputs.key_mask;
  EXPECT_EQ(primal.reference(causal).at("y").data(), y);
}

TEST(PrimalAttention, OnlyTheCausalFormHidesLaterTokens) {
  for (const Form form : {Form::dependent, Form::causal}) {
    PrimalAttention primal;
    primal.form = form;
    primal.rank = 2;
    LayerInputs inputs = inputs_of(primal, 1, 6, 4, 2);
    const Value before = primal.reference(inputs).at("y");
    Numbers changed = inputs.x.data();
    changed.back() += 1;
    inputs.x = Value(inputs.x.shape(), changed);
    const Value after = primal.reference(inputs).at("y");
    EXPECT_EQ(primal.causal(), form == Form::causal);
    for (Index t = 0; t < 5; ++t) EXPECT_EQ(token(before, t) == token(after, t), primal.causal()) << t;
    EXPECT_NE(token(before, 5), token(after, 5));
  }
}

TEST(PrimalAttention, ReductionsAverageBeforeOrAfterSquaring) {
  PrimalAttention primal;
  primal.rank = 2;
  primal.eta = 0.25;
  const LayerInputs inputs = inputs_of(primal, 2, 5, 4, 2);
  const auto each = primal.reference(inputs);
  const Numbers e = each.at("var_e").data(), r = each.at("var_r").data(), ksvd = each.at("ksvd").data();
  const double trace = each.at("trace").data()[0];
  for (int b = 0; b < 2; ++b) EXPECT_NEAR(ksvd[b], std::pow(e[b] + r[b] - trace, 2), 1e-12 * ksvd[b]);
  EXPECT_NEAR(each.at("loss").data()[0], 0.25 * (ksvd[0] + ksvd[1]) / 2, 1e-12 * ksvd[0]);

  primal.reduction = Reduction::per_sample_mean;
  const auto mean = primal.reference(inputs);
  EXPECT_EQ(mean.at("ksvd").shape(), Shape{1});
  EXPECT_EQ(mean.at("loss").data(), each.at("loss").data());

  primal.reduction = Reduction::batch;
  const double all = (e[0] + e[1] + r[0] + r[1]) / 2 - trace;
  EXPECT_NEAR(primal.reference(inputs).at("ksvd").data()[0], all * all, 1e-12 * all * all);

  primal.eta = 0;
  EXPECT_FALSE(primal.reference(inputs).contains("loss"));
}

// One head's projections and lambda at the stationary point of rank s.
struct Stationary {
  Matrix we, wr;
  Eigen::VectorXd lambda, sigma;
};

// phi_q, phi_k [N,D], F [n,D] or D rows of the identity. The kernel is phi_q F'F phi_k', or without F'F when the trace
// is taken with x.
Stationary stationary(const Matrix& phi_q, const Matrix& phi_k, const Matrix& F, Index s, bool with_x) {
  const Matrix gram = F.transpose() * F;
  const Matrix back = with_x ? Matrix(F * gram.inverse()) : F;
  const Matrix K = with_x ? Matrix(phi_q * phi_k.transpose()) : Matrix(phi_q * gram * phi_k.transpose());
  const Eigen::JacobiSVD<Matrix> svd(K, Eigen::ComputeThinU | Eigen::ComputeThinV);
  Stationary point;
  point.sigma = svd.singularValues().head(s);
  point.we = back * phi_k.transpose() * svd.matrixV().leftCols(s);
  point.wr = back * phi_q.transpose() * svd.matrixU().leftCols(s);
  point.lambda = (static_cast<double>(phi_q.rows()) * point.sigma.cwiseInverse()).cwiseSqrt();
  return point;
}

TEST(PrimalAttention, IsTheSvdOfItsKernelAtAStationaryPoint) {
  struct Case {
    Form form;
    Trace trace;
  };
  const Index N = 9, X = 8, H = 2, D = X / H, s = 3;
  for (const Case c :
       {Case{Form::dependent, Trace::no_x}, Case{Form::dependent, Trace::with_x}, Case{Form::causal, Trace::no_x}}) {
    PrimalAttention primal;
    primal.form = c.form;
    primal.trace = c.trace;
    primal.rank = s;
    primal.multiple = 2;
    LayerInputs inputs = inputs_of(primal, 1, N, X, H);
    const auto before = primal.reference(inputs);
    Numbers we, wr, lambda, sigma;
    for (Index h = 0; h < H; ++h) {
      const auto head = [&](const char* name) {
        const Value& x = before.at(name);
        return Matrix(Eigen::Map<const Matrix>(x.data().data() + h * x.size(2) * x.size(3), x.size(2), x.size(3)));
      };
      const Matrix F = primal.causal() ? Matrix(Matrix::Identity(D, D)) : head("sample");
      const Stationary point = stationary(head("phi_q"), head("phi_k"), F, s, c.trace == Trace::with_x);
      we.insert(we.end(), point.we.data(), point.we.data() + point.we.size());
      wr.insert(wr.end(), point.wr.data(), point.wr.data() + point.wr.size());
      lambda.insert(lambda.end(), point.lambda.begin(), point.lambda.end());
      sigma.insert(sigma.end(), point.sigma.begin(), point.sigma.end());
    }
    const Shape shape = inputs.weights.at("we").shape();
    inputs.weights["we"] = Value(shape, we);
    inputs.weights["wr"] = Value(shape, wr);
    inputs.weights["lambda"] = Value({H, s}, lambda);

    const auto after = primal.reference(inputs);
    EXPECT_GT(before.at("ksvd").data()[0], 1e-3);
    EXPECT_NEAR(after.at("ksvd").data()[0], 0, 1e-18);
    expect_near(after.at("spectrum").data(), sigma, 1e-10);
    expect_near(stationary_spectrum(inputs.weights.at("lambda"), N).data(), sigma, 1e-10);
    const Value sample = c.form == Form::dependent && c.trace == Trace::no_x ? after.at("sample") : Value();
    const Value kernel = kernel_spectrum(after.at("phi_q"), after.at("phi_k"), sample);
    ASSERT_EQ(kernel.shape(), (Shape{1, H, D}));
    expect_near(tape::slice(kernel, 2, 0, s).data(), sigma, 1e-10);
    // The objective itself, not its square, does not change with the projections.
    tape::backward({{after.at("var_e"), {1.0}}, {after.at("var_r"), {1.0}}, {after.at("trace"), {-1.0}}});
    expect_near(inputs.weights.at("we").gradient(), Numbers(we.size(), 0.0), 1e-10);
    expect_near(inputs.weights.at("wr").gradient(), Numbers(wr.size(), 0.0), 1e-10);
  }
}

// More directions than tokens: as many singular values as tokens.
TEST(PrimalAttention, SpectrumOfShortSequences) {
  PrimalAttention primal;
  primal.rank = 6;
  const LayerInputs inputs = inputs_of(primal, 2, 3, 4, 2);
  const auto outputs = primal.reference(inputs);
  const Value spectrum = outputs.at("spectrum"), e = outputs.at("escore"), r = outputs.at("rscore");
  ASSERT_EQ(spectrum.shape(), (Shape{2, 2, 3}));
  // The squares sum up to the squares of the matrix E L R' itself.
  const Value weight = tape::square(tape::reshape(inputs.weights.at("lambda"), {2, 1, 6})) * Value(1.0 / 3);
  const Value whole = tape::matmul(e * weight, tape::transpose(r, 2, 3));
  expect_near(tape::sum(tape::square(spectrum), 2).data(), tape::sum(tape::sum(tape::square(whole), 3), 2).data(),
              1e-9 * tape::sum(tape::square(whole)).data()[0]);
  EXPECT_GE(spectrum.data()[0], spectrum.data()[1]);
}

TEST(PrimalAttention, RecordedCasesMustHaveTheGrid) {
  const PrimalAttention primal;
  TensorFile golden;
  golden.metadata = {{"mechanism", "primal-attention"}, {"form", "uea"}, {"heads", "2"}, {"rank", "30"}};
  const LayerInputs inputs = inputs_of(primal, 1, 4, 4, 2);
  for (const auto& [name, value] : inputs.weights) golden.tensors.emplace("param." + name, value.tensor());
  golden.tensors.emplace("in.x", inputs.x.tensor());
  golden.tensors.emplace("out.y", primal.reference(inputs).at("y").tensor());
  golden.tensors.emplace("in.indices", Value({4}, {0, 1, 2, 3}).tensor());
  EXPECT_TRUE(check_golden(golden, "grid").passed());
  golden.tensors.at("in.indices").set(2, 1);
  EXPECT_NE(check_golden(golden, "grid").problem.find("in.indices"), std::string::npos);
  golden.tensors.erase("in.indices");
  golden.metadata["variant"] = "data-independent";
  EXPECT_NE(check_golden(golden, "variant").problem.find("data-dependent"), std::string::npos);
  golden.metadata.erase("variant");
  golden.metadata["form"] = "other";
  EXPECT_NE(check_golden(golden, "form").problem.find("'other'"), std::string::npos);
}

}  // namespace
}  // namespace saddle::mechanisms::primal_attention

#include "saddle/kernels/stages/stage.hpp"

#include <malloc.h>

#include "saddle/kernels/stages/testing_internal.hpp"

namespace saddle::kernels {
namespace {

using namespace testing;
using primal::testing::add_key_mask;
using primal::testing::add_mask;
using primal::testing::cotangent;
using primal::testing::error_of;
using primal::testing::sample;

const Dims square{2, 4, 13, 13, 6, 5}, oblong{2, 4, 9, 14, 6, 5};

struct Case {
  const char* text;
  Dims dims;
};

// Kernels, transforms, pooling and key sets, alone and together.
std::vector<Case> cases() {
  std::vector<Case> list;
  for (const char* text :
       {"softmax", "softmax(scale=0.3)", "softmax+sum(den_eps=0.1)", "softmax+one", "rbf", "rbf(gamma=0.2)+one", "dot",
        "poly(degree=3,coef0=0.5)", "poly+sum(den_eps=0.1)", "linear(elu1)", "linear(relu)", "linear(taylor)",
        "linear(random,count=7)", "softmax+bias+residual",
        // transforms
        "softmax+bn(learn=head)", "softmax+bn(beta=0.6,scale=std,learn=shared)", "softmax+one+bn(scale=std)",
        "poly+bn(scale=std)", "dot+bn", "linear(taylor)+bn(beta=0.4)", "rbf+bn(scale=std,learn=head)",
        "linear(elu1)+bn(scale=std)", "linear(relu)+bn", "linear(random,count=7)+bn(learn=head)+l2", "softmax+l2",
        "softmax+conv1d(3)", "softmax+conv1d(5,share=true)", "softmax+conv1d(3,axis=token)",
        "softmax+conv2d(3x3,grid=2x3)", "softmax+bn(learn=head)+conv1d(3)", "softmax+conv1d(3)+bn(learn=head)",
        "softmax+conv1d(3,axis=token)+l2+bn(scale=std,learn=head)", "rbf+conv1d(3,axis=token)+bn",
        "linear(elu1)+conv1d(3)+l2",
        // pooling
        "softmax+sh(1,2,3,20)", "softmax+sh(1,2,3,4,tail=drop)+bn(scale=std,learn=head)", "linear(elu1)+sh(1,2,3,4)+l2",
        "rbf+sh(1,2,3,4)+conv1d(3)",
        // key sets
        "softmax+causal", "softmax+window(2)+bn", "softmax+sh(1,2,3,4)+window(2)+bn", "softmax+sh(1,2,3,4)+causal"})
    for (const Dims& dims : {square, oblong}) list.push_back({text, dims});
  list.push_back({"softmax+conv2d(3x3,axis=token,grid=3x4)", {2, 4, 12, 12, 6, 5}});
  list.push_back({"softmax+conv2d(3x5,axis=token)+bn", {2, 2, 12, 12, 6, 5}});
  list.push_back({"softmax+sh(1,2,3,4,pool=2d,grid=3x4,prefix=1)", {2, 4, 13, 13, 6, 5}});
  list.push_back(
      {"softmax+sh(1,2,3,4,pool=2d,grid=3x4,prefix=1,tail=drop)+window(4)+bn(learn=head)", {1, 4, 13, 13, 6, 5}});
  return list;
}

// Statistics per query.
std::vector<Case> per_query_cases() {
  std::vector<Case> list;
  for (const char* text :
       {"softmax+bn(learn=head)+causal", "softmax+bn(beta=0.7,scale=std,learn=head)+causal",
        "softmax+one+bn(learn=head)+causal", "dot+bn(scale=std,eps=0.1)+causal", "poly+bn(scale=std,learn=head)+causal",
        "softmax+bn(stats=subset,scale=std)", "softmax+bn(stats=subset)+window(2)",
        "softmax+bn(stats=subset,scale=std,learn=head)+window(2)", "softmax+bn+local(3)",
        "softmax+bn(scale=std)+strided(3)", "softmax+bn(scale=std,learn=head)+fixed(4,num_verts=2)",
        "softmax+bn(stats=subset)+global_window(1,n_global=2)", "softmax+conv1d(3)+l2+bn(learn=head)+causal",
        "softmax+sh(1,2,3,4)+bn(scale=std,learn=head)+causal",
        "softmax+sh(1,2,3,4)+bn(stats=subset,scale=std)+window(2)",
        "softmax+sh(1,2,3,4,tail=drop)+bn(stats=subset)+window(1)",
        "softmax+sh(1,2,3,4,visibility=any,leak=allow)+bn+causal", "softmax+sh(1,2,3,4)+bn(stats=subset)+strided(2)"})
    for (const Dims& dims : {square, oblong}) list.push_back({text, dims});
  list.push_back({"softmax+sh(1,2,3,4,pool=2d,grid=3x4,prefix=1)+bn(stats=subset)+window(3)", {1, 4, 13, 13, 6, 5}});
  return list;
}

enum class Masks { none, keys, both };

Sample masked_sample(const Case& c, Masks masks, double spread = 1) {
  Sample s = sample(c.text, c.dims, 1, spread);
  if (masks != Masks::none) add_key_mask(s, true);
  if (masks == Masks::both) add_mask(s);
  return s;
}

// Keys that do not exist hold NaN.
void spoil_missing(const Sample& s, const primal::Call& call) {
  if (!call.key_mask) return;
  const Dims dims = s.dims();
  for (const TensorView* tensor : {&call.k, &call.v})
    for (Index b = 0; b < dims.B; ++b)
      for (Index j = 0; j < dims.M; ++j)
        for (Index h = 0; h < dims.H && s.key_mask.at(b * dims.M + j) == 0; ++h)
          for (Index c = 0; c < tensor->shape[3]; ++c)
            store(*tensor,
                  b * tensor->stride[0] + h * tensor->stride[1] + j * tensor->stride[2] + c * tensor->stride[3],
                  std::nan(""));
}

struct Variant {
  DType dtype = DType::f64;
  Layout layout = Layout::dense;
  CoreOptions options;
  double tolerance = 1e-11;
  DType results = DType::f64;
};

// Outputs and gradients through stages and by the reference agree.
template <class T>
void expect_agreement(const Case& c, Masks masks, const Variant& variant) {
  SCOPED_TRACE(std::string(c.text) + " masks " + std::to_string(static_cast<int>(masks)) + " layout " +
               std::to_string(static_cast<int>(variant.layout)) + " " + std::string(to_string(variant.dtype)));
  const Sample s = masked_sample(c, masks);
  std::list<Tensor> storage;
  primal::Call call = s.call();
  call.q = laid_out(call.q, variant.layout, variant.dtype, storage);
  call.k = laid_out(call.k, variant.layout, variant.dtype, storage);
  call.v = laid_out(call.v, variant.layout, variant.dtype, storage);
  call.skip = laid_out(call.skip, variant.layout, variant.dtype, storage);
  spoil_missing(s, call);
  primal::validate(call);
  ASSERT_TRUE(stage_refusals(call.attention, variant.options.goal).empty());

  const Dims dims = call.dims();
  Tensor wanted(DType::f64, {dims.B, dims.H, dims.N, dims.E});
  primal::reference_forward(call, {wanted.view(), {}, {}, {}});
  const TensorView y = laid_out(wanted.view(), variant.layout, variant.results, storage);
  plain_forward<T>(call, {y, {}, {}, {}}, variant.options);
  EXPECT_LT(error_of(values_of(y), wanted), variant.tolerance) << "y";

  const Tensor dy = cotangent(wanted);
  std::map<std::string, std::pair<Tensor, TensorView>> results;  // by the judge and through stages
  primal::Gradients judge, mine;
  judge.dy = mine.dy = laid_out(dy.view(), variant.layout, variant.dtype, storage);
  const auto both = [&](const std::string& name, const TensorView& like, TensorView& theirs, TensorView& ours) {
    auto& [tensor, view] = results[name];
    tensor = Tensor(DType::f64, like.shape);
    theirs = tensor.view();
    ours = view = like.rank() == 4 ? laid_out(tensor.view(), variant.layout, variant.results, storage)
                                   : storage.emplace_back(DType::f64, like.shape).view();
  };
  both("q", call.q, judge.dq, mine.dq);
  both("k", call.k, judge.dk, mine.dk);
  both("v", call.v, judge.dv, mine.dv);
  if (call.attention.residual) both("skip", call.skip, judge.dskip, mine.dskip);
  for (const auto& [name, tensor] : call.parameters) both(name, tensor, judge.parameters[name], mine.parameters[name]);
  primal::reference_backward(call, judge);
  plain_backward<T>(call, mine, variant.options);
  for (const auto& [name, pair] : results)
    EXPECT_LT(error_of(values_of(pair.second), pair.first), variant.tolerance) << "d" << name;
}

TEST(Stage, AgreesWithTheReferenceInDouble) {
  const primal::testing::OneThread one;
  auto all = cases();
  for (const Case& c : per_query_cases()) all.push_back(c);
  for (const Case& c : all)
    for (Masks masks : {Masks::none, Masks::keys, Masks::both}) expect_agreement<double>(c, masks, {});
}

TEST(Stage, AgreesInEveryLayout) {
  const primal::testing::OneThread one;
  for (const char* text :
       {"softmax", "softmax+bias+residual", "softmax+bn(scale=std,learn=head)", "rbf+conv1d(3,axis=token)",
        "linear(random,count=7)", "softmax+sh(1,2,3,4)+l2", "softmax+bn(learn=head)+causal"})
    for (Layout layout : {Layout::tokens_first, Layout::columns_apart, Layout::backwards})
      for (DType dtype : {DType::f64, DType::f32}) {
        if (dtype == DType::f64)
          expect_agreement<double>({text, square}, Masks::both, {dtype, layout, {}, 1e-11, DType::f64});
        else
          expect_agreement<float>({text, square}, Masks::both, {dtype, layout, {}, 2e-5, DType::f32});
      }
}

TEST(Stage, AgreesInFloat) {
  const primal::testing::OneThread one;
  auto all = cases();
  for (const Case& c : per_query_cases()) all.push_back(c);
  for (const Case& c : all)
    for (Masks masks : {Masks::none, Masks::both}) {
      expect_agreement<float>(c, masks, {DType::f32, Layout::dense, {}, 3e-5, DType::f32});
      expect_agreement<float>(c, masks, {DType::bf16, Layout::dense, {}, 3e-5, DType::f32});
      expect_agreement<float>(c, masks, {DType::bf16, Layout::tokens_first, {true, true}, 3e-5, DType::f32});
    }
}

TEST(Stage, RoundsGradientsOnceForBfloat16) {
  const primal::testing::OneThread one;
  for (const char* text : {"softmax", "softmax+bn(learn=head)", "softmax+sh(1,2,3,4)"})
    expect_agreement<float>({text, square}, Masks::keys, {DType::bf16, Layout::dense, {}, 5e-3, DType::bf16});
}

TEST(Stage, LeavesTheRowTermOutWhereItCancels) {
  const primal::testing::OneThread one;
  for (const char* text :
       {"softmax+bn(scale=std,learn=head)", "rbf", "softmax+bn(learn=head)+causal", "softmax+one+bn(learn=head)"}) {
    const Sample s = sample(text, square);
    const primal::Call call = s.call();
    const Stage<double> stage(call, 0, 0, Goal::scores, false, false);
    EXPECT_EQ(stage.problem().row == nullptr, std::string(text).find("one") == std::string::npos) << text;
    expect_agreement<double>({text, square}, Masks::keys, {DType::f64, Layout::dense, {false, false}});
  }
}

// log h needs the row term.
TEST(Stage, GivesScoresThatTheLogSumIsTakenOf) {
  for (const char* text : {"softmax+bn(scale=std)", "rbf", "softmax+bn+causal", "poly+bn+sum(den_eps=0.1)"}) {
    const Sample s = sample(text, square);
    Tensor y(DType::f64, s.v.shape()), lse(DType::f64, {2, 4, 13}), wanted = lse;
    primal::reference_forward(s.call(), {y.view(), {}, wanted.view(), {}});
    plain_forward<double>(s.call(), {y.view(), {}, lse.view(), {}});
    EXPECT_LT(error_of(lse, wanted), 1e-11) << text;
  }
}

TEST(Stage, ReadsPlainTensorsInPlace) {
  const Sample s = sample("softmax+bn(scale=std)", square);
  std::list<Tensor> storage;
  for (Layout layout : {Layout::dense, Layout::tokens_first}) {
    primal::Call call = s.call();
    call.q = laid_out(call.q, layout, DType::f64, storage);
    call.k = laid_out(call.k, layout, DType::f64, storage);
    call.v = laid_out(call.v, layout, DType::f64, storage);
    Tensor dq(DType::f64, s.q.shape()), dk(DType::f64, s.k.shape()), dv(DType::f64, s.v.shape());
    primal::Gradients gradients;
    gradients.dy = dv.view();
    gradients.dq = dq.view();
    gradients.dk = dk.view();
    gradients.dv = dv.view();
    Stage<double> stage(call, 1, 2, Goal::scores);
    const auto offset = [&](const TensorView& t) {
      return static_cast<double*>(t.data) + t.stride[0] + 2 * t.stride[1];
    };
    EXPECT_EQ(stage.problem().q.data, offset(call.q));
    EXPECT_EQ(stage.problem().q.stride, call.q.stride[2]);
    EXPECT_EQ(stage.problem().k.data, offset(call.k));
    EXPECT_EQ(stage.problem().v.data, offset(call.v));
    EXPECT_NE(stage.problem().q_shift, nullptr);
    EXPECT_TRUE(stage.keep().empty());
    EXPECT_TRUE(stage.windows().empty());
    EXPECT_EQ(stage.dy(gradients).data, offset(gradients.dy));
    const auto targets = stage.targets(gradients);
    EXPECT_EQ(targets.dq.data, offset(gradients.dq));
    EXPECT_EQ(targets.dk.data, offset(gradients.dk));
    EXPECT_EQ(targets.dv.data, offset(gradients.dv));
  }
}

TEST(Stage, LeavesBfloat16ToTheCoreWhenAsked) {
  const Sample s = sample("softmax+bn", square);
  std::list<Tensor> storage;
  primal::Call call = s.call();
  for (TensorView* tensor : {&call.q, &call.k, &call.v})
    *tensor = laid_out(*tensor, Layout::dense, DType::bf16, storage);
  const Stage<float> stage(call, 0, 0, Goal::scores, true);
  EXPECT_EQ(stage.raw_q().data, call.q.data);
  EXPECT_EQ(stage.raw_k().data, call.k.data);
  EXPECT_EQ(stage.raw_v().data, call.v.data);
  EXPECT_FALSE(stage.problem().q);
  EXPECT_FALSE(stage.problem().k);
  EXPECT_NE(stage.problem().q_shift, nullptr);
  EXPECT_TRUE(Stage<float>(call, 0, 0, Goal::scores, false).problem().q);
}

TEST(Stage, SkipsGradientsNobodyWants) {
  Sample s = sample("softmax+bn(learn=head)+sh(1,2,3,4)", square);
  const primal::Call call = s.call();
  Tensor dv(DType::f64, s.v.shape()), dq(DType::f64, s.q.shape()), dbeta(DType::f64, {4});
  primal::Gradients gradients;
  gradients.dy = gradients.dv = dv.view();
  auto targets = Stage<double>(call, 0, 1, Goal::scores).targets(gradients);
  EXPECT_TRUE(targets.dv);
  EXPECT_FALSE(targets.dq);
  EXPECT_FALSE(targets.dk);
  gradients.dq = dq.view();
  targets = Stage<double>(call, 0, 1, Goal::scores).targets(gradients);
  EXPECT_TRUE(targets.dq);
  EXPECT_FALSE(targets.dk);
  gradients.dq = {};
  gradients.parameters["beta"] = dbeta.view();
  targets = Stage<double>(call, 0, 1, Goal::scores).targets(gradients);
  EXPECT_TRUE(targets.dq);
  EXPECT_NE(targets.drow, nullptr);
  EXPECT_FALSE(targets.dk);
}

// Tokens for a core that maps features itself: the same rows as the judge's.
TEST(Stage, HandsOutTransformedTokens) {
  for (const char* text : {"linear(elu1)", "linear(elu1)+bn(scale=std)+conv1d(3)", "dot+sh(1,2,3,4)+l2",
                           "linear(random,count=7)+conv1d(3,axis=token)"}) {
    Sample s = sample(text, square);
    add_key_mask(s);
    const primal::Call call = s.call();
    for (Index h = 0; h < 4; ++h) {
      const Stage<double> stage(call, 1, h, Goal::tokens);
      const primal::Head head = primal::prepare_head(call, 1, h);
      EXPECT_EQ(stage.problem().D, 6);
      ASSERT_EQ(stage.problem().K, head.tokens.k.shape()[0]);
      for (Index i = 0; i < 13; ++i)
        for (Index d = 0; d < 6; ++d) EXPECT_NEAR(stage.problem().q[i][d], head.tokens.q(i, d), 1e-12) << text;
      for (Index j = 0; j < stage.problem().K; ++j)
        for (Index d = 0; d < 6 && head.keep[j]; ++d)
          EXPECT_NEAR(stage.problem().k[j][d], head.tokens.k(j, d), 1e-12) << text;
    }
  }
}

TEST(Stage, RefusesStatisticsPerQueryThatCannotBeFolded) {
  EXPECT_TRUE(stage_refusals(primal::parse("softmax+bn+causal"), Goal::scores).empty());
  EXPECT_EQ(stage_refusals(primal::parse("softmax+bn+causal"), Goal::tokens).size(), 1u);
  EXPECT_EQ(stage_refusals(primal::parse("softmax+bn+l2+causal"), Goal::scores).size(), 1u);
  EXPECT_EQ(stage_refusals(primal::parse("rbf+bn+causal"), Goal::scores).size(), 1u);
  EXPECT_EQ(stage_refusals(primal::parse("linear(elu1)+bn+causal"), Goal::scores).size(), 1u);
  EXPECT_TRUE(stage_refusals(primal::parse("linear(elu1)+bn"), Goal::tokens).empty());
}

// A feature in which the keys hardly differ, far from zero: folded scores would be differences of large numbers.
TEST(Stage, DoesNotFoldWhatWouldCancel) {
  Sample s = sample("softmax+bn(scale=std,learn=head)", square);
  for (Index i = 0; i < s.k.size(); i += 6) s.k.set(i, 300 + 1e-3 * s.k.at(i));
  for (Index i = 0; i < s.q.size(); i += 6) s.q.set(i, 300 + 1e-3 * s.q.at(i));
  s.parameters["beta"] = Tensor(DType::f64, {4});
  for (Index h = 0; h < 4; ++h) s.parameters["beta"].set(h, 1);
  std::list<Tensor> storage;
  primal::Call call = s.call();
  for (TensorView* tensor : {&call.q, &call.k, &call.v})
    *tensor = laid_out(*tensor, Layout::dense, DType::f32, storage);
  EXPECT_EQ(Stage<float>(call, 0, 0, Goal::scores).problem().q_shift, nullptr);
  Tensor wanted(DType::f64, s.v.shape()), y = wanted;
  primal::reference_forward(call, {wanted.view(), {}, {}, {}});
  plain_forward<float>(call, {y.view(), {}, {}, {}});
  EXPECT_LT(error_of(y, wanted), 1e-5);
}

// Running sums over long sequences stay close to the judge's, and a key that is not a number spoils only the queries
// that see it.
TEST(Stage, CarriesStatisticsFromQueryToQuery) {
  const primal::testing::OneThread one;
  for (const char* text :
       {"softmax+bn(scale=std,stats=subset)+window(3)", "softmax+bn+local(5)", "softmax+bn+causal"}) {
    SCOPED_TRACE(text);
    Sample s = sample(text, {1, 1, 700, 700, 3, 2});
    for (Index i = 0; i < s.k.size(); ++i) s.k.set(i, s.k.at(i) + 10);
    for (bool spoiled : {false, true}) {
      if (spoiled) s.k.set(3 * 650 + 1, std::nan(""));
      Tensor wanted(DType::f64, s.v.shape()), y = wanted;
      primal::reference_forward(s.call(), {wanted.view(), {}, {}, {}});
      plain_forward<double>(s.call(), {y.view(), {}, {}, {}});
      EXPECT_LT(error_of(y, wanted), 1e-10);
      const Tensor dy = cotangent(y);
      const auto ours = primal::testing::gradients(
          s, dy, [](const primal::Call& call, const primal::Gradients& g) { plain_backward<double>(call, g); });
      if (spoiled) {
        EXPECT_TRUE(std::isnan(ours.at("k").at(3 * 649 + 1)));
        EXPECT_EQ(std::isfinite(ours.at("k").at(3 * 699 + 1)),
                  s.attention.keys != primal::parse("softmax+causal").keys);
        continue;
      }
      const auto theirs = primal::testing::gradients(s, dy);
      EXPECT_LT(error_of(ours.at("q"), theirs.at("q")), 1e-10);
      EXPECT_LT(error_of(ours.at("k"), theirs.at("k")), 1e-10);
    }
  }
}

// The heap in use, as far as the C library tells (nothing under sanitizers).
double heap() {
  const auto info = mallinfo2();
  return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
}

TEST(Stage, HoldsNoMoreMemoryThanItSays) {
  auto all = cases();
  for (const Case& c : per_query_cases()) all.push_back(c);
  for (const Case& c : all)
    for (DType dtype : {DType::f32, DType::bf16}) {
      const Sample s = masked_sample(c, Masks::keys);
      std::list<Tensor> storage;
      primal::Call call = s.call();
      for (TensorView* tensor : {&call.q, &call.k, &call.v}) *tensor = laid_out(*tensor, Layout::dense, dtype, storage);
      const Dims dims = call.dims();
      primal::Gradients gradients;
      gradients.dy = gradients.dv = laid_out(call.v, Layout::dense, dtype, storage);
      gradients.dq = laid_out(call.q, Layout::dense, dtype, storage);
      gradients.dk = laid_out(call.k, Layout::dense, dtype, storage);
      if (dims.N != dims.M) gradients.dy = laid_out(call.q, Layout::dense, dtype, storage);
      std::vector<Stage<float>> stages;
      stages.reserve(static_cast<std::size_t>(dims.B * dims.H));
      const double before = heap();
      for (Index task = 0; task < dims.B * dims.H; ++task)
        stages.emplace_back(call, task / dims.H, task % dims.H, Goal::scores);
      EXPECT_LE(heap() - before, stage_memory(call.attention, dims, dtype, Goal::scores, false)) << c.text;
      for (Stage<float>& stage : stages) {
        stage.dy(gradients);
        stage.targets(gradients);
      }
      EXPECT_LE(heap() - before, stage_memory(call.attention, dims, dtype, Goal::scores, true)) << c.text;
    }
}

}  // namespace
}  // namespace saddle::kernels

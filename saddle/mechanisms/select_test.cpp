#include "saddle/mechanisms/select.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saddle/base/cpu.hpp"
#include "saddle/base/error.hpp"
#include "saddle/kernels/amx/amx.hpp"
#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms {
namespace {

using ::testing::HasSubstr;

kernels::Request request_for(const std::string& attention, const Dims& dims) {
  kernels::Request request;
  request.attention = parse(attention);
  request.dims = dims;
  return request;
}

std::string_view chosen(const kernels::Request& request) { return select(request).chosen->name(); }

TEST(Select, TakesThePrimalFormWhereItPays) {
  EXPECT_EQ(chosen(request_for("linear(elu1)", {1, 8, 1024, 1024, 64, 64})), "linear");
  EXPECT_EQ(chosen(request_for("linear(elu1)+causal", {1, 8, 1024, 1024, 64, 64})), "linear");
  EXPECT_EQ(chosen(request_for("linear(taylor,order=4)", {1, 1, 8, 8, 16, 16})), "tiled");
}

TEST(Select, WeightsNeedTheDualForm) {
  auto request = request_for("linear(elu1)", {1, 8, 1024, 1024, 64, 64});
  request.weights = true;
  EXPECT_EQ(chosen(request), "tiled");
  EXPECT_THAT(explain(request, select(request)), HasSubstr("exist only in the dual form"));
}

TEST(Select, TakesTheTilesWhereThereAreSome) {
  auto request = request_for("softmax+bn", {1, 8, 1024, 1024, 64, 64});
  EXPECT_EQ(chosen(request), "tiled");
  request.dtype = DType::bf16;
  EXPECT_EQ(chosen(request), best_isa() >= Isa::amx ? "amx" : "tiled");
  request.dropout = true;
  EXPECT_EQ(chosen(request), "tiled");
}

// Asked for, the gradient of beta must be right even where beta is not learnt.
TEST(Select, TheGradientOfBetaIsNotForTheTiles) {
  auto request = request_for("softmax+bn(learn=no)", {1, 2, 64, 64, 32, 32});
  request.dtype = DType::bf16;
  request.backward = true;
  const std::size_t without = kernels::amx().refusals(request).size();
  kernels::Request asked = request;
  asked.beta_gradient = true;
  EXPECT_EQ(kernels::amx().refusals(asked).size(), without + 1);
  EXPECT_NE(asked, request);
  request.attention = parse("softmax+bn(learn=shared)");
  EXPECT_EQ(kernels::amx().refusals(request).size(), without + 1);
}

TEST(Select, ARequestSaysWhetherBetaHasAGradient) {
  const Tensor x(DType::f32, {1, 1, 4, 4});
  primal::Call call;
  call.attention = parse("softmax+bn(learn=no)");
  call.q = call.k = call.v = x.view();
  EXPECT_FALSE(kernels::request_of(call, primal::Gradients{}).beta_gradient);
  primal::Gradients gradients;
  gradients.parameters["beta"] = {};
  EXPECT_TRUE(kernels::request_of(call, gradients).beta_gradient);
}

// The bits of a result must not depend on the number of threads, so neither may the choice.
TEST(Select, ChoosesTheSameOnAnyNumberOfThreads) {
  for (const char* attention : {"linear(elu1)", "linear(elu1)+causal", "poly(degree=2)", "softmax", "dot"})
    for (Index N : {1, 17, 65, 300, 4096})
      for (bool backward : {false, true}) {
        auto request = request_for(attention, {1, 2, N, N, 16, 32});
        request.backward = backward;
        request.threads = 1;
        const auto* alone = select(request).chosen;
        for (int threads : {2, 5, 16}) {
          request.threads = threads;
          EXPECT_EQ(select(request).chosen, alone) << attention << " " << N << " " << threads;
        }
      }
}

// Nothing fast serves statistics per query below a feature map: the reference does, and says why.
TEST(Select, LeavesTheReferenceWhatOthersRefuse) {
  EXPECT_EQ(chosen(request_for("linear(elu1)+bn+causal", {1, 2, 64, 64, 8, 8})), "reference");
}

TEST(Select, EveryRefusalHasAReason) {
  const auto reason = [](const std::string& attention, bool mask) {
    auto request = request_for(attention, {1, 2, 8, 8, 4, 4});
    request.mask = mask;
    return explain(request, select(request));
  };
  EXPECT_THAT(reason("softmax", false), HasSubstr("the feature map of 'softmax' is infinite"));
  EXPECT_THAT(reason("linear(elu1)+window(2)", false), HasSubstr("key set 'window' differs between queries"));
  EXPECT_THAT(reason("linear(elu1)", true), HasSubstr("a mask of queries by keys"));
  EXPECT_THAT(reason("linear(elu1)+bn+causal", false), HasSubstr("per-query statistics"));
}

TEST(Select, TooManyFeaturesAreRefusedNotCounted) {
  for (const char* attention : {"poly(degree=100)", "linear(taylor,order=20)", "linear(taylor,order=8)"}) {
    const auto request = request_for(attention, {1, 1, 16, 16, 64, 64});
    EXPECT_EQ(chosen(request), "tiled") << attention;
    EXPECT_THAT(explain(request, select(request)), HasSubstr("more features than can be stored"));
    EXPECT_LT(select(request).candidates.back().estimate.memory, 1e7) << attention;
  }
}

TEST(Run, ValidatesFirst) {
  Tensor q(DType::f32, {1, 1, 2, 3}), k(DType::f32, {1, 1, 2, 3}), v(DType::f32, {1, 1, 2, 4});
  primal::Call call;
  call.attention = parse("softmax");
  call.q = q.view();
  call.k = k.view();
  call.v = v.view();
  Tensor wrong(DType::f32, {1, 1, 2, 3}), right(DType::f32, {1, 1, 2, 4});
  EXPECT_THROW(forward(call, {wrong.view(), {}, {}, {}}), InvalidArgument);
  primal::Outputs broadcast{right.view(), {}, {}, {}};
  broadcast.y.stride[2] = 0;  // both rows in one place
  EXPECT_THROW(forward(call, broadcast), InvalidArgument);
  EXPECT_NO_THROW(forward(call, {right.view(), {}, {}, {}}));
}

TEST(Registry, NamesAreForgiving) {
  EXPECT_EQ(&find("attention-bn"), &find("attention_bn"));
  try {
    find("atention_bn");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.hint(), HasSubstr("'attention_bn'"));
  }
}

TEST(Registry, PresetsAreTheirCompositions) {
  EXPECT_EQ(parse("attention_bn(beta=0.6)"), parse("softmax+bn(beta=0.6)"));
  EXPECT_EQ(parse("attention_bn(scale=std)"), parse("softmax+bn(scale=std)"));
  EXPECT_EQ(parse("attention_bn_sh(1,2,beta=0.6)+causal"), parse("softmax+bn(beta=0.6)+sh(1,2)+causal"));
  EXPECT_EQ(parse("sparse(local,4)"), parse("softmax+local(4)"));
  EXPECT_EQ(parse("sparse(pattern=local,4,scale=0.5)"), parse("softmax(scale=0.5)+local(4)"));
  EXPECT_THROW(parse("sparse(local,pattern=window)"), InvalidArgument);
  EXPECT_THROW(parse("attention_bn+rbf"), InvalidArgument);
}

TEST(Registry, MistakesInPresetsHaveThePositionInTheText) {
  try {
    parse("attention_bn(bta=1)");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("attention 'attention_bn(bta=1)', position 14: "));
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'beta'?"));
  }
}

TEST(Registry, FindsThePageOfAValue) {
  EXPECT_EQ(mechanism_of("softmax+bn(beta=0.3)+causal").name, "attention_bn");
  EXPECT_EQ(mechanism_of("softmax+bn+sh(1,2)").name, "attention_bn_sh");
  EXPECT_EQ(mechanism_of("linear(relu)").name, "linear");
}

}  // namespace
}  // namespace saddle::mechanisms

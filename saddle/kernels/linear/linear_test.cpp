#include "saddle/kernels/linear/linear.hpp"

#include <cstdlib>
#include <cstring>
#include <optional>

#include "saddle/primal/testing_internal.hpp"

namespace saddle::kernels {
namespace {

using primal::Outputs;
using primal::testing::add_key_mask;
using primal::testing::cotangent;
using primal::testing::error_of;
using primal::testing::Sample;
using primal::testing::sample;

Tensor as(const Tensor& from, DType dtype) {
  if (from.bytes().empty()) return from;
  Tensor to(dtype, from.shape());
  for (Index i = 0; i < to.size(); ++i) to.set(i, from.at(i));
  return to;
}

// The same call with tensors of another type.
Sample as(Sample s, DType dtype) {
  for (Tensor* tensor : {&s.q, &s.k, &s.v, &s.skip}) *tensor = as(*tensor, dtype);
  return s;
}

std::vector<Isa> isas() {
  std::vector<Isa> list;
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512})
    if (isa <= best_isa()) list.push_back(isa);
  return list;
}

struct Results {
  std::map<std::string, Tensor> tensors;
};

// y, lse where it exists, and all gradients.
template <class Forward, class Backward>
Results results(const Sample& s, const Forward& forward, const Backward& backward) {
  const primal::Call call = s.call();
  primal::validate(call);
  const DType dtype = call.dtype();
  const Dims dims = call.dims();
  Results r;
  const auto make = [&](const std::string& name, DType type, const Shape& shape) {
    r.tensors[name] = Tensor(type, shape);
    std::memset(r.tensors[name].bytes().data(), 0x7f, r.tensors[name].bytes().size());
    return r.tensors[name].view();
  };
  Outputs outputs;
  outputs.y = make("y", dtype, {dims.B, dims.H, dims.N, dims.E});
  if (std::holds_alternative<primal::RowSum>(s.attention.normaliser) &&
      sign_of(s.attention.kernel) != primal::Sign::changing)
    outputs.lse = make("lse", dtype == DType::f64 ? DType::f64 : DType::f32, {dims.B, dims.H, dims.N});
  primal::validate(call, outputs);
  forward(call, outputs);

  const Tensor dy = as(cotangent(r.tensors["y"]), dtype);
  primal::Gradients g;
  g.dy = dy.view();
  g.dq = make("dq", dtype, s.q.shape());
  g.dk = make("dk", dtype, s.k.shape());
  g.dv = make("dv", dtype, s.v.shape());
  if (s.attention.residual) g.dskip = make("dskip", dtype, s.skip.shape());
  for (const auto& [name, tensor] : s.parameters) g.parameters[name] = make("d" + name, DType::f64, tensor.shape());
  primal::validate(call, g);
  backward(call, g);
  return r;
}

// Limits the instruction set as a user would, while it lives.
class AtMost {
 public:
  explicit AtMost(Isa isa) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, to_string(isa), 1);
  }
  ~AtMost() { before_ ? setenv(name, before_->c_str(), 1) : unsetenv(name); }
  AtMost(const AtMost&) = delete;
  AtMost& operator=(const AtMost&) = delete;

 private:
  static constexpr const char* name = "SADDLE_MAX_ISA";
  std::optional<std::string> before_;
};

Results linear_results(const Sample& s) {
  const Implementation& kernel = linear();
  const primal::Call call = s.call();
  EXPECT_EQ(kernel.refusals(request_of(call, Outputs{})), std::vector<std::string>{});
  return results(
      s, [&](const auto& c, const auto& o) { kernel.forward(c, o); },
      [&](const auto& c, const auto& g) { kernel.backward(c, g); });
}

// The judge computes in double from the same rounded inputs.
Results judge_results(const Sample& s) {
  Sample exact = as(s, DType::f64);
  return results(exact, primal::primal_forward, primal::primal_backward);
}

double tolerance(DType dtype) { return dtype == DType::f64 ? 1e-11 : dtype == DType::f32 ? 2e-6 : 8e-3; }

void expect_close(const Results& a, const Results& b, double bound, const std::string& what) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, tensor] : b.tensors) {
    const Tensor& ours = a.tensors.at(name);
    // -inf in lse must agree exactly and is then left out.
    Tensor x = as(ours, DType::f64), y = as(tensor, DType::f64);
    for (Index i = 0; i < x.size(); ++i)
      if (std::isinf(y.at(i)) && x.at(i) == y.at(i)) {
        x.set(i, 0);
        y.set(i, 0);
      }
    EXPECT_LT(error_of(x, y), bound) << what << " " << name;
  }
}

void check(const Sample& s, const std::string& what, std::vector<DType> dtypes = {DType::f64, DType::f32}) {
  for (DType dtype : dtypes) {
    const Sample typed = as(s, dtype);
    const Results judge = judge_results(typed);
    for (Isa isa : isas()) {
      const AtMost limit(isa);
      EXPECT_EQ(linear().isa(), isa);
      expect_close(linear_results(typed), judge, tolerance(dtype),
                   what + " " + std::string(to_string(dtype)) + " " + to_string(isa));
    }
  }
}

const std::vector<std::string>& kernels() {
  static const std::vector<std::string> list{"linear(elu1)",
                                             "linear(relu)",
                                             "linear(taylor,order=0)",
                                             "linear(taylor,order=2)",
                                             "linear(taylor,order=3)+constant(5)",
                                             "linear(random,count=24,seed=3)",
                                             "dot+one",
                                             "dot+sqrt_length",
                                             "poly(degree=2)",
                                             "poly(degree=1,coef0=2)+one",
                                             "poly(degree=3,coef0=0.5)+constant(7)",
                                             "poly(degree=3,coef0=0)+sqrt_length"};
  return list;
}

TEST(LinearKernel, AllFeatureMaps) {
  for (const auto& kernel : kernels())
    for (const char* keys : {"", "+causal"}) check(sample(kernel + keys, {1, 2, 70, 70, 5, 7}), kernel + keys);
}

TEST(LinearKernel, MasksWithHoles) {
  for (const auto& kernel : kernels())
    for (const char* keys : {"+padding", "+padding+causal"}) {
      Sample s = sample(kernel + keys, {3, 1, 83, 83, 4, 3});
      add_key_mask(s, true);
      check(s, kernel + keys, {DType::f64});
    }
}

TEST(LinearKernel, OddAndEvenWidthsAndLengths) {
  for (const char* text : {"linear(elu1)", "linear(elu1)+causal", "linear(random,count=33)", "linear(taylor)+causal"})
    for (const Dims dims : {Dims{1, 1, 1, 1, 1, 1}, Dims{2, 1, 65, 64, 16, 32}, Dims{1, 1, 64, 129, 8, 48},
                            Dims{1, 2, 130, 3, 17, 1}, Dims{1, 1, 5, 200, 3, 80}, Dims{1, 1, 128, 128, 32, 16}})
      check(sample(text, dims), text);
}

TEST(LinearKernel, Pooling) {
  for (const char* text :
       {"linear(elu1)+sh(1,2,3)", "linear(elu1)+sh(1,2,3)+causal", "linear(relu)+sh(2,3,5,tail=drop)+causal",
        "linear(elu1)+sh(1,2,7,visibility=any,leak=allow)+causal",
        "poly+constant(3)+sh(2,3,4,pool=2d,grid=10x15)+causal",
        "linear(elu1)+sh(1,2,4,pool=2d,grid=10x15,visibility=any,leak=allow)+causal",
        "linear(random,count=9)+sh(1,2,4,pool=2d,grid=10x15)"}) {
    Sample s = sample(text, {2, 3, 150, 150, 6, 5});
    check(s, text, {DType::f64});
    add_key_mask(s);
    check(s, std::string(text) + " with a key mask");
  }
}

TEST(LinearKernel, TransformsBiasAndSkip) {
  for (const char* text : {"linear(elu1)+l2+bias", "linear(elu1)+bn+residual", "linear(elu1)+conv1d(3)+bias+causal",
                           "linear(relu)+bn(scale=std)+sh(1,2)", "linear(elu1)+l2+residual+bias+causal"})
    check(sample(text, {2, 2, 66, 66, 6, 5}), text);
}

TEST(LinearKernel, Bf16ByConversion) {
  for (const char* text : {"linear(elu1)", "linear(elu1)+causal"})
    check(sample(text, {1, 2, 100, 100, 16, 8}), text, {DType::bf16});
}

// Zero features and no key give y = 0, lse = -inf and no gradient.
TEST(LinearKernel, RowsThatSeeNothing) {
  for (const char* text : {"linear(relu)+sum(den_eps=0.01)", "linear(relu)+sum(den_eps=0.01)+causal"}) {
    Sample s = sample(text, {2, 1, 40, 40, 3, 2});
    for (Index i = 0; i < 30; ++i) s.q.set(i, -1);
    add_key_mask(s, true);
    check(s, text);
  }
}

// What a hidden key holds must not matter.
TEST(LinearKernel, HiddenKeysMayHoldNaN) {
  for (const char* text :
       {"linear(elu1)+padding", "linear(elu1)+padding+causal", "linear(elu1)+padding+sh(2)+causal"}) {
    Sample s = sample(text, {1, 1, 90, 90, 16, 16});
    add_key_mask(s);
    const Results clean = linear_results(s);
    for (Index j = 0; j < 90; ++j)
      if (s.key_mask.at(j) == 0)
        for (Index c = 0; c < 16; ++c) {
          s.k.set(j * 16 + c, NAN);
          s.v.set(j * 16 + c, NAN);
        }
    EXPECT_EQ(linear_results(s).tensors, clean.tensors) << text;
  }
}

TEST(LinearKernel, SameBitsForAnyNumberOfThreads) {
  for (const char* text :
       {"linear(elu1)", "linear(elu1)+causal", "linear(random,count=20)+causal", "linear(elu1)+sh(2)"}) {
    for (const Dims dims : {Dims{1, 1, 5000, 5000, 9, 8}, Dims{3, 1, 2500, 2500, 16, 4}}) {
      Sample s = as(sample(text, dims), DType::f32);
      add_key_mask(s);
      const int before = threads();
      set_threads(1);
      const Results one = linear_results(s);
      for (int n : {2, 3, 5}) {
        set_threads(n);
        EXPECT_EQ(linear_results(s).tensors, one.tensors) << text << ", " << n << " threads";
      }
      set_threads(before);
    }
  }
}

// Sums over thousands of keys lose nothing that matters.
TEST(LinearKernel, LongSums) {
  for (const char* text : {"linear(elu1)", "linear(elu1)+causal"}) {
    Sample s = sample(text, {1, 1, 4000, 4000, 8, 8});
    for (Index i = 0; i < s.v.size(); ++i) s.v.set(i, 1 + std::fabs(s.v.at(i)));
    const Sample typed = as(s, DType::f32);
    const Results judge = results(
        as(typed, DType::f64), [](const auto& c, const auto& o) { linear().forward(c, o); },
        [](const auto& c, const auto& g) { linear().backward(c, g); });
    expect_close(linear_results(typed), judge, 2e-6, text);
  }
}

// Strides of a fused projection [B,N,3,H,D], and outputs as [B,N,H,E].
TEST(LinearKernel, Strided) {
  const Index B = 2, H = 3, N = 75, D = 16;
  for (const char* text : {"linear(elu1)", "linear(elu1)+causal"}) {
    const Sample s = as(sample(text, {B, H, N, N, D, D}), DType::f32);
    Tensor fused(DType::f32, {B, N, 3, H, D}), y(DType::f32, {B, N, H, D}), plain(DType::f32, {B, H, N, D});
    const auto part = [&](Index which) {
      TensorView view = fused.view();
      view.data = static_cast<float*>(view.data) + which * H * D;
      view.shape = {B, H, N, D};
      view.stride = {N * 3 * H * D, D, 3 * H * D, 1};
      return view;
    };
    primal::Call call = s.call();
    Outputs outputs;
    outputs.y = plain.view();
    linear().forward(call, outputs);
    for (Index which = 0; which < 3; ++which) {
      const Tensor& from = which == 0 ? s.q : which == 1 ? s.k : s.v;
      for (Index b = 0; b < B; ++b)
        for (Index h = 0; h < H; ++h)
          for (Index i = 0; i < N; ++i)
            for (Index d = 0; d < D; ++d)
              fused.set((((b * N + i) * 3 + which) * H + h) * D + d, from.at(((b * H + h) * N + i) * D + d));
    }
    call.q = part(0);
    call.k = part(1);
    call.v = part(2);
    outputs.y = y.view();
    outputs.y.shape = {B, H, N, D};
    outputs.y.stride = {N * H * D, D, H * D, 1};
    linear().forward(call, outputs);
    for (Index b = 0; b < B; ++b)
      for (Index h = 0; h < H; ++h)
        for (Index i = 0; i < N; ++i)
          for (Index d = 0; d < D; ++d)
            EXPECT_EQ(y.at(((b * N + i) * H + h) * D + d), plain.at(((b * H + h) * N + i) * D + d));
  }
}

// Only the gradients asked for are written, and they are the same.
TEST(LinearKernel, GradientsOneByOne) {
  for (const char* text : {"linear(elu1)", "linear(elu1)+causal"}) {
    const Sample s = sample(text, {1, 2, 70, 70, 5, 6});
    const Results all = linear_results(s);
    const Tensor dy = cotangent(all.tensors.at("y"));
    for (const char* name : {"dq", "dk", "dv"}) {
      Tensor gradient(DType::f64, all.tensors.at(name).shape());
      primal::Gradients g;
      g.dy = dy.view();
      (std::string(name) == "dq" ? g.dq : std::string(name) == "dk" ? g.dk : g.dv) = gradient.view();
      linear().backward(s.call(), g);
      EXPECT_EQ(gradient, all.tensors.at(name)) << text << " " << name;
    }
  }
}

TEST(LinearKernel, RefusesWithReasons) {
  const auto refusals = [](const std::string& text, auto&& change) {
    Request request;
    request.attention = primal::parse(text);
    request.dims = {1, 2, 32, 32, 8, 8};
    change(request);
    return linear().refusals(request);
  };
  const auto nothing = [](Request&) {};
  EXPECT_TRUE(refusals("linear(elu1)+causal+padding", nothing).empty());
  EXPECT_EQ(refusals("softmax", nothing).size(), 1U);
  EXPECT_EQ(refusals("linear(elu1)+window(3)", nothing).size(), 1U);
  EXPECT_EQ(refusals("linear(elu1)+bn+causal", nothing).size(), 1U);
  EXPECT_EQ(refusals("linear(elu1)", [](Request& r) { r.mask = true; }).size(), 1U);
  EXPECT_EQ(refusals("linear(elu1)", [](Request& r) { r.weights = true; }).size(), 1U);
  EXPECT_EQ(refusals("linear(elu1)", [](Request& r) { r.dropout = true; }).size(), 1U);
  EXPECT_EQ(refusals("poly(degree=8)", [](Request& r) { r.dims.D = r.dims.E = 64; }).size(), 1U);
}

TEST(LinearKernel, EstimatesGrowWithTheWork) {
  Request request;
  request.attention = primal::parse("linear(elu1)");
  request.dims = {1, 8, 1024, 1024, 64, 64};
  request.threads = 2;
  const Estimate small = linear().estimate(request);
  request.dims.N = request.dims.M = 4096;
  const Estimate large = linear().estimate(request);
  EXPECT_NEAR(large.seconds / small.seconds, 4, 0.1);
  EXPECT_LT(large.memory, 4e6);
  request.backward = true;
  EXPECT_GT(linear().estimate(request).seconds, 2 * large.seconds);
}

}  // namespace
}  // namespace saddle::kernels

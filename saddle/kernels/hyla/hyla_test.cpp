// The kernel against the same formulas on the tape, for every instruction set.
#include "saddle/kernels/hyla/hyla.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "saddle/base/cpu.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/base/random.hpp"
#include "saddle/base/tape.hpp"

namespace saddle::kernels::hyla {
namespace {

using tape::Value;

struct Case {
  HylaShape shape;
  Norm norm = Norm::rms_head;
  Network network = Network::mlp_relu;
  bool causal = false, bias = false, masked = false;
  double dropout = 0;
};

std::string text_of(const Case& c) {
  const HylaShape& s = c.shape;
  std::string text = "B,N,H,D,E";
  for (const Index n : {s.B, s.N, s.H, s.D, s.E}) text += " " + std::to_string(n);
  return text + " norm " + std::to_string(static_cast<int>(c.norm)) + " network " +
         std::to_string(static_cast<int>(c.network)) + (c.causal ? " causal" : "") + (c.bias ? " bias" : "") +
         (c.masked ? " masked" : "") + (c.dropout > 0 ? " dropout" : "");
}

template <class T>
using Tensor4 = Array<T, 4>;

template <class T>
struct Results {
  Tensor4<T> o, d_q, d_k, d_v;
  Array<T, 2> d_bias;
};

// Numbers that float holds exactly; NaN for tokens that do not exist.
struct Inputs {
  std::vector<std::uint8_t> exists;
  Tensor4<double> q, k, v, d_o;
  Array<double, 2> bias;

  explicit Inputs(const Case& c) {
    const HylaShape& s = c.shape;
    Stream stream(5, "hyla");
    for (Index b = 0; b < s.B; ++b)  // a gap, and padding
      for (Index i = 0; i < s.N; ++i) exists.push_back(i == 0 || (i != 2 && i < s.N - 1 - b) ? 1 : 0);
    const auto drawn = [&](Index width) {
      Tensor4<double> x({s.B, s.N, s.H, width});
      for (Index b = 0; b < s.B; ++b)
        for (Index i = 0; i < s.N; ++i)
          for (Index h = 0; h < s.H; ++h)
            for (Index n = 0; n < width; ++n) {
              const double value = static_cast<double>(static_cast<float>(stream.normal()));
              const bool there = !c.masked || exists[static_cast<std::size_t>(b * s.N + i)] != 0;
              x(b, i, h, n) = there ? value : std::numeric_limits<double>::quiet_NaN();
            }
      return x;
    };
    q = drawn(s.D);
    k = drawn(s.D);
    v = drawn(s.E);
    d_o = drawn(s.E);
    bias = Array<double, 2>({s.H, s.N});
    for (Index h = 0; h < s.H; ++h)
      for (Index i = 0; i < s.N; ++i) bias(h, i) = static_cast<double>(static_cast<float>(stream.normal()));
  }
};

template <class T, int Rank>
Array<T, Rank> as(const Array<double, Rank>& from) {
  Array<T, Rank> to(from.view().shape);
  for (Index i = 0; i < from.view().size(); ++i) to.view().data[i] = static_cast<T>(from.view().data[i]);
  return to;
}

template <class T>
Results<T> computed(const Case& c, const Inputs& inputs) {
  const auto q = as<T>(inputs.q), k = as<T>(inputs.k), v = as<T>(inputs.v), d_o = as<T>(inputs.d_o);
  const auto bias = as<T>(inputs.bias);
  HylaCall<T> call;
  call.shape = c.shape;
  call.norm = c.norm;
  call.network = c.network;
  call.causal = c.causal;
  call.q = q;
  call.k = k;
  call.v = v;
  if (c.bias) call.bias = bias;
  if (c.masked) call.exists = inputs.exists.data();
  call.dropout = {c.dropout, 11};
  const T poison = std::numeric_limits<T>::quiet_NaN();
  Results<T> r{Tensor4<T>(v.view().shape, poison), Tensor4<T>(q.view().shape, poison),
               Tensor4<T>(q.view().shape, poison), Tensor4<T>(v.view().shape, poison),
               Array<T, 2>(bias.view().shape, poison)};
  forward<T>(call, r.o);
  backward<T>(call, d_o, r.d_q, r.d_k, r.d_v, c.bias ? r.d_bias.view() : View<T, 2>());
  return r;
}

// Which pairs are kept, [N,N], found out with weights of 1 and values that name their key.
std::vector<double> kept_pairs(Index N, double p) {
  Case c{{1, N, 1, 1, N}, Norm::none, Network::plain, false, false, false, p};
  Inputs inputs(c);
  inputs.q = inputs.k = Tensor4<double>({1, N, 1, 1}, 1.0);
  inputs.v = Tensor4<double>({1, N, 1, N});
  for (Index j = 0; j < N; ++j) inputs.v(0, j, 0, j) = 1;
  const auto r = computed<double>(c, inputs);
  return {r.o.view().data, r.o.view().data + N * N};
}

Value on_tape(const Tensor4<double>& x) {
  const View<const double, 4> view = x.view();
  std::vector<double> numbers(view.data, view.data + view.size());
  for (double& n : numbers) n = std::isnan(n) ? 0 : n;
  return {Shape(view.shape.begin(), view.shape.end()), std::move(numbers)};
}

Results<double> judged(const Case& c, const Inputs& inputs) {
  const HylaShape& s = c.shape;
  const Value q = on_tape(inputs.q), k = on_tape(inputs.k), v = on_tape(inputs.v);
  const Value bias({s.H, s.N}, {inputs.bias.view().data, inputs.bias.view().data + s.H * s.N});
  const auto by_heads = [](const Value& x) { return tape::transpose(x, 1, 2); };
  Value a = tape::matmul(by_heads(q), tape::transpose(by_heads(k), 2, 3)) *
            Value(1 / std::sqrt(static_cast<double>(s.D)));  // [B,H,N,N]
  std::vector<Index> distances;
  std::vector<double> seen, asks;
  for (Index h = 0; h < s.H; ++h)
    for (Index i = 0; i < s.N; ++i)
      for (Index j = 0; j < s.N; ++j) distances.push_back(h * s.N + std::max<Index>(i - j, 0));
  const auto exists = [&](Index b, Index i) {
    return !c.masked || inputs.exists[static_cast<std::size_t>(b * s.N + i)] != 0;
  };
  for (Index b = 0; b < s.B; ++b)
    for (Index i = 0; i < s.N; ++i) {
      asks.push_back(exists(b, i) ? 1 : 0);
      for (Index j = 0; j < s.N; ++j) seen.push_back(exists(b, j) && (!c.causal || j <= i) ? 1 : 0);
    }
  if (c.bias) a = a + tape::rearranged(bias, {s.H, s.N, s.N}, distances);
  a = tape::where(Value({s.B, 1, s.N, s.N}, seen), a,
                  c.norm == Norm::softmax ? -std::numeric_limits<double>::infinity() : 0);
  if (c.norm == Norm::softmax) a = tape::softmax(a);
  if (c.norm == Norm::rms_head) a = a / tape::sqrt(tape::mean(tape::square(a), 1, true) + Value(1e-6));
  if (c.dropout > 0) a = a * Value({s.N, s.N}, kept_pairs(s.N, c.dropout));
  Value o;  // [B,N,H,E]
  if (c.network == Network::plain) {
    o = by_heads(tape::matmul(a, by_heads(v)));
  } else {
    Value z =
        tape::sum(tape::reshape(a, {s.B, s.H, s.N, s.N, 1}) * tape::reshape(by_heads(v), {s.B, s.H, 1, s.N, s.E}), 1);
    if (c.network == Network::mlp_relu) z = tape::relu(z);
    o = tape::matmul(by_heads(a), z);
  }
  o = o * Value({s.B, s.N, 1, 1}, asks);
  tape::backward({{o, on_tape(inputs.d_o).data()}});
  Results<double> r{Tensor4<double>(inputs.v.view().shape), Tensor4<double>(inputs.q.view().shape),
                    Tensor4<double>(inputs.q.view().shape), Tensor4<double>(inputs.v.view().shape),
                    Array<double, 2>(inputs.bias.view().shape)};
  const auto take = [](auto& to, const std::vector<double>& from) {
    std::copy(from.begin(), from.end(), to.view().data);
  };
  take(r.o, o.data());
  take(r.d_q, q.gradient());
  take(r.d_k, k.gradient());
  take(r.d_v, v.gradient());
  take(r.d_bias, bias.gradient());
  return r;
}

template <class T, int Rank>
void expect_close(const Array<T, Rank>& found, const Array<double, Rank>& judge, const std::string& what) {
  double off = 0, size = 1;
  for (Index i = 0; i < judge.view().size(); ++i) {
    const double e = std::fabs(static_cast<double>(found.view().data[i]) - judge.view().data[i]);
    off = std::isnan(e) ? std::numeric_limits<double>::infinity() : std::max(off, e);
    size = std::max(size, std::fabs(judge.view().data[i]));
  }
  EXPECT_LE(off / size, (std::is_same_v<T, float> ? 2e-5 : 1e-12)) << what;
}

template <class T>
void check(const Case& c, const Inputs& inputs, const Results<double>& judge) {
  const Results<T> r = computed<T>(c, inputs);
  const std::string where = text_of(c) + " " + to_string(best_isa());
  expect_close(r.o, judge.o, "o " + where);
  expect_close(r.d_q, judge.d_q, "d_q " + where);
  expect_close(r.d_k, judge.d_k, "d_k " + where);
  expect_close(r.d_v, judge.d_v, "d_v " + where);
  if (c.bias) expect_close(r.d_bias, judge.d_bias, "d_bias " + where);
}

// Limits the instruction set as a user would, while it lives.
class AtMost {
 public:
  explicit AtMost(Isa isa) { setenv("SADDLE_MAX_ISA", to_string(isa), 1); }
  ~AtMost() { unsetenv("SADDLE_MAX_ISA"); }
  AtMost(const AtMost&) = delete;
  AtMost& operator=(const AtMost&) = delete;
};

TEST(HylaKernel, FollowsTheTape) {
  const HylaShape shapes[] = {{1, 1, 2, 1, 1}, {2, 5, 3, 5, 2}, {1, 37, 2, 3, 6}, {1, 70, 5, 2, 1}};
  int number = 0;
  for (const HylaShape& shape : shapes)
    for (const Norm norm : {Norm::rms_head, Norm::softmax, Norm::none})
      for (const Network network : {Network::mlp_relu, Network::plain, Network::mlp_linear})
        for (int options = 0; options < 16; ++options) {
          if (shape.N > 30 && number++ % 5 != 0) continue;  // all of them for short sequences
          const auto has = [&](int bit) { return (options >> bit & 1) != 0; };
          const Case c{shape, norm, network, has(0), has(1), has(2), has(3) ? 0.25 : 0.0};
          const Inputs inputs(c);
          const Results<double> judge = judged(c, inputs);
          for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
            if (isa > best_isa()) continue;
            const AtMost limit(isa);
            check<float>(c, inputs, judge);
            check<double>(c, inputs, judge);
          }
        }
}

TEST(HylaKernelDropout, DropsPairsOfAllHeadsAndSamples) {
  constexpr Index N = 60;
  const std::vector<double> kept = kept_pairs(N, 0.25);
  double dropped = 0;
  for (const double factor : kept) {
    if (factor == 0)
      ++dropped;
    else
      EXPECT_DOUBLE_EQ(factor, 1 / 0.75);
  }
  EXPECT_NEAR(dropped / (N * N), 0.25, 5 * std::sqrt(0.25 * 0.75) / N);
  for (const double factor : kept_pairs(N, 0)) EXPECT_EQ(factor, 1);

  // The same o for all samples and heads, if these are the same.
  const Case c{{2, N, 2, 1, 3}, Norm::none, Network::plain, false, false, false, 0.25};
  Inputs inputs(c);
  for (Tensor4<double>* x : {&inputs.q, &inputs.k, &inputs.v})
    for (Index b = 0; b < 2; ++b)
      for (Index i = 0; i < N; ++i)
        for (Index n = 0; n < x->view().shape[3]; ++n) (*x)(b, i, 0, n) = (*x)(b, i, 1, n) = (*x)(0, i, 0, n);
  const auto r = computed<double>(c, inputs);
  for (Index i = 0; i < N; ++i)
    for (Index n = 0; n < 3; ++n)
      for (Index b = 0; b < 2; ++b)
        for (Index h = 0; h < 2; ++h) EXPECT_EQ(r.o.view()(b, i, h, n), r.o.view()(0, i, 0, n));
}

TEST(HylaKernelThreads, DoNotChangeTheBits) {
  const Case c{{2, 100, 3, 4, 5}, Norm::rms_head, Network::mlp_relu, true, true, true, 0.1};
  const Inputs inputs(c);
  set_threads(1);
  const auto one = computed<float>(c, inputs);
  set_threads(3);
  const auto three = computed<float>(c, inputs);
  set_threads(0);
  const auto same = [](const auto& a, const auto& b) {
    return std::equal(a.view().data, a.view().data + a.view().size(), b.view().data);
  };
  EXPECT_TRUE(same(one.o, three.o) && same(one.d_q, three.d_q) && same(one.d_k, three.d_k) &&
              same(one.d_v, three.d_v) && same(one.d_bias, three.d_bias));
}

// A sample without tokens beside one with some.
TEST(HylaKernelMask, NobodyThere) {
  const Case c{{2, 6, 2, 3, 4}, Norm::softmax, Network::mlp_relu, false, false, true, 0};
  Inputs inputs(c);
  std::fill(inputs.exists.begin() + 6, inputs.exists.end(), std::uint8_t{0});
  const auto r = computed<double>(c, inputs);
  for (Index i = 0; i < 6; ++i)
    for (Index h = 0; h < 2; ++h) {
      for (Index n = 0; n < 4; ++n) EXPECT_EQ(r.o.view()(1, i, h, n), 0);
      for (Index n = 0; n < 3; ++n) {
        EXPECT_EQ(r.d_q.view()(1, i, h, n), 0);
        EXPECT_EQ(r.d_k.view()(1, i, h, n), 0);
      }
    }
  EXPECT_NE(r.o.view()(0, 0, 0, 0), 0);
}

}  // namespace
}  // namespace saddle::kernels::hyla

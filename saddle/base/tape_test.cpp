#include "saddle/base/tape.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "saddle/base/random.hpp"

namespace saddle::tape {
namespace {

using Function = std::function<Value(const std::vector<Value>&)>;

Value drawn(const Shape& shape, std::uint64_t seed, double offset = 0) {
  Stream stream(seed, "tape");
  std::vector<double> data(static_cast<std::size_t>(element_count(shape)));
  for (double& v : data) v = offset + stream.normal();
  return {shape, data};
}

// The gradient of <c, f(inputs)> for a fixed c against central differences.
void expect_gradient(const Function& f, const std::vector<Value>& inputs, const std::string& what) {
  const Value y = f(inputs);
  const Value c = drawn(y.shape(), 99);
  backward({{y, c.data()}});
  const auto total = [&](const std::vector<Value>& at) {
    const Value z = f(at);
    return std::inner_product(z.data().begin(), z.data().end(), c.data().begin(), 0.0);
  };
  constexpr double step = 1e-6;
  for (std::size_t n = 0; n < inputs.size(); ++n)
    for (std::size_t i = 0; i < inputs[n].data().size(); ++i) {
      const auto moved = [&](double by) {
        std::vector<Value> at;
        for (const Value& input : inputs) at.push_back(detach(input));
        std::vector<double> data = at[n].data();
        data[i] += by;
        at[n] = Value(at[n].shape(), data);
        return total(at);
      };
      EXPECT_NEAR(inputs[n].gradient()[i], (moved(step) - moved(-step)) / (2 * step), 1e-6)
          << what << ", input " << n << ", number " << i;
    }
}

TEST(Tape, GradientsAgreeWithDifferences) {
  const auto one = [](auto f) { return [f](const std::vector<Value>& in) { return f(in[0]); }; };
  const Shape shape{2, 3, 4};
  const std::vector<std::pair<std::string, Function>> unary{
      {"exp", one([](const Value& x) { return exp(x); })},
      {"square", one([](const Value& x) { return square(x); })},
      {"sigmoid", one([](const Value& x) { return sigmoid(x); })},
      {"sin", one([](const Value& x) { return sin(x); })},
      {"cos", one([](const Value& x) { return cos(x); })},
      {"gelu", one([](const Value& x) { return gelu(x); })},
      {"relu", one([](const Value& x) { return relu(x); })},
      {"abs", one([](const Value& x) { return abs(x); })},
      {"minus", one([](const Value& x) { return -x; })},
      {"softmax", one([](const Value& x) { return softmax(x, 1); })},
      {"normalised", one([](const Value& x) { return normalised(x, -1); })},
      {"sum", one([](const Value& x) { return sum(x, 1); })},
      {"mean", one([](const Value& x) { return mean(x, -1, true); })},
      {"mean of all", one([](const Value& x) { return mean(x); })},
      {"cumulative_sum", one([](const Value& x) { return cumulative_sum(x, 1); })},
      {"permute", one([](const Value& x) {
         return permute(x, {2, 0, 1});
       })},
      {"reshape", one([](const Value& x) {
         return reshape(x, {4, -1}) * Value(2.0);
       })},
      {"slice", one([](const Value& x) { return slice(x, 2, 1, 2); })},
      {"at", one([](const Value& x) { return at(x, 1, 2); })},
      {"select", one([](const Value& x) {
         return select(x, 1, {2, 0, 2});
       })},
      {"roll", one([](const Value& x) { return roll(x, 2, -3); })},
      {"concat", one([](const Value& x) {
         return concat({x, slice(x, 1, 0, 1)}, 1);
       })},
      {"stack", one([](const Value& x) {
         return stack({x, square(x)}, 1);
       })},
      {"heads", one([](const Value& x) { return join_heads(square(split_heads(x, 2))); })},
      {"where", one([](const Value& x) {
         return where(Value({4}, {1, 0, 1, 1}), x, 3.0);
       })},
      {"rearranged", one([](const Value& x) {
         return rearranged(x, {3}, {5, -1, 5});
       })}};
  for (const auto& [name, f] : unary) expect_gradient(f, {drawn(shape, 1)}, name);
  expect_gradient(one([](const Value& x) { return log(x) + sqrt(x); }), {drawn(shape, 1, 9)}, "log, sqrt");
}

TEST(Tape, GradientsOfSeveralInputs) {
  const std::vector<Value> pair{drawn({2, 1, 4}, 1), drawn({3, 1}, 2, 5)};
  expect_gradient([](const auto& in) { return in[0] + in[1]; }, pair, "sum");
  expect_gradient([](const auto& in) { return in[0] - in[1]; }, {drawn({4}, 1), drawn({2, 4}, 2)}, "difference");
  expect_gradient([](const auto& in) { return in[0] * in[1]; }, {drawn({2, 1, 4}, 1), drawn({3, 1}, 2)}, "product");
  expect_gradient([](const auto& in) { return in[0] / in[1]; }, {drawn({2, 1, 4}, 1), drawn({3, 1}, 2, 5)}, "ratio");
  expect_gradient([](const auto& in) { return matmul(in[0], in[1]); }, {drawn({2, 1, 3, 4}, 1), drawn({5, 4, 2}, 2)},
                  "matmul");
  expect_gradient([](const auto& in) { return linear(in[0], in[1], in[2]); },
                  {drawn({2, 3, 4}, 1), drawn({5, 4}, 2), drawn({5}, 3)}, "linear");
  expect_gradient([](const auto& in) { return layer_norm(in[0], in[1], in[2], 1e-5); },
                  {drawn({2, 3, 4}, 1), drawn({4}, 2), drawn({4}, 3)}, "layer_norm");
}

TEST(Tape, AddsUpWhatIsUsedTwice) {
  const Value x(3.0);
  const Value y = x * x + x;
  backward({{y, {1.0}}, {x, {10.0}}});
  EXPECT_EQ(y.data()[0], 12.0);
  EXPECT_EQ(x.gradient()[0], 2 * 3.0 + 1 + 10);
}

TEST(Tape, DetachedValuesCarryNoGradient) {
  const Value x(2.0);
  backward({{detach(x) * x, {1.0}}});
  EXPECT_EQ(x.gradient()[0], 2.0);
}

TEST(Tape, TakesWhatIsComputedElsewhere) {
  const Value x({2}, {1, 3}), unused(5.0);
  std::vector<double> seen;
  const Value y = computed({2}, {10, 30}, {x * Value(2.0), unused}, [&](const std::vector<double>& gradient) {
    seen = gradient;
    return std::vector<std::vector<double>>{{5 * gradient[0], 5 * gradient[1]}, {}};
  });
  backward({{y * y, {1.0, 1.0}}});
  EXPECT_EQ(seen, (std::vector<double>{20, 60}));
  EXPECT_EQ(x.gradient(), (std::vector<double>{2 * 5 * 20, 2 * 5 * 60}));
  EXPECT_EQ(unused.gradient()[0], 0);
  EXPECT_THROW(computed({3}, {1, 2}, {}, {}), InvalidArgument);
  const auto wrong = [](const std::vector<double>&) { return std::vector<std::vector<double>>{{1.0}}; };
  EXPECT_THROW(backward({{computed({}, {1}, {x}, wrong), {1.0}}}), InvalidArgument);
}

TEST(Tape, NothingVisibleGivesZero) {
  const double none = -std::numeric_limits<double>::infinity();
  const Value x({1, 2}, {none, none});
  const Value y = softmax(x);
  EXPECT_EQ(y.data(), (std::vector<double>{0, 0}));
  backward({{y, {1.0, 2.0}}});
  EXPECT_EQ(x.gradient(), (std::vector<double>{0, 0}));
}

TEST(Tape, RefusesWhatDoesNotFit) {
  EXPECT_THROW(Value({2, 2}, {1.0}), InvalidArgument);
  EXPECT_THROW(zeros({2, 3}) + zeros({2, 2}), InvalidArgument);
  EXPECT_THROW(matmul(zeros({2, 3}), zeros({2, 3})), InvalidArgument);
  EXPECT_THROW(reshape(zeros({2, 3}), {4, -1}), InvalidArgument);
  EXPECT_THROW(sum(zeros({2}), 1), InvalidArgument);
  EXPECT_THROW(select(zeros({2}), 0, {2}), InvalidArgument);
  EXPECT_THROW(concat({zeros({2, 1}), zeros({3, 1})}, 1), InvalidArgument);
  EXPECT_THROW(backward({{zeros({2}), {1.0}}}), InvalidArgument);
}

}  // namespace
}  // namespace saddle::tape

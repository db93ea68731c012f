// The battery: what every implementation of every mechanism must hold, on every case of every cases.toml.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <optional>

#include "problem.hpp"
#include "saddle/base/cpu.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/base/random.hpp"
#include "saddle/kernels/reference/reference.hpp"
#include "saddle/mechanisms/registry.hpp"
#include "saddle/mechanisms/select.hpp"

namespace saddle::battery {
namespace {

using kernels::Implementation;

const Implementation& reference() { return the_reference(); }

// The implementations beside the reference that accept a call, backward pass included.
std::vector<const Implementation*> accepting(const primal::Call& call) {
  std::vector<const Implementation*> list;
  for (const Implementation* implementation : kernels::generic_implementations())
    if (implementation != &reference() &&
        implementation->refusals(kernels::request_of(call, primal::Gradients{})).empty())
      list.push_back(implementation);
  return list;
}

// Compares implementations with the reference on one problem.
class Judge {
 public:
  Judge(const Problem& problem, const Results& expected) : problem_(problem), expected_(expected) {}

  void expect_close(const Implementation& implementation, const Results& computed, const std::string& what) {
    EXPECT_TRUE(computed.guards_intact) << what << ": memory outside a tensor was written";
    const DType dtype = problem_.call.dtype();
    for (const auto& [name, tensor] : expected_.tensors) {
      const double off = error(computed.tensors.at(name), tensor);
      if (off <= tolerance(dtype)) continue;
      EXPECT_LE(off, dtype == DType::f64 ? tolerance(dtype) : magnified(implementation, name)) << what << ": " << name;
    }
  }

 private:
  // What a result may be off by where a problem magnifies rounding beyond the tolerance: large logits, sums that nearly
  // vanish, statistics of one or two keys. Either the exact result itself moves that much when the inputs are rounded,
  // or the same algorithm in double, whose tolerance holds everywhere, shows by how much its roundings grow.
  double magnified(const Implementation& implementation, const std::string& name) {
    constexpr double double_to_float = 0x1p29, margin = 64;
    if (moved_.empty()) moved_ = sensitivity(problem_, expected_);
    auto& in_double = in_double_[&implementation];
    if (in_double.tensors.empty()) in_double = run(implementation, problem_.nudged(0));
    const double off = error(in_double.tensors.at(name), expected_.tensors.at(name));
    return std::max(moved_.at(name), margin * double_to_float * off);
  }

  const Problem& problem_;
  const Results& expected_;
  std::map<std::string, double> moved_;
  std::map<const Implementation*, Results> in_double_;
};

void expect_same(const Results& computed, const Results& expected, const std::string& what) {
  EXPECT_TRUE(computed.guards_intact) << what << ": memory outside a tensor was written";
  for (const auto& [name, tensor] : expected.tensors)
    EXPECT_EQ(error(computed.tensors.at(name), tensor), 0) << what << ": " << name;
}

void expect_no_nan(const Results& results, const std::string& what) {
  for (const auto& [name, tensor] : results.tensors)
    for (Index i = 0; i < tensor.size(); ++i) ASSERT_FALSE(std::isnan(tensor.at(i))) << what << ": " << name;
}

const std::vector all_masks{Masking::none, Masking::padding, Masking::mask, Masking::empty_rows, Masking::everything};
const std::vector some_masks{Masking::padding, Masking::everything};

// Runs a check on every instruction set of this machine.
class EachIsa {
 public:
  EachIsa() {
    if (const char* limit = std::getenv("SADDLE_MAX_ISA")) limit_ = limit;
    const Isa best = best_isa();
    for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512, Isa::amx})
      if (isa <= best) list_.push_back(isa);
  }
  ~EachIsa() {
    if (limit_)
      setenv("SADDLE_MAX_ISA", limit_->c_str(), 1);
    else
      unsetenv("SADDLE_MAX_ISA");
  }
  template <class Check>
  void run(Check&& check) const {
    for (Isa isa : list_) {
      setenv("SADDLE_MAX_ISA", to_string(isa), 1);
      check(to_string(isa));
    }
  }

 private:
  std::optional<std::string> limit_;
  std::vector<Isa> list_;
};

// One test per mechanism and point; the cases of the mechanism are a loop inside, named by the trace.
class Battery : public ::testing::TestWithParam<std::string> {
 protected:
  std::vector<BatteryCase> of_mechanism(const std::vector<BatteryCase>& cases) const {
    std::vector<BatteryCase> own;
    for (const BatteryCase& c : cases)
      if (c.mechanism == GetParam()) own.push_back(c);
    EXPECT_FALSE(own.empty()) << "the cases.toml of " << GetParam() << " gives nothing to test";
    return own;
  }
};

// Points 2, 4, 5, 7 and 10: agreement with the reference in every dtype, under every mask, from poisoned memory.
TEST_P(Battery, AgreesWithTheReference) {
  for (const BatteryCase& c : of_mechanism(all_cases())) {
    SCOPED_TRACE(test_name(c));
    for (DType dtype : {DType::f64, DType::f32, DType::bf16})
      for (Masking masking : dtype == DType::f64 ? all_masks : some_masks) {
        const Problem problem(c, dtype, masking);
        primal::validate(problem.call);
        const Results expected = run(reference(), problem);
        expect_no_nan(expected, "reference");
        EXPECT_TRUE(expected.guards_intact);
        Judge judge(problem, expected);
        EachIsa().run([&](const std::string& isa) {
          for (const Implementation* implementation : accepting(problem.call)) {
            const std::string name = std::string(implementation->name()) + " on " + isa;
            judge.expect_close(*implementation, run(*implementation, problem), name);
            judge.expect_close(*implementation, run(*implementation, problem, Layout::bhnd, false, true),
                               name + ", saved");
          }
        });
      }
  }
}

// Point 6: the same numbers from and to any memory layout.
TEST_P(Battery, DoesNotCareAboutStrides) {
  for (const BatteryCase& c : of_mechanism(all_cases())) {
    SCOPED_TRACE(test_name(c));
    const Problem contiguous(c, DType::f64, Masking::everything);
    for (Layout layout : {Layout::bnhd, Layout::padded_rows}) {
      const Problem strided(c, DType::f64, Masking::everything, layout);
      expect_same(run(reference(), strided, layout), run(reference(), contiguous), "reference");
    }
    const Problem unmasked(c, DType::f64, Masking::padding);
    for (const Implementation* implementation : accepting(unmasked.call)) {
      const Problem strided(c, DType::f64, Masking::padding, Layout::bnhd);
      expect_same(run(*implementation, strided, Layout::bnhd), run(*implementation, unmasked),
                  std::string(implementation->name()));
    }
  }
}

// Point 8: the same bits for any number of threads, and twice in a row.
TEST_P(Battery, HasTheSameBitsOnAnyNumberOfThreads) {
  for (const BatteryCase& c : of_mechanism(all_cases())) {
    SCOPED_TRACE(test_name(c));
    const Problem problem(c, DType::f32, Masking::padding);
    auto implementations = accepting(problem.call);
    implementations.push_back(&reference());
    for (const Implementation* implementation : implementations) {
      set_threads(1);
      const Results once = run(*implementation, problem);
      for (int count : {1, 2, 5}) {
        set_threads(count);
        const Results again = run(*implementation, problem);
        for (const auto& [name, tensor] : once.tensors)
          EXPECT_EQ(again.tensors.at(name), tensor) << implementation->name() << " " << name << ", threads " << count;
      }
      set_threads(0);
    }
  }
}

// A row that sees nothing gives exactly the offset, and passes nothing back.
TEST_P(Battery, GivesZeroWhereNothingIsVisible) {
  for (const BatteryCase& c : of_mechanism(all_cases())) {
    SCOPED_TRACE(test_name(c));
    Problem problem(c, DType::f64, Masking::mask);
    const Dims d = c.dims;
    problem.memory.at("mask").fill(Tensor(DType::u8, {d.B, d.H, d.N, d.M}));
    auto implementations = accepting(problem.call);
    implementations.push_back(&reference());
    for (const Implementation* implementation : implementations) {
      const Results results = run(*implementation, problem);
      for (const char* name : {"dq", "dk", "dv"})
        for (Index i = 0; i < results.tensors.at(name).size(); ++i)
          ASSERT_EQ(results.tensors.at(name).at(i), 0) << implementation->name() << " " << name;
      if (problem.call.attention.bias || problem.call.attention.residual) continue;
      for (Index i = 0; i < results.tensors.at("y").size(); ++i)
        ASSERT_EQ(results.tensors.at("y").at(i), 0) << implementation->name();
    }
  }
}

// Optional outputs: weights times (pooled) values is y, column sums are sums of weights.
TEST_P(Battery, ReturnsWeightsAndColumnSums) {
  for (const BatteryCase& c : of_mechanism(all_cases())) {
    SCOPED_TRACE(test_name(c));
    const Problem problem(c, DType::f64, Masking::everything);
    const Results results = run(reference(), problem, Layout::bhnd, true);
    auto request = kernels::request_of(problem.call, primal::Gradients{});
    request.weights = request.column_sums = true;
    for (const Implementation* implementation : accepting(problem.call))
      if (implementation->refusals(request).empty())
        Judge(problem, results)
            .expect_close(*implementation, run(*implementation, problem, Layout::bhnd, true),
                          std::string(implementation->name()));
    const Tensor& weights = results.tensors.at("weights");
    const Tensor& sums = results.tensors.at("column_sums");
    const Index K = weights.shape()[3], N = weights.shape()[2];
    const Dims d = c.dims;
    for (Index bh = 0; bh < d.B * d.H; ++bh)
      for (Index j = 0; j < K; ++j) {
        double sum = 0;
        for (Index i = 0; i < N; ++i) sum += weights.at((bh * N + i) * K + j);
        EXPECT_NEAR(sums.at(bh * K + j), sum, 1e-12);
      }
    if (problem.call.attention.pooling || problem.call.attention.bias || problem.call.attention.residual) continue;
    const Tensor& y = results.tensors.at("y");
    const Tensor v = problem.memory.at("v").dense();
    for (Index bh = 0; bh < d.B * d.H; ++bh)
      for (Index i = 0; i < N; ++i)
        for (Index e = 0; e < d.E; ++e) {
          double sum = 0;
          for (Index j = 0; j < d.M; ++j) sum += weights.at((bh * N + i) * K + j) * v.at((bh * d.M + j) * d.E + e);
          EXPECT_NEAR(y.at((bh * N + i) * d.E + e), sum, 1e-11 * std::max(1.0, std::fabs(sum)));
        }
  }
}

// Dropout: the same weights are left out by every implementation, in both passes.
TEST_P(Battery, DropsTheSameWeights) {
  for (const BatteryCase& c : of_mechanism(small_cases())) {
    SCOPED_TRACE(test_name(c));
    for (DType dtype : {DType::f64, DType::f32}) {
      Problem problem(c, dtype, Masking::everything);
      problem.call.dropout = {0.3, 0x123456789abcdefu, 7};
      const Results expected = run(reference(), problem);
      Judge judge(problem, expected);
      EachIsa().run([&](const std::string& isa) {
        for (const Implementation* implementation : accepting(problem.call))
          judge.expect_close(*implementation, run(*implementation, problem),
                             std::string(implementation->name()) + " on " + isa);
      });
    }
  }
}

// select() finds something for every case and its explanation names every implementation.
TEST_P(Battery, IsSelectedWithReasons) {
  for (const BatteryCase& c : of_mechanism(all_cases())) {
    SCOPED_TRACE(test_name(c));
    const Problem problem(c, DType::f32, Masking::padding);
    const auto request = kernels::request_of(problem.call, primal::Gradients{});
    const auto selection = mechanisms::select(request);
    ASSERT_NE(selection.chosen, nullptr);
    const std::string text = mechanisms::explain(request, selection);
    for (const auto& candidate : selection.candidates) {
      EXPECT_NE(text.find(candidate.implementation->name()), std::string::npos);
      for (const std::string& refusal : candidate.refusals) EXPECT_NE(text.find(refusal), std::string::npos);
    }
  }
}

// Point 3: gradients against central differences, along random directions in all inputs at once.
TEST_P(Battery, HasTheGradientOfItsOutput) {
  for (const BatteryCase& c : of_mechanism(small_cases())) {
    SCOPED_TRACE(test_name(c));
    for (Masking masking : {Masking::none, Masking::everything}) {
      Problem problem(c, DType::f64, masking);
      const Results results = run(reference(), problem);
      const Tensor dy = problem.memory.at("dy").dense();
      const auto objective = [&] {
        const Tensor y = run(reference(), problem).tensors.at("y");
        double sum = 0;
        for (Index i = 0; i < y.size(); ++i) sum += y.at(i) * dy.at(i);
        return sum;
      };
      for (auto& [name, slot] : problem.memory) {
        const std::string gradient = "d" + (name.starts_with("parameter ") ? name.substr(10) : name);
        if (!results.tensors.contains(gradient)) continue;
        const Tensor at = slot.dense();
        Stream stream(7, name);
        Tensor direction(DType::f64, at.shape());
        double expected = 0;
        for (Index i = 0; i < at.size(); ++i) {
          direction.set(i, stream.normal());
          expected += direction.at(i) * results.tensors.at(gradient).at(i);
        }
        const auto moved = [&, &memory = slot](double step) {  // clang 14 captures no structured bindings
          Tensor there = at;
          for (Index i = 0; i < at.size(); ++i) there.set(i, at.at(i) + step * direction.at(i));
          memory.fill(there);
          return objective();
        };
        const double h = 1e-5;
        const double measured = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h);
        slot.fill(at);
        EXPECT_NEAR(measured, expected, 1e-6 * std::max(1.0, std::fabs(expected))) << gradient;
      }
    }
  }
}

std::vector<std::string> mechanism_names() {
  std::vector<std::string> names;
  for (const mechanisms::Mechanism* mechanism : mechanisms::all_declared()) names.push_back(mechanism->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Mechanisms, Battery, ::testing::ValuesIn(mechanism_names()),
                         [](const auto& mechanism) { return mechanism.param; });

}  // namespace
}  // namespace saddle::battery

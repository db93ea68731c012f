// Support for the tests of this layer: seeded tensors, calls built from a written form, finite differences.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/base/random.hpp"
#include "saddle/primal/primal_form.hpp"
#include "saddle/primal/reference.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::primal::testing {

inline Tensor random_tensor(const Shape& shape, Stream& stream, double spread = 1) {
  Tensor tensor(DType::f64, shape);
  for (Index i = 0; i < tensor.size(); ++i) tensor.set(i, spread * stream.normal());
  return tensor;
}

inline Matrix random_matrix(Index rows, Index columns, Stream& stream, double spread = 1) {
  Matrix matrix({rows, columns});
  for (double& x : matrix) x = spread * stream.normal();
  return matrix;
}

// The data of one call, owned. Absent tensors are default-constructed.
struct Sample {
  Attention attention;
  Tensor q, k, v, key_mask, mask, skip;
  std::map<std::string, Tensor> parameters;

  // Borrows this sample.
  Call call() const {
    Call call;
    call.attention = attention;
    call.q = q.view();
    call.k = k.view();
    call.v = v.view();
    call.key_mask = key_mask.view();
    call.mask = mask.view();
    call.skip = skip.view();
    for (const auto& [name, tensor] : parameters) call.parameters[name] = tensor.view();
    return call;
  }
  Dims dims() const { return call().dims(); }
};

// Random q, k, v; random parameters around their initial values; a skip tensor where one is declared.
inline Sample sample(const std::string& text, const Dims& dims, std::uint64_t seed = 1, double spread = 1) {
  Stream stream(seed, "test");
  Sample s;
  s.attention = parse(text);
  s.q = random_tensor({dims.B, dims.H, dims.N, dims.D}, stream, spread);
  s.k = random_tensor({dims.B, dims.H, dims.M, dims.D}, stream, spread);
  s.v = random_tensor({dims.B, dims.H, dims.M, dims.E}, stream);
  if (s.attention.residual) s.skip = random_tensor({dims.B, dims.H, dims.N, dims.E}, stream);
  for (const ParameterInfo& info : primal::parameters(s.attention, dims)) {
    Tensor parameter = random_tensor(info.shape, stream, 0.3);
    for (Index i = 0; i < parameter.size(); ++i)
      parameter.set(i, parameter.at(i) + info.initial[static_cast<std::size_t>(i)]);
    s.parameters[info.name] = std::move(parameter);
  }
  return s;
}

// Keeps each key with the given chance; sample 0 ends with padding, and the last sample of several has no key at all
// when `empty_sample` is set.
inline void add_key_mask(Sample& s, bool empty_sample = false, std::uint64_t seed = 2) {
  const Dims dims = s.dims();
  Stream stream(seed, "key mask");
  s.key_mask = Tensor(DType::u8, {dims.B, dims.M});
  for (Index b = 0; b < dims.B; ++b)
    for (Index j = 0; j < dims.M; ++j) {
      const bool padded = b == 0 && j + 1 == dims.M;
      const bool gone = empty_sample && b > 0 && b + 1 == dims.B;
      s.key_mask.set(b * dims.M + j, !padded && !gone && stream.uniform() < 0.75);
    }
  s.key_mask.set(0, 1);
}

// Random visibility with one empty row in every head.
inline void add_mask(Sample& s, std::uint64_t seed = 3) {
  const Dims dims = s.dims();
  Stream stream(seed, "mask");
  s.mask = Tensor(DType::boolean, {dims.B, dims.H, dims.N, dims.M});
  for (Index i = 0; i < s.mask.size(); ++i) {
    const bool empty_row = i / dims.M % dims.N == 1;
    s.mask.set(i, !empty_row && stream.uniform() < 0.6);
  }
}

using Forward = std::function<void(const Call&, const Outputs&)>;
using Backward = std::function<void(const Call&, const Gradients&)>;

inline Tensor run(const Sample& s, const Forward& forward = reference_forward) {
  const Call call = s.call();
  validate(call);
  const Dims dims = call.dims();
  Tensor y(DType::f64, {dims.B, dims.H, dims.N, dims.E});
  const Outputs outputs{y.view(), {}, {}, {}};
  validate(call, outputs);
  forward(call, outputs);
  return y;
}

// Gradients of <dy, y> by name: q, k, v, skip and the parameters.
inline std::map<std::string, Tensor> gradients(const Sample& s, const Tensor& dy,
                                               const Backward& backward = reference_backward) {
  const Call call = s.call();
  std::map<std::string, Tensor> result;
  const auto make = [&](const std::string& name, const Tensor& like) {
    result[name] = Tensor(DType::f64, like.shape());
    return result[name].view();
  };
  Gradients g;
  g.dy = dy.view();
  g.dq = make("q", s.q);
  g.dk = make("k", s.k);
  g.dv = make("v", s.v);
  if (s.attention.residual) g.dskip = make("skip", s.skip);
  for (const auto& [name, tensor] : s.parameters) g.parameters[name] = make(name, tensor);
  validate(call, g);
  backward(call, g);
  return result;
}

inline Tensor cotangent(const Tensor& y, std::uint64_t seed = 4) {
  Stream stream(seed, "cotangent");
  return random_tensor(y.shape(), stream);
}

inline double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (Index i = 0; i < a.size(); ++i) sum += a.at(i) * b.at(i);
  return sum;
}

// max|a-b| / max(1, max|b|), the measure of the golden cases. NaN only equals NaN.
inline double error_of(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double worst = 0, top = 1;
  for (Index i = 0; i < a.size(); ++i) {
    const bool both_nan = std::isnan(a.at(i)) && std::isnan(b.at(i));
    const double difference = both_nan ? 0 : std::fabs(a.at(i) - b.at(i));
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
    if (!both_nan) top = std::max(top, std::fabs(b.at(i)));
  }
  return worst / top;
}

// Central differences of f with respect to every entry of x, which f reads.
inline Tensor differences(Tensor& x, const std::function<double()>& f, double step = 1e-6) {
  Tensor result(DType::f64, x.shape());
  for (Index i = 0; i < x.size(); ++i) {
    const double value = x.at(i);
    x.set(i, value + step);
    const double above = f();
    x.set(i, value - step);
    const double below = f();
    x.set(i, value);
    result.set(i, (above - below) / (2 * step));
  }
  return result;
}

// Small tensors are quicker in one thread, and the tests then leave the other cores alone.
class OneThread {
 public:
  OneThread() : before_(threads()) { set_threads(1); }
  ~OneThread() { set_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// The message of the error of type E that f throws; fails the test if it does not.
template <class E = InvalidArgument, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace saddle::primal::testing

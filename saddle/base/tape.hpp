// Reverse differentiation in double: a computation written with these functions knows its gradient. Slow and plain, for
// references; what trains is written for its purpose and judged by them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/base/tensor.hpp"

namespace saddle::tape {

// A dense array with the way it was made. Copies share it. Axes below 0 count from the end everywhere.
class SADDLE_API Value {
 public:
  Value() = default;  // undefined
  Value(Shape shape, std::vector<double> data);
  Value(double number);  // of shape ()
  explicit Value(const Tensor& tensor);

  explicit operator bool() const { return node_ != nullptr; }
  const Shape& shape() const;
  Index size(int axis) const;
  int rank() const { return static_cast<int>(shape().size()); }
  const std::vector<double>& data() const;
  // Zero before backward(), and where nothing depends on it.
  std::vector<double> gradient() const;
  Tensor tensor() const;
  Tensor gradient_tensor() const;

  struct Node;
  const std::shared_ptr<Node>& node() const { return node_; }
  explicit Value(std::shared_ptr<Node> node) : node_(std::move(node)) {}

 private:
  std::shared_ptr<Node> node_;
};

SADDLE_API Value zeros(Shape shape);
SADDLE_API Value full(Shape shape, double number);

// One number for each, by broadcasting as in NumPy.
SADDLE_API Value operator+(const Value& a, const Value& b);
SADDLE_API Value operator-(const Value& a, const Value& b);
SADDLE_API Value operator*(const Value& a, const Value& b);
SADDLE_API Value operator/(const Value& a, const Value& b);
SADDLE_API Value operator-(const Value& a);
// f(x) of each number, with the derivative df(x), which may be one that f does not have.
SADDLE_API Value map(const Value& x, const std::function<double(double)>& f, const std::function<double(double)>& df);
SADDLE_API Value exp(const Value& x);
SADDLE_API Value log(const Value& x);
SADDLE_API Value sqrt(const Value& x);
SADDLE_API Value square(const Value& x);
SADDLE_API Value abs(const Value& x);
SADDLE_API Value relu(const Value& x);  // derivative 0 at 0
SADDLE_API Value sigmoid(const Value& x);
SADDLE_API Value sin(const Value& x);
SADDLE_API Value cos(const Value& x);
SADDLE_API Value gelu(const Value& x);  // by erf
// The larger of each number and a bound; derivative 0 where the bound holds.
SADDLE_API Value at_least(const Value& x, double bound);
// The same numbers without their history.
SADDLE_API Value detach(const Value& x);
// x where mask (broadcast to x) is not 0, else `other`; the mask carries no gradient.
SADDLE_API Value where(const Value& mask, const Value& x, double other);

// Along one axis, which stays with size 1 if `keep`.
SADDLE_API Value sum(const Value& x, int axis, bool keep = false);
SADDLE_API Value mean(const Value& x, int axis, bool keep = false);
SADDLE_API Value sum(const Value& x);  // of all -> ()
SADDLE_API Value mean(const Value& x);
SADDLE_API Value cumulative_sum(const Value& x, int axis);
// Rows whose every number is -inf give 0.
SADDLE_API Value softmax(const Value& x, int axis = -1);
// x / max(|x|_2, eps) along an axis.
SADDLE_API Value normalised(const Value& x, int axis, double eps = 1e-12);
// (x - mean) / sqrt(variance + eps) over the last axis, times weight, plus bias, if defined.
SADDLE_API Value layer_norm(const Value& x, const Value& weight, const Value& bias, double eps);

// [..,n,k] [..,k,m] -> [..,n,m], leading axes broadcast.
SADDLE_API Value matmul(const Value& a, const Value& b);
// x [..,in], weight [out,in], bias [out] or undefined -> [..,out]
SADDLE_API Value linear(const Value& x, const Value& weight, const Value& bias = {});

SADDLE_API Value reshape(const Value& x, Shape shape);  // one extent may be -1
SADDLE_API Value permute(const Value& x, const std::vector<int>& axes);
SADDLE_API Value transpose(const Value& x, int a, int b);
SADDLE_API Value slice(const Value& x, int axis, Index first, Index count);
// The slice `index`, without the axis.
SADDLE_API Value at(const Value& x, int axis, Index index);
// Slices by number, repeats allowed.
SADDLE_API Value select(const Value& x, int axis, const std::vector<Index>& indices);
SADDLE_API Value concat(const std::vector<Value>& parts, int axis);
SADDLE_API Value stack(const std::vector<Value>& parts, int axis);  // along a new axis
SADDLE_API Value roll(const Value& x, int axis, Index shift);       // x[i] goes to i + shift, round the end
// Any other rearrangement: number i of the result is number from[i] of x, 0 where from[i] is -1.
SADDLE_API Value rearranged(const Value& x, Shape shape, const std::vector<Index>& from);

// [B,N,H D] -> [B,H,N,D] and back.
SADDLE_API Value split_heads(const Value& x, Index heads);
SADDLE_API Value join_heads(const Value& x);

// A value that something else computed from `inputs`, with its way back: from the gradient of the value to that of each
// input, empty where nothing depends on it.
using PullBack = std::function<std::vector<std::vector<double>>(const std::vector<double>& gradient)>;
SADDLE_API Value computed(Shape shape, std::vector<double> data, const std::vector<Value>& inputs, PullBack pull_back);

// Adds the gradient of sum <cotangent, value> to everything that the values were made of.
struct Cotangent {
  Value value;
  std::vector<double> cotangent;
};
SADDLE_API void backward(const std::vector<Cotangent>& roots);

}  // namespace saddle::tape

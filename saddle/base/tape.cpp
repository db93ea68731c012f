#include "saddle/base/tape.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <unordered_set>

#include "saddle/base/error.hpp"

namespace saddle::tape {

struct Value::Node {
  Shape shape;
  std::vector<double> data;
  std::vector<double> gradient;  // empty: 0
  std::vector<std::shared_ptr<Node>> inputs;
  std::function<void(const Node&)> pull;  // from its gradient to those of its inputs

  std::vector<double>& grown() {
    if (gradient.empty()) gradient.assign(data.size(), 0.0);
    return gradient;
  }
};

namespace {

using Node = Value::Node;
using Pull = std::function<void(const Node&)>;

Value made(Shape shape, std::vector<double> data, std::vector<Value> inputs, Pull pull) {
  auto node = std::make_shared<Node>();
  node->shape = std::move(shape);
  node->data = std::move(data);
  for (const Value& input : inputs) node->inputs.push_back(input.node());
  node->pull = std::move(pull);
  return Value(std::move(node));
}

std::size_t axis_of(const Value& x, int axis) {
  const int rank = x.rank(), found = axis < 0 ? axis + rank : axis;
  if (found < 0 || found >= rank)
    throw InvalidArgument("axis " + std::to_string(axis) + " does not exist in shape " + to_string(x.shape()));
  return static_cast<std::size_t>(found);
}

// Extents before, at and behind an axis.
struct Cut {
  Index outer = 1, size = 1, inner = 1;
};

Cut cut(const Shape& shape, std::size_t axis) {
  Cut c;
  for (std::size_t i = 0; i < shape.size(); ++i) (i < axis ? c.outer : i == axis ? c.size : c.inner) *= shape[i];
  return c;
}

Shape broadcast_shape(const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const Index x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      throw InvalidArgument("shapes " + to_string(a) + " and " + to_string(b) + " do not fit each other");
    shape[shape.size() - 1 - i] = x == 1 ? y : x;
  }
  return shape;
}

// For each number of `to`, which number of `from` it is.
std::vector<Index> broadcast_indices(const Shape& from, const Shape& to) {
  std::vector<Index> indices(static_cast<std::size_t>(element_count(to)), 0);
  Index step = 1, repeat = 1;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const Index extent = to[to.size() - 1 - i], own = i < from.size() ? from[from.size() - 1 - i] : 1;
    if (own != 1)
      for (std::size_t n = 0; n < indices.size(); ++n) indices[n] += static_cast<Index>(n) / repeat % extent * step;
    step *= own;
    repeat *= extent;
  }
  return indices;
}

// f(a, b), with da(a, b) and db(a, b) its derivatives.
template <class F, class Da, class Db>
Value binary(const Value& a, const Value& b, F f, Da da, Db db) {
  const Shape shape = broadcast_shape(a.shape(), b.shape());
  auto in_a = broadcast_indices(a.shape(), shape), in_b = broadcast_indices(b.shape(), shape);
  std::vector<double> data(in_a.size());
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = f(a.data()[in_a[i]], b.data()[in_b[i]]);
  return made(shape, std::move(data), {a, b},
              [in_a = std::move(in_a), in_b = std::move(in_b), da, db](const Node& node) {
                Node &x = *node.inputs[0], &y = *node.inputs[1];
                auto &gx = x.grown(), &gy = y.grown();
                for (std::size_t i = 0; i < node.data.size(); ++i) {
                  gx[in_a[i]] += node.gradient[i] * da(x.data[in_a[i]], y.data[in_b[i]]);
                  gy[in_b[i]] += node.gradient[i] * db(x.data[in_a[i]], y.data[in_b[i]]);
                }
              });
}

}  // namespace

Value::Value(Shape shape, std::vector<double> data) : node_(std::make_shared<Node>()) {
  if (element_count(shape) != static_cast<Index>(data.size()))
    throw InvalidArgument(std::to_string(data.size()) + " numbers do not fill the shape " + to_string(shape));
  node_->shape = std::move(shape);
  node_->data = std::move(data);
}

Value::Value(double number) : Value(Shape{}, std::vector<double>{number}) {}

Value::Value(const Tensor& tensor) : node_(std::make_shared<Node>()) {
  node_->shape = tensor.shape();
  node_->data.resize(static_cast<std::size_t>(tensor.size()));
  detail::copy_to_double(tensor.view(), node_->data.data());
}

const Shape& Value::shape() const { return node_->shape; }
Index Value::size(int axis) const { return node_->shape[axis_of(*this, axis)]; }
const std::vector<double>& Value::data() const { return node_->data; }

std::vector<double> Value::gradient() const {
  return node_->gradient.empty() ? std::vector<double>(node_->data.size(), 0.0) : node_->gradient;
}

Tensor Value::tensor() const {
  Tensor tensor(DType::f64, shape());
  detail::copy_from_double(data().data(), tensor.view());
  return tensor;
}

Tensor Value::gradient_tensor() const {
  Tensor tensor(DType::f64, shape());
  detail::copy_from_double(gradient().data(), tensor.view());
  return tensor;
}

Value zeros(Shape shape) { return full(std::move(shape), 0.0); }

Value full(Shape shape, double number) {
  const auto count = static_cast<std::size_t>(element_count(shape));
  return {std::move(shape), std::vector<double>(count, number)};
}

Value operator+(const Value& a, const Value& b) {
  const auto one = [](double, double) { return 1.0; };
  return binary(
      a, b, [](double x, double y) { return x + y; }, one, one);
}

Value operator-(const Value& a, const Value& b) {
  return binary(
      a, b, [](double x, double y) { return x - y; }, [](double, double) { return 1.0; },
      [](double, double) { return -1.0; });
}

Value operator*(const Value& a, const Value& b) {
  return binary(
      a, b, [](double x, double y) { return x * y; }, [](double, double y) { return y; },
      [](double x, double) { return x; });
}

Value operator/(const Value& a, const Value& b) {
  return binary(
      a, b, [](double x, double y) { return x / y; }, [](double, double y) { return 1 / y; },
      [](double x, double y) { return -x / (y * y); });
}

Value operator-(const Value& a) { return Value(0.0) - a; }

Value map(const Value& x, const std::function<double(double)>& f, const std::function<double(double)>& df) {
  std::vector<double> data(x.data().size());
  std::transform(x.data().begin(), x.data().end(), data.begin(), f);
  return made(x.shape(), std::move(data), {x}, [df](const Node& node) {
    Node& input = *node.inputs[0];
    auto& g = input.grown();
    for (std::size_t i = 0; i < g.size(); ++i) g[i] += node.gradient[i] * df(input.data[i]);
  });
}

Value exp(const Value& x) {
  const auto f = [](double v) { return std::exp(v); };
  return map(x, f, f);
}
Value log(const Value& x) {
  return map(
      x, [](double v) { return std::log(v); }, [](double v) { return 1 / v; });
}
Value sqrt(const Value& x) {
  return map(
      x, [](double v) { return std::sqrt(v); }, [](double v) { return 0.5 / std::sqrt(v); });
}
Value square(const Value& x) {
  return map(
      x, [](double v) { return v * v; }, [](double v) { return 2 * v; });
}
Value abs(const Value& x) {
  return map(
      x, [](double v) { return std::fabs(v); }, [](double v) { return v > 0   ? 1.0
                                                                      : v < 0 ? -1.0
                                                                              : 0.0; });
}
Value relu(const Value& x) { return at_least(x, 0.0); }
Value sigmoid(const Value& x) {
  const auto f = [](double v) { return 1 / (1 + std::exp(-v)); };
  return map(x, f, [f](double v) { return f(v) * (1 - f(v)); });
}
Value sin(const Value& x) {
  return map(
      x, [](double v) { return std::sin(v); }, [](double v) { return std::cos(v); });
}
Value cos(const Value& x) {
  return map(
      x, [](double v) { return std::cos(v); }, [](double v) { return -std::sin(v); });
}
Value gelu(const Value& x) {
  const auto below = [](double v) { return 0.5 * std::erfc(-v / std::numbers::sqrt2); };
  const auto density = [](double v) { return std::exp(-0.5 * v * v) / std::sqrt(2 * std::numbers::pi); };
  return map(
      x, [below](double v) { return v * below(v); }, [=](double v) { return below(v) + v * density(v); });
}
Value at_least(const Value& x, double bound) {
  return map(
      x, [bound](double v) { return std::max(v, bound); }, [bound](double v) { return v > bound ? 1.0 : 0.0; });
}
Value detach(const Value& x) { return {x.shape(), x.data()}; }

Value where(const Value& mask, const Value& x, double other) {
  auto in_mask = broadcast_indices(mask.shape(), x.shape());
  std::vector<double> data(x.data());
  for (std::size_t i = 0; i < data.size(); ++i)
    if (mask.data()[in_mask[i]] == 0) data[i] = other;
  return made(x.shape(), std::move(data), {x}, [mask, in_mask = std::move(in_mask)](const Node& node) {
    auto& g = node.inputs[0]->grown();
    for (std::size_t i = 0; i < g.size(); ++i)
      if (mask.data()[in_mask[i]] != 0) g[i] += node.gradient[i];
  });
}

Value sum(const Value& x, int axis, bool keep) {
  const std::size_t a = axis_of(x, axis);
  const Cut c = cut(x.shape(), a);
  Shape shape = x.shape();
  shape[a] = 1;
  std::vector<double> data(static_cast<std::size_t>(c.outer * c.inner), 0.0);
  const auto at = [c](Index o, Index s, Index i) { return static_cast<std::size_t>((o * c.size + s) * c.inner + i); };
  for (Index o = 0; o < c.outer; ++o)
    for (Index s = 0; s < c.size; ++s)
      for (Index i = 0; i < c.inner; ++i) data[o * c.inner + i] += x.data()[at(o, s, i)];
  if (!keep) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(a));
  return made(shape, std::move(data), {x}, [c, at](const Node& node) {
    auto& g = node.inputs[0]->grown();
    for (Index o = 0; o < c.outer; ++o)
      for (Index s = 0; s < c.size; ++s)
        for (Index i = 0; i < c.inner; ++i) g[at(o, s, i)] += node.gradient[o * c.inner + i];
  });
}

Value mean(const Value& x, int axis, bool keep) {
  return sum(x, axis, keep) * Value(1.0 / static_cast<double>(x.size(axis)));
}
Value sum(const Value& x) { return reshape(sum(reshape(x, {element_count(x.shape())}), 0), {}); }
Value mean(const Value& x) { return sum(x) * Value(1.0 / static_cast<double>(element_count(x.shape()))); }

Value cumulative_sum(const Value& x, int axis) {
  const std::size_t a = axis_of(x, axis);
  const Cut c = cut(x.shape(), a);
  const auto at = [c](Index o, Index s, Index i) { return static_cast<std::size_t>((o * c.size + s) * c.inner + i); };
  std::vector<double> data(x.data());
  for (Index o = 0; o < c.outer; ++o)
    for (Index s = 1; s < c.size; ++s)
      for (Index i = 0; i < c.inner; ++i) data[at(o, s, i)] += data[at(o, s - 1, i)];
  return made(x.shape(), std::move(data), {x}, [c, at](const Node& node) {
    auto& g = node.inputs[0]->grown();
    for (Index o = 0; o < c.outer; ++o)
      for (Index i = 0; i < c.inner; ++i) {
        double behind = 0;
        for (Index s = c.size - 1; s >= 0; --s) g[at(o, s, i)] += behind += node.gradient[at(o, s, i)];
      }
  });
}

Value softmax(const Value& x, int axis) {
  const std::size_t a = axis_of(x, axis);
  const Cut c = cut(x.shape(), a);
  const auto at = [c](Index o, Index s, Index i) { return static_cast<std::size_t>((o * c.size + s) * c.inner + i); };
  std::vector<double> data(x.data());
  for (Index o = 0; o < c.outer; ++o)
    for (Index i = 0; i < c.inner; ++i) {
      double most = -std::numeric_limits<double>::infinity(), total = 0;
      for (Index s = 0; s < c.size; ++s) most = std::max(most, data[at(o, s, i)]);
      for (Index s = 0; s < c.size; ++s) {
        double& v = data[at(o, s, i)];
        v = std::isinf(most) ? 0.0 : std::exp(v - most);
        total += v;
      }
      for (Index s = 0; s < c.size; ++s)
        if (total > 0) data[at(o, s, i)] /= total;
    }
  return made(x.shape(), std::move(data), {x}, [c, at](const Node& node) {
    auto& g = node.inputs[0]->grown();
    for (Index o = 0; o < c.outer; ++o)
      for (Index i = 0; i < c.inner; ++i) {
        double dot = 0;
        for (Index s = 0; s < c.size; ++s) dot += node.gradient[at(o, s, i)] * node.data[at(o, s, i)];
        for (Index s = 0; s < c.size; ++s)
          g[at(o, s, i)] += node.data[at(o, s, i)] * (node.gradient[at(o, s, i)] - dot);
      }
  });
}

Value normalised(const Value& x, int axis, double eps) {
  // The derivative of the norm is taken to be 0 at 0.
  const Value norm = map(
      sum(square(x), axis, true), [](double v) { return std::sqrt(v); },
      [](double v) { return v > 0 ? 0.5 / std::sqrt(v) : 0.0; });
  return x / at_least(norm, eps);
}

Value layer_norm(const Value& x, const Value& weight, const Value& bias, double eps) {
  const Value centred = x - mean(x, -1, true);
  Value y = centred / sqrt(mean(square(centred), -1, true) + Value(eps));
  if (weight) y = y * weight;
  return bias ? y + bias : y;
}

Value matmul(const Value& a, const Value& b) {
  if (a.rank() < 2 || b.rank() < 2 || a.size(-1) != b.size(-2))
    throw InvalidArgument("matrices of shapes " + to_string(a.shape()) + " and " + to_string(b.shape()) +
                          " cannot be multiplied");
  const Index n = a.size(-2), k = a.size(-1), m = b.size(-1);
  const auto leading = [](const Value& x) { return Shape(x.shape().begin(), x.shape().end() - 2); };
  Shape shape = broadcast_shape(leading(a), leading(b));
  auto in_a = broadcast_indices(leading(a), shape), in_b = broadcast_indices(leading(b), shape);
  shape.push_back(n);
  shape.push_back(m);
  std::vector<double> data(static_cast<std::size_t>(element_count(shape)), 0.0);
  for (std::size_t batch = 0; batch < in_a.size(); ++batch) {
    const double *x = &a.data()[in_a[batch] * n * k], *y = &b.data()[in_b[batch] * k * m];
    double* out = &data[batch * n * m];
    for (Index i = 0; i < n; ++i)
      for (Index l = 0; l < k; ++l)
        for (Index j = 0; j < m; ++j) out[i * m + j] += x[i * k + l] * y[l * m + j];
  }
  return made(std::move(shape), std::move(data), {a, b},
              [in_a = std::move(in_a), in_b = std::move(in_b), n, k, m](const Node& node) {
                Node &left = *node.inputs[0], &right = *node.inputs[1];
                auto &gl = left.grown(), &gr = right.grown();
                for (std::size_t batch = 0; batch < in_a.size(); ++batch) {
                  const Index at_a = in_a[batch] * n * k, at_b = in_b[batch] * k * m;
                  const double* g = &node.gradient[batch * n * m];
                  for (Index i = 0; i < n; ++i)
                    for (Index l = 0; l < k; ++l) {
                      double sum_a = 0;
                      for (Index j = 0; j < m; ++j) {
                        sum_a += g[i * m + j] * right.data[at_b + l * m + j];
                        gr[at_b + l * m + j] += g[i * m + j] * left.data[at_a + i * k + l];
                      }
                      gl[at_a + i * k + l] += sum_a;
                    }
                }
              });
}

Value linear(const Value& x, const Value& weight, const Value& bias) {
  Shape shape = x.shape();
  const Value y = matmul(reshape(x, {-1, x.size(-1)}), transpose(weight, 0, 1));
  shape.back() = weight.size(0);
  return bias ? reshape(y + bias, shape) : reshape(y, shape);
}

Value reshape(const Value& x, Shape shape) {
  const Index count = element_count(x.shape());
  const auto open = std::find(shape.begin(), shape.end(), Index{-1});
  if (open != shape.end()) {
    *open = 1;
    *open = count / std::max<Index>(1, element_count(shape));
  }
  if (element_count(shape) != count)
    throw InvalidArgument("shape " + to_string(x.shape()) + " cannot become " + to_string(shape));
  return made(std::move(shape), x.data(), {x}, [](const Node& node) {
    auto& g = node.inputs[0]->grown();
    for (std::size_t i = 0; i < g.size(); ++i) g[i] += node.gradient[i];
  });
}

Value rearranged(const Value& x, Shape shape, const std::vector<Index>& from) {
  std::vector<double> data(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) data[i] = from[i] < 0 ? 0.0 : x.data().at(from[i]);
  if (element_count(shape) != static_cast<Index>(from.size()))
    throw InvalidArgument(std::to_string(from.size()) + " numbers do not fill the shape " + to_string(shape));
  return made(std::move(shape), std::move(data), {x}, [from](const Node& node) {
    auto& g = node.inputs[0]->grown();
    for (std::size_t i = 0; i < from.size(); ++i)
      if (from[i] >= 0) g[from[i]] += node.gradient[i];
  });
}

Value permute(const Value& x, const std::vector<int>& axes) {
  const std::size_t rank = x.shape().size();
  Shape strides(rank, 1), shape(rank), steps(rank);
  for (std::size_t i = rank; i-- > 1;) strides[i - 1] = strides[i] * x.shape()[i];
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t axis = axis_of(x, axes.at(i));
    shape[i] = x.shape()[axis];
    steps[i] = strides[axis];
  }
  std::vector<Index> from(x.data().size(), 0);
  Index repeat = 1;
  for (std::size_t i = rank; i-- > 0; repeat *= shape[i])
    for (std::size_t n = 0; n < from.size(); ++n) from[n] += static_cast<Index>(n) / repeat % shape[i] * steps[i];
  return rearranged(x, shape, from);
}

Value transpose(const Value& x, int a, int b) {
  std::vector<int> axes(x.shape().size());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[axis_of(x, a)], axes[axis_of(x, b)]);
  return permute(x, axes);
}

Value select(const Value& x, int axis, const std::vector<Index>& indices) {
  const std::size_t a = axis_of(x, axis);
  const Cut c = cut(x.shape(), a);
  Shape shape = x.shape();
  shape[a] = static_cast<Index>(indices.size());
  std::vector<Index> from;
  from.reserve(static_cast<std::size_t>(element_count(shape)));
  for (Index o = 0; o < c.outer; ++o)
    for (const Index s : indices) {
      if (s < 0 || s >= c.size)
        throw InvalidArgument("slice " + std::to_string(s) + " does not exist in shape " + to_string(x.shape()));
      for (Index i = 0; i < c.inner; ++i) from.push_back((o * c.size + s) * c.inner + i);
    }
  return rearranged(x, shape, from);
}

Value slice(const Value& x, int axis, Index first, Index count) {
  std::vector<Index> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), first);
  return select(x, axis, indices);
}

Value at(const Value& x, int axis, Index index) {
  Shape shape = x.shape();
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis_of(x, axis)));
  return reshape(slice(x, axis, index, 1), shape);
}

Value roll(const Value& x, int axis, Index shift) {
  const Index n = x.size(axis);
  std::vector<Index> indices(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) indices[i] = ((i - shift) % n + n) % n;
  return select(x, axis, indices);
}

Value concat(const std::vector<Value>& parts, int axis) {
  const std::size_t a = axis_of(parts.at(0), axis);
  Shape shape = parts[0].shape();
  shape[a] = 0;
  for (const Value& part : parts) shape[a] += part.size(static_cast<int>(a));
  const Cut whole = cut(shape, a);
  std::vector<double> data(static_cast<std::size_t>(element_count(shape)));
  std::vector<Index> firsts;  // along the axis
  Index first = 0;
  for (const Value& part : parts) {
    const Cut c = cut(part.shape(), a);
    if (c.outer != whole.outer || c.inner != whole.inner)
      throw InvalidArgument("shapes " + to_string(parts[0].shape()) + " and " + to_string(part.shape()) +
                            " cannot stand side by side");
    for (Index o = 0; o < c.outer; ++o)
      std::copy_n(&part.data()[o * c.size * c.inner], c.size * c.inner, &data[(o * whole.size + first) * whole.inner]);
    firsts.push_back(first);
    first += c.size;
  }
  return made(shape, std::move(data), parts, [whole, firsts, a](const Node& node) {
    for (std::size_t p = 0; p < firsts.size(); ++p) {
      Node& part = *node.inputs[p];
      const Cut c = cut(part.shape, a);
      auto& g = part.grown();
      for (Index o = 0; o < c.outer; ++o)
        for (Index i = 0; i < c.size * c.inner; ++i)
          g[o * c.size * c.inner + i] += node.gradient[(o * whole.size + firsts[p]) * whole.inner + i];
    }
  });
}

Value stack(const std::vector<Value>& parts, int axis) {
  const int rank = parts.at(0).rank() + 1, at = axis < 0 ? axis + rank : axis;
  std::vector<Value> grown;
  for (const Value& part : parts) {
    Shape shape = part.shape();
    shape.insert(shape.begin() + at, 1);
    grown.push_back(reshape(part, shape));
  }
  return concat(grown, at);
}

Value split_heads(const Value& x, Index heads) {
  return permute(reshape(x, {x.size(0), x.size(1), heads, -1}), {0, 2, 1, 3});
}

Value join_heads(const Value& x) { return reshape(permute(x, {0, 2, 1, 3}), {x.size(0), x.size(2), -1}); }

Value computed(Shape shape, std::vector<double> data, const std::vector<Value>& inputs, PullBack pull_back) {
  if (element_count(shape) != static_cast<Index>(data.size()))
    throw InvalidArgument(std::to_string(data.size()) + " numbers do not fill the shape " + to_string(shape));
  return made(std::move(shape), std::move(data), inputs, [pull_back = std::move(pull_back)](const Node& node) {
    const auto gradients = pull_back(node.gradient);
    if (gradients.size() != node.inputs.size())
      throw InvalidArgument(std::to_string(gradients.size()) + " gradients are given for " +
                            std::to_string(node.inputs.size()) + " inputs");
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].empty()) continue;
      auto& g = node.inputs[i]->grown();
      if (gradients[i].size() != g.size())
        throw InvalidArgument(std::to_string(gradients[i].size()) + " numbers are no gradient of shape " +
                              to_string(node.inputs[i]->shape));
      for (std::size_t n = 0; n < g.size(); ++n) g[n] += gradients[i][n];
    }
  });
}

void backward(const std::vector<Cotangent>& roots) {
  std::vector<Node*> order;  // inputs before what is made of them
  std::unordered_set<const Node*> seen;
  for (const auto& [value, cotangent] : roots) {
    if (cotangent.size() != value.data().size())
      throw InvalidArgument(std::to_string(cotangent.size()) + " numbers do not fill the shape " +
                            to_string(value.shape()));
    auto& g = value.node()->grown();
    for (std::size_t i = 0; i < g.size(); ++i) g[i] += cotangent[i];
    std::vector<std::pair<Node*, std::size_t>> path;
    if (seen.insert(value.node().get()).second) path.emplace_back(value.node().get(), 0);
    while (!path.empty()) {
      auto& [node, next] = path.back();
      if (next == node->inputs.size()) {
        order.push_back(node);
        path.pop_back();
        continue;
      }
      Node* const input = node->inputs[next++].get();
      if (seen.insert(input).second) path.emplace_back(input, 0);
    }
  }
  for (auto node = order.rbegin(); node != order.rend(); ++node)
    if ((*node)->pull && !(*node)->gradient.empty()) (*node)->pull(**node);
}

}  // namespace saddle::tape

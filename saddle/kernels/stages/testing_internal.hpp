// Support for the tests of this folder: an attention computed through stages by the plainest core, and calls with
// other dtypes and strides.
#pragma once

#include <limits>
#include <list>

#include "saddle/kernels/stages/stage.hpp"
#include "saddle/primal/head.hpp"
#include "saddle/primal/testing_internal.hpp"

namespace saddle::kernels::testing {

using primal::testing::Sample;

struct CoreOptions {
  bool raw = false;
  bool need_row = true;
  Goal goal = Goal::scores;
};

// Rows of a problem in double, whatever they come from.
template <class T>
class PlainProblem {
 public:
  PlainProblem(const Stage<T>& stage, const primal::Call& call, Index b, Index h)
      : p(stage.problem()),
        q(read(p.q, stage.raw_q(), p.N, p.D)),
        k(read(p.k, stage.raw_k(), p.K, p.D)),
        v(read(p.v, stage.raw_v(), p.K, p.E)),
        visible(primal::prepare_head(call, b, h).visible) {
    if (p.q_shift != nullptr)
      for (Index i = 0; i < p.N; ++i)
        for (Index d = 0; d < p.D; ++d)
          q(i, d) = (q(i, d) - static_cast<double>(p.q_shift[d])) * static_cast<double>(p.q_factor[d]);
    const auto& keep = stage.keep();
    for (Index j = 0; j < p.K; ++j)
      for (Index i = 0; i < p.N && !keep.empty(); ++i) EXPECT_LE(visible(i, j), keep[static_cast<std::size_t>(j)]);
  }

  double score(Index i, Index j) const {
    double s = 0;
    for (Index d = 0; d < p.D; ++d) s += q(i, d) * k(j, d);
    s *= p.a;
    if (p.row != nullptr) s += static_cast<double>(p.row[i]);
    if (p.column != nullptr) s += static_cast<double>(p.column[j]);
    return s;
  }
  double g(double s) const {
    if (p.kappa.kind == Kappa::Kind::exp) return std::exp(s);
    if (p.kappa.kind == Kappa::Kind::power) return std::pow(s + p.kappa.coef0, static_cast<double>(p.kappa.degree));
    return taylor(s, p.kappa.degree);
  }
  double derivative(double s) const {
    const auto n = static_cast<double>(p.kappa.degree);
    if (p.kappa.kind == Kappa::Kind::exp) return std::exp(s);
    if (p.kappa.kind == Kappa::Kind::power) return n * std::pow(s + p.kappa.coef0, n - 1);
    return p.kappa.degree == 0 ? 0 : taylor(s, p.kappa.degree - 1);
  }

  const ScoreProblem<T>& p;
  Matrix q, k, v;
  Array<std::uint8_t, 2> visible;

 private:
  static double taylor(double s, Index order) {
    double sum = 1, term = 1;
    for (Index t = 1; t <= order; ++t) sum += term *= s / static_cast<double>(t);
    return sum;
  }
  static Matrix read(Rows<const T> rows, Rows<const BFloat16> raw, Index n, Index columns) {
    Matrix x({n, columns});
    EXPECT_TRUE(n == 0 || static_cast<bool>(rows) != static_cast<bool>(raw));
    for (Index i = 0; i < n; ++i)
      for (Index c = 0; c < columns; ++c)
        x(i, c) = rows ? static_cast<double>(rows[i][c]) : static_cast<double>(raw[i][c]);
    return x;
  }
};

// Weights g(s)/h of row i and what they come from; h = 0 where nothing is seen.
struct PlainRow {
  std::vector<double> weights, slopes;  // slopes = g'(s)/h
  double h = 0;
};

template <class T>
PlainRow plain_row(const PlainProblem<T>& problem, const primal::Attention& attention, Index i) {
  const auto rule = primal::normaliser_rule(attention.normaliser, attention.kernel, problem.p.N, problem.p.K);
  const auto K = static_cast<std::size_t>(problem.p.K);
  PlainRow row{std::vector<double>(K, 0.0), std::vector<double>(K, 0.0), rule.row_sum ? rule.den_eps : rule.fixed};
  const bool shifted = rule.row_sum && rule.den_eps == 0 && problem.p.kappa.kind == Kappa::Kind::exp;
  double top = shifted ? -std::numeric_limits<double>::infinity() : 0;
  bool any = false;
  for (Index j = 0; j < problem.p.K; ++j)
    if (problem.visible(i, j) && shifted) top = std::max(top, problem.score(i, j));
  for (Index j = 0; j < problem.p.K; ++j) {
    if (!problem.visible(i, j)) continue;
    any = true;
    row.weights[j] = problem.g(problem.score(i, j) - top);
    row.slopes[j] = problem.derivative(problem.score(i, j) - top);
    if (rule.row_sum) row.h += row.weights[j];
  }
  if (!any || row.h == 0) return {std::vector<double>(K, 0.0), std::vector<double>(K, 0.0), 0};
  for (std::size_t j = 0; j < K; ++j) {
    row.weights[j] /= row.h;
    row.slopes[j] /= row.h;
  }
  row.h *= shifted ? std::exp(top) : 1;
  return row;
}

template <class T>
void plain_forward(const primal::Call& call, const primal::Outputs& outputs, const CoreOptions& options = {}) {
  const Dims dims = call.dims();
  const OutputRows<T> out(call, outputs.y);
  for (Index b = 0; b < dims.B; ++b)
    for (Index h = 0; h < dims.H; ++h) {
      const Stage<T> stage(call, b, h, options.goal, options.raw, options.need_row);
      const PlainProblem<T> problem(stage, call, b, h);
      std::vector<T> y(static_cast<std::size_t>(dims.E));
      for (Index i = 0; i < dims.N; ++i) {
        const PlainRow row = plain_row(problem, call.attention, i);
        for (Index e = 0; e < dims.E; ++e) {
          double sum = 0;
          for (Index j = 0; j < problem.p.K; ++j)
            if (problem.visible(i, j)) sum += row.weights[j] * problem.v(j, e);
          y[e] = static_cast<T>(sum);
        }
        if (const Rows<T> direct = out.direct(b, h))
          std::copy(y.begin(), y.end(), direct[i]);
        else
          out.store(b, h, i, 1, {y.data(), dims.E});
        if (outputs.lse) store(outputs.lse, (b * dims.H + h) * dims.N + i, row.h == 0 ? -INFINITY : std::log(row.h));
      }
    }
}

template <class T>
void plain_backward(const primal::Call& call, const primal::Gradients& gradients, const CoreOptions& options = {}) {
  const Dims dims = call.dims();
  std::vector<std::vector<std::vector<double>>> dtheta(static_cast<std::size_t>(dims.B * dims.H));
  for (Index b = 0; b < dims.B; ++b)
    for (Index h = 0; h < dims.H; ++h) {
      Stage<T> stage(call, b, h, options.goal, options.raw, options.need_row);
      const PlainProblem<T> problem(stage, call, b, h);
      const ScoreProblem<T>& p = problem.p;
      const Rows<const T> dy = stage.dy(gradients);
      const auto targets = stage.targets(gradients);
      Matrix dq({p.N, p.D}), dk({p.K, p.D}), dv({p.K, p.E});
      Vector drow({p.N}), dcolumn({p.K});
      const bool row_sum = std::holds_alternative<primal::RowSum>(call.attention.normaliser);
      for (Index i = 0; i < p.N; ++i) {
        const PlainRow row = plain_row(problem, call.attention, i);
        std::vector<double> dweights(static_cast<std::size_t>(p.K), 0.0);
        double mean = 0;
        for (Index j = 0; j < p.K; ++j) {
          if (!problem.visible(i, j)) continue;
          for (Index e = 0; e < p.E; ++e) {
            dweights[j] += static_cast<double>(dy[i][e]) * problem.v(j, e);
            dv(j, e) += row.weights[j] * static_cast<double>(dy[i][e]);
          }
          mean += row_sum ? row.weights[j] * dweights[j] : 0;
        }
        for (Index j = 0; j < p.K; ++j) {
          if (!problem.visible(i, j)) continue;
          const double ds = row.slopes[j] * (dweights[j] - mean);
          drow(i) += ds;
          dcolumn(j) += ds;
          for (Index d = 0; d < p.D; ++d) {
            dq(i, d) += p.a * ds * problem.k(j, d);
            dk(j, d) += p.a * ds * problem.q(i, d);
          }
        }
      }
      const auto write = [](const Matrix& from, Rows<T> to) {
        for (Index i = 0; to && i < from.shape()[0]; ++i)
          for (Index c = 0; c < from.shape()[1]; ++c) to[i][c] = static_cast<T>(from(i, c));
      };
      write(dq, targets.dq);
      write(dk, targets.dk);
      write(dv, targets.dv);
      if (targets.drow != nullptr) std::copy(drow.begin(), drow.end(), targets.drow);
      if (targets.dcolumn != nullptr) std::copy(dcolumn.begin(), dcolumn.end(), targets.dcolumn);
      stage.pullback(gradients, dtheta[static_cast<std::size_t>(b * dims.H + h)]);
    }
  write_parameter_gradients(call, gradients, dtheta);
}

// How a tensor [B,H,n,C] lies in memory.
enum class Layout {
  dense,
  tokens_first,   // as [B,n,H,C]
  columns_apart,  // as [B,H,C,n]
  backwards       // rows in reverse order
};

// The same values in another layout and dtype; `storage` owns them.
inline TensorView laid_out(const TensorView& from, Layout layout, DType dtype, std::list<Tensor>& storage) {
  if (!from) return from;
  const Index B = from.shape[0], H = from.shape[1], n = from.shape[2], C = from.shape[3];
  Tensor& tensor = storage.emplace_back(dtype, from.shape);
  TensorView view = tensor.view();
  if (layout == Layout::tokens_first) view.stride = {n * H * C, C, H * C, 1};
  if (layout == Layout::columns_apart) view.stride = {H * C * n, C * n, 1, n};
  if (layout == Layout::backwards) {
    view.data = static_cast<std::byte*>(view.data) + std::max<Index>(n - 1, 0) * C * static_cast<Index>(size_of(dtype));
    view.stride[2] = -C;
  }
  for (Index b = 0; b < B; ++b)
    for (Index h = 0; h < H; ++h)
      for (Index i = 0; i < n; ++i)
        for (Index c = 0; c < C; ++c) {
          const auto at = [&](const TensorView& t) {
            return b * t.stride[0] + h * t.stride[1] + i * t.stride[2] + c * t.stride[3];
          };
          store(view, at(view), load(from, at(from)));
        }
  return view;
}

// The values of a view of rank 1 to 4, dense and in double.
inline Tensor values_of(const TensorView& view) {
  Tensor tensor(DType::f64, view.shape);
  std::vector<double> values(static_cast<std::size_t>(tensor.size()));
  saddle::detail::copy_to_double(view, values.data());
  saddle::detail::copy_from_double(values.data(), tensor.view());
  return tensor;
}

}  // namespace saddle::kernels::testing

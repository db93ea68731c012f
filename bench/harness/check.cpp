#include "check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/primal/reference.hpp"

namespace saddle::bench {

namespace {

// Largest |a - b| over largest |b|; infinite when one of them is no number.
class Difference {
 public:
  void add(double computed, double expected) {
    if (!std::isfinite(computed) || !std::isfinite(expected)) finite_ = false;
    difference_ = std::max(difference_, std::fabs(computed - expected));
    largest_ = std::max(largest_, std::fabs(expected));
  }
  double error() const {
    return finite_ ? difference_ / std::max(largest_, 1e-30) : std::numeric_limits<double>::infinity();
  }

 private:
  double difference_ = 0, largest_ = 0;
  bool finite_ = true;
};

double difference(const TensorView& computed, const TensorView& expected) {
  const auto a = to_double<4>(computed), b = to_double<4>(expected);
  Difference d;
  for (Index i = 0; i < a.size(); ++i) d.add(a.data()[i], b.data()[i]);
  return d.error();
}

double count(Index n) { return static_cast<double>(n); }

// Multiply-adds of the reference, roughly.
double reference_work(const Row& row) {
  const Dims& d = row.dims;
  return count(d.B) * count(d.H) * count(d.N) * count(d.M) * count(d.D + d.E) * (row.pass == Pass::training ? 4 : 1);
}
constexpr double affordable = 4e8;

// All tensors of a problem that has run, against the reference.
double whole_error(const Problem& problem) {
  const primal::Call& call = problem.call();
  Tensor y(DType::f64, problem.outputs().y.shape);
  primal::reference_forward(call, {y.view(), {}, {}, {}});
  double error = difference(problem.outputs().y, y.view());
  if (problem.row().pass == Pass::forward) return error;
  const primal::Gradients& given = problem.gradients();
  Tensor dq(DType::f64, call.q.shape), dk(DType::f64, call.k.shape), dv(DType::f64, call.v.shape);
  primal::Gradients gradients;
  gradients.dy = given.dy;
  gradients.dq = dq.view();
  gradients.dk = dk.view();
  gradients.dv = dv.view();
  primal::reference_backward(call, gradients);
  error = std::max(
      {error, difference(given.dq, dq.view()), difference(given.dk, dk.view()), difference(given.dv, dv.view())});
  return error;
}

// The same work on fewer samples and tokens; heads and widths stay, they may decide which code runs.
Row cut_down(Row row) {
  constexpr Index tokens = 197;
  row.dims.B = std::min<Index>(row.dims.B, 2);
  row.dims.N = std::min(row.dims.N, tokens);
  row.dims.M = std::min(row.dims.M, tokens);
  while (reference_work(row) > affordable && row.dims.N > 16) {
    row.dims.N = std::max<Index>(16, row.dims.N / 2);
    row.dims.M = std::min(row.dims.M, std::max<Index>(16, row.dims.M / 2));
  }
  return row;
}

// Runs what runs at the full size, also where the smaller shape would be given to another implementation.
void run_with(const Problem& full, const Problem& small) {
  set_threads(small.row().threads);
  full.forward()->forward(small.call(), small.outputs());
  if (full.backward() != nullptr) full.backward()->backward(small.call(), small.gradients());
}

// The attention of single queries: positions are gone, so key sets become a mask, and what followed from them is said
// outright. Nothing where queries depend on each other.
std::optional<primal::Attention> of_single_queries(const primal::Attention& attention, const Dims& dims) {
  primal::Attention single = attention;
  for (primal::Transform& transform : single.transforms) {
    if (mixes_tokens(transform) && !std::holds_alternative<primal::BatchNorm>(transform)) return std::nullopt;
    if (auto* bn = std::get_if<primal::BatchNorm>(&transform)) {
      bn->stats = stats_of(attention, *bn);
      bn->leak = primal::Leak::allow;
    }
  }
  if (single.pooling) single.pooling->visibility = visibility_of(attention, *attention.pooling);
  if (std::holds_alternative<primal::SqrtLength>(single.normaliser)) {
    if (single.pooling) return std::nullopt;
    single.normaliser = primal::Constant{primal::SqrtLength{}.value(dims.N, dims.M)};
  }
  single.keys.clear();
  return single;
}

// Rows `queries` of sample b of a tensor [B,H,n,C] as a dense double tensor [1,H,queries,C].
Tensor pick(const TensorView& from, Index b, const std::vector<Index>& queries) {
  const Index H = from.shape[1], C = from.shape[3], n = static_cast<Index>(queries.size());
  Tensor to(DType::f64, {1, H, n, C});
  for (Index h = 0; h < H; ++h)
    for (Index i = 0; i < n; ++i)
      for (Index c = 0; c < C; ++c)
        to.set((h * n + i) * C + c,
               load(from, b * from.stride[0] + h * from.stride[1] +
                              queries[static_cast<std::size_t>(i)] * from.stride[2] + c * from.stride[3]));
  return to;
}

Tensor whole_sample(const TensorView& from, Index b) {
  std::vector<Index> rows(static_cast<std::size_t>(from.shape[2]));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<Index>(i);
  return pick(from, b, rows);
}

// Rows of y, and of dq when there is one, at the full size: all keys, some queries of sample b.
double sampled_error(const Problem& problem, const primal::Attention& single, Index b,
                     const std::vector<Index>& queries) {
  const primal::Call& call = problem.call();
  const Dims d = call.dims();
  const auto n = static_cast<Index>(queries.size());
  const Tensor q = pick(call.q, b, queries), k = whole_sample(call.k, b), v = whole_sample(call.v, b);
  Tensor mask(DType::u8, {1, d.H, n, d.M}), keep, skip;
  for (Index h = 0; h < d.H; ++h)
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < d.M; ++j)
        mask.set((h * n + i) * d.M + j, sees(call.attention.keys, h, queries[static_cast<std::size_t>(i)], j) ? 1 : 0);
  primal::Call cut;
  cut.attention = single;
  cut.q = q.view();
  cut.k = k.view();
  cut.v = v.view();
  cut.mask = mask.view();
  cut.parameters = call.parameters;
  if (call.key_mask) {
    keep = Tensor(DType::u8, {1, d.M});
    for (Index j = 0; j < d.M; ++j)
      keep.set(j, load(call.key_mask, b * call.key_mask.stride[0] + j * call.key_mask.stride[1]));
    cut.key_mask = keep.view();
  }
  if (call.skip) cut.skip = (skip = pick(call.skip, b, queries)).view();
  primal::validate(cut);
  Tensor y(DType::f64, {1, d.H, n, d.E});
  primal::reference_forward(cut, {y.view(), {}, {}, {}});
  double error = difference(pick(problem.outputs().y, b, queries).view(), y.view());
  if (problem.row().pass == Pass::forward) return error;
  const Tensor dy = pick(problem.gradients().dy, b, queries);
  Tensor dq(DType::f64, cut.q.shape);
  primal::Gradients gradients;
  gradients.dy = dy.view();
  gradients.dq = dq.view();
  primal::reference_backward(cut, gradients);
  return std::max(error, difference(pick(problem.gradients().dq, b, queries).view(), dq.view()));
}

// First, last and a few in between, as many as can be afforded.
std::vector<Index> sampled_queries(const Row& row) {
  const Dims& d = row.dims;
  const double one = reference_work(row) / (count(d.B) * count(d.N));
  const auto most = static_cast<Index>(std::clamp(affordable / 4 / one, 2.0, 9.0));
  const Index n = std::min(most, d.N);
  std::vector<Index> queries;
  for (Index i = 0; i < n; ++i) queries.push_back(n == 1 ? 0 : i * (d.N - 1) / (n - 1));
  return queries;
}

}  // namespace

double tolerance(DType dtype) { return dtype == DType::f64 ? 1e-11 : dtype == DType::f32 ? 1e-5 : 2e-2; }

Check check(const Problem& problem) {
  const Row& row = problem.row();
  const char* names = row.pass == Pass::training ? "y, dq, dk, dv" : "y";
  Check result;
  result.tolerance = tolerance(row.dtype);
  problem.run();
  if (reference_work(row) <= affordable) {
    result.error = whole_error(problem);
    result.what = fmt::format("{} whole", names);
  } else {
    const Row less = cut_down(row);
    const Problem small(less);
    run_with(problem, small);
    result.error = whole_error(small);
    result.what = fmt::format("{} whole at {}", names, shape_text(less.dims));
    if (const auto single = of_single_queries(problem.call().attention, row.dims)) {
      const std::vector<Index> queries = sampled_queries(row);
      result.error = std::max(result.error, sampled_error(problem, *single, row.dims.B - 1, queries));
      result.what += fmt::format("; {} at full size for {} queries of every head of the last sample",
                                 row.pass == Pass::training ? "y and dq" : "y", queries.size());
    }
  }
  result.passed = result.error <= result.tolerance;
  return result;
}

double output_error(const Problem& problem, const float* values) {
  const auto y = to_double<4>(problem.outputs().y);
  Difference d;
  for (Index i = 0; i < y.size(); ++i) d.add(static_cast<double>(values[i]), y.data()[i]);
  return d.error();
}

}  // namespace saddle::bench

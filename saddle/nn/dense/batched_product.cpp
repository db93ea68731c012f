#include "saddle/nn/dense/batched_product.hpp"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "saddle/base/parallel.hpp"
#include "saddle/kernels/dense/product.hpp"
#include "saddle/nn/plain.hpp"
#include "saddle/nn/tensor.hpp"

namespace saddle::nn {

namespace {

using kernels::Rows;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool runs_here(const Tensor& x) {
  return x.is_cpu() && x.scalar_type() == torch::kFloat32 && x.numel() > 0 && !PlainOperations::are_wanted();
}

bool has_rows(const Tensor& x) { return x.size(-1) == 1 || x.stride(-1) == 1; }
bool has_columns(const Tensor& x) { return x.size(-2) == 1 || x.stride(-2) == 1; }

// Matrices [..,R,C] whose rows, or else whose columns, lie in memory one number behind the other.
class Matrices {
 public:
  explicit Matrices(const Tensor& x, bool with_rows = false)  // with_rows: no columns
      : tensor_(has_rows(x) || (has_columns(x) && !with_rows) ? x : x.contiguous()), by_rows_(has_rows(tensor_)) {
    begins_.push_back(0);
    for (int64_t d = 0; d + 2 < tensor_.dim(); ++d) {
      std::vector<Index> longer;
      for (const Index begin : begins_)
        for (Index i = 0; i < tensor_.size(d); ++i) longer.push_back(begin + i * tensor_.stride(d));
      begins_ = std::move(longer);
    }
  }

  bool by_rows() const { return by_rows_; }
  Index count() const { return static_cast<Index>(begins_.size()); }
  // Rows of matrix g, or its columns.
  Rows<const float> operator[](Index g) const {
    return {tensor_.data_ptr<float>() + begins_[static_cast<std::size_t>(g)], tensor_.stride(by_rows_ ? -2 : -1)};
  }

 private:
  Tensor tensor_;
  bool by_rows_;
  std::vector<Index> begins_;
};

// Up to so many numbers a matrix is turned by hand: the product of columns is made for long sums.
constexpr Index few = 4096;

// What one thread needs for a product after the other.
struct Workspace {
  kernels::dense::PackedWeight<float> packed;
  std::vector<float> turned;
};

// y [M,N] = a [M,K] b [K,N], both given by rows or by columns; b has rows if a has none.
void multiply(Rows<const float> a, bool a_by_rows, Rows<const float> b, bool b_by_rows, Index M, Index K, Index N,
              Rows<float> y, Workspace& work) {
  namespace dense = kernels::dense;
  if (!a_by_rows && M * K > few) return dense::weight_gradient(a, b, K, M, N, y, nullptr);
  if (!a_by_rows) {
    work.turned.resize(static_cast<std::size_t>(M * K));
    for (Index k = 0; k < K; ++k)
      for (Index m = 0; m < M; ++m) work.turned[static_cast<std::size_t>(m * K + k)] = a[k][m];
    a = {work.turned.data(), K};
  }
  if (b_by_rows)
    work.packed.pack(dense::Side::input, b, K, N);
  else
    work.packed.pack(dense::Side::output, b, N, K);
  dense::Finish<float> finish;
  finish.y = y;
  dense::multiply(a, M, work.packed, finish);
}

Tensor multiplied(const Tensor& given_a, const Tensor& given_b) {
  follow_torch_threads();
  const Index M = given_a.size(-2), K = given_a.size(-1), N = given_b.size(-1);
  const Matrices a(given_a), b(given_b, !a.by_rows());
  std::vector<int64_t> sizes = given_a.sizes().vec();
  sizes.back() = N;
  const Tensor y = torch::empty(sizes, given_a.options());
  const auto some = [&](Index begin, Index end) {
    Workspace work;
    for (Index g = begin; g < end; ++g)
      multiply(a[g], a.by_rows(), b[g], b.by_rows(), M, K, N, {y.data_ptr<float>() + g * M * N, N}, work);
  };
  // Few products share their own work out.
  if (a.count() < threads())
    some(0, a.count());
  else
    parallel_for(a.count(), std::max<Index>(1, a.count() / (8 * threads())), some);
  return y;
}

class BatchedProduct : public torch::autograd::Function<BatchedProduct> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& a, const Tensor& b) {
    context->save_for_backward({a, b});
    return multiplied(a, b);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &a = saved[0], &b = saved[1], &dy = gradients[0];
    const auto product = [](const Tensor& x, const Tensor& z) {
      return at::GradMode::is_enabled() ? torch::matmul(x, z) : multiplied(x, z);
    };
    return {context->needs_input_grad(0) ? product(dy, b.transpose(-2, -1)) : Tensor(),
            context->needs_input_grad(1) ? product(a.transpose(-2, -1), dy) : Tensor()};
  }
};

}  // namespace

Tensor batched_product(const Tensor& a, const Tensor& b) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const bool here = runs_here(a) && runs_here(b) && a.dim() == b.dim() && a.dim() >= 2 && a.size(-1) == b.size(-2) &&
                    a.sizes().slice(0, a.dim() - 2) == b.sizes().slice(0, b.dim() - 2);
  return here ? BatchedProduct::apply(a, b) : torch::matmul(a, b);
}

}  // namespace saddle::nn

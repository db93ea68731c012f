#include <algorithm>

#include "saddle/base/parallel.hpp"
#include "saddle/kernels/stages/rows.hpp"
#include "saddle/kernels/stages/stage.hpp"

namespace saddle::kernels {

bool has_saved_outputs(const primal::Call& call, const primal::Gradients& gradients) {
  if (!gradients.y || !gradients.lse) return false;
  const std::size_t own = size_of(call.dtype()), full = std::max(own, size_of(DType::f32));
  // Added terms leave their rounding behind; the gradient of beta is a small sum of large terms.
  const bool fine = call.attention.bias || call.attention.residual || gradients.parameters.contains("beta");
  return size_of(gradients.lse.dtype) >= full && size_of(gradients.y.dtype) >= (fine ? full : own);
}

using namespace stages;

template <class T>
OutputRows<T>::OutputRows(const primal::Call& call, const TensorView& y) : call_(call), y_(y) {
  if (!call.attention.bias) return;
  for (Index h = 0; h < call.dims().H; ++h)
    for (double b : primal::parameter_of(call, "bias", h)) bias_.push_back(static_cast<T>(b));
}

template <class T>
Rows<T> OutputRows<T>::direct(Index b, Index h) const {
  if (!bias_.empty() || call_.attention.residual) return {};
  return in_place<T>(slice_of(y_, b, h));
}

template <class T>
void OutputRows<T>::store(Index b, Index h, Index i, Index count, Rows<const T> rows) const {
  const Slice y = slice_of(y_, b, h), skip = call_.attention.residual ? slice_of(call_.skip, b, h) : Slice{};
  const Index E = y.columns;
  const T* bias = bias_.empty() ? nullptr : bias_.data() + h * E;
  std::vector<T> sum(bias != nullptr || skip ? E : 0), skipped(skip ? E : 0);
  for (Index r = 0; r < count; ++r) {
    if (bias == nullptr && !skip) {
      store_row(y, i + r, rows[r]);
      continue;
    }
    std::copy_n(rows[r], E, sum.begin());
    if (bias != nullptr)
      for (Index e = 0; e < E; ++e) sum[e] += bias[e];
    if (skip) {
      load_row(skip, i + r, skipped.data());
      for (Index e = 0; e < E; ++e) sum[e] += skipped[e];
    }
    store_row(y, i + r, sum.data());
  }
}

template <class T>
void OutputRows<T>::load(Index b, Index h, Index i, Index count, Rows<T> rows) const {
  const Slice y = slice_of(y_, b, h), skip = call_.attention.residual ? slice_of(call_.skip, b, h) : Slice{};
  const Index E = y.columns;
  const T* bias = bias_.empty() ? nullptr : bias_.data() + h * E;
  std::vector<T> skipped(skip ? E : 0);
  for (Index r = 0; r < count; ++r) {
    T* row = rows[r];
    load_row(y, i + r, row);
    if (skip) {
      load_row(skip, i + r, skipped.data());
      for (Index e = 0; e < E; ++e) row[e] -= skipped[e];
    }
    if (bias != nullptr)
      for (Index e = 0; e < E; ++e) row[e] -= bias[e];
  }
}

template class OutputRows<float>;
template class OutputRows<double>;

namespace {

// The sum of the rows of dy [N,E] of every head, [B * H,E]; and dskip = dy.
std::vector<double> sum_dy(const primal::Call& call, const primal::Gradients& gradients, bool bias) {
  const Dims dims = call.dims();
  std::vector<double> sums(bias ? dims.B * dims.H * dims.E : 0, 0.0);
  if (!bias && !gradients.dskip) return sums;
  parallel_for(dims.B * dims.H, 1, [&](Index task) {
    Reader<double> dy(slice_of(gradients.dy, task / dims.H, task % dims.H));
    const Slice dskip = slice_of(gradients.dskip, task / dims.H, task % dims.H);
    for (Index i = 0; i < dims.N; ++i) {
      const double* row = dy.row(i);
      if (dskip) store_row(dskip, i, row);
      if (!bias) continue;
      double* sum = sums.data() + task * dims.E;
      for (Index e = 0; e < dims.E; ++e) sum[e] += row[e];
    }
  });
  return sums;
}

}  // namespace

void write_parameter_gradients(const primal::Call& call, const primal::Gradients& gradients,
                               const std::vector<std::vector<std::vector<double>>>& dtheta) {
  const Dims dims = call.dims();
  const auto& transforms = call.attention.transforms;
  const std::vector<double> dy = sum_dy(call, gradients, gradients.parameters.contains("bias"));
  for (const auto& [name, tensor] : gradients.parameters) {
    const Index leading = tensor.shape[0], width = element_count(tensor.shape) / leading;
    std::vector<double> sum(leading * width, 0.0);
    const auto add = [&](Index h, const double* values) {
      double* to = sum.data() + (leading == 1 ? 0 : h) * width;
      for (Index c = 0; c < width; ++c) to[c] += values[c];
    };
    for (Index task = 0; task < dims.B * dims.H; ++task) {
      if (name == "bias") add(task % dims.H, dy.data() + task * dims.E);
      for (std::size_t t = 0; t < transforms.size(); ++t)
        if (t < dtheta[task].size() &&
            name == std::visit([](const auto& part) { return part.parameter; }, transforms[t]))
          add(task % dims.H, dtheta[task][t].data());
    }
    saddle::detail::copy_from_double(sum.data(), tensor);
  }
}

}  // namespace saddle::kernels

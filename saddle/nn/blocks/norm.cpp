#include "saddle/nn/blocks/norm.hpp"

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include "saddle/base/error.hpp"

namespace saddle::nn {

namespace {

constexpr double momentum = 0.1;

std::function<void(Tensor&)> sum_over_processes;

// The sum of all, each of which contributed to it: so the gradients add up too.
struct Summed : torch::autograd::Function<Summed> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) {
    Tensor sum = x.detach().clone();
    sum_over_processes(sum);
    return sum;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list dy) {
    Tensor sum = dy[0].clone();
    sum_over_processes(sum);
    return {sum};
  }
};

}  // namespace

SharedBatches::SharedBatches(std::function<void(Tensor&)> sum) { sum_over_processes = std::move(sum); }
SharedBatches::~SharedBatches() { sum_over_processes = nullptr; }

NormImpl::NormImpl(const NormOptions& given) : options(given) { reset(); }

void NormImpl::reset() {
  if (options.kind() != "layer" && options.kind() != "batch")
    throw InvalidArgument(fmt::format("[Norm] kind is '{}': it must be layer or batch", options.kind()));
  if (options.width() < 1) throw InvalidArgument(fmt::format("[Norm] width is {}", options.width()));
  weight = register_parameter("weight", torch::ones({options.width()}));
  bias = register_parameter("bias", torch::zeros({options.width()}));
  if (options.kind() == "layer") return;
  running_mean = register_buffer("running_mean", torch::zeros({options.width()}));
  running_var = register_buffer("running_var", torch::ones({options.width()}));
  num_batches_tracked = register_buffer("num_batches_tracked", torch::zeros({}, torch::kInt64));
}

void NormImpl::pretty_print(std::ostream& stream) const {
  stream << "saddle::nn::Norm(" << options.kind() << ", " << options.width() << ")";
}

Tensor NormImpl::forward(const Tensor& x, c10::optional<torch::ScalarType> dtype) {
  if (options.kind() == "layer") return layer_norm(x, weight, bias, {options.eps(), dtype});
  if (is_training()) num_batches_tracked += 1;
  if (is_training() && sum_over_processes) return shared_batch_norm(x).to(dtype.value_or(x.scalar_type()));
  const Tensor y = torch::batch_norm(x.flatten(0, -2), weight, bias, running_mean, running_var, is_training(), momentum,
                                     options.eps(), false);
  return y.view(x.sizes()).to(dtype.value_or(y.scalar_type()));
}

// The mean first and deviations from it then: no difference of large squares.
Tensor NormImpl::shared_batch_norm(const Tensor& x) {
  const Tensor rows = x.flatten(0, -2);
  Tensor count = torch::full({1}, static_cast<double>(rows.size(0)), torch::kFloat64);
  sum_over_processes(count);
  const auto n = count.item<double>();
  const Tensor mean = Summed::apply(rows.sum(0)) / n;
  const Tensor centred = rows - mean;
  const Tensor variance = Summed::apply(centred.square().sum(0)) / n;
  {
    const torch::NoGradGuard guard;
    running_mean.lerp_(mean.detach(), momentum);
    running_var.lerp_(variance.detach() * (n / std::max(n - 1, 1.0)), momentum);
  }
  return (centred * (variance + options.eps()).rsqrt() * weight + bias).view(x.sizes());
}

NormedStream NormImpl::beside(const Tensor& x) {
  if (options.kind() == "layer") return layer_norm_beside(x, weight, bias, {options.eps(), c10::nullopt});
  return {forward(x), x};
}

}  // namespace saddle::nn

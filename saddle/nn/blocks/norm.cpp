#include "saddle/nn/blocks/norm.hpp"

#include <fmt/format.h>

#include "saddle/base/error.hpp"

namespace saddle::nn {

namespace {

constexpr double momentum = 0.1;

}  // namespace

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
  const Tensor y = torch::batch_norm(x.flatten(0, -2), weight, bias, running_mean, running_var, is_training(), momentum,
                                     options.eps(), false);
  return y.view(x.sizes()).to(dtype.value_or(y.scalar_type()));
}

NormedStream NormImpl::beside(const Tensor& x) {
  if (options.kind() == "layer") return layer_norm_beside(x, weight, bias, {options.eps(), c10::nullopt});
  return {forward(x), x};
}

}  // namespace saddle::nn

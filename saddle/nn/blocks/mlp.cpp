#include "saddle/nn/blocks/mlp.hpp"

#include <fmt/format.h>

#include "saddle/base/error.hpp"
#include "saddle/nn/dense/dropout.hpp"

namespace saddle::nn {

MlpImpl::MlpImpl(const MlpOptions& given) : options(given) { reset(); }

void MlpImpl::reset() {
  if (options.activation() != "gelu" && options.activation() != "relu")
    throw InvalidArgument(fmt::format("[Mlp] activation is '{}': it must be gelu or relu", options.activation()));
  fc1 = register_module("fc1", torch::nn::Linear(options.width(), options.hidden()));
  fc2 = register_module("fc2", torch::nn::Linear(options.hidden(), options.width()));
}

void MlpImpl::pretty_print(std::ostream& stream) const {
  stream << "saddle::nn::Mlp(" << options.width() << ", " << options.hidden() << ", " << options.activation() << ")";
}

Tensor MlpImpl::forward(const Tensor& x, const LinearOptions& out) {
  Tensor hidden = options.activation() == "gelu" ? linear_gelu(x, fc1->weight, fc1->bias)
                                                 : at::relu(nn::linear(x, fc1->weight, fc1->bias));
  if (is_training()) hidden = nn::dropout(hidden, options.dropout());
  return nn::linear(hidden, fc2->weight, fc2->bias, out);
}

}  // namespace saddle::nn

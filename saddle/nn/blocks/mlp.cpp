#include "saddle/nn/blocks/mlp.hpp"

#include <fmt/format.h>

#include "saddle/base/error.hpp"
#include "saddle/nn/dense/dropout.hpp"
#include "saddle/nn/dense/mlp.hpp"

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
  const bool drops = is_training() && options.dropout() > 0;
  if (options.activation() == "gelu" && !drops)
    return nn::mlp(x, {fc1->weight, fc1->bias, fc2->weight, fc2->bias}, out);
  Tensor hidden = options.activation() == "gelu" ? linear_gelu(x, fc1->weight, fc1->bias)
                                                 : at::relu(nn::linear(x, fc1->weight, fc1->bias));
  if (drops) hidden = nn::dropout(hidden, options.dropout());
  return nn::linear(hidden, fc2->weight, fc2->bias, out);
}

}  // namespace saddle::nn

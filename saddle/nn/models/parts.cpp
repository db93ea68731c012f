#include <fmt/format.h>
#include <torch/nn/init.h>

#include <algorithm>

#include "saddle/base/shape.hpp"
#include "saddle/base/text.hpp"
#include "saddle/nn/models/parts_internal.hpp"

namespace saddle::nn {

std::vector<bool> training_of(const torch::nn::Module& module) {
  std::vector<bool> training{module.is_training()};
  for (const auto& each : module.modules(false)) training.push_back(each->is_training());
  return training;
}

void set_training(torch::nn::Module& module, const std::vector<bool>& training) {
  module.train(training[0]);
  const auto modules = module.modules(false);
  for (std::size_t i = 0; i < modules.size(); ++i) modules[i]->train(training[i + 1]);
}

void initialise_linears(torch::nn::Module& module, double deviation) {
  for (const auto& each : module.modules(false))
    if (auto* linear = each->as<torch::nn::LinearImpl>()) {
      torch::nn::init::normal_(linear->weight, 0, deviation);
      if (linear->bias.defined()) torch::nn::init::zeros_(linear->bias);
    }
}

Tensor embed(torch::nn::Embedding& embedding, const Tensor& tokens, std::string_view model) {
  try {
    return embedding(tokens);
  } catch (const c10::IndexError&) {
    throw InvalidArgument(fmt::format("[{}] tokens lie between {} and {}, they must lie between 0 and {}", model,
                                      tokens.min().item<int64_t>(), tokens.max().item<int64_t>(),
                                      embedding->weight.size(0) - 1));
  }
}

Tensor classify(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  LinearOptions out;
  out.dtype = weight.scalar_type();
  return nn::linear(x, weight, bias, out);
}

std::string shape_text(const Tensor& tensor) {
  return tensor.defined() ? to_string(Shape(tensor.sizes().begin(), tensor.sizes().end())) : "no tensor";
}

void require_positive(std::string_view model, std::initializer_list<std::pair<const char*, int64_t>> sizes) {
  for (const auto& [name, size] : sizes)
    if (size < 1) throw InvalidArgument(fmt::format("[{}] {} is {}: it must be at least 1", model, name, size));
}

void require_probability(std::string_view model, const char* name, double p) {
  if (!(p >= 0 && p < 1)) throw InvalidArgument(fmt::format("[{}] {} is {}: it must lie in [0, 1)", model, name, p));
}

void require_word(std::string_view model, const char* name, const std::string& value,
                  std::initializer_list<std::string_view> words) {
  if (std::find(words.begin(), words.end(), value) == words.end())
    throw InvalidArgument(fmt::format("[{}] {} is '{}': it must be {}", model, name, value, join(words, " or ")));
}

void require_tokens(std::string_view model, const Tensor& tokens, int64_t most) {
  if (!tokens.defined() || tokens.dim() != 2 || tokens.is_floating_point() || tokens.size(1) < 1)
    throw InvalidArgument(fmt::format("[{}] tokens are {}{}: whole numbers of shape (B,N) are expected", model,
                                      tokens.defined() ? std::string(c10::toString(tokens.scalar_type())) + " " : "",
                                      shape_text(tokens)));
  if (tokens.size(1) > most)
    throw InvalidArgument(
        fmt::format("[{}] {} tokens are given, the model has {} positions", model, tokens.size(1), most),
        "cut the sequence, or make the model with a larger max_len");
}

Tensor checked_mask(std::string_view model, const Tensor& mask, int64_t B, int64_t N) {
  if (!mask.defined()) return mask;
  if (mask.dim() != 2 || mask.size(0) != B || mask.size(1) != N)
    throw InvalidArgument(fmt::format("[{}] the mask has shape {}: ({},{}) is expected, true where a step exists",
                                      model, shape_text(mask), B, N));
  return mask.to(torch::kBool);
}

void refuse_second(std::string_view model, const Batch& batch) {
  if (batch.second.defined() || batch.second_mask.defined())
    throw InvalidArgument(fmt::format("[{}] a second input is given, but the model takes one", model));
}

}  // namespace saddle::nn

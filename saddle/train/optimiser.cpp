#include "saddle/train/optimiser.hpp"

#include "saddle/nn/optim/adam_steps.hpp"
#include "saddle/nn/optim/radam.hpp"

namespace saddle::train {

using nn::Tensor;

Optimiser::Optimiser(nn::Model& model, const run::TrainSettings& settings) : rule_(settings.optimizer) {
  std::vector<Tensor> decayed, others;
  for (const auto& item : model.named_parameters()) {
    parameters_.emplace_back(item.key(), item.value());
    const bool vector = item.value().dim() <= 1 || item.value().numel() == item.value().size(-1);
    (vector ? others : decayed).push_back(item.value());
  }
  const auto make = [&]<class Optimizer, class Options>(Options options) {
    options.lr(settings.lr).eps(settings.eps).weight_decay(settings.optimizer == "adam" ? 0 : settings.weight_decay);
    options.betas(std::make_tuple(settings.beta1, settings.beta2));
    std::vector<torch::optim::OptimizerParamGroup> groups;
    if (!decayed.empty()) groups.emplace_back(decayed, std::make_unique<Options>(options));
    options.weight_decay(0);
    if (!others.empty()) groups.emplace_back(others, std::make_unique<Options>(options));
    optimizer_ = std::make_unique<Optimizer>(groups, options);
  };
  if (rule_ == "radam") {
    make.operator()<nn::RAdam>(nn::RAdamOptions());
  } else if (rule_ == "lamb") {
    make.operator()<nn::Lamb>(nn::LambOptions());
  } else {
    make.operator()<nn::AdamW>(nn::AdamWOptions());
  }
  if (settings.lookahead == 0) return;
  std::vector<Tensor> all;
  for (const auto& [name, parameter] : parameters_) all.push_back(parameter);
  lookahead_ = std::make_unique<nn::Lookahead>(all, settings.lookahead, settings.lookahead_share);
}

void Optimiser::set(const Rate& rate) {
  const auto put = [&]<class Options>(Options& options) {
    options.lr(rate.lr).betas(std::make_tuple(rate.beta1, std::get<1>(options.betas())));
  };
  for (auto& group : optimizer_->param_groups()) {
    if (rule_ == "radam") {
      put(static_cast<nn::RAdamOptions&>(group.options()));
    } else if (rule_ == "lamb") {
      put(static_cast<nn::LambOptions&>(group.options()));
    } else {
      put(static_cast<nn::AdamWOptions&>(group.options()));
    }
  }
}

void Optimiser::step(const Rate& rate) {
  set(rate);
  optimizer_->step();
  ++steps_;
  if (lookahead_) lookahead_->after_step(steps_);
}

void Optimiser::forget_gradients() {
  for (const auto& [name, parameter] : parameters_) parameter.mutable_grad() = Tensor();
}

double Optimiser::clip(double max_norm) {
  double squares = 0;
  for (const auto& [name, parameter] : parameters_)
    if (parameter.grad().defined()) squares += std::pow(parameter.grad().norm().item<double>(), 2);
  const double norm = std::sqrt(squares);
  if (max_norm > 0 && norm > max_norm)
    for (const auto& [name, parameter] : parameters_)
      if (parameter.grad().defined()) parameter.mutable_grad().mul_(max_norm / (norm + 1e-6));
  return norm;
}

void Optimiser::clip_values(double most) {
  if (most <= 0) return;
  for (const auto& [name, parameter] : parameters_)
    if (parameter.grad().defined()) parameter.mutable_grad().clamp_(-most, most);
}

std::map<std::string, Tensor> Optimiser::state() {
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, parameter] : parameters_) {
    nn::AdamState& state = nn::adam_state(optimizer_->state(), parameter);
    if (!state.exp_avg().defined()) {
      state.exp_avg(torch::zeros_like(parameter, torch::MemoryFormat::Contiguous));
      state.exp_avg_sq(torch::zeros_like(parameter, torch::MemoryFormat::Contiguous));
    }
    tensors[name + ".exp_avg"] = state.exp_avg();
    tensors[name + ".exp_avg_sq"] = state.exp_avg_sq();
  }
  if (lookahead_)
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      tensors[parameters_[i].first + ".slow"] = lookahead_->slow()[i];
  return tensors;
}

void Optimiser::set_steps(Index steps) {
  steps_ = steps;
  for (const auto& [name, parameter] : parameters_) nn::adam_state(optimizer_->state(), parameter).step(steps);
}

}  // namespace saddle::train

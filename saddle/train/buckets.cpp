#include "saddle/train/buckets.hpp"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <mutex>

namespace saddle::train {

using torch::Tensor;

struct Buckets::State {
  struct Bucket {
    std::vector<Tensor> parameters;
    Index missing = 0;
    Tensor flat;
    std::unique_ptr<Group::Pending> sum;
  };
  Group* group = nullptr;
  std::vector<Bucket> buckets;
  std::size_t next = 0;  // to be sent
  bool active = false;
  std::mutex mutex;

  // Sends complete buckets, in order: another order on another worker would mix them up.
  void send_complete() {
    for (; next < buckets.size() && buckets[next].missing == 0; ++next) {
      Bucket& bucket = buckets[next];
      std::vector<Tensor> parts;
      for (const Tensor& parameter : bucket.parameters)
        parts.push_back(
            (parameter.grad().defined() ? parameter.grad() : torch::zeros_like(parameter)).detach().flatten());
      bucket.flat = torch::cat(parts);
      bucket.sum = group->start_sum(bucket.flat);
    }
  }
};

namespace {

// Runs behind the accumulation of one parameter's gradient.
struct Known : torch::autograd::FunctionPostHook {
  explicit Known(std::function<void()> call) : call_(std::move(call)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    call_();
    return outputs;
  }
  std::function<void()> call_;
};

}  // namespace

Buckets::Buckets(const torch::nn::Module& module, Group& group, Index bytes) : state_(std::make_shared<State>()) {
  state_->group = &group;
  if (group.size() == 1) return;
  std::vector<Tensor> parameters = module.parameters();
  std::reverse(parameters.begin(), parameters.end());
  Index filled = bytes;
  for (const Tensor& parameter : parameters) {
    if (filled >= bytes) {
      state_->buckets.emplace_back();
      filled = 0;
    }
    filled += static_cast<Index>(parameter.nbytes());
    state_->buckets.back().parameters.push_back(parameter);
  }
  for (std::size_t b = 0; b < state_->buckets.size(); ++b)
    for (const Tensor& parameter : state_->buckets[b].parameters) {
      const auto accumulator = torch::autograd::impl::grad_accumulator(parameter);
      accumulator->add_post_hook(std::make_unique<Known>([weak = std::weak_ptr<State>(state_), b] {
        const std::shared_ptr<State> state = weak.lock();
        if (!state || !state->active) return;
        const std::lock_guard lock(state->mutex);
        --state->buckets[b].missing;
        state->send_complete();
      }));
      accumulators_.push_back(accumulator);
    }
}

Buckets::~Buckets() = default;

void Buckets::start() {
  state_->next = 0;
  state_->active = true;
  for (State::Bucket& bucket : state_->buckets) bucket.missing = static_cast<Index>(bucket.parameters.size());
}

void Buckets::finish() {
  state_->active = false;
  for (State::Bucket& bucket : state_->buckets) bucket.missing = 0;
  state_->send_complete();  // what holds parameters without a gradient
  for (State::Bucket& bucket : state_->buckets) {
    bucket.sum->wait();
    Index first = 0;
    for (const Tensor& parameter : bucket.parameters) {
      const Tensor sum = bucket.flat.narrow(0, first, parameter.numel()).view(parameter.sizes());
      if (parameter.grad().defined()) {
        parameter.mutable_grad().copy_(sum);
      } else {
        parameter.mutable_grad() = sum.clone();
      }
      first += parameter.numel();
    }
    bucket.flat = Tensor();
    bucket.sum = nullptr;
  }
}

}  // namespace saddle::train

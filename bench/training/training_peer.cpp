// One side of a comparison of training steps, answering requests of `saddle bench`: one line of JSON in, one out.
#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "plain_model.hpp"
#include "problem.hpp"
#include "saddle/nn/blocks/encoder.hpp"
#include "saddle/nn/optim/adamw.hpp"

namespace saddle::bench {
namespace {

using nn::Tensor;

constexpr int64_t classes = 10;
constexpr double lr = 1e-4;

struct OwnModelImpl : torch::nn::Module {
  OwnModelImpl(int64_t width, int64_t heads, int64_t depth) {
    encoder = register_module("encoder", nn::Encoder(nn::EncoderOptions(nn::EncoderBlockOptions(width, heads), depth)));
    norm = register_module("norm", nn::Norm(width));
    head = register_module("head", torch::nn::Linear(width, classes));
  }
  Tensor forward(const Tensor& x) {
    return nn::linear(norm(encoder(x), c10::nullopt).mean(1), head->weight, head->bias);
  }

  nn::Encoder encoder{nullptr};
  nn::Norm norm{nullptr};
  torch::nn::Linear head{nullptr};
};

class Autocast {
 public:
  explicit Autocast(bool wanted) : wanted_(wanted) {
    if (wanted_) at::autocast::set_cpu_enabled(true);
  }
  ~Autocast() {
    if (!wanted_) return;
    at::autocast::set_cpu_enabled(false);
    at::autocast::clear_cache();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool wanted_;
};

struct Task {
  int64_t B, N, X, heads, depth;
  bool bf16;
};

// A model, its optimiser and one batch.
template <class Model, class Optimiser>
class Side {
 public:
  Side(std::shared_ptr<Model> model, const Task& task)
      : task_(task), model_(std::move(model)), optimiser_(model_->parameters(), torch::optim::AdamWOptions(lr)) {
    const auto generator = at::detail::createCPUGenerator(1);
    x_ = torch::randn({task.B, task.N, task.X}, generator, torch::kFloat32);
    labels_ = torch::arange(task.B, torch::kInt64).remainder(classes);
  }

  Tensor loss() {
    const Autocast autocast(task_.bf16);
    return torch::nn::functional::cross_entropy(model_->forward(x_).to(torch::kFloat32), labels_);
  }
  double step() {
    optimiser_.zero_grad();
    const Tensor value = loss();
    value.backward();
    optimiser_.step();
    return value.template item<double>();
  }
  std::vector<Tensor> gradients() {
    loss().backward();
    std::vector<Tensor> all;
    for (const Tensor& p : model_->parameters()) all.push_back(p.grad().clone());
    optimiser_.zero_grad();
    return all;
  }
  const std::shared_ptr<Model>& model() const { return model_; }

 private:
  Task task_;
  std::shared_ptr<Model> model_;
  Optimiser optimiser_;
  Tensor x_, labels_;
};

using OwnSide = Side<OwnModelImpl, nn::AdamW>;
using PlainSide = Side<PlainModelImpl, torch::optim::AdamW>;

std::shared_ptr<OwnSide> own_side(const Task& task) {
  torch::manual_seed(0);
  return std::make_shared<OwnSide>(std::make_shared<OwnModelImpl>(task.X, task.heads, task.depth), task);
}

// With the weights of our own model, whose parameters come in the same order.
std::shared_ptr<PlainSide> plain_side(const Task& task) {
  const auto own = own_side(task);
  const auto plain = std::make_shared<PlainModelImpl>(task.X, task.heads, task.depth, classes);
  const torch::NoGradGuard guard;
  const auto from = own->model()->parameters(), to = plain->parameters();
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
  return std::make_shared<PlainSide>(plain, task);
}

// The largest difference of any gradient of the first step, relative to the largest of its tensor, and of the losses of
// three steps.
double disagreement(const Task& task) {
  const auto own = own_side(task);
  const auto plain = plain_side(task);
  const auto found = own->gradients(), expected = plain->gradients();
  double worst = 0, largest = 0;
  for (const Tensor& g : expected) largest = std::max(largest, g.abs().max().item<double>());
  for (std::size_t i = 0; i < found.size(); ++i)
    worst = std::max(worst, (found[i] - expected[i]).abs().max().item<double>() / largest);
  for (int step = 0; step < 3; ++step) {
    const double a = own->step(), b = plain->step();
    worst = std::max(worst, std::fabs(a - b) / std::max(1e-30, std::fabs(b)));
  }
  return worst;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

using Step = std::function<void()>;
Step step_;

nlohmann::json set_up(const nlohmann::json& request) {
  step_ = nullptr;
  torch::set_num_threads(request.at("threads").get<int>());
  const auto shape = request.at("shape").get<std::vector<int64_t>>();
  const Task task{shape.at(0), shape.at(1), shape.at(2),
                  shape.at(3), shape.at(4), request.at("dtype").get<std::string>() == "bf16"};
  if (request.value("check", false)) return {{"ok", true}, {"disagreement", disagreement(task)}};
  if (request.at("side") == "saddle") {
    step_ = [side = own_side(task)] { side->step(); };
  } else {
    step_ = [side = plain_side(task)] { side->step(); };
  }
  return {{"ok", true}, {"memory", extra_memory(step_)}};
}

double best_time(double seconds) {
  double best = INFINITY;
  const double end = now() + seconds;
  do {
    const double start = now();
    step_();
    best = std::min(best, now() - start);
  } while (now() < end);
  return best;
}

nlohmann::json answer(const nlohmann::json& request) {
  const std::string op = request.at("op");
  if (op == "hello") return {{"ok", true}, {"version", std::string("torch ") + TORCH_VERSION}};
  if (op == "setup") return set_up(request);
  return {{"ok", true}, {"seconds", best_time(request.at("seconds").get<double>())}};
}

}  // namespace
}  // namespace saddle::bench

int main() {
  // Whatever libraries print must not look like an answer.
  std::FILE* const answers = fdopen(dup(STDOUT_FILENO), "w");
  dup2(STDERR_FILENO, STDOUT_FILENO);
  for (std::string line; std::getline(std::cin, line);) {
    nlohmann::json answer;
    try {
      answer = saddle::bench::answer(nlohmann::json::parse(line));
    } catch (const std::exception& error) {
      answer = {{"ok", false}, {"reason", std::string(error.what()).substr(0, 300)}};
    }
    fmt::print(answers, "{}\n", answer.dump());
    std::fflush(answers);
  }
}

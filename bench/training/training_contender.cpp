// Our side of a comparison of training steps, answering requests of `saddle bench`: one line of JSON in, one out.
#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "problem.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/memory.hpp"
#include "saddle/nn/blocks/encoder.hpp"
#include "saddle/nn/optim/adamw.hpp"
#include "statistics.hpp"

namespace saddle::bench {
namespace {

using nlohmann::json;
using nn::Tensor;

constexpr int64_t classes = 10;
constexpr double learning_rate = 1e-4;
constexpr int compared_steps = 3;

struct Task {
  int64_t B, N, X, heads, layers;
  bool bf16;
};

// x [B,N,X] -> [B,classes]. Parameters come in the order in which the peer has them.
struct ModelImpl : torch::nn::Module {
  explicit ModelImpl(const Task& task) {
    encoder = register_module(
        "encoder", nn::Encoder(nn::EncoderOptions(nn::EncoderBlockOptions(task.X, task.heads), task.layers)));
    norm = register_module("norm", nn::Norm(task.X));
    head = register_module("head", torch::nn::Linear(task.X, classes));
  }
  Tensor forward(const Tensor& x) {
    return nn::linear(norm(encoder(x), c10::nullopt).mean(1), head->weight, head->bias);
  }

  nn::Encoder encoder{nullptr};
  nn::Norm norm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Model);

class Autocast {
 public:
  explicit Autocast(bool wanted) { at::autocast::set_cpu_enabled(wanted); }
  ~Autocast() {
    at::autocast::set_cpu_enabled(false);
    at::autocast::clear_cache();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
};

// A model, its optimiser and one batch.
class Training {
 public:
  explicit Training(const Task& task)
      : bf16_(task.bf16),
        model_(task),
        optimiser_(model_->parameters(), nn::AdamWOptions(learning_rate)),
        x_(torch::randn({task.B, task.N, task.X})),
        labels_(torch::arange(task.B).remainder(classes)) {}

  // The loss. Gradients are freed and not set to zero, as the peer does it; those of this step stay.
  double step() {
    for (const Tensor& p : model_->parameters()) p.mutable_grad() = Tensor();
    Tensor loss;
    {
      const Autocast autocast(bf16_);
      loss = torch::nn::functional::cross_entropy(model_->forward(x_).to(torch::kFloat32), labels_);
    }
    loss.backward();
    optimiser_.step();
    return loss.item<double>();
  }

  const Tensor& x() const { return x_; }
  const Tensor& labels() const { return labels_; }
  std::vector<Tensor> parameters() const { return model_->parameters(); }
  std::vector<Tensor> gradients() const {
    std::vector<Tensor> all;
    for (const Tensor& p : model_->parameters()) all.push_back(p.grad());
    return all;
  }

 private:
  bool bf16_;
  Model model_;
  nn::AdamW optimiser_;
  Tensor x_, labels_;
};

// One behind the other, dense.
void write(const std::string& file, const std::vector<Tensor>& tensors) {
  std::ofstream out(file, std::ios::binary);
  for (const Tensor& tensor : tensors) {
    const Tensor dense = tensor.detach().contiguous();
    out.write(static_cast<const char*>(dense.data_ptr()), static_cast<std::streamsize>(dense.nbytes()));
  }
  if (!out.flush()) throw IoError("cannot write " + file);
}

std::unique_ptr<Training> training;

// Leaves in the folder what the peer starts from and what it must find: x, labels, parameters; gradients of the first
// step, losses of the first few.
json set_up(const json& request) {
  training = nullptr;
  torch::set_num_threads(request.at("threads").get<int>());
  torch::manual_seed(0);
  const auto shape = request.at("shape").get<std::vector<int64_t>>();
  const Task task{shape.at(0), shape.at(1), shape.at(2),
                  shape.at(3), shape.at(4), request.at("dtype").get<std::string>() == "bf16"};
  // What libraries touch at their first use is none of the step's memory.
  Training({1, 2, task.X, task.heads, 1, task.bf16}).step();
  training = std::make_unique<Training>(task);
  const std::string folder = request.at("folder").get<std::string>() + "/";
  write(folder + "x", {training->x()});
  write(folder + "labels", {training->labels()});
  write(folder + "parameters", training->parameters());
  std::vector<double> losses(compared_steps);
  const double memory = extra_memory([&] { losses[0] = training->step(); });
  write(folder + "gradients", training->gradients());
  for (int step = 1; step < compared_steps; ++step) losses[step] = training->step();
  write(folder + "losses", {torch::tensor(losses, torch::kFloat64)});
  return {{"ok", true}, {"memory", memory}};
}

json answer(const json& request) {
  const std::string op = request.at("op").get<std::string>();
  if (op == "setup") return set_up(request);
  if (op == "round" && training)
    return {{"ok", true}, {"seconds", best_time(request.at("seconds").get<double>(), [] { training->step(); })}};
  return {{"ok", false}, {"reason", "unknown request '" + op + "'"}};
}

}  // namespace
}  // namespace saddle::bench

int main() {
  saddle::keep_large_blocks();
  // Whatever libraries print must not look like an answer.
  std::FILE* const answers = fdopen(dup(STDOUT_FILENO), "w");
  dup2(STDERR_FILENO, STDOUT_FILENO);
  for (std::string line; std::getline(std::cin, line);) {
    nlohmann::json answer;
    try {
      answer = saddle::bench::answer(nlohmann::json::parse(line));
    } catch (const std::exception& error) {
      const std::string reason = error.what();  // torch's go on with a backtrace
      answer = {{"ok", false}, {"reason", reason.substr(0, reason.find('\n'))}};
    }
    fmt::print(answers, "{}\n", answer.dump());
    std::fflush(answers);
  }
}

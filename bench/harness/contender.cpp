#include "contender.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/registry.hpp"
#include "statistics.hpp"

namespace saddle::bench {

namespace {

constexpr double patience = 180;  // seconds for the longest single request

// A tensor [B,H,n,C] of any type and layout as dense floats.
void write_floats(const std::string& file, const TensorView& tensor) {
  const auto values = to_double<4>(tensor);
  std::vector<float> floats(static_cast<std::size_t>(values.size()));
  std::transform(values.begin(), values.end(), floats.begin(), [](double x) { return static_cast<float>(x); });
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(floats.data()), static_cast<std::streamsize>(4 * floats.size()));
  if (!out.flush()) throw IoError("cannot write " + file);
}

}  // namespace

double OwnContender::round(double seconds) {
  return best_time(seconds, [&] { problem_.run(); });
}

double RemoteContender::round(double seconds) {
  const Json answer = child_->ask({{"op", "round"}, {"seconds", seconds}}, patience);
  const double best = answer.value("seconds", 0.0);
  if (!(best > 0)) throw IoError(answer.value("reason", "it answered without a time"));
  return best;
}

PeerTask peer_task(const Row& row) {
  const primal::Attention a = mechanisms::parse(row.attention);
  PeerTask task;
  if (a.pooling || a.bias || a.residual || a.transforms.size() > 1 || a.keys.size() > 1) return task;
  if (a.normaliser != primal::default_normaliser(a.kernel)) return task;
  if (a.kernel == primal::Kernel(primal::Linear{}) && a.keys.empty() && a.transforms.empty()) {
    task.kind = "linear";
    return task;
  }
  if (a.kernel != primal::Kernel(primal::ExpDot{})) return task;
  if (!a.keys.empty()) {
    if (const auto* window = std::get_if<primal::Window>(&a.keys.front())) {
      task.window = window->radius;
    } else if (std::holds_alternative<primal::Causal>(a.keys.front())) {
      task.causal = true;
    } else {
      return task;
    }
  }
  if (!a.transforms.empty()) {
    const auto* bn = std::get_if<primal::BatchNorm>(&a.transforms.front());
    if (bn == nullptr || bn->scale != primal::ScaleMode::none || stats_of(a, *bn) != primal::Stats::global) return task;
    task.beta = bn->beta;
  }
  task.kind = "softmax";
  return task;
}

SharedInputs::SharedInputs(const Problem& problem) : problem_(problem) {
  write_floats(folder_.path() + "/q", problem.call().q);
  write_floats(folder_.path() + "/k", problem.call().k);
  write_floats(folder_.path() + "/v", problem.call().v);
}

Json SharedInputs::request() const {
  const Row& row = problem_.row();
  const Dims& d = row.dims;
  const PeerTask task = peer_task(row);
  return {{"op", "setup"},
          {"attention", row.attention},
          {"kind", task.kind},
          {"causal", task.causal},
          {"window", task.window},
          {"beta", task.beta},
          {"shape", {d.B, d.H, d.N, d.M, d.D, d.E}},
          {"dtype", saddle::to_string(row.dtype)},
          {"pass", to_string(row.pass)},
          {"layout", to_string(row.layout)},
          {"threads", row.threads},
          {"folder", folder_.path()}};
}

std::vector<float> SharedInputs::output() const {
  std::vector<float> values(static_cast<std::size_t>(element_count(problem_.outputs().y.shape)));
  std::ifstream in(folder_.path() + "/y", std::ios::binary);
  in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(4 * values.size()));
  if (!in) throw IoError("it wrote no output");
  return values;
}

}  // namespace saddle::bench

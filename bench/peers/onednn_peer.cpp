// softmax attention from oneDNN's matmul, softmax and matmul, answering requests of `saddle bench`.
#include <chrono>
#include <cmath>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <oneapi/dnnl/dnnl.hpp>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace {

using dnnl::memory;
using Json = nlohmann::json;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// scores [B,H,N,M] = q k^T / sqrt(D), softmax over M, y = weights v; all dense, scores in the type of the inputs.
class Attention {
 public:
  explicit Attention(const Json& task) : shape_(task.at("shape").get<std::vector<memory::dim>>()) {
    if (task.at("kind") != "softmax" || task.at("causal") != false || task.at("window") != 0 || task.at("beta") != 0)
      throw std::invalid_argument("oneDNN is given plain softmax attention only");
    if (task.at("pass") != "forward") throw std::invalid_argument("oneDNN is given the forward pass only");
    const std::string dtype = task.at("dtype");
    if (dtype == "f64") throw std::invalid_argument("oneDNN has no f64");
    type_ = dtype == "bf16" ? memory::data_type::bf16 : memory::data_type::f32;
    const auto [B, H, N, M, D, E] = std::tuple{shape_[0], shape_[1], shape_[2], shape_[3], shape_[4], shape_[5]};
    folder_ = task.at("folder");
    q_ = read("q", N, D);
    k_ = read("k", M, D);
    v_ = read("v", M, E);
    scores_ = memory({{B, H, N, M}, type_, memory::format_tag::abcd}, engine_);
    y_ = memory({{B, H, N, E}, type_, memory::format_tag::abcd}, engine_);
    const memory::desc transposed({B, H, D, M}, type_, memory::format_tag::abdc);
    keys_ = memory(transposed, engine_, k_.get_data_handle());
    dnnl::primitive_attr scale;
    scale.set_output_scales(0, {1 / std::sqrt(static_cast<float>(D))});
    product_ = dnnl::matmul({{q_.get_desc(), transposed, scores_.get_desc()}, scale, engine_});
    softmax_ = dnnl::softmax_forward({{dnnl::prop_kind::forward_inference, scores_.get_desc(), 3}, engine_});
    output_ = dnnl::matmul({{scores_.get_desc(), v_.get_desc(), y_.get_desc()}, engine_});
  }

  void run() {
    product_.execute(stream_, {{DNNL_ARG_SRC, q_}, {DNNL_ARG_WEIGHTS, keys_}, {DNNL_ARG_DST, scores_}});
    softmax_.execute(stream_, {{DNNL_ARG_SRC, scores_}, {DNNL_ARG_DST, scores_}});
    output_.execute(stream_, {{DNNL_ARG_SRC, scores_}, {DNNL_ARG_WEIGHTS, v_}, {DNNL_ARG_DST, y_}});
    stream_.wait();
  }

  void write() {
    memory floats = in_type(y_, memory::data_type::f32);
    std::ofstream out(folder_ + "/y", std::ios::binary);
    out.write(static_cast<const char*>(floats.get_data_handle()),
              static_cast<std::streamsize>(floats.get_desc().get_size()));
  }

 private:
  memory in_type(memory& from, memory::data_type type) {
    memory to({from.get_desc().dims(), type, memory::format_tag::abcd}, engine_);
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
    return to;
  }

  memory read(const std::string& name, memory::dim n, memory::dim width) {
    memory floats({{shape_[0], shape_[1], n, width}, memory::data_type::f32, memory::format_tag::abcd}, engine_);
    std::ifstream in(folder_ + "/" + name, std::ios::binary);
    in.read(static_cast<char*>(floats.get_data_handle()), static_cast<std::streamsize>(floats.get_desc().get_size()));
    if (!in) throw std::runtime_error("cannot read the input " + name);
    return in_type(floats, type_);
  }

  std::vector<memory::dim> shape_;
  memory::data_type type_ = memory::data_type::f32;
  std::string folder_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  memory q_, k_, v_, keys_, scores_, y_;
  dnnl::matmul product_, output_;
  dnnl::softmax_forward softmax_;
};

double best_time(Attention& attention, double seconds) {
  double best = 1e30;
  const double end = now() + seconds;
  do {
    const double start = now();
    attention.run();
    best = std::min(best, now() - start);
  } while (now() < end);
  return best;
}

}  // namespace

int main() {
  std::unique_ptr<Attention> attention;
  for (std::string line; std::getline(std::cin, line);) {
    Json answer;
    try {
      const Json request = Json::parse(line);
      const std::string op = request.at("op");
      if (op == "hello") {
        answer = {{"ok", true}, {"version", "oneDNN " + std::to_string(dnnl::version()->major)}};
      } else if (op == "setup") {
        attention.reset();
        attention = std::make_unique<Attention>(request);
        attention->run();
        attention->write();
        answer = {{"ok", true}, {"compare", true}};
      } else if (attention) {
        answer = {{"ok", true}, {"seconds", best_time(*attention, request.at("seconds"))}};
      } else {
        answer = {{"ok", false}, {"reason", "nothing is set up"}};
      }
    } catch (const std::exception& error) {
      answer = {{"ok", false}, {"reason", error.what()}};
    }
    std::cout << answer.dump() << std::endl;
  }
}

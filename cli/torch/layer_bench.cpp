// saddle bench with mechanisms of the layer level: whole attention layers against each other, projections included.
#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "argument.hpp"
#include "output.hpp"
#include "problem.hpp"
#include "report.hpp"
#include "row.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/io/atomic_file.hpp"
#include "saddle/nn/blocks/self_attention.hpp"
#include "saddle/nn/layer_reference.hpp"
#include "saddle/nn/time_encoding.hpp"
#include "saddle/train/autocast.hpp"
#include "statistics.hpp"
#include "training.hpp"

namespace saddle::cli {

namespace {

using torch::Tensor;

nn::Tokens tokens_of(Index N) {
  const auto side = static_cast<Index>(std::lround(std::sqrt(static_cast<double>(N))));
  nn::Tokens tokens;
  tokens.most = N;
  if (side * side == N) tokens.grid = {side, side};
  return tokens;
}

nn::SelfAttention make(const std::string& attention, const Dims& dims, Index N) {
  return nn::SelfAttention(nn::SelfAttentionOptions(dims.H * dims.D, dims.H).attention(attention).tokens(tokens_of(N)));
}

double difference(const Tensor& computed, const Tensor& expected) {
  const Tensor off = (computed.to(torch::kFloat64) - expected.to(torch::kFloat64)).abs().max();
  return off.item<double>() / std::max(1.0, expected.abs().max().item<double>());
}

Tensor draw_times(Index B, Index N) { return torch::rand({B, N}, torch::kFloat64).cumsum(1); }

// An encoding of times on 64 of them in double against its reference.
double check_encoding(const mechanisms::time_attention::TimeEncoder& encoder, Index width) {
  const torch::NoGradGuard guard;
  nn::TimeEncoding module(width, to_text(encoder));
  module->to(torch::kFloat64);
  const Tensor times = draw_times(2, 64);
  std::map<std::string, tape::Value> weights;
  for (const auto& item : module->named_parameters()) weights.emplace(item.key(), nn::on_tape(item.value()));
  const auto* mercer = std::get_if<mechanisms::time_mercer::Mercer>(&encoder);
  const auto* bochner = std::get_if<mechanisms::time_bochner::Bochner>(&encoder);
  Tensor sample;
  if (bochner != nullptr && !bochner->sample().empty()) sample = 1 + torch::rand({width / 2}, torch::kFloat64);
  const Tensor found = module(times, Tensor(), sample);
  const tape::Value expected = mercer != nullptr ? mercer->reference(nn::on_tape(times), weights)
                                                 : bochner->reference(nn::on_tape(times), nn::on_tape(sample), weights);
  return difference(found, torch::tensor(expected.data(), torch::kFloat64).view_as(found));
}

// The same layer on 64 tokens in double against its reference, or, if it is a declared attention, which the tests hold
// to theirs, in float against double.
double check(const std::string& attention, const Dims& dims) {
  if (const auto encoder = read_time_encoding(attention)) return check_encoding(*encoder, dims.H * dims.D);
  constexpr Index N = 64;
  const torch::NoGradGuard guard;
  nn::SelfAttention module = make(attention, dims, N);
  module->eval();
  const Tensor x = torch::randn({2, N, dims.H * dims.D});
  const Tensor y = module(x);
  module->to(torch::kFloat64);
  const Tensor exact = module(x.to(torch::kFloat64));
  if (!module->layer) return difference(y, exact);
  mechanisms::LayerPlace place;
  place.X = dims.H * dims.D;
  place.H = dims.H;
  place.N = N;
  place.grid = tokens_of(N).grid;
  const auto outputs = mechanisms::find_layer(attention)->reference(nn::reference_inputs(*module->layer, place, x));
  const std::vector<double>& expected = outputs.at("y").data();
  return difference(exact, torch::tensor(expected, torch::kFloat64).view_as(exact));
}

using bench::LayerResult;

// One attention, or an encoding of times, at one shape, ready to run.
class Contender {
 public:
  explicit Contender(const LayerResult& row) : training_(row.pass != "forward"), bf16_(row.dtype == "bf16") {
    const auto type = row.dtype == "f64" ? torch::kFloat64 : torch::kFloat32;
    const Index B = row.dims.B, N = row.dims.N, X = row.dims.H * row.dims.D;
    if (const auto encoder = read_time_encoding(row.attention)) {
      nn::TimeEncoding module(X, to_text(*encoder));
      module_ = module.ptr();
      forward_ = [module](const Tensor& times) mutable { return module(times); };
      multiply_adds_ = module->multiply_adds(B * N);
      x_ = draw_times(B, N);
    } else {
      nn::SelfAttention module = make(row.attention, row.dims, N);
      module_ = module.ptr();
      forward_ = [module](const Tensor& x) mutable { return module(x); };
      multiply_adds_ = static_cast<double>(B) * module->multiply_adds(N);
      x_ = torch::randn({B, N, X}, type).requires_grad_(training_);
    }
    module_->to(type);
    module_->train(training_);
    cotangent_ = torch::randn({B, N, X}, type);
  }

  void run() {
    const torch::AutoGradMode gradients(training_);
    const train::Autocast autocast(bf16_);
    const Tensor y = forward_(x_);
    if (!training_) return;
    module_->zero_grad();
    x_.mutable_grad() = Tensor();
    if (y.requires_grad()) y.backward(cotangent_.to(y.scalar_type()));
  }

  double multiply_adds() const { return multiply_adds_; }

 private:
  bool training_, bf16_;
  std::shared_ptr<torch::nn::Module> module_;
  std::function<Tensor(const Tensor&)> forward_;
  double multiply_adds_ = 0;
  Tensor x_, cotangent_;
};

// All attentions at one shape, dtype and pass, round after round.
void measure(std::vector<LayerResult*> rows, double seconds) {
  std::vector<std::unique_ptr<Contender>> contenders;
  std::vector<std::vector<double>> times(rows.size());
  for (LayerResult* row : rows) {
    contenders.push_back(std::make_unique<Contender>(*row));
    Contender& own = *contenders.back();
    row->memory = bench::extra_memory([&] { own.run(); });
    row->multiply_adds = own.multiply_adds();
  }
  const double end = bench::now() + seconds * static_cast<double>(rows.size());
  do {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double start = bench::now();
      contenders[i]->run();
      times[i].push_back(bench::now() - start);
    }
  } while (bench::now() < end || times[0].size() < 3);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i]->time = bench::summarise(times[i]);
}

std::string shape_text(const Dims& d) { return fmt::format("{},{},{},{}", d.B, d.H, d.N, d.D); }

}  // namespace

int run_layer_bench(const LayerBenchArguments& arguments, const Context& context) {
  torch::manual_seed(0);
  at::set_num_threads(threads());
  constexpr double most = 1e-3;
  bench::Report report;
  report.suite = "whole layers";
  std::vector<LayerResult>& rows = report.layers;
  bool passed = true;
  for (const Dims& dims : arguments.shape)
    for (const std::string& dtype : arguments.dtype)
      for (const std::string& pass : arguments.pass) {
        const std::size_t first = rows.size();
        for (const std::string& attention : arguments.attention) {
          LayerResult row{attention, dims, dtype, pass, threads()};
          row.check = check(attention, dims);
          row.passed = row.check <= most;
          passed = passed && row.passed;
          rows.push_back(row);
        }
        std::vector<LayerResult*> together;
        for (std::size_t i = first; i < rows.size(); ++i) together.push_back(&rows[i]);
        if (!context.quiet && !context.json) print_message(fmt::format("{} {} {}\n", shape_text(dims), dtype, pass));
        measure(together, arguments.seconds);
      }
  if (!arguments.html.empty()) io::write_atomically(arguments.html, bench::to_html(report));
  if (context.json) {
    Json list = Json::array();
    for (const LayerResult& row : rows)
      list.push_back({{"attention", row.attention},
                      {"shape", {row.dims.B, row.dims.H, row.dims.N, row.dims.D}},
                      {"dtype", row.dtype},
                      {"pass", row.pass},
                      {"seconds", row.time.best},
                      {"median_seconds", row.time.median},
                      {"rounds", row.time.rounds},
                      {"memory", row.memory},
                      {"multiply_adds", row.multiply_adds},
                      {"check", row.check},
                      {"passed", row.passed}});
    print_json("saddle.layer-bench/1", {{"threads", threads()}, {"rows", list}});
    return passed ? Exit::ok : Exit::failed;
  }
  Table table({"attention", "B,H,N,D", "type", "pass", "time", "median", "memory", "against first", "off by"},
              "llllrrrrr");
  double reference = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const LayerResult& row = rows[i];
    if (i % arguments.attention.size() == 0) reference = row.time.best;
    table.add({row.attention, shape_text(row.dims), row.dtype, row.pass, seconds_text(row.time.best),
               seconds_text(row.time.median), row.memory < 0 ? "?" : bytes_text(row.memory),
               fmt::format("{:.2f}x", reference / row.time.best),
               row.passed ? fmt::format("{:.0e}", row.check) : red(fmt::format("{:.0e}", row.check))});
  }
  print(fmt::format("whole layers, projections included, {} threads\n\n", threads()) + table.text());
  if (!passed) print_error("a layer does not compute what its reference does", "its times mean nothing");
  return passed ? Exit::ok : Exit::failed;
}

}  // namespace saddle::cli

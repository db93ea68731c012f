#include "saddle/nn/models/time_series.hpp"

#include <fmt/format.h>
#include <torch/nn/init.h>

#include <cmath>

#include "saddle/nn/dense/dropout.hpp"
#include "saddle/nn/models/options_internal.hpp"
#include "saddle/nn/models/parts_internal.hpp"

namespace saddle::nn {

namespace {

constexpr const char* self_name = "TimeSeriesTransformer";

// [1,N,X]: sin(n / 10000^(i/X)) at even i, the cosine of the same angle at i + 1.
Tensor sinusoids(int64_t N, int64_t X) {
  const Tensor rates =
      torch::exp(torch::arange(0, X, 2, torch::kFloat64) * (-std::log(10000.0) / static_cast<double>(X)));
  const Tensor angles = torch::arange(N, torch::kFloat64).unsqueeze(1) * rates;
  return torch::stack({angles.sin(), angles.cos()}, 2)
      .flatten(1)
      .narrow(1, 0, X)
      .unsqueeze(0)
      .to(torch::get_default_dtype());
}

// As torch::nn::TransformerEncoder starts: its layers are copies of one.
void make_equal(Encoder& blocks) {
  const torch::NoGradGuard guard;
  SelfAttention& attn = blocks[0]->attn;
  if (!attn->layer) {
    torch::nn::init::xavier_uniform_(attn->qkv->weight);
    torch::nn::init::zeros_(attn->qkv->bias);
    torch::nn::init::zeros_(attn->proj->bias);
  }
  const auto first = blocks[0]->named_parameters();
  for (std::size_t layer = 1; layer < blocks->size(); ++layer)
    for (auto& item : blocks[layer]->named_parameters()) {  // an attention may have parameters of its own
      const Tensor* source = first.find(item.key());
      if (source != nullptr && source->sizes() == item.value().sizes()) item.value().copy_(*source);
    }
}

}  // namespace

TimeSeriesOptions TimeSeriesOptions::mvts(int64_t dims, int64_t max_len, int64_t classes) {
  return {dims, max_len, classes};
}

TimeSeriesOptions TimeSeriesOptions::flowformer(int64_t dims, int64_t max_len, int64_t classes) {
  return TimeSeriesOptions(dims, max_len, classes)
      .width(512)
      .hidden(2048)
      .depth(2)
      .norm("layer")
      .final_norm(true)
      .mask_keys(false)
      .init("independent");
}

TimeSeriesTransformerImpl::TimeSeriesTransformerImpl(const TimeSeriesOptions& given)
    : Model("time_series"), options(given) {
  require_positive(self_name,
                   {{"dims", options.dims()}, {"max_len", options.max_len()}, {"classes", options.classes()}});
  require_word(self_name, "positions", options.positions(), {"learned", "fixed"});
  require_word(self_name, "init", options.init(), {"copied", "independent"});
  require_word(self_name, "norm", options.norm(), {"batch", "layer"});
  EncoderOptions encoder = encoder_of(options, self_name);
  encoder.block().norm(options.norm()).norm_first(false).tokens({.most = options.max_len()});

  const int64_t N = options.max_len(), X = options.width();
  project_inp = register_module("project_inp", torch::nn::Linear(options.dims(), X));
  pos_embed = options.positions() == "fixed"
                  ? register_buffer("pos_embed", sinusoids(N, X))
                  : register_parameter("pos_embed", torch::empty({1, N, X}).uniform_(-0.02, 0.02));
  blocks = register_module("blocks", Encoder(encoder));
  if (options.init() == "copied") make_equal(blocks);
  if (options.final_norm()) norm = register_module("norm", Norm(NormOptions(X).kind(options.norm())));
  head = register_module("head", torch::nn::Linear(N * X, options.classes()));
}

Tensor TimeSeriesTransformerImpl::forward(const Tensor& x, const Tensor& given_mask) {
  const int64_t N = options.max_len();
  if (!x.defined() || x.dim() != 3 || x.size(1) != N || x.size(2) != options.dims())
    throw InvalidArgument(
        fmt::format("[{}] x has shape {}: (B,{},{}) is expected", self_name, shape_text(x), N, options.dims()),
        fmt::format("the head reads exactly {} steps: cut longer series, and pad shorter ones with a mask", N));
  const Tensor mask = checked_mask(self_name, given_mask, x.size(0), N);

  LinearOptions out;
  out.dtype = pos_embed.scalar_type();
  const Tensor projected = nn::linear(x, project_inp->weight, project_inp->bias, out);
  Tensor y = pos_embed.add(projected, std::sqrt(static_cast<double>(options.width())));
  if (is_training()) y = nn::dropout(y, options.dropout());
  y = blocks(y, options.mask_keys() ? mask : Tensor());
  if (!norm.is_empty()) y = norm(y, y.scalar_type());
  y = at::gelu(y);
  if (is_training()) y = nn::dropout(y, options.dropout());
  if (mask.defined()) y = y * mask.unsqueeze(2).to(y.scalar_type());
  return classify(y.flatten(1), head->weight, head->bias);
}

Tensor TimeSeriesTransformerImpl::logits(const Batch& batch) {
  refuse_second(self_name, batch);
  return forward(batch.inputs, batch.mask);
}

std::vector<OptionValue> TimeSeriesTransformerImpl::option_values() const { return option_values_of(options); }

std::shared_ptr<Model> TimeSeriesTransformerImpl::fresh() const {
  return std::make_shared<TimeSeriesTransformerImpl>(options);
}

}  // namespace saddle::nn

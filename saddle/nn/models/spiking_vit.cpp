#include "saddle/nn/models/spiking_vit.hpp"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>
#include <torch/nn/modules/container/modulelist.h>

#include "saddle/mechanisms/spiking/module.hpp"
#include "saddle/nn/models/options_internal.hpp"
#include "saddle/nn/models/parts_internal.hpp"
#include "saddle/nn/spiking.hpp"

namespace saddle::nn {

namespace spiking = mechanisms::spiking;

namespace {

constexpr const char* self_name = "SpikingVit";

spiking::Spiking options_of(const std::string& written) {
  const mechanisms::LayerPtr layer = mechanisms::find_layer(written);
  if (!layer || layer->name() != spiking::Spiking::name)
    throw InvalidArgument(
        fmt::format("[{}] the attention is '{}': spiking neurons need one of spikes", self_name, written),
        "use spiking, or for example spiking(variant=spikformer)");
  return layer->part<spiking::Spiking>();
}

bool adds_spikes(const spiking::Spiking& attention) { return spiking::Plan(attention).output_spikes(); }

Norm batch_norm(int64_t width) { return Norm(NormOptions(width).kind("batch")); }

// x W^T + b in float, whatever the product runs in.
Tensor linear_of(const Tensor& x, const torch::nn::Linear& map) {
  LinearOptions options;
  options.dtype = map->weight.scalar_type();
  return nn::linear(x, map->weight, map->bias, options);
}

// The convolution of all maps of spikes [T,B,N,X] -> [T,B,N,X], in float: torch has it in bfloat16 for some CPUs only.
Tensor positions_of(const Tensor& spikes, torch::nn::Conv2d& convolution, int64_t rows) {
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
  const Tensor maps = spikes.flatten(0, 1).unflatten(1, {rows, -1}).permute({0, 3, 1, 2});  // [T B,X,rows,columns]
  return convolution(maps).permute({0, 2, 3, 1}).reshape(spikes.sizes());
}

void set_prefix(const std::string& prefix) {
  if (auto* const meter = EnergyMeter::current()) meter->prefix = prefix;
}

void count_spikes(const char* layer, const Tensor& spikes, double macs) {
  if (auto* const meter = EnergyMeter::current()) meter->spikes_into(layer, spikes, spikes.size(0), macs);
}

void count_numbers(const char* layer, int64_t steps, double macs) {
  if (auto* const meter = EnergyMeter::current()) meter->numbers_into(layer, steps, macs);
}

}  // namespace

// fc1, fc2 and their batch norms, with neurons behind each or before each.
class SpikingMlp : public torch::nn::Module {
 public:
  SpikingMlp(int64_t width, int64_t hidden) {
    fc1 = register_module("fc1", torch::nn::Linear(width, hidden));
    fc1_bn = register_module("fc1_bn", batch_norm(hidden));
    fc2 = register_module("fc2", torch::nn::Linear(hidden, width));
    fc2_bn = register_module("fc2_bn", batch_norm(width));
  }

  // x [T,B,N,X] -> [T,B,N,X]
  Tensor forward(const Tensor& x, bool behind) {
    const auto fired = [&](const Tensor& potential) { return fire(potential, {}, x.size(0)); };
    const double macs = static_cast<double>(x.size(2)) * static_cast<double>(fc1->weight.numel());
    const Tensor in = behind ? x : fired(x);
    count_spikes("fc1", in, macs);
    const Tensor hidden = fired(fc1_bn(linear_of(in, fc1)));
    count_spikes("fc2", hidden, macs);
    const Tensor y = fc2_bn(linear_of(hidden, fc2));
    return behind ? fired(y) : y;
  }

  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
  Norm fc1_bn{nullptr}, fc2_bn{nullptr};
};

class SpikingBlock : public torch::nn::Module {
 public:
  SpikingBlock(const spiking::Spiking& attention, const mechanisms::LayerPlace& place, int64_t hidden)
      : adds_spikes_(adds_spikes(attention)), lends_neurons_(attention.variant == spiking::Variant::bsa) {
    attention.check(place);
    attn = register_module("attn", std::make_shared<spiking::SpikingAttention>(attention, place));
    mlp = register_module("mlp", std::make_shared<SpikingMlp>(place.X, hidden));
  }

  // x [T,B,N,X] -> [T,B,N,X]; `name` is for the meter.
  Tensor forward(const Tensor& x, const std::string& name) {
    set_prefix(name + ".attn.");
    // bsa takes spikes and has no neurons for its input; those of the other variants do.
    const Tensor y = x + attn->over_time(lends_neurons_ ? fire(x, {}, x.size(0)) : x);
    set_prefix(name + ".mlp.");
    return y + mlp->forward(y, adds_spikes_);
  }

  std::shared_ptr<spiking::SpikingAttention> attn;
  std::shared_ptr<SpikingMlp> mlp;

 private:
  bool adds_spikes_, lends_neurons_;
};

SpikingVitImpl::SpikingVitImpl(const SpikingVitOptions& given) : Model("spiking_vit"), options(given) {
  require_positive(self_name, {{"classes", options.classes()},
                               {"width", options.width()},
                               {"heads", options.heads()},
                               {"depth", options.depth()}});
  const int64_t X = options.width(), hidden = options.hidden() > 0 ? options.hidden() : 4 * X;
  patch_embed = register_module("patch_embed",
                                PatchEmbed(PatchEmbedOptions(options.image(), options.patch(), options.channels(), X)));
  bn = register_module("bn", batch_norm(X));
  rpe = register_module("rpe", torch::nn::Conv2d(torch::nn::Conv2dOptions(X, X, 3).padding(1).bias(false)));
  rpe_bn = register_module("rpe_bn", batch_norm(X));

  mechanisms::LayerPlace place;
  place.X = X;
  place.H = options.heads();
  place.N = patch_embed->options.tokens();
  place.grid = {options.image().rows / options.patch().rows, options.image().columns / options.patch().columns};
  torch::nn::ModuleList list;
  for (const std::string& written :
       attention_of_layers(options.attention(), options.last_attention(), options.depth())) {
    const spiking::Spiking attention = options_of(written);
    if (layers_.empty()) {
      steps_ = attention.steps;
      adds_spikes_ = adds_spikes(attention);
    }
    if (attention.steps != steps_)
      throw InvalidArgument(
          fmt::format("[{}] the first layer has {} time steps, another one {}", self_name, steps_, attention.steps),
          "all layers need the same");
    if (adds_spikes(attention) != adds_spikes_)
      throw InvalidArgument(
          fmt::format("[{}] '{}' stands among attentions whose residual stream is another", self_name, written),
          "spikformer, qkformer_ssa and qkformer_token add up spikes; spikingformer, sdsa and bsa potentials");
    layers_.push_back(std::make_shared<SpikingBlock>(attention, place, hidden));
    list->push_back(layers_.back());
    ++place.index;
  }
  register_module("blocks", list);
  head = register_module("head", torch::nn::Linear(X, options.classes()));
}

Tensor SpikingVitImpl::features(const Tensor& images) {
  const int64_t rows = options.image().rows / options.patch().rows, X = options.width();
  const int64_t N = patch_embed->options.tokens();
  const double pixels = static_cast<double>(options.patch().rows * options.patch().columns * options.channels());
  set_prefix("");
  // The image is the same at every step, and so are its patches.
  count_numbers("patch_embed", steps_, static_cast<double>(N * X) * pixels);
  const Tensor spikes = fire(bn(patch_embed(images)).unsqueeze(0), {}, steps_);  // [T,B,N,X]
  count_spikes("rpe", spikes, static_cast<double>(N) * static_cast<double>(rpe->weight.numel()));
  const Tensor positions = rpe_bn(positions_of(spikes, rpe, rows));
  Tensor x = spikes + (adds_spikes_ ? fire(positions, {}, steps_) : positions);
  for (std::size_t layer = 0; layer < layers_.size(); ++layer)
    x = layers_[layer]->forward(x, "blocks." + std::to_string(layer));
  return x;
}

Tensor SpikingVitImpl::forward(const Tensor& images) {
  const Tensor pooled = features(images).mean(std::vector<int64_t>{0, 2});
  set_prefix("");
  count_numbers("head", 1, static_cast<double>(head->weight.numel()));
  return classify(pooled, head->weight, head->bias);
}

Tensor SpikingVitImpl::logits(const Batch& batch) {
  refuse_second(self_name, batch);
  if (batch.mask.defined())
    throw InvalidArgument("[SpikingVit] a mask is given, but all patches of an image exist", "leave it out");
  return forward(batch.inputs);
}

spiking::EnergyReport SpikingVitImpl::energy(const Tensor& images) {
  const torch::NoGradGuard guard;
  const Evaluating evaluating(*this);
  EnergyMeter meter;
  forward(images);
  return meter.report;
}

double SpikingVitImpl::multiply_adds() const {
  const auto T = static_cast<double>(steps_), N = static_cast<double>(patch_embed->options.tokens());
  double sum = static_cast<double>(patch_embed->proj->weight.numel()) * N +
               T * N * static_cast<double>(rpe->weight.numel()) + static_cast<double>(head->weight.numel());
  mechanisms::LayerPlace place;
  place.X = options.width();
  place.H = options.heads();
  place.N = patch_embed->options.tokens();
  for (const auto& layer : layers_) {
    const auto& attention = layer->attn->options();
    // As a layer it would project an input that never changes once.
    const bool once = !layer->attn->plan().input_spikes();
    const double maps = layer->attn->plan().has_values() ? 3 : 2;
    sum += attention.cost(place, 1, primal::Pass::forward, DType::f32).multiply_adds +
           (once ? (T - 1) * maps * N * static_cast<double>(place.X * place.X) : 0.0) +
           2 * T * N * static_cast<double>(layer->mlp->fc1->weight.numel());
  }
  return sum;
}

std::vector<OptionValue> SpikingVitImpl::option_values() const { return option_values_of(options); }

std::vector<AttentionOfLayer> SpikingVitImpl::attentions() const {
  std::vector<AttentionOfLayer> list;
  for (const std::string& written : attention_of_layers(options.attention(), options.last_attention(), options.depth()))
    list.push_back({written, {}, options.heads()});
  return list;
}

std::shared_ptr<Model> SpikingVitImpl::fresh() const { return std::make_shared<SpikingVitImpl>(options); }

}  // namespace saddle::nn

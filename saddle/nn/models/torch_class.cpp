// torch.classes.saddle.Model and SelfAttention: for Python, whose modules hold the very tensors of the C++ modules.
#include <torch/custom_class.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "saddle/mechanisms/layer.hpp"
#include "saddle/nn/models/reading.hpp"
#include "saddle/nn/models/registry.hpp"
#include "saddle/nn/onnx/export_model.hpp"
#include "saddle/nn/taps.hpp"
#include "saddle/nn/weights.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::nn {

namespace {

using OptionalTensor = c10::optional<Tensor>;

Batch batch_of(const Tensor& inputs, const OptionalTensor& mask, const OptionalTensor& second,
               const OptionalTensor& second_mask, const OptionalTensor& images = c10::nullopt,
               const OptionalTensor& times = c10::nullopt) {
  return {inputs,
          mask.value_or(Tensor()),
          second.value_or(Tensor()),
          second_mask.value_or(Tensor()),
          times.value_or(Tensor()),
          images.value_or(Tensor())};
}

// What f gives, and the mean of the terms that layers add to the loss while training.
template <class F>
std::tuple<Tensor, OptionalTensor> with_extra_loss(bool training, F&& f) {
  if (!training) return {f(), c10::nullopt};
  const ExtraLosses losses;
  const Tensor y = f(), loss = losses.mean();
  return {y, loss.defined() ? OptionalTensor(loss) : c10::nullopt};
}

struct ModelHolder : torch::CustomClassHolder {
  explicit ModelHolder(const std::string& description) : model(model_from_json(description)) {}

  std::shared_ptr<Model> model;
};
using Self = c10::intrusive_ptr<ModelHolder>;

struct SelfAttentionHolder : torch::CustomClassHolder {
  explicit SelfAttentionHolder(const std::string& given)
      : description(given), module(make(nlohmann::json::parse(given))) {}

  static SelfAttention make(const nlohmann::json& given) {
    Tokens tokens;
    tokens.most = given.at("tokens");
    tokens.grid = {given.at("rows"), given.at("columns")};
    tokens.prefix = given.at("prefix");
    tokens.layer = given.at("layer");
    return SelfAttention(SelfAttentionOptions(given.at("width"), given.at("heads"))
                             .attention(given.at("attention"))
                             .dropout(given.at("dropout"))
                             .qkv_bias(given.at("bias"))
                             .tokens(tokens));
  }

  std::string description;
  SelfAttention module;
};
using SelfAttentionPtr = c10::intrusive_ptr<SelfAttentionHolder>;

c10::Dict<std::string, Tensor> as_dict(const torch::OrderedDict<std::string, Tensor>& tensors) {
  c10::Dict<std::string, Tensor> dict;
  for (const auto& item : tensors) dict.insert(item.key(), item.value());
  return dict;
}

// What a model does with a batch, as saddle::analysis::probed_model names it, and `logits`.
c10::Dict<std::string, Tensor> observe(Model& model, const Batch& batch) {
  const torch::NoGradGuard guard;
  Taps taps(true, true, true);
  c10::Dict<std::string, Tensor> seen;
  seen.insert("logits", model.logits(batch));
  // A pair of documents runs through the encoder twice; the first one is looked at.
  const std::size_t depth = model.attentions().size();
  if (!taps.tokens.empty()) seen.insert("tokens", taps.tokens.front());
  if (!taps.layers.empty()) seen.insert("lengths", attended_lengths(model, batch, taps.layers.front().heads.size(2)));
  if (const Tensor kinds = model.modalities(batch); kinds.defined()) seen.insert("kinds", kinds);
  for (std::size_t layer = 0; layer < std::min(depth, taps.layers.size()); ++layer) {
    const std::string name = "layers." + std::to_string(layer) + ".";
    seen.insert(name + "heads", taps.layers[layer].heads);
    if (taps.layers[layer].weights.defined()) seen.insert(name + "weights", taps.layers[layer].weights);
    if (layer + 1 < taps.tokens.size()) seen.insert(name + "tokens", taps.tokens[layer + 1]);
    for (const auto& [part, tensor] : taps.layers[layer].parts) seen.insert(name + part, tensor);
  }
  return seen;
}

TORCH_LIBRARY_FRAGMENT(saddle, library) {
  library.class_<ModelHolder>("Model")
      .def(torch::init<std::string>())
      .def("describe", [](const Self& self) { return describe(*self->model, -1); })
      .def("parameters", [](const Self& self) { return as_dict(self->model->named_parameters()); })
      .def("buffers", [](const Self& self) { return as_dict(self->model->named_buffers()); })
      .def("train", [](const Self& self, bool on) { self->model->train(on); })
      .def("forward",
           [](const Self& self, const Tensor& inputs, const OptionalTensor& mask, const OptionalTensor& second,
              const OptionalTensor& second_mask, const OptionalTensor& images, const OptionalTensor& times) {
             return with_extra_loss(self->model->is_training(), [&] {
               return self->model->logits(batch_of(inputs, mask, second, second_mask, images, times));
             });
           })
      // What layers compute, with what the model decides itself, such as the scale of npt.
      .def("attentions",
           [](const Self& self) {
             std::vector<std::string> texts;
             for (const AttentionOfLayer& layer : self->model->attentions())
               texts.push_back(mechanisms::find_layer(layer.attention) ? layer.attention : to_text(layer.value));
             return texts;
           })
      .def("observe",
           [](const Self& self, const Tensor& inputs, const OptionalTensor& mask, const OptionalTensor& second,
              const OptionalTensor& second_mask, const OptionalTensor& images, const OptionalTensor& times) {
             return observe(*self->model, batch_of(inputs, mask, second, second_mask, images, times));
           })
      .def("reads_first_token", [](const Self& self) { return reads_first_token(*self->model); })
      .def("reads_last_token", [](const Self& self) { return reads_last_token(*self->model); })
      .def("save",
           [](const Self& self, const std::string& path) {
             save_weights(*self->model, path, {{"saddle.model", describe(*self->model, -1)}});
           })
      .def("load",
           [](const Self& self, const std::string& path, const std::string& prefix) {
             load_weights(*self->model, path, LoadWeightsOptions().cast(true).prefix(prefix));
           })
      .def("export_onnx",
           [](const Self& self, const std::string& path, const Tensor& inputs, const OptionalTensor& mask,
              const OptionalTensor& second, const OptionalTensor& second_mask, const OptionalTensor& images,
              const OptionalTensor& times) {
             export_onnx(*self->model, batch_of(inputs, mask, second, second_mask, images, times), path);
           });
  library.class_<SelfAttentionHolder>("SelfAttention")
      .def(torch::init<std::string>())
      .def("describe", [](const SelfAttentionPtr& self) { return self->description; })
      .def("parameters", [](const SelfAttentionPtr& self) { return as_dict(self->module->named_parameters()); })
      .def("buffers", [](const SelfAttentionPtr& self) { return as_dict(self->module->named_buffers()); })
      .def("train", [](const SelfAttentionPtr& self, bool on) { self->module->train(on); })
      .def("forward", [](const SelfAttentionPtr& self, const Tensor& x, const OptionalTensor& mask) {
        return with_extra_loss(self->module->is_training(),
                               [&] { return self->module->forward(x, mask.value_or(Tensor())); });
      });
  library.def("model_names() -> str[]", [] { return model_names(); });
  library.def("model_options(str name) -> str[]", [](const std::string& name) {
    std::vector<std::string> lines;
    for (const OptionValue& option : model_options(name))
      lines.insert(lines.end(), {option.name, option.value, option.help});
    return lines;
  });
}

}  // namespace

}  // namespace saddle::nn

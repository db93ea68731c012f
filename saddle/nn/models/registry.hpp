// Models by name, from options in text or JSON, and back.
#pragma once

#include "saddle/nn/models/model.hpp"

namespace saddle::nn {

// Kinds of models (time_series, sequence_classifier, vision_transformer, language_model, event_model) and names that
// stand for one with certain options: mvts, flowformer, lra_listops, deit_tiny_patch16_224 ..
SADDLE_TORCH_API std::vector<std::string> model_names();
// The options of a name with their defaults; 0 where one must be given.
SADDLE_TORCH_API std::vector<OptionValue> model_options(const std::string& name);

// Throws InvalidArgument for unknown names and options, with the nearest one. Every deit_ and vit_ name that
// VisionTransformerOptions::named knows is taken, listed or not.
SADDLE_TORCH_API std::shared_ptr<Model> make_model(const std::string& name, const OptionTexts& options = {});

// {"model": "mvts", "dims": 3, "max_len": 93, "classes": 10, "attention": ["softmax", "softmax+bn"]}
SADDLE_TORCH_API std::shared_ptr<Model> model_from_json(std::string_view document);
// The document that makes a model of the same kind and options.
SADDLE_TORCH_API std::string describe(const Model& model, int indent = 2);

}  // namespace saddle::nn

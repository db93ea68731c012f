#include "saddle/nn/models/registry.hpp"
#include "tests/onnx/cases.hpp"

namespace saddle::nn::onnx_cases {

namespace {

// What a model takes: inputs of B samples, by the names of a batch's parts.
using Sampler = std::function<std::vector<Tensor>(Index B)>;

Case model_case(const std::string& name, const OptionTexts& options, const std::vector<std::string>& inputs,
                const Sampler& sample) {
  Case one;
  one.name = name;
  for (const auto& [option, value] : options) one.name += " " + option + "=" + value;
  const auto model = make_model(name, options);
  one.inputs = inputs;
  one.sample = sample;
  one.function = [model, inputs](const std::vector<Tensor>& tensors) {
    Batch batch;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      (inputs[i] == "inputs"   ? batch.inputs
       : inputs[i] == "mask"   ? batch.mask
       : inputs[i] == "second" ? batch.second
                               : batch.second_mask) = tensors[i];
    return std::vector<Tensor>{model->logits(batch)};
  };
  one.outputs = {"logits"};
  one.module = model;
  return one;
}

Case time_series(const std::string& name, const std::string& attention, OptionTexts options = {}) {
  options.merge(OptionTexts{{"dims", "3"},
                            {"max_len", "20"},
                            {"classes", "4"},
                            {"attention", attention},
                            {"width", "32"},
                            {"hidden", "24"},
                            {"heads", "4"}});
  return model_case(name, options, {"inputs", "mask"}, [](Index B) {
    return std::vector<Tensor>{torch::randn({B, 20, 3}), sample_key_mask(B, 20)};
  });
}

Tensor sample_tokens(Index B, Index n) { return torch::randint(1, 30, {B, n}).masked_fill(~sample_key_mask(B, n), 0); }

Case tokens(const std::string& name, OptionTexts options) {
  options.merge(OptionTexts{{"vocab", "30"}, {"max_len", "24"}, {"width", "16"}, {"heads", "2"}, {"depth", "2"}});
  return model_case(name, options, {"inputs"}, [](Index B) { return std::vector<Tensor>{sample_tokens(B, 20)}; });
}

Case pairs(const std::string& attention) {
  return model_case("lra_retrieval", {{"max_len", "24"}, {"attention", attention}}, {"inputs", "second"}, [](Index B) {
    return std::vector<Tensor>{sample_tokens(B, 20), sample_tokens(B, 16).flip(0)};
  });
}

Case images(OptionTexts options) {
  options.merge(OptionTexts{{"image", "24x32"}, {"patch", "8"}, {"width", "24"}, {"heads", "4"}, {"depth", "2"}});
  return model_case("vision_transformer", options, {"inputs"}, [](Index B) {
    return std::vector<Tensor>{torch::randn({B, 3, 24, 32})};
  });
}

}  // namespace

std::vector<Case> model_cases() {
  std::vector<Case> cases;
  for (const char* attention : {"softmax", "softmax+bn(beta=0.6,learn=head)", "softmax+sh(1,1,2,4)", "linear(elu1)",
                                "softmax+bn+sh(1,2,2,5)", "softmax+conv1d(3)"}) {
    cases.push_back(time_series("mvts", attention));
    cases.push_back(time_series("flowformer", attention));
  }
  cases.push_back(time_series("mvts", "softmax", {{"positions", "fixed"}, {"last_attention", "linear(relu)"}}));
  for (const char* attention : {"softmax", "softmax+bn+sh(1,2)", "linear(random,count=9)"}) {
    cases.push_back(tokens("sequence_classifier", {{"classes", "3"}, {"attention", attention}}));
    cases.push_back(pairs(attention));
  }
  cases.push_back(tokens("sequence_classifier", {{"classes", "3"}, {"padding", "-1"}}));
  for (const char* attention : {"softmax", "softmax+bn", "linear(elu1)"})
    cases.push_back(tokens("language_model", {{"attention", attention}}));
  cases.push_back(tokens("language_model", {{"tied", "false"}}));
  // Layers that are no declared attention. Of the pursuit two passes: more amplify the rounding of float beyond what
  // can be compared.
  for (const char* attention :
       {"cat", "cat(variant=qkv,direction=correlation)", "cat(variant=v)", "primal_attention",
        "rpc_attention(num_iter=2)", "rpc_attention(variant=scaled_s)", "hyla", "spiking",
        "spiking(variant=spikformer)", "spiking(variant=qkformer_token)", "spiking(variant=sdsa)"})
    cases.push_back(time_series("mvts", attention));
  cases.push_back(tokens("sequence_classifier", {{"classes", "3"}, {"attention", "hyla(attention_norm=softmax)"}}));
  cases.push_back(tokens("sequence_classifier", {{"classes", "3"}, {"attention", "hyla(relative_bias=true)"}}));
  cases.push_back(tokens("language_model", {{"attention", "cat_causal"}}));
  const auto square = [](Index B) { return std::vector<Tensor>{torch::randn({B, 3, 16, 16})}; };
  cases.push_back(model_case("vision_transformer",
                             {{"image", "16"},
                              {"patch", "4"},
                              {"width", "16"},
                              {"heads", "2"},
                              {"depth", "2"},
                              {"attention", "mixed_attention(window=2)"},
                              {"class_token", "false"},
                              {"pooling", "average"}},
                             {"inputs"}, square));
  cases.push_back(model_case("spiking_vit", {{"image", "16"}, {"width", "24"}, {"heads", "2"}, {"depth", "2"}},
                             {"inputs"}, square));
  cases.push_back(images({}));
  cases.push_back(images({{"attention", "softmax+bn+sh(1,2,3,1,pool=2d,grid=3x4,prefix=1)"}}));
  cases.push_back(images({{"pooling", "average"}}));
  cases.push_back(images({{"pooling", "average"}, {"class_token", "false"}, {"last_attention", "cosine"}}));
  cases.push_back(images({{"distilled", "true"}, {"qkv_bias", "false"}}));
  return cases;
}

}  // namespace saddle::nn::onnx_cases

// Classification of multivariate time series by an encoder over the steps, as two published harnesses have it.
#pragma once

#include "saddle/nn/models/model.hpp"

namespace saddle::nn {

struct SADDLE_TORCH_API TimeSeriesOptions {
  // As mvts: dims features per step, max_len steps.
  TimeSeriesOptions(int64_t dims, int64_t max_len, int64_t classes)
      : dims_(dims), max_len_(max_len), classes_(classes) {}

  // gzerveas/mvts_transformer: batch norm, padded steps hidden from attention, layers that start equal.
  static TimeSeriesOptions mvts(int64_t dims, int64_t max_len, int64_t classes);
  // thuml/Flowformer, time series: layer norm and a last one, padding only zeroed before the head.
  static TimeSeriesOptions flowformer(int64_t dims, int64_t max_len, int64_t classes);

  TORCH_ARG(int64_t, dims);
  TORCH_ARG(int64_t, max_len);
  TORCH_ARG(int64_t, classes);
  TORCH_ARG(int64_t, width) = 64;
  TORCH_ARG(int64_t, hidden) = 256;
  TORCH_ARG(int64_t, heads) = 8;
  TORCH_ARG(int64_t, depth) = 3;
  TORCH_ARG(double, dropout) = 0.1;
  TORCH_ARG(double, attention_dropout) = 0.1;
  TORCH_ARG(Attentions, attention) = "softmax";
  TORCH_ARG(std::string, last_attention) = "";
  TORCH_ARG(LayerHeads, layer_heads) = {};
  TORCH_ARG(std::string, norm) = "batch";
  TORCH_ARG(bool, final_norm) = false;
  TORCH_ARG(bool, mask_keys) = true;
  TORCH_ARG(std::string, positions) = "learned";
  TORCH_ARG(std::string, init) = "copied";

 public:
  static void options(auto& self, auto&& visit) {
    visit({"dims", "features of a step"}, self.dims());
    visit({"max_len", "steps of a series, padded ones included"}, self.max_len());
    visit({"classes", "number of classes"}, self.classes());
    visit_encoder_options(self, visit);
    visit({"norm", "batch: per feature over batch and time; layer: of each step"}, self.norm());
    visit({"final_norm", "a norm behind the last layer"}, self.final_norm());
    visit({"mask_keys", "padded steps are hidden from attention"}, self.mask_keys());
    visit({"positions", "learned, or fixed: sines and cosines"}, self.positions());
    visit({"init", "copied: all layers start as the first, projected as torch's MultiheadAttention; independent"},
          self.init());
  }
};

// sqrt(width) project_inp(x) + pos_embed, post-norm blocks, norm if wanted, gelu; padded steps times 0; head of all
// steps side by side. Dropout behind the positions and behind the gelu.
class SADDLE_TORCH_API TimeSeriesTransformerImpl : public Model {
 public:
  explicit TimeSeriesTransformerImpl(const TimeSeriesOptions& options);

  // x [B,max_len,dims], mask [B,max_len] true where a step exists; undefined: everywhere -> [B,classes]
  Tensor forward(const Tensor& x, const Tensor& mask = {});
  Tensor logits(const Batch& batch) override;
  std::vector<OptionValue> option_values() const override;

  TimeSeriesOptions options;
  torch::nn::Linear project_inp{nullptr};
  Tensor pos_embed;  // [1,max_len,X]
  Norm norm{nullptr};

 protected:
  std::shared_ptr<Model> fresh() const override;
};

TORCH_MODULE(TimeSeriesTransformer);

}  // namespace saddle::nn

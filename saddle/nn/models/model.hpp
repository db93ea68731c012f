// What all models share: logits of a batch, encoder blocks, a head, and options as data.
#pragma once

#include "saddle/nn/blocks/encoder.hpp"
#include "saddle/nn/models/options.hpp"

namespace saddle::nn {

// Undefined tensors are left out. A model refuses what it has no use for.
struct Batch {
  Tensor inputs;               // series [B,N,dims], tokens [B,N] or images [B,C,rows,columns]
  Tensor mask;                 // [B,N], true where a step or token exists
  Tensor second, second_mask;  // of pairs of documents
  Tensor times = {};           // of events [B,N]
  Tensor images = {};          // beside tokens [B,C,rows,columns]
};

// What a layer attends by.
struct AttentionOfLayer {
  std::string attention;    // its written form
  primal::Attention value;  // one with all defaults for a mechanism of the layer level
  int64_t heads = 1;
};

// Parameters start from torch's default generator: torch::manual_seed first gives the same model. Under autocast to
// bfloat16 the residual stream, norms' statistics and logits stay float32.
class SADDLE_TORCH_API Model : public torch::nn::Module {
 public:
  // [B,classes], or [B,N,vocabulary] of a language model.
  virtual Tensor logits(const Batch& batch) = 0;
  // All options with their values, in order; name() and these make the same model again, see registry.hpp.
  virtual std::vector<OptionValue> option_values() const = 0;
  // Of each layer, by default those of `blocks`; a model with blocks of its own says what they have.
  virtual std::vector<AttentionOfLayer> attentions() const;
  // Of the tokens that `blocks` see, [B,N]: 0 special or padding, 1 language, 2 vision. Undefined where a model has no
  // such kinds.
  virtual Tensor modalities(const Batch& batch) const;

  // Deep, with what is training and what wants gradients.
  std::shared_ptr<torch::nn::Module> clone(const c10::optional<torch::Device>& device = c10::nullopt) const override;

  Encoder blocks{nullptr};          // empty in a model with blocks of its own
  torch::nn::Linear head{nullptr};  // empty in a language model whose token embedding serves as head

 protected:
  explicit Model(const char* name) : torch::nn::Module(name) {}
  // A model of the same options.
  virtual std::shared_ptr<Model> fresh() const = 0;

 private:
  void copy_from(const torch::nn::Module& other, const c10::optional<torch::Device>& device);
  void clone_(torch::nn::Module& other, const c10::optional<torch::Device>& device) override;
};

}  // namespace saddle::nn

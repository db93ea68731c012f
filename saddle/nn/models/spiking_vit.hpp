// A vision transformer of spiking neurons: what passes between its layers are spikes, over a few steps of time.
#pragma once

#include "saddle/nn/models/model.hpp"
#include "saddle/nn/models/patch_embed.hpp"

namespace saddle::mechanisms::spiking {
struct EnergyReport;
}

namespace saddle::nn {

struct SADDLE_TORCH_API SpikingVitOptions {
  // Spikformer-4-384 for images of 32x32, with patches in place of its convolutions.
  explicit SpikingVitOptions(int64_t classes = 10) : classes_(classes) {}

  TORCH_ARG(int64_t, classes);
  TORCH_ARG(PixelSize, image) = 32;
  TORCH_ARG(PixelSize, patch) = 4;
  TORCH_ARG(int64_t, channels) = 3;
  TORCH_ARG(int64_t, width) = 384;
  TORCH_ARG(int64_t, hidden) = 0;
  TORCH_ARG(int64_t, heads) = 12;
  TORCH_ARG(int64_t, depth) = 4;
  TORCH_ARG(Attentions, attention) = "spiking";
  TORCH_ARG(std::string, last_attention) = "";

 public:
  static void options(auto& self, auto&& visit) {
    visit({"classes", "number of classes"}, self.classes());
    visit({"image", "size of the images"}, self.image());
    visit({"patch", "size of a patch"}, self.patch());
    visit({"channels", "of the images"}, self.channels());
    visit({"width", "features of a token"}, self.width());
    visit({"hidden", "width inside the two-layer networks, 0: 4 width"}, self.hidden());
    visit({"heads", "of each attention"}, self.heads());
    visit({"depth", "number of layers"}, self.depth());
    visit({"attention", "spiking(..) for all layers, or one for each"}, self.attention());
    visit({"last_attention", "of the last layer, if it is another one"}, self.last_attention());
  }
};

class SpikingBlock;

// patch_embed, bn and neurons that see the image at every step; positions by a convolution, rpe, of the spikes; blocks
// of attention and a two-layer network; the mean over steps and tokens to head. The variant of the attention says where
// neurons stand:
//   spikformer, qkformer_ssa, qkformer_token   behind each linear layer, so that spikes are added up
//   spikingformer, sdsa, bsa                   before each linear layer, so that potentials are added up
// Weights start as torch's layers do: batch norms whose running variance begins at 1 find theirs soon.
class SADDLE_TORCH_API SpikingVitImpl : public Model {
 public:
  explicit SpikingVitImpl(const SpikingVitOptions& options = SpikingVitOptions());

  // images [B,C,rows,columns] -> [B,classes]
  Tensor forward(const Tensor& images);
  // All tokens behind the last block: [T,B,N,X].
  Tensor features(const Tensor& images);
  Tensor logits(const Batch& batch) override;
  std::vector<OptionValue> option_values() const override;
  std::vector<AttentionOfLayer> attentions() const override;

  // Firing rates, operations and energy of each layer per image, in evaluation.
  mechanisms::spiking::EnergyReport energy(const Tensor& images);
  // Of one image.
  double multiply_adds() const;

  int64_t steps() const { return steps_; }

  SpikingVitOptions options;
  PatchEmbed patch_embed{nullptr};
  torch::nn::Conv2d rpe{nullptr};
  Norm bn{nullptr}, rpe_bn{nullptr};

 protected:
  std::shared_ptr<Model> fresh() const override;

 private:
  int64_t steps_ = 0;  // of time
  bool adds_spikes_ = false;
  std::vector<std::shared_ptr<SpikingBlock>> layers_;
};

TORCH_MODULE(SpikingVit);

}  // namespace saddle::nn

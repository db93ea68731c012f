// Mixed attention for images: four attentions of linear cost side by side on quarters of the channels, inside and
// across windows, over pixels and over channels.
#pragma once

#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms::mixed_attention {

struct SADDLE_API MixedAttention {
  static constexpr std::string_view name = "mixed_attention";
  static constexpr std::string_view help = "windows and channels of an image, four attentions side by side: O(N)";

  Index window = 8, expansion = 2;
  bool bias = false;

  static void options(auto& self, auto&& visit) {
    visit({"window", primal::Written::named, "side of a window in tokens; divides both sides of the grid"},
          self.window);
    visit({"expansion", primal::Written::named, "inner channels of each channel"}, self.expansion);
    visit({"bias", primal::Written::named, "of projections and mixing"}, self.bias);
  }

  bool causal() const { return false; }
  void check(const LayerPlace& place) const;
  primal::Cost cost(const LayerPlace& place, Index B, primal::Pass pass, DType dtype) const;
  // Weights: temperature, r_talking, g_talking, b_talking, l_talking, to_quz, to_kv, dw_u, project, project_out, sca.1.
  // Layers of odd number are shifted by half a window; keys and values may be made of another image. Gives y, mixed
  // [B,hd,rows,columns], sca [B,hd,1,1] and, if shifted, shift_mask [n,k^2,k^2].
  LayerOutputs reference(const LayerInputs& inputs) const;

  bool operator==(const MixedAttention&) const = default;
};

const Mechanism& mechanism();

// Which part of an image the pixels of all windows come from when it is shifted by half a window: [n,k^2], pixels of
// different parts have come together round the edge and do not see each other.
SADDLE_API std::vector<Index> regions(primal::Grid image, Index window);

}  // namespace saddle::mechanisms::mixed_attention

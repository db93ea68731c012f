// Weights of vision transformers under two sets of names: timm's, which saddle uses, and those of Hugging Face. Values
// are moved, never changed: there and back gives the same bits.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "saddle/base/tensor.hpp"

namespace saddle::io {

enum class VitNames { timm, hugging_face };

struct VitConversion {
  VitNames to = VitNames::timm;
  // In front of the Hugging Face names of all but the heads. Nothing: to timm the one that the file has; to Hugging
  // Face "deit." where there is a distillation token, else "vit.".
  std::optional<std::string> prefix = {};
  bool keep_unknown = false;  // under their own names
};

struct VitReport {
  std::string prefix;                // of the Hugging Face names
  std::size_t tensors = 0;           // written
  std::vector<std::string> ignored;  // the pooler of Hugging Face, which timm does not have
  std::vector<std::string> unknown;  // kept
};

// attn.qkv (3 X rows) <-> attention.attention.query, key, value (X rows each); the rest is renamed. Unknown names, an
// incomplete query, key, value, and two tensors for one name are DataErrors. Metadata stays; Hugging Face's loader
// wants "format", so "pt" is added for it. The file is converted tensor by tensor and replaced as a whole.
SADDLE_API VitReport convert_vit(const std::filesystem::path& from, const std::filesystem::path& to,
                                 const VitConversion& conversion);
// The same in memory; `file` stands for the contents in messages.
SADDLE_API TensorFile convert_vit(const TensorFile& from, const VitConversion& conversion,
                                  const std::string& file = "the weights");

}  // namespace saddle::io

// The names of a vision transformer's tensors at timm and at Hugging Face, one by one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saddle/io/vit_names.hpp"

namespace saddle::io {

struct NamePair {
  std::string_view timm, hugging_face;
  std::string_view of(VitNames names) const { return names == VitNames::timm ? timm : hugging_face; }
};

// From the one set of names to the other.
class NameTable {
 public:
  // `distilled`: the model has a head for its distillation token.
  NameTable(VitNames to, std::string prefix, bool distilled);

  // The new name of a tensor that stays whole; nothing for all others.
  std::optional<std::string> renamed(std::string_view name) const;

  // Query, key and value of "blocks.3.attn.qkv.bias"; empty for any other name.
  std::vector<std::string> split(std::string_view name) const;

  // Of a name of Hugging Face: its two siblings and itself as query, key, value, and what they make when joined.
  struct Joined {
    std::string name;
    std::vector<std::string> parts;
  };
  std::optional<Joined> joined(std::string_view name) const;

  bool is_pooler(std::string_view name) const;

  // Every name that could have stood in place of an unknown one, with the number of the block that it has.
  std::vector<std::string> known(std::string_view unknown) const;

 private:
  std::string prefix_of(VitNames names) const { return names == VitNames::timm ? "" : prefix_; }
  std::string block_of(VitNames names, std::string_view number) const;
  std::vector<std::string> parts_of(std::string_view number, std::string_view tensor) const;
  std::optional<std::string> translated(std::span<const NamePair> pairs, std::string_view name) const;

  VitNames to_, from_;
  std::string prefix_;
  std::span<const NamePair> heads_;
};

}  // namespace saddle::io

#include "saddle/io/vit/name_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace saddle::io {

namespace {

constexpr NamePair block{"blocks.", "encoder.layer."};
// Behind the number of a block; a dot at the end stands for weight and bias.
constexpr NamePair in_block[] = {
    {"norm1.", "layernorm_before."}, {"attn.proj.", "attention.output.dense."},
    {"norm2.", "layernorm_after."},  {"mlp.fc1.", "intermediate.dense."},
    {"mlp.fc2.", "output.dense."},
};
constexpr NamePair qkv{"attn.qkv.", "attention.attention."};
constexpr std::string_view parts[] = {"query", "key", "value"};
constexpr NamePair outside[] = {
    {"cls_token", "embeddings.cls_token"},
    {"dist_token", "embeddings.distillation_token"},
    {"pos_embed", "embeddings.position_embeddings"},
    {"patch_embed.proj.", "embeddings.patch_embeddings.projection."},
    {"norm.", "layernorm."},
};
// Without prefix. A model with a head for the distillation token calls the other one differently.
constexpr NamePair one_head[] = {{"head.", "classifier."}};
constexpr NamePair two_heads[] = {{"head.", "cls_classifier."}, {"head_dist.", "distillation_classifier."}};
constexpr std::string_view pooler = "pooler.dense.";

constexpr std::string_view tensors[] = {"weight", "bias"};
bool is_tensor(std::string_view name) { return std::ranges::find(tensors, name) != std::end(tensors); }

bool cut(std::string_view& name, std::string_view front) {
  if (!name.starts_with(front)) return false;
  name.remove_prefix(front.size());
  return true;
}

// Cuts "12." off "12.norm1.weight" and returns the number; empty if there is none.
std::string_view cut_number(std::string_view& name) {
  const auto dot = name.find('.');
  const std::string_view number = name.substr(0, dot);
  if (dot == name.npos || number.find_first_not_of("0123456789") != number.npos) return {};
  name.remove_prefix(dot + 1);
  return number;
}

}  // namespace

NameTable::NameTable(VitNames to, std::string prefix, bool distilled)
    : to_(to), from_(to == VitNames::timm ? VitNames::hugging_face : VitNames::timm), prefix_(std::move(prefix)) {
  if (distilled) {
    heads_ = two_heads;
  } else {
    heads_ = one_head;
  }
}

std::string NameTable::block_of(VitNames names, std::string_view number) const {
  return fmt::format("{}{}{}.", prefix_of(names), block.of(names), number);
}

std::optional<std::string> NameTable::translated(std::span<const NamePair> pairs, std::string_view name) const {
  for (const NamePair& pair : pairs) {
    std::string_view rest = name;
    if (!cut(rest, pair.of(from_))) continue;
    if (pair.of(from_).ends_with('.') ? is_tensor(rest) : rest.empty()) return fmt::format("{}{}", pair.of(to_), rest);
  }
  return std::nullopt;
}

std::optional<std::string> NameTable::renamed(std::string_view name) const {
  if (auto head = translated(heads_, name)) return head;
  if (!cut(name, prefix_of(from_))) return std::nullopt;
  if (const auto whole = translated(outside, name)) return prefix_of(to_) + *whole;
  if (!cut(name, block.of(from_))) return std::nullopt;
  const std::string_view number = cut_number(name);
  const auto inside = translated(in_block, name);
  if (number.empty() || !inside) return std::nullopt;
  return block_of(to_, number) + *inside;
}

std::vector<std::string> NameTable::parts_of(std::string_view number, std::string_view tensor) const {
  std::vector<std::string> names;
  for (const std::string_view part : parts)
    names.push_back(fmt::format("{}{}{}.{}", block_of(VitNames::hugging_face, number), qkv.hugging_face, part, tensor));
  return names;
}

std::vector<std::string> NameTable::split(std::string_view name) const {
  if (!cut(name, block.timm)) return {};
  const std::string_view number = cut_number(name);
  if (number.empty() || !cut(name, qkv.timm) || !is_tensor(name)) return {};
  return parts_of(number, name);
}

std::optional<NameTable::Joined> NameTable::joined(std::string_view name) const {
  if (!cut(name, prefix_) || !cut(name, block.hugging_face)) return std::nullopt;
  const std::string_view number = cut_number(name);
  if (number.empty() || !cut(name, qkv.hugging_face)) return std::nullopt;
  for (const std::string_view part : parts) {
    std::string_view tensor = name;
    if (cut(tensor, part) && cut(tensor, ".") && is_tensor(tensor))
      return Joined{fmt::format("{}{}{}", block_of(VitNames::timm, number), qkv.timm, tensor),
                    parts_of(number, tensor)};
  }
  return std::nullopt;
}

bool NameTable::is_pooler(std::string_view name) const {
  return from_ == VitNames::hugging_face && cut(name, prefix_) && cut(name, pooler) && is_tensor(name);
}

std::vector<std::string> NameTable::known(std::string_view unknown) const {
  std::string_view number = "0";
  if (const auto at = unknown.find_first_of("0123456789"); at != unknown.npos)
    number = unknown.substr(at, unknown.find_first_not_of("0123456789", at) - at);
  std::vector<std::string> names;
  const auto add = [&](const std::string& front, std::span<const NamePair> pairs) {
    for (const NamePair& pair : pairs) {
      const std::string name = front + std::string(pair.of(from_));
      if (!name.ends_with('.'))
        names.push_back(name);
      else
        for (const std::string_view tensor : tensors) names.push_back(name + std::string(tensor));
    }
  };
  add(prefix_of(from_), outside);
  add("", heads_);
  add(block_of(from_, number), in_block);
  if (from_ == VitNames::timm) {
    add(block_of(from_, number), std::span(&qkv, 1));
  } else {
    for (const std::string_view tensor : tensors)
      for (std::string& name : parts_of(number, tensor)) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace saddle::io

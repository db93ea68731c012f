#include "argument.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/registry.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::cli {

namespace {

// Beyond anything that runs; below what overflows when counts are multiplied.
constexpr Index most_samples = Index{1} << 26, most_heads = Index{1} << 16, most_tokens = Index{1} << 26,
                widest = Index{1} << 16, most_elements = Index{1} << 48;

Index read_extent(const std::string& text, const std::string& shape, char letter, Index most) {
  const auto value = read_index(text);
  if (!value || *value < 1 || *value > most)
    throw InvalidArgument(
        fmt::format("--shape '{}': {} must be a whole number from 1 to {}, found '{}'", shape, letter, most, text),
        "write batch, heads, tokens, head width: --shape 1,8,1024,64");
  return *value;
}

// 0 stands for the fallback.
Index optional_extent(const char* option, Index value, Index fallback, Index most) {
  if (value < 0 || value > most)
    throw InvalidArgument(fmt::format("{} must be a whole number from 0 to {}, found {}", option, most, value));
  return value > 0 ? value : fallback;
}

}  // namespace

primal::Attention read_attention(const std::string& text) {
  if (!text.starts_with("@")) return mechanisms::parse(text);
  const std::string file = text.substr(1);
  const std::string document = read_text(file);
  try {
    return file.ends_with(".json") ? primal::parse_json(document, mechanisms::presets())
                                   : primal::parse_toml(document, mechanisms::presets());
  } catch (const InvalidArgument& error) {
    throw DataError(file, 0, 0, error.what(), error.hint());
  }
}

std::string canonical_attention(const std::string& text) {
  if (const auto encoding = read_time_encoding(text)) return "time_" + to_text(*encoding);
  const auto layer = read_layer(text);
  return layer ? layer->text() : primal::to_text(read_attention(text));
}

mechanisms::LayerPtr read_layer(const std::string& text) {
  return text.starts_with("@") ? nullptr : mechanisms::find_layer(text);
}

std::optional<mechanisms::time_attention::TimeEncoder> read_time_encoding(const std::string& text) {
  if (!text.starts_with("time_mercer") && !text.starts_with("time_bochner")) return std::nullopt;
  return mechanisms::time_attention::parse_time_encoder(text);
}

Dims read_dims(const std::string& shape, Index keys, Index value_width) {
  const auto pieces = split(shape);
  if (pieces.size() != 4)
    throw InvalidArgument(fmt::format("--shape '{}': expected four numbers B,H,N,D, found {}", shape, pieces.size()),
                          "write batch, heads, tokens, head width: --shape 1,8,1024,64");
  Dims dims;
  dims.B = read_extent(pieces[0], shape, 'B', most_samples);
  dims.H = read_extent(pieces[1], shape, 'H', most_heads);
  dims.N = read_extent(pieces[2], shape, 'N', most_tokens);
  dims.D = read_extent(pieces[3], shape, 'D', widest);
  dims.M = optional_extent("--keys", keys, dims.N, most_tokens);
  dims.E = optional_extent("--value-width", value_width, dims.D, widest);
  // Both factors are below 2^42, so the division is exact enough and nothing overflows.
  if (std::max(dims.N, dims.M) * std::max(dims.D, dims.E) > most_elements / (dims.B * dims.H))
    throw InvalidArgument(
        fmt::format("--shape '{}': its tensors would have more than {} elements", shape, most_elements),
        "use a smaller batch or fewer tokens");
  return dims;
}

DType read_dtype(const std::string& name) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16})
    if (to_string(dtype) == name) return dtype;
  throw InvalidArgument(fmt::format("unknown element type '{}', expected f32, f64 or bf16", name));
}

std::optional<Index> read_index(std::string_view text) {
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> pieces;
  while (true) {
    const auto comma = text.find(',');
    std::string_view piece = text.substr(0, comma);
    piece.remove_prefix(std::min(piece.find_first_not_of(' '), piece.size()));
    piece = piece.substr(0, piece.find_last_not_of(' ') + 1);
    pieces.emplace_back(piece);
    if (comma == std::string_view::npos) return pieces;
    text.remove_prefix(comma + 1);
  }
}

std::string read_text(const std::string& file) {
  if (file == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  if (std::filesystem::is_directory(file)) throw IoError(fmt::format("cannot read {}: it is a folder", file));
  std::ifstream in(file, std::ios::binary);
  if (!in) throw IoError(fmt::format("cannot read {}: {}", file, std::strerror(errno)));
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) throw IoError(fmt::format("cannot read {}: {}", file, std::strerror(errno)));
  return text;
}

}  // namespace saddle::cli

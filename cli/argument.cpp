#include "argument.hpp"

#include <fmt/format.h>

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

constexpr Index largest_extent = Index{1} << 32;

Index read_extent(const std::string& text, const std::string& shape) {
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > largest_extent)
    throw InvalidArgument(fmt::format("--shape '{}': expected whole numbers from 1, found '{}'", shape, text),
                          "write batch, heads, tokens, head width: --shape 1,8,1024,64");
  return value;
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

Dims read_dims(const std::string& shape, Index keys, Index value_width) {
  const auto pieces = split(shape);
  if (pieces.size() != 4)
    throw InvalidArgument(fmt::format("--shape '{}': expected four numbers B,H,N,D, found {}", shape, pieces.size()),
                          "write batch, heads, tokens, head width: --shape 1,8,1024,64");
  Dims dims;
  dims.B = read_extent(pieces[0], shape);
  dims.H = read_extent(pieces[1], shape);
  dims.N = read_extent(pieces[2], shape);
  dims.D = read_extent(pieces[3], shape);
  if (keys < 0 || value_width < 0) throw InvalidArgument("--keys and --value-width must not be negative");
  dims.M = keys > 0 ? keys : dims.N;
  dims.E = value_width > 0 ? value_width : dims.D;
  return dims;
}

DType read_dtype(const std::string& name) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16})
    if (to_string(dtype) == name) return dtype;
  throw InvalidArgument(fmt::format("unknown element type '{}', expected f32, f64 or bf16", name));
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

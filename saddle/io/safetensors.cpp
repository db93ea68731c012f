#include "saddle/io/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "saddle/base/error.hpp"
#include "saddle/io/names.hpp"
#include "saddle/io/safetensors/format.hpp"
#include "saddle/io/safetensors/header.hpp"

namespace saddle::io {

namespace {

// read(tensor, bytes) fills the span with the bytes of a tensor.
template <class Read>
TensorFile load(const std::map<std::string, TensorInfo>& tensors, const std::map<std::string, std::string>& metadata,
                const std::string& file, Read&& read) {
  require_held(tensors, file);
  TensorFile contents{{}, metadata};
  for (const auto* item : in_file_order(tensors)) {
    Tensor tensor(*item->second.dtype, item->second.shape);
    read(item->second, std::span(tensor.bytes()));
    contents.tensors.emplace(item->first, std::move(tensor));
  }
  return contents;
}

std::map<std::string, TensorType> types_of(const TensorFile& contents) {
  std::map<std::string, TensorType> types;
  for (const auto& [name, tensor] : contents.tensors) {
    const auto bytes = byte_count(tensor.dtype(), tensor.shape());
    if (!bytes || static_cast<std::uint64_t>(*bytes) != tensor.bytes().size())
      throw InvalidArgument(fmt::format("tensor {} of dtype {} and shape {} holds {} bytes but {}", in_quotes(name),
                                        to_string(tensor.dtype()), to_string(tensor.shape()), tensor.bytes().size(),
                                        bytes ? fmt::format("needs {}", *bytes) : "its size overflows"));
    types.emplace(name, TensorType{tensor.dtype(), tensor.shape()});
  }
  return types;
}

}  // namespace

TensorFile read_safetensors(const std::filesystem::path& path) {
  const SafetensorsReader reader(path);
  return load(reader.tensors(), reader.metadata(), reader.file(),
              [&](const TensorInfo& tensor, std::span<std::byte> to) { reader.read(tensor, to); });
}

TensorFile parse_safetensors(std::span<const std::byte> bytes, std::string name) {
  const std::string file = std::move(name);
  const Header header = read_header(bytes.size(), file, [rest = bytes](std::span<std::byte> to) mutable {
    std::ranges::copy(rest.first(to.size()), to.begin());
    rest = rest.subspan(to.size());
  });
  const auto data = bytes.subspan(header.data_begin);
  return load(header.tensors, header.metadata, file, [&](const TensorInfo& tensor, std::span<std::byte> to) {
    std::ranges::copy(data.subspan(static_cast<std::size_t>(tensor.begin), to.size()), to.begin());
  });
}

std::vector<std::byte> to_safetensors(const TensorFile& contents) {
  const Layout layout = lay_out(types_of(contents), contents.metadata);
  const auto head = std::as_bytes(std::span(layout.head));
  std::vector<std::byte> bytes(head.begin(), head.end());
  for (const std::string& name : layout.order) {
    const auto& tensor = contents.tensors.at(name).bytes();
    bytes.insert(bytes.end(), tensor.begin(), tensor.end());
  }
  return bytes;
}

void write_safetensors(const std::filesystem::path& path, const TensorFile& contents) {
  SafetensorsWriter writer(path, types_of(contents), contents.metadata);
  for (const std::string& name : writer.order()) writer.write(contents.tensors.at(name).bytes());
  writer.commit();
}

}  // namespace saddle::io

// The header of a safetensors file: read and checked, or laid out and written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "saddle/io/safetensors_stream.hpp"

namespace saddle::io {

struct Header {
  std::map<std::string, TensorInfo> tensors;
  std::map<std::string, std::string> metadata;
  std::uint64_t data_begin = 0;  // bytes of the file before the tensors
};

// read(bytes) fills the span with the next bytes of the file. Throws DataError for whatever departs from the format;
// the tensors returned cover the rest of the file exactly.
Header read_header(std::uint64_t file_size, const std::string& file,
                   const std::function<void(std::span<std::byte>)>& read);

// In the order of their bytes. Pointers into a map: a header may describe millions of tensors.
std::vector<const std::pair<const std::string, TensorInfo>*> in_file_order(
    const std::map<std::string, TensorInfo>& tensors);

// The first bytes of a file (length, header, padding), the names of the tensors in the order in which they follow, and
// the sum of their bytes.
struct Layout {
  std::string head;
  std::vector<std::string> order;
  std::uint64_t data_size = 0;
};

// Equal arguments give equal bytes; every tensor is aligned to its element size. Throws InvalidArgument for what the
// format cannot hold.
Layout lay_out(const std::map<std::string, TensorType>& tensors, const std::map<std::string, std::string>& metadata);

}  // namespace saddle::io

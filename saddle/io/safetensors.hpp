// The safetensors format: 8 bytes of header length (little endian), a JSON header, the tensors' bytes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/base/tensor.hpp"

namespace saddle::io {

// Strict readers: whatever departs from the format is a DataError that names the tensor; a valid dtype that saddle does
// not hold (F16, I16, ...) is NotSupported; a file that cannot be read is an IoError. `name` stands for the file in
// messages.
SADDLE_API TensorFile read_safetensors(const std::filesystem::path& path);
SADDLE_API TensorFile parse_safetensors(std::span<const std::byte> bytes, std::string name);

// Writers: equal contents give equal bytes, every tensor is aligned to its element size, and the reader returns what
// was written. Contents the format cannot hold throw InvalidArgument. A file is replaced as a whole or not at all.
SADDLE_API std::vector<std::byte> to_safetensors(const TensorFile& contents);
SADDLE_API void write_safetensors(const std::filesystem::path& path, const TensorFile& contents);

}  // namespace saddle::io

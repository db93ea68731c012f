// Any bytes either throw saddle::Error or parse; what parses survives being written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "saddle/base/error.hpp"
#include "saddle/io/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  saddle::TensorFile file;
  try {
    file = saddle::io::parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz");
  } catch (const saddle::Error&) {
    return 0;
  }
  // From here on nothing may throw.
  for (const auto& [name, tensor] : file.tensors)
    if (tensor.size() > 0) static_cast<void>(tensor.at(tensor.size() - 1));
  const auto written = saddle::io::to_safetensors(file);
  const auto again = saddle::io::parse_safetensors(written, "again");
  if (again.tensors != file.tensors || again.metadata != file.metadata) std::abort();
  if (saddle::io::to_safetensors(again) != written) std::abort();
  return 0;
}

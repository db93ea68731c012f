#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"
#include "saddle/io/names.hpp"
#include "saddle/io/safetensors/format.hpp"
#include "saddle/io/safetensors/header.hpp"

namespace saddle::io {

namespace {

using nlohmann::json;

// A JSON string; `what` names it in the error.
std::string json_string(const std::string& text, std::string_view what) {
  try {
    return json(text).dump();
  } catch (const json::exception&) {
    throw InvalidArgument(
        fmt::format("{} {} is not valid UTF-8: safetensors files hold UTF-8 only", what, in_quotes(text)));
  }
}

std::string metadata_text(const std::map<std::string, std::string>& metadata) {
  std::string text = fmt::format("\"{}\":{{", metadata_key);
  for (const auto& [key, value] : metadata)
    text += json_string(key, "metadata key") + ':' +
            json_string(value, "the value of metadata key " + in_quotes(key) + ":") + ',';
  text.back() = '}';
  return text + ',';
}

}  // namespace

Layout lay_out(const std::map<std::string, TensorType>& tensors, const std::map<std::string, std::string>& metadata) {
  if (tensors.contains(std::string(metadata_key)))
    throw InvalidArgument("a tensor cannot be named __metadata__ in a safetensors file");
  Layout layout;
  std::string& head = layout.head;
  head.assign(length_bytes, '\0');
  head += '{';
  if (!metadata.empty()) head += metadata_text(metadata);
  Index end = 0;
  for (const auto& [text, dtype] : dtype_names) {
    for (const auto& [name, tensor] : tensors) {
      if (tensor.dtype != dtype) continue;
      const auto bytes = byte_count(dtype, tensor.shape);
      const Index begin = end;
      if (!bytes || __builtin_add_overflow(begin, *bytes, &end))
        throw InvalidArgument(fmt::format("tensor {} of dtype {} has the shape {}: its size overflows", in_quotes(name),
                                          text, to_string(tensor.shape)));
      head += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}},)",
                          json_string(name, "tensor name"), text, fmt::join(tensor.shape, ","), begin, end);
      layout.order.push_back(name);
    }
  }
  if (head.back() == ',') head.pop_back();
  head += '}';
  head.resize((head.size() + 7) / 8 * 8, ' ');

  const std::uint64_t header_size = head.size() - length_bytes;
  if (header_size > max_header_bytes)
    throw InvalidArgument(fmt::format("names and metadata need a header of {} bytes: safetensors allows {}",
                                      header_size, max_header_bytes));
  std::memcpy(head.data(), &header_size, length_bytes);
  layout.data_size = static_cast<std::uint64_t>(end);
  return layout;
}

}  // namespace saddle::io

#include <fmt/format.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "saddle/base/error.hpp"
#include "saddle/io/names.hpp"
#include "saddle/io/safetensors/format.hpp"
#include "saddle/io/safetensors/header.hpp"

namespace saddle::io {

namespace {

using nlohmann::json;
using namespace std::string_view_literals;

constexpr std::size_t max_rank = 64;  // extents take more memory than their text: without a limit, many times the file
constexpr std::size_t text_limit = 200;

std::string in_brief(const Shape& shape) {
  const std::string text = to_string(shape);
  return text.size() <= text_limit ? text : text.substr(0, text_limit) + "...";
}

// Accepts exactly the JSON of a safetensors header. A tree would be shorter but forgets duplicate keys.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  HeaderReader(std::string file, Header& header)
      : file_(std::move(file)), tensors_(header.tensors), metadata_(header.metadata) {}

  bool null() override { refuse("null"); }
  bool boolean(bool value) override { refuse(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) override { refuse(std::to_string(value)); }
  bool number_float(double, const std::string& text) override { refuse(text.substr(0, 40)); }
  bool binary(json::binary_t&) override { refuse("binary data"); }

  bool number_unsigned(std::uint64_t value) override {
    if (place_ != Place::array || value > static_cast<std::uint64_t>(std::numeric_limits<Index>::max()))
      refuse(std::to_string(value));
    const auto number = static_cast<Index>(value);
    if (field_ == "shape") {
      if (tensor_->shape.size() == max_rank)
        fail(fmt::format("{} has more than {} extents in its shape", described(name_), max_rank));
      tensor_->shape.push_back(number);
    } else {
      if (offsets_ < 2) (offsets_ == 0 ? tensor_->begin : tensor_->end) = number;
      ++offsets_;
    }
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::metadata) {
      metadata_[key_] = std::move(value);
    } else if (place_ == Place::tensor && field_ == "dtype") {
      tensor_->dtype_name = std::move(value);
    } else {
      refuse(in_quotes(value));
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::outside) {
      place_ = Place::names;
    } else if (place_ == Place::names) {
      place_ = name_ == metadata_key ? Place::metadata : Place::tensor;
      if (place_ == Place::tensor) tensor_ = &tensors_[name_];
      fields_.clear();
    } else {
      refuse("an object");
    }
    return true;
  }

  bool key(std::string& key) override {
    if (place_ == Place::names) {
      if (tensors_.contains(key) || (key == metadata_key && std::exchange(has_metadata_, true)))
        fail(fmt::format("{} appears twice in the header: keys must be unique", described(key)));
      name_ = std::move(key);
    } else if (place_ == Place::metadata) {
      if (metadata_.contains(key))
        fail(fmt::format("__metadata__ has the key {} twice: keys must be unique", in_quotes(key)));
      key_ = std::move(key);
    } else {
      if (std::ranges::find(fields, key) == std::end(fields))
        fail(fmt::format("{} has the field {}: only dtype, shape and data_offsets are allowed", described(name_),
                         in_quotes(key)));
      if (!fields_.insert(key).second)
        fail(fmt::format("{} has the field {} twice: keys must be unique", described(name_), key));
      field_ = std::move(key);
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor)
      for (const auto& field : fields)
        if (!fields_.contains(field))
          fail(fmt::format("{} has no {}: dtype, shape and data_offsets are required", described(name_), field));
    place_ = place_ == Place::names ? Place::outside : Place::names;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::tensor || field_ == "dtype") refuse("an array");
    place_ = Place::array;
    offsets_ = 0;
    return true;
  }

  bool end_array() override {
    if (field_ == "data_offsets" && offsets_ != 2)
      fail(fmt::format("{} has {} data_offsets: expected [begin, end]", described(name_), offsets_));
    place_ = Place::tensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception& error) override {
    // "[json.exception...] parse error at line 1, column 9: <reason>; last read: <possibly megabytes>"
    std::string_view reason = error.what();
    reason = reason.substr(0, std::min(reason.find("; last read"), text_limit));
    if (const auto colon = reason.find(": "); colon != reason.npos) reason.remove_prefix(colon + 2);
    fail(fmt::format("the header is not valid JSON at byte {} of the file{}: {}", length_bytes + position,
                     name_.empty() ? "" : ", at or after " + described(name_), reason));
  }

 private:
  enum class Place { outside, names, metadata, tensor, array };

  static constexpr std::array fields{"dtype"sv, "shape"sv, "data_offsets"sv};

  [[noreturn]] void fail(const std::string& message) const { throw DataError(file_, 0, 0, message); }

  static std::string described(const std::string& name) {
    return name == metadata_key ? name : "tensor " + in_quotes(name);
  }

  // The value `found` is of the wrong kind for the place where it stands.
  [[noreturn]] void refuse(const std::string& found) const {
    const bool meta = name_ == metadata_key;
    if (place_ == Place::names)
      fail(fmt::format("{} is {}: expected an object {}", described(name_), found,
                       meta ? "of strings" : "with dtype, shape and data_offsets"));
    if (meta) fail(fmt::format("__metadata__ has {} for the key {}: values must be strings", found, in_quotes(key_)));
    fail(fmt::format("{} has {} in its {}: expected {}", described(name_), found, field_,
                     field_ == "dtype" ? "a string such as \"F32\"" : "an array of integers from 0 to 2^63-1"));
  }

  std::string file_;
  std::map<std::string, TensorInfo>& tensors_;
  std::map<std::string, std::string>& metadata_;

  Place place_ = Place::outside;
  bool has_metadata_ = false;
  std::string name_;   // of the tensor, or __metadata__
  std::string key_;    // in the metadata
  std::string field_;  // of the tensor, and those seen before
  std::set<std::string, std::less<>> fields_;
  TensorInfo* tensor_ = nullptr;
  std::size_t offsets_ = 0;  // numbers seen in data_offsets
};

// Sets the dtype. Throws unless the bytes lie in [0, data_size) and are as many as dtype and shape say.
void check_tensor(const std::string& file, const std::string& name, TensorInfo& tensor, Index data_size) {
  const auto where = [&] {
    return fmt::format("tensor {} with data_offsets [{},{}]", in_quotes(name), tensor.begin, tensor.end);
  };
  const auto fail = [&](const std::string& message, std::string hint = {}) {
    throw DataError(file, 0, 0, message, std::move(hint));
  };
  if (tensor.begin > tensor.end) fail(where() + ": begin must not exceed end");
  if (tensor.end > data_size)
    fail(fmt::format("{} does not fit: only {} bytes follow the header", where(), data_size),
         "the file may be truncated: copy or download it again");

  const auto known = std::ranges::find(dtype_names, tensor.dtype_name, [](const auto& pair) { return pair.first; });
  if (known == std::end(dtype_names)) {
    if (std::ranges::find(foreign_dtypes, tensor.dtype_name) != std::end(foreign_dtypes)) return;
    fail(fmt::format("tensor {} has the unknown dtype {}: saddle reads {}", in_quotes(name),
                     in_quotes(tensor.dtype_name), held_dtypes));
  }
  const auto bytes = byte_count(known->second, tensor.shape);
  if (!bytes) fail(fmt::format("{} has the shape {}: its size overflows", where(), in_brief(tensor.shape)));
  if (*bytes != tensor.end - tensor.begin)
    fail(fmt::format("{} holds {} bytes but {} of shape {} needs {}", where(), tensor.end - tensor.begin,
                     tensor.dtype_name, in_brief(tensor.shape), *bytes));
  tensor.dtype = known->second;
}

// Throws unless the tensors together cover exactly the bytes [0, data_size).
void check_cover(const std::string& file, const std::map<std::string, TensorInfo>& tensors, Index data_size) {
  Index covered = 0;
  const std::string* last = nullptr;
  const auto described = [&] { return last == nullptr ? "the header" : "tensor " + in_quotes(*last); };
  for (const auto* item : in_file_order(tensors)) {
    const auto& [name, tensor] = *item;
    if (tensor.begin != covered)
      throw DataError(file, 0, 0,
                      fmt::format("tensor {} begins at byte {} of the data but {} ends at byte {}: {} are not allowed",
                                  in_quotes(name), tensor.begin, described(), covered,
                                  tensor.begin > covered ? "holes" : "overlaps"));
    covered = tensor.end;
    last = &name;
  }
  if (covered != data_size)
    throw DataError(
        file, 0, 0,
        fmt::format("{} ends at byte {} of the data but the file has {}: every byte must belong to a tensor",
                    described(), covered, data_size));
}

}  // namespace

std::vector<const std::pair<const std::string, TensorInfo>*> in_file_order(
    const std::map<std::string, TensorInfo>& tensors) {
  std::vector<const std::pair<const std::string, TensorInfo>*> order;
  order.reserve(tensors.size());
  for (const auto& item : tensors) order.push_back(&item);
  std::ranges::sort(order, {}, [](const auto* item) { return std::pair(item->second.begin, item->second.end); });
  return order;
}

Header read_header(std::uint64_t file_size, const std::string& file,
                   const std::function<void(std::span<std::byte>)>& read) {
  const auto fail = [&](const std::string& message, std::string hint = {}) {
    throw DataError(file, 0, 0, message, std::move(hint));
  };
  std::uint64_t header_size = 0;
  if (file_size < length_bytes)
    fail(fmt::format("the file has {} bytes: a safetensors file begins with 8 bytes of header length", file_size));
  read(std::as_writable_bytes(std::span(&header_size, 1)));
  const std::uint64_t rest = file_size - length_bytes;
  if (header_size > rest)
    fail(fmt::format("the header length is {} but only {} bytes follow it", header_size, rest),
         "the file is truncated or not a safetensors file (a Git LFS pointer?): copy or download it again");
  if (header_size > max_header_bytes)
    fail(fmt::format("the header length is {}: at most {} bytes are allowed", header_size, max_header_bytes));

  std::string text(header_size, ' ');
  read(std::as_writable_bytes(std::span(text)));
  text.erase(text.find_last_not_of(' ') + 1);
  if (text.empty() || text.front() != '{')
    fail("the header does not begin with '{': a safetensors header is a JSON object");
  // The JSON library would take a zero byte for the end of the text.
  if (const auto zero = text.find('\0'); zero != text.npos)
    fail(fmt::format("the header has a zero byte at byte {} of the file: JSON is text", length_bytes + zero));

  Header header;
  HeaderReader reader(file, header);
  json::sax_parse(text, &reader);
  if (text.back() != '}') fail("the header is padded with other bytes than spaces");

  header.data_begin = length_bytes + header_size;
  const auto data_size = static_cast<Index>(rest - header_size);
  for (auto& [name, tensor] : header.tensors) check_tensor(file, name, tensor, data_size);
  check_cover(file, header.tensors, data_size);
  return header;
}

void require_held(const std::map<std::string, TensorInfo>& tensors, const std::string& file) {
  std::vector<std::string> refusals;
  for (const auto& [name, tensor] : tensors)
    if (!tensor.dtype)
      refusals.push_back(
          fmt::format("tensor {} has the dtype {}: saddle reads {}", in_quotes(name), tensor.dtype_name, held_dtypes));
  if (!refusals.empty())
    throw NotSupported(file + ": " + refusals.front(), refusals, "convert it to one of these before saving");
}

}  // namespace saddle::io

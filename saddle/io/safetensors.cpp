#include "saddle/io/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "saddle/base/error.hpp"
#include "saddle/io/atomic_file.hpp"

namespace saddle::io {

namespace {

static_assert(std::endian::native == std::endian::little, "tensors are copied as they stand in the file");

using nlohmann::json;
using namespace std::string_view_literals;

constexpr std::uint64_t max_header_bytes = 100'000'000;  // the limit of the format's own library
constexpr std::size_t length_bytes = sizeof(std::uint64_t);
constexpr std::size_t text_limit = 200;  // names and shapes in messages: a header may hold megabytes of them
constexpr auto metadata_key = "__metadata__"sv;

// In the order in which the writer lays tensors out: wide elements first, so that all are aligned.
constexpr std::pair<std::string_view, DType> dtypes[] = {
    {"I64", DType::i64},   {"F64", DType::f64}, {"F32", DType::f32},      {"I32", DType::i32},
    {"BF16", DType::bf16}, {"U8", DType::u8},   {"BOOL", DType::boolean},
};
constexpr auto readable = "F64, F32, BF16, I64, I32, U8 and BOOL"sv;
constexpr std::string_view foreign_dtypes[] = {
    "F16",     "I16",     "U16",     "U32",     "U64",         "I8",          "C64", "F8_E4M3",
    "F8_E5M2", "F8_E8M0", "F6_E2M3", "F6_E3M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F4",
};

std::string in_quotes(std::string_view text) {
  const auto escape = [](std::string_view part) {
    return json(part).dump(-1, ' ', false, json::error_handler_t::replace);
  };
  return text.size() <= text_limit ? escape(text) : escape(text.substr(0, text_limit)) + "...";
}

std::string in_brief(const Shape& shape) {
  const std::string text = to_string(shape);
  return text.size() <= text_limit ? text : text.substr(0, text_limit) + "...";
}

// Bytes of a dense tensor; nothing when they cannot be addressed. Zero extents do not hide an overflow of the others,
// which would come back in the strides.
std::optional<Index> byte_count(DType dtype, const Shape& shape) {
  auto bytes = static_cast<Index>(size_of(dtype));
  bool empty = false;
  for (Index extent : shape) {
    empty = empty || extent == 0;
    if (extent < 0 || __builtin_mul_overflow(bytes, std::max<Index>(extent, 1), &bytes)) return std::nullopt;
  }
  return empty ? 0 : bytes;
}

// One tensor as the header describes it.
struct Entry {
  std::string dtype;
  Shape shape;
  Shape offsets;  // begin and end, counted from the first byte after the header
};

// Accepts exactly the JSON of a safetensors header. A tree would be shorter but forgets duplicate keys.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(std::string name) : file(std::move(name)) {}

  const std::string file;
  std::map<std::string, Entry> entries;
  std::map<std::string, std::string> metadata;

  bool null() override { refuse("null"); }
  bool boolean(bool value) override { refuse(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) override { refuse(std::to_string(value)); }
  bool number_float(double, const std::string& text) override { refuse(text.substr(0, 40)); }
  bool binary(json::binary_t&) override { refuse("binary data"); }

  bool number_unsigned(std::uint64_t value) override {
    if (place_ != Place::array || value > static_cast<std::uint64_t>(std::numeric_limits<Index>::max()))
      refuse(std::to_string(value));
    array_->push_back(static_cast<Index>(value));
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::metadata) {
      metadata[key_] = std::move(value);
    } else if (place_ == Place::tensor && field_ == "dtype") {
      entry_->dtype = std::move(value);
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
      if (place_ == Place::tensor) entry_ = &entries[name_];
      fields_.clear();
    } else {
      refuse("an object");
    }
    return true;
  }

  bool key(std::string& key) override {
    if (place_ == Place::names) {
      if (entries.contains(key) || (key == metadata_key && std::exchange(has_metadata_, true)))
        fail(fmt::format("{} appears twice in the header: keys must be unique", described(key)));
      name_ = std::move(key);
    } else if (place_ == Place::metadata) {
      if (metadata.contains(key))
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
    array_ = field_ == "shape" ? &entry_->shape : &entry_->offsets;
    return true;
  }

  bool end_array() override {
    if (field_ == "data_offsets" && array_->size() != 2)
      fail(fmt::format("{} has {} data_offsets: expected [begin, end]", described(name_), array_->size()));
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

  [[noreturn]] void fail(const std::string& message, std::string hint = {}) const {
    throw DataError(file, 0, 0, message, std::move(hint));
  }

 private:
  enum class Place { outside, names, metadata, tensor, array };

  static constexpr std::array fields{"dtype"sv, "shape"sv, "data_offsets"sv};

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

  Place place_ = Place::outside;
  bool has_metadata_ = false;
  std::string name_;   // of the tensor, or __metadata__
  std::string key_;    // in the metadata
  std::string field_;  // of the tensor, and those seen before
  std::set<std::string, std::less<>> fields_;
  Entry* entry_ = nullptr;
  Shape* array_ = nullptr;
};

// A tensor whose description has been checked; `begin` and `end` count from the first byte after the header.
struct Extent {
  std::string name;
  DType dtype;
  Shape shape;
  Index begin, end;
};

// Throws unless the tensor's bytes lie in [0, data_size) and are as many as dtype and shape say. The dtype of a tensor
// that saddle cannot hold is empty.
std::optional<DType> checked_dtype(const HeaderReader& header, const std::string& name, Index data_size) {
  const Entry& entry = header.entries.at(name);
  const Index begin = entry.offsets.front(), end = entry.offsets.back();
  const std::string where = fmt::format("tensor {} with data_offsets [{},{}]", in_quotes(name), begin, end);
  if (begin > end) header.fail(where + ": begin must not exceed end");
  if (end > data_size)
    header.fail(fmt::format("{} does not fit: only {} bytes follow the header", where, data_size),
                "the file may be truncated: copy or download it again");

  const auto known = std::ranges::find(dtypes, entry.dtype, [](const auto& pair) { return pair.first; });
  if (known == std::end(dtypes)) {
    if (std::ranges::find(foreign_dtypes, entry.dtype) != std::end(foreign_dtypes)) return std::nullopt;
    header.fail(fmt::format("tensor {} has the unknown dtype {}: saddle reads {}", in_quotes(name),
                            in_quotes(entry.dtype), readable));
  }
  const auto bytes = byte_count(known->second, entry.shape);
  if (!bytes) header.fail(fmt::format("{} has the shape {}: its size overflows", where, in_brief(entry.shape)));
  if (*bytes != end - begin)
    header.fail(fmt::format("{} holds {} bytes but {} of shape {} needs {}", where, end - begin, entry.dtype,
                            in_brief(entry.shape), *bytes));
  return known->second;
}

// The tensors in file order, which together cover exactly the bytes [0, data_size).
std::vector<Extent> checked_extents(const HeaderReader& header, Index data_size) {
  std::vector<Extent> extents;
  std::vector<std::string> refusals;
  for (const auto& [name, entry] : header.entries) {
    const auto dtype = checked_dtype(header, name, data_size);
    if (!dtype)
      refusals.push_back(
          fmt::format("tensor {} has the dtype {}: saddle reads {}", in_quotes(name), entry.dtype, readable));
    extents.push_back({name, dtype.value_or(DType::u8), entry.shape, entry.offsets.front(), entry.offsets.back()});
  }
  std::ranges::sort(extents, {}, [](const Extent& extent) { return std::pair(extent.begin, extent.end); });

  Index covered = 0;
  std::string last = "the header";
  for (const Extent& extent : extents) {
    if (extent.begin != covered)
      header.fail(fmt::format("tensor {} begins at byte {} of the data but {} ends at byte {}: {} are not allowed",
                              in_quotes(extent.name), extent.begin, last, covered,
                              extent.begin > covered ? "holes" : "overlaps"));
    covered = extent.end;
    last = "tensor " + in_quotes(extent.name);
  }
  if (covered != data_size)
    header.fail(fmt::format("{} ends at byte {} of the data but the file has {}: every byte must belong to a tensor",
                            last, covered, data_size));
  if (!refusals.empty())
    throw NotSupported(header.file + ": " + refusals.front(), refusals, "convert it to one of these before saving");
  return extents;
}

// read(bytes) fills the span with the next bytes of the file. Tensors are read in file order, straight into place.
template <class Read>
TensorFile load(std::uint64_t file_size, std::string file, Read&& read) {
  HeaderReader header(std::move(file));
  std::uint64_t header_size = 0;
  if (file_size < length_bytes)
    header.fail(
        fmt::format("the file has {} bytes: a safetensors file begins with 8 bytes of header length", file_size));
  read(std::as_writable_bytes(std::span(&header_size, 1)));
  const std::uint64_t rest = file_size - length_bytes;
  if (header_size > rest)
    header.fail(fmt::format("the header length is {} but only {} bytes follow it", header_size, rest),
                "the file is truncated or not a safetensors file (a Git LFS pointer?): copy or download it again");
  if (header_size > max_header_bytes)
    header.fail(fmt::format("the header length is {}: at most {} bytes are allowed", header_size, max_header_bytes));

  std::string text(header_size, ' ');
  read(std::as_writable_bytes(std::span(text)));
  text.erase(text.find_last_not_of(' ') + 1);
  if (text.empty() || text.front() != '{')
    header.fail("the header does not begin with '{': a safetensors header is a JSON object");
  // The JSON library would take a zero byte for the end of the text.
  if (const auto zero = text.find('\0'); zero != text.npos)
    header.fail(fmt::format("the header has a zero byte at byte {} of the file: JSON is text", length_bytes + zero));
  json::sax_parse(text, &header);
  if (text.back() != '}') header.fail("the header is padded with other bytes than spaces");

  TensorFile contents;
  for (Extent& extent : checked_extents(header, static_cast<Index>(rest - header_size))) {
    Tensor tensor(extent.dtype, std::move(extent.shape));
    read(std::span(tensor.bytes()));
    contents.tensors.emplace(std::move(extent.name), std::move(tensor));
  }
  contents.metadata = std::move(header.metadata);
  return contents;
}

// The first bytes of a file (length, header, padding) and the tensors that follow.
struct Layout {
  std::string head;
  std::vector<const Tensor*> tensors;
};

// A JSON string; `what` names it in the error.
std::string json_string(const std::string& text, std::string_view what) {
  try {
    return json(text).dump();
  } catch (const json::exception&) {
    throw InvalidArgument(
        fmt::format("{} {} is not valid UTF-8: safetensors files hold UTF-8 only", what, in_quotes(text)));
  }
}

Layout lay_out(const TensorFile& contents) {
  Layout layout;
  std::string& head = layout.head;
  head.assign(length_bytes, '\0');
  head += '{';
  if (!contents.metadata.empty()) {
    head += fmt::format("\"{}\":{{", metadata_key);
    for (const auto& [key, value] : contents.metadata)
      head += json_string(key, "metadata key") + ':' +
              json_string(value, "the value of metadata key " + in_quotes(key) + ":") + ',';
    head.back() = '}';
    head += ',';
  }
  Index end = 0;
  for (const auto& [text, dtype] : dtypes) {
    for (const auto& [name, tensor] : contents.tensors) {
      if (tensor.dtype() != dtype) continue;
      const auto bytes = byte_count(dtype, tensor.shape());
      if (name == metadata_key) throw InvalidArgument("a tensor cannot be named __metadata__ in a safetensors file");
      if (!bytes || static_cast<std::uint64_t>(*bytes) != tensor.bytes().size())
        throw InvalidArgument(fmt::format("tensor {} of dtype {} and shape {} holds {} bytes but {}", in_quotes(name),
                                          text, to_string(tensor.shape()), tensor.bytes().size(),
                                          bytes ? fmt::format("needs {}", *bytes) : "its size overflows"));
      const Index begin = std::exchange(end, end + *bytes);
      head += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}},)",
                          json_string(name, "tensor name"), text, fmt::join(tensor.shape(), ","), begin, end);
      layout.tensors.push_back(&tensor);
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
  return layout;
}

}  // namespace

TensorFile read_safetensors(const std::filesystem::path& path) {
  const std::string name = path.string();
  const auto fail = [&](const std::string& reason) { throw IoError(fmt::format("cannot read {}: {}", name, reason)); };
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (error) fail(error.message());
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) fail(std::generic_category().message(errno));
  return load(size, name, [&](std::span<std::byte> bytes) {
    errno = 0;
    if (std::fread(bytes.data(), 1, bytes.size(), file.get()) == bytes.size()) return;
    fail(std::ferror(file.get()) ? std::generic_category().message(errno) : "it became shorter while it was read");
  });
}

TensorFile parse_safetensors(std::span<const std::byte> bytes, std::string name) {
  return load(bytes.size(), std::move(name), [rest = bytes](std::span<std::byte> to) mutable {
    std::ranges::copy(rest.first(to.size()), to.begin());
    rest = rest.subspan(to.size());
  });
}

std::vector<std::byte> to_safetensors(const TensorFile& contents) {
  const Layout layout = lay_out(contents);
  const auto head = std::as_bytes(std::span(layout.head));
  std::vector<std::byte> bytes(head.begin(), head.end());
  for (const Tensor* tensor : layout.tensors) bytes.insert(bytes.end(), tensor->bytes().begin(), tensor->bytes().end());
  return bytes;
}

void write_safetensors(const std::filesystem::path& path, const TensorFile& contents) {
  const Layout layout = lay_out(contents);
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(layout.head)));
  for (const Tensor* tensor : layout.tensors) file.write(tensor->bytes());
  file.commit();
}

}  // namespace saddle::io

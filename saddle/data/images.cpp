#include "saddle/data/images.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "saddle/base/error.hpp"
#include "saddle/data/records.hpp"

namespace saddle::data {

namespace {

int byte_at(std::string_view bytes, std::size_t at) { return static_cast<unsigned char>(bytes[at]); }

// Big-endian, as everything in IDX.
std::uint32_t word_at(std::string_view bytes, std::size_t at) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4; ++i) word = word << 8 | static_cast<unsigned char>(bytes[at + i]);
  return word;
}

// Checks magic number and size; returns the dimensions.
std::vector<Index> idx_dimensions(const Contents& contents, std::size_t rank, const char* what) {
  const std::string_view bytes = contents.bytes();
  const std::uint32_t expected = 0x800 + static_cast<std::uint32_t>(rank);
  const std::size_t header = 4 + 4 * rank;
  const auto fail = [&](const std::string& message) {
    throw DataError(contents.file(), 0, 0, message, fmt::format("give an IDX file of {}, plain or gzip", what));
  };
  if (bytes.size() < 4 || word_at(bytes, 0) != expected)
    fail(fmt::format("expected the magic number {} of IDX {} in the first 4 bytes, found {}", expected, what,
                     bytes.size() < 4 ? "fewer" : std::to_string(word_at(bytes, 0))));
  if (bytes.size() < header) fail(fmt::format("the header of {} bytes is cut, the file has {}", header, bytes.size()));
  std::vector<Index> dimensions;
  Index size = 1;
  bool fits = true;
  for (std::size_t i = 0; i < rank; ++i) {
    dimensions.push_back(word_at(bytes, 4 + 4 * i));
    if (dimensions.back() == 0) fail(fmt::format("byte {}: a dimension is 0", 4 + 4 * i));
    fits = fits && !__builtin_mul_overflow(size, dimensions.back(), &size);
  }
  if (!fits || static_cast<Index>(bytes.size() - header) != size)
    fail(fmt::format("the header announces {} bytes of {}, the file has {}",
                     fits ? std::to_string(size) : "far too many", what, bytes.size() - header));
  return dimensions;
}

void describe_bytes(Description& description, std::initializer_list<const Contents*> contents) {
  Checksum checksum;
  for (const Contents* part : contents) {
    if (part == nullptr) continue;
    checksum.add(part->bytes());
    description.files.push_back(part->file());
  }
  description.checksum = checksum.text();
}

// The bytes of an image as numbers.
void read_pixels(std::string_view bytes, double white, std::vector<float>& values) {
  values.resize(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) values[i] = static_cast<float>(byte_at(bytes, i) / white);
}

void read_grey(std::string_view bytes, const PixelRecord& format, std::vector<std::int32_t>& tokens) {
  const auto pixels = static_cast<std::size_t>(format.rows * format.columns);
  const auto grey = [&](Index row, Index column) {
    const auto i = static_cast<std::size_t>(row * format.columns + column);
    return format.channels == 3
               ? grey_value(byte_at(bytes, i), byte_at(bytes, pixels + i), byte_at(bytes, 2 * pixels + i))
               : byte_at(bytes, i);
  };
  const Index side = format.shrink;
  const auto area = static_cast<int>(side * side);
  tokens.clear();
  for (Index row = 0; row < format.rows; row += side)
    for (Index column = 0; column < format.columns; column += side) {
      int sum = area / 2;  // so that the mean is rounded
      for (Index r = 0; r < side; ++r)
        for (Index c = 0; c < side; ++c) sum += grey(row + r, column + c);
      tokens.push_back(sum / area + (format.pixels == Pixels::shifted ? 1 : 0));
    }
}

}  // namespace

std::vector<std::string> numbered_classes(Index count) {
  std::vector<std::string> names;
  for (Index i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

int grey_value(int red, int green, int blue) {
  constexpr float unit = 1.0F / 255.0F;
  const float r = static_cast<float>(red) * unit, g = static_cast<float>(green) * unit,
              b = static_cast<float>(blue) * unit;
  // Volatile keeps the compiler from fusing products and sums, which would round differently.
  const volatile float part_r = 0.2989F * r, part_g = 0.5870F * g, part_b = 0.1140F * b;
  const volatile float two = part_r + part_g;
  return static_cast<int>((two + part_b) * 255.5F);
}

DatasetPtr read_idx(const ContentsPtr& images, const ContentsPtr& labels, Description description,
                    std::optional<std::vector<std::string>> classes) {
  const std::vector<Index> shape = idx_dimensions(*images, 3, "images");
  const Index count = shape[0], pixels = shape[1] * shape[2];
  std::string_view label_bytes;
  if (labels != nullptr) {
    if (const Index labelled = idx_dimensions(*labels, 1, "labels")[0]; labelled != count)
      throw DataError(labels->file(), 0, 0,
                      fmt::format("found {} labels, {} has {} images", labelled, images->file(), count),
                      "images and labels belong together in pairs of files");
    label_bytes = labels->bytes().substr(8);
  }
  Index largest = -1;
  for (std::size_t i = 0; i < label_bytes.size(); ++i) largest = std::max<Index>(largest, byte_at(label_bytes, i));
  if (!classes) classes = numbered_classes(largest + 1);
  if (largest >= static_cast<Index>(classes->size())) {
    std::size_t i = 0;
    while (byte_at(label_bytes, i) < static_cast<int>(classes->size())) ++i;
    throw DataError(labels->file(), 0, 0,
                    fmt::format("byte {}: image {} has the label {}, the classes are 0 to {}", 8 + i, i,
                                byte_at(label_bytes, i), static_cast<Index>(classes->size()) - 1));
  }
  description.kind = Kind::image;
  description.channels = 1;
  description.rows = shape[1];
  description.columns = shape[2];
  description.classes = std::move(*classes);
  describe_bytes(description, {images.get(), labels.get()});

  std::vector<Record> list(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < list.size(); ++i)
    list[i] = {16 + i * static_cast<std::size_t>(pixels), static_cast<std::size_t>(pixels), pixels,
               label_bytes.empty() ? -1 : byte_at(label_bytes, i)};
  return records(std::move(description), images, std::move(list),
                 [](std::string_view bytes, const Record&, Sample& into) { read_pixels(bytes, 255, into.values); });
}

DatasetPtr read_pixel_records(const ContentsPtr& contents, Description description, const PixelRecord& format,
                              const std::vector<std::string>& classes) {
  const Index pixels = format.rows * format.columns;
  const auto size = static_cast<std::size_t>(1 + format.channels * pixels);
  const Index length = pixels / (format.shrink * format.shrink);
  const std::string_view bytes = contents->bytes();
  if (bytes.empty() || bytes.size() % size != 0)
    throw DataError(
        contents->file(), 0, 0,
        fmt::format("expected records of {} bytes (a label and {} x {} x {} pixels), found {} bytes, {} too many", size,
                    format.channels, format.rows, format.columns, bytes.size(), bytes.size() % size),
        "fetch the file again");
  description.classes = classes;
  describe_bytes(description, {contents.get()});
  const bool image = format.pixels == Pixels::image;
  description.kind = image ? Kind::image : Kind::tokens;
  description.channels = image ? format.channels : 0;
  description.rows = format.rows / format.shrink;
  description.columns = format.columns / format.shrink;
  if (format.pixels == Pixels::published) {
    description.vocabulary = 256;
    description.notes.emplace_back("pixels are tokens 0 to 255 as published: black is padding and masked");
  } else if (format.pixels == Pixels::shifted) {
    description.vocabulary = 257;
    description.notes.emplace_back("pixels are tokens 1 to 256, grey value plus one: black is seen");
  }

  std::vector<Record> list;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    const int label = byte_at(bytes, at);
    if (label >= static_cast<int>(classes.size()))
      throw DataError(contents->file(), 0, 0,
                      fmt::format("byte {}: image {} has the label {}, the classes are 0 to {}", at, at / size, label,
                                  classes.size() - 1));
    list.push_back({at + 1, size - 1, length, label});
  }
  return records(std::move(description), contents, std::move(list),
                 [format, image](std::string_view pixels_of, const Record&, Sample& into) {
                   if (image)
                     read_pixels(pixels_of, format.white, into.values);
                   else
                     read_grey(pixels_of, format, into.tokens);
                 });
}

}  // namespace saddle::data

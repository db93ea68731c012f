#include "saddle/io/safetensors_stream.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "saddle/base/error.hpp"
#include "saddle/io/safetensors/header.hpp"

namespace saddle::io {

namespace {

[[noreturn]] void fail(const std::string& file, const std::string& reason) {
  throw IoError(fmt::format("cannot read {}: {}", file, reason));
}

// Closes the file if the header is refused.
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

}  // namespace

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path) : file_(path.string()) {
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (error) fail(file_, error.message());
  Descriptor descriptor{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (descriptor.value < 0) fail(file_, std::generic_category().message(errno));
  descriptor_ = descriptor.value;

  std::uint64_t position = 0;
  Header header = read_header(size, file_, [&](std::span<std::byte> bytes) {
    read_at(position, bytes);
    position += bytes.size();
  });
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
  data_begin_ = header.data_begin;
  descriptor.value = -1;
}

SafetensorsReader::~SafetensorsReader() { ::close(descriptor_); }

void SafetensorsReader::read_at(std::uint64_t position, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(position));
    if (count == 0) fail(file_, "it became shorter while it was read");
    if (count < 0) {
      if (errno != EINTR) fail(file_, std::generic_category().message(errno));
      continue;
    }
    to = to.subspan(static_cast<std::size_t>(count));
    position += static_cast<std::uint64_t>(count);
  }
}

void SafetensorsReader::read(const TensorInfo& tensor, std::span<std::byte> to, Index from) const {
  read_at(data_begin_ + static_cast<std::uint64_t>(tensor.begin + from), to);
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     const std::map<std::string, TensorType>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : SafetensorsWriter(path, lay_out(tensors, metadata)) {}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, Layout&& layout)
    : order_(std::move(layout.order)), missing_(layout.data_size), file_(path) {
  file_.write(std::as_bytes(std::span(layout.head)));
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  if (bytes.size() > missing_)
    throw InvalidArgument(
        fmt::format("{} bytes were to be written where the announced tensors leave {}", bytes.size(), missing_));
  file_.write(bytes);
  missing_ -= bytes.size();
}

void SafetensorsWriter::commit() {
  if (missing_ > 0)
    throw InvalidArgument(fmt::format("{} bytes of the announced tensors have not been written", missing_));
  file_.commit();
}

}  // namespace saddle::io

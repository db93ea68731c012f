#include "saddle/io/event_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "saddle/base/error.hpp"

namespace saddle::io {

namespace {

constexpr std::array<std::uint32_t, 256> crc_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ ((value & 1) != 0 ? 0x82f63b78U : 0U);
    table[i] = value;
  }
  return table;
}();

template <class T>
std::string little_endian(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
static_assert(std::endian::native == std::endian::little);

// So that a checksum over data which hold checksums is no weaker.
std::uint32_t masked(std::uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8U; }

// Protocol buffers: a field is its number and type, then its contents.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string number_field(int field, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(value);
}
std::string double_field(int field, double value) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 1) + little_endian(value);
}
std::string float_field(int field, float value) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 5) + little_endian(value);
}
std::string bytes_field(int field, std::string_view bytes) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffffU;
  for (const char byte : bytes) crc = crc >> 8 ^ crc_table[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

EventFile::EventFile(const std::filesystem::path& folder, Index start) {
  // Names sort by time; a second start within a second gets the next number.
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    path_ = folder / fmt::format("events.out.tfevents.{}.{:03}.saddle", static_cast<long>(now()), attempt);
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (descriptor_ < 0 && (errno != EEXIST || attempt == 999))
      throw IoError(fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
  }
  record(double_field(1, now()) + bytes_field(3, "brain.Event:2"));
  if (start > 0) {
    const std::string session = number_field(1, 1);  // its status: START
    record(double_field(1, now()) + number_field(2, static_cast<std::uint64_t>(start)) + bytes_field(7, session));
  }
  flush();
}

EventFile::~EventFile() {
  try {
    flush();
  } catch (const IoError&) {
    // Nobody is left to tell.
  }
  ::close(descriptor_);
}

void EventFile::scalar(std::string_view tag, Index step, double value) {
  const std::string summary = bytes_field(1, bytes_field(1, tag) + float_field(2, static_cast<float>(value)));
  record(double_field(1, now()) + number_field(2, static_cast<std::uint64_t>(step)) + bytes_field(5, summary));
}

void EventFile::record(const std::string& event) {
  const std::string length = little_endian<std::uint64_t>(event.size());
  pending_ += length + little_endian(masked(crc32c(length))) + event + little_endian(masked(crc32c(event)));
}

void EventFile::flush() {
  while (!pending_.empty()) {
    const ssize_t written = ::write(descriptor_, pending_.data(), pending_.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      throw IoError(fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
    }
    pending_.erase(0, static_cast<std::size_t>(written));
  }
}

}  // namespace saddle::io

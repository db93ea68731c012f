// Files that are either written completely or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "saddle/base/export.hpp"

namespace saddle::io {

// Collects bytes under a temporary name in the target's folder; commit() makes them durable and renames them over the
// target. Without commit() the target stays as it was and the temporary file is removed. A target that is a symbolic
// link is followed, its permissions are kept. Every failure throws IoError.
class SADDLE_API AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty once renamed or removed
  int descriptor_ = -1;
};

SADDLE_API void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
SADDLE_API void write_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace saddle::io

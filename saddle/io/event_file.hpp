// Scalars over steps in the format of TensorBoard's event files, without TensorFlow.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "saddle/base/export.hpp"
#include "saddle/base/view.hpp"

namespace saddle::io {

// A new file in the folder; readers join the files of one folder in the order of their names. Records are whole or, at
// the end of a file that was cut off, ignored. Failures throw IoError.
class SADDLE_API EventFile {
 public:
  // A run that goes on from a checkpoint says at which step: readers then drop what earlier files have from there on.
  explicit EventFile(const std::filesystem::path& folder, Index start = 0);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  void scalar(std::string_view tag, Index step, double value);
  // Hands everything to the system.
  void flush();
  const std::filesystem::path& path() const { return path_; }

 private:
  void record(const std::string& event);

  std::filesystem::path path_;
  std::string pending_;
  int descriptor_ = -1;
};

// The checksum of the records, CRC-32C.
SADDLE_API std::uint32_t crc32c(std::string_view bytes);

}  // namespace saddle::io

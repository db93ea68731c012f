// The bytes of a file, unpacked if it is gzip: in memory, or mapped from the disk when they are many.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "saddle/base/view.hpp"

namespace saddle::data {

class Contents {
 public:
  virtual ~Contents();
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;

  const std::string& file() const { return file_; }  // as it is called in messages
  std::string_view bytes() const { return bytes_; }
  bool on_disk() const { return on_disk_; }

 protected:
  Contents(std::string file, bool on_disk) : file_(std::move(file)), on_disk_(on_disk) {}
  void hold(std::string_view bytes) { bytes_ = bytes; }

 private:
  std::string_view bytes_;
  std::string file_;
  bool on_disk_;
};

using ContentsPtr = std::shared_ptr<const Contents>;

// Files with more bytes than this stay on the disk. One that is packed is unpacked once, into a temporary file without
// a name, so it is gone with the process however that ends. Throws IoError; DataError if the gzip stream is cut or
// damaged.
ContentsPtr read_contents(const std::string& file, Index stream_above);
ContentsPtr contents_of(std::string text, std::string file);

// Labels and names reach JSON and pages: text that is not UTF-8 throws DataError with line and column.
void require_utf8(const Contents& contents);

// FNV-1a of 64 bits over the unpacked bytes, as 16 hexadecimal digits; several files one after the other.
class Checksum {
 public:
  void add(std::string_view bytes);
  std::string text() const;

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

// The lines of a text without their ends, \n or \r\n; a byte order mark at the start is left out.
struct Line {
  std::string_view text;
  std::size_t offset = 0;  // in the text
  long number = 0;         // from 1
};

class Lines {
 public:
  explicit Lines(std::string_view text);
  bool next(Line& line);

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  long number_ = 0;
};

}  // namespace saddle::data

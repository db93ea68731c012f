#include "saddle/data/contents.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "saddle/base/error.hpp"

namespace saddle::data {

namespace {

constexpr std::size_t block = std::size_t{1} << 18;

[[noreturn]] void fail(const std::string& file, int error) {
  throw IoError(fmt::format("cannot read {}: {}", file, std::strerror(error)));
}

struct Descriptor {
  explicit Descriptor(int opened) : value(opened) {}
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int value;
};

class InMemory final : public Contents {
 public:
  InMemory(std::string text, std::string file) : Contents(std::move(file), false), text_(std::move(text)) {
    hold(text_);
  }

 private:
  std::string text_;
};

class Mapped final : public Contents {
 public:
  Mapped(int descriptor, std::size_t size, const std::string& file) : Contents(file, true) {
    void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (start == MAP_FAILED) fail(file, errno);
    hold({static_cast<const char*>(start), size});
  }
  ~Mapped() override { ::munmap(const_cast<char*>(bytes().data()), bytes().size()); }
};

// Up to size bytes, fewer only at the end of the file.
std::size_t read_some(int descriptor, char* into, std::size_t size, const std::string& file) {
  std::size_t count = 0;
  while (count < size) {
    const ssize_t got = ::read(descriptor, into + count, size - count);
    if (got == 0) break;
    if (got > 0)
      count += static_cast<std::size_t>(got);
    else if (errno != EINTR)
      fail(file, errno);
  }
  return count;
}

// Takes bytes in memory and, once there are more than the limit, in a temporary file that has no name any more.
class Spool {
 public:
  Spool(Index limit, const std::string& file) : limit_(static_cast<std::size_t>(limit)), file_(file) {}

  void add(std::string_view bytes) {
    size_ += bytes.size();
    if (disk_.value < 0 && size_ > limit_) {
      open();
      write(text_);
      text_ = {};
    }
    if (disk_.value >= 0)
      write(bytes);
    else
      text_ += bytes;
  }

  std::size_t size() const { return size_; }

  ContentsPtr finish() {
    if (disk_.value < 0) return std::make_shared<InMemory>(std::move(text_), file_);
    return std::make_shared<Mapped>(disk_.value, size_, file_);
  }

 private:
  void open() {
    folder_ = std::filesystem::temp_directory_path().string();
    std::string pattern = folder_ + "/saddle-XXXXXX";
    disk_.value = ::mkostemp(pattern.data(), O_CLOEXEC);
    if (disk_.value < 0) refuse();
    ::unlink(pattern.c_str());
  }
  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(disk_.value, bytes.data(), bytes.size());
      if (written >= 0)
        bytes.remove_prefix(static_cast<std::size_t>(written));
      else if (errno != EINTR)
        refuse();
    }
  }
  [[noreturn]] void refuse() const {
    throw IoError(fmt::format("cannot unpack {} into a temporary file in {}: {}", file_, folder_, std::strerror(errno)),
                  "set TMPDIR to a folder with more room, or unpack the file yourself");
  }

  std::size_t limit_, size_ = 0;
  const std::string& file_;
  std::string text_, folder_;
  Descriptor disk_{-1};
};

class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  z_stream* operator->() { return &stream_; }
  z_stream* get() { return &stream_; }

 private:
  z_stream stream_{};
};

// `start` holds the first bytes, which were read to see what the file is.
ContentsPtr unpack(int descriptor, std::string start, const std::string& file, Index stream_above) {
  const std::string again = "fetch or pack the file again";
  std::string in = std::move(start), out(block, '\0');
  Spool spool(stream_above, file);
  Inflater stream;
  std::size_t read = in.size();  // packed bytes so far
  bool inside = true;            // a member; a file may hold several
  const auto take = [&] {
    stream->next_in = reinterpret_cast<Bytef*>(in.data());
    stream->avail_in = static_cast<uInt>(in.size());
  };
  take();
  stream->avail_out = 1;  // 0 means: more output is pending
  for (;;) {
    if (stream->avail_in == 0 && stream->avail_out > 0) {
      in.resize(block);
      in.resize(read_some(descriptor, in.data(), block, file));
      if (in.empty()) break;
      read += in.size();
      take();
    }
    if (!inside && *stream->next_in == 0) {  // padding to full blocks
      ++stream->next_in, --stream->avail_in;
      continue;
    }
    if (!inside && *stream->next_in != 0x1f)
      throw DataError(file, 0, 0,
                      fmt::format("packed byte {} and what follows is not gzip", read - stream->avail_in + 1), again);
    if (!inside) inflateReset(stream.get());
    inside = true;
    stream->next_out = reinterpret_cast<Bytef*>(out.data());
    stream->avail_out = static_cast<uInt>(out.size());
    const int state = inflate(stream.get(), Z_NO_FLUSH);
    spool.add({out.data(), out.size() - stream->avail_out});
    if (state == Z_STREAM_END) {
      inside = false;
      stream->avail_out = 1;
    } else if (state != Z_OK && state != Z_BUF_ERROR) {
      throw DataError(
          file, 0, 0,
          fmt::format("the gzip stream is damaged at packed byte {}, after {} unpacked bytes: {}",
                      read - stream->avail_in, spool.size(), stream->msg != nullptr ? stream->msg : "unknown method"),
          again);
    }
  }
  if (inside)
    throw DataError(file, 0, 0,
                    fmt::format("the gzip stream is cut: its end mark is missing after {} packed and {} unpacked bytes",
                                read, spool.size()),
                    again);
  return spool.finish();
}

}  // namespace

Contents::~Contents() = default;

ContentsPtr contents_of(std::string text, std::string file) {
  return std::make_shared<InMemory>(std::move(text), std::move(file));
}

ContentsPtr read_contents(const std::string& file, Index stream_above) {
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.value < 0) fail(file, errno);
  struct stat state {};
  if (::fstat(descriptor.value, &state) != 0) fail(file, errno);
  if (S_ISDIR(state.st_mode)) throw IoError(fmt::format("cannot read {}: it is a folder", file), "name a file in it");

  const auto size = static_cast<std::size_t>(S_ISREG(state.st_mode) ? state.st_size : 0);
  std::string text(std::max(std::min(size, block), std::size_t{4096}), '\0');
  text.resize(read_some(descriptor.value, text.data(), text.size(), file));
  if (text.starts_with("\x1f\x8b")) return unpack(descriptor.value, std::move(text), file, stream_above);
  if (size > 0 && static_cast<Index>(size) > stream_above)
    return std::make_shared<Mapped>(descriptor.value, size, file);
  text.reserve(size + 1);
  for (std::size_t got = 1; got > 0;) {
    const std::size_t have = text.size(), wanted = std::max(block, size - std::min(size, have));
    text.resize(have + wanted);
    got = read_some(descriptor.value, text.data() + have, wanted, file);
    text.resize(have + got);
  }
  return contents_of(std::move(text), file);
}

void Checksum::add(std::string_view bytes) {
  std::uint64_t value = value_;
  for (const char c : bytes) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  value_ = value;
}

std::string Checksum::text() const { return fmt::format("{:016x}", value_); }

Lines::Lines(std::string_view text) : text_(text) {
  if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
}

bool Lines::next(Line& line) {
  if (at_ >= text_.size()) return false;
  const std::size_t end = std::min(text_.find('\n', at_), text_.size());
  line.text = text_.substr(at_, end - at_);
  if (line.text.ends_with('\r')) line.text.remove_suffix(1);
  line.offset = at_;
  line.number = ++number_;
  at_ = end + 1;
  return true;
}

namespace {

// Bytes of the character that starts here, 0 if none does.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool second = follows(1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf);
    return second && follows(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool second = follows(1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf);
    return second && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

void require_utf8(const Contents& contents) {
  const std::string_view text = contents.bytes();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0) {
      const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
      const std::size_t start = text.rfind('\n', at) == std::string_view::npos ? 0 : text.rfind('\n', at) + 1;
      throw DataError(contents.file(), static_cast<long>(line), static_cast<long>(at - start) + 1,
                      fmt::format("found the byte {:#04x}, which is not UTF-8", static_cast<unsigned char>(text[at])),
                      "convert the file, for example with iconv -f latin1 -t utf-8");
    }
    at += length;
  }
}

}  // namespace saddle::data

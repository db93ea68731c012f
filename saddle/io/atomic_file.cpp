#include "saddle/io/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <system_error>

#include "saddle/base/error.hpp"

namespace saddle::io {

namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

[[noreturn]] void fail(const fs::path& path, int error) {
  std::string hint;
  if (error == ENOENT || error == ENOTDIR) {
    hint = fmt::format("create the folder {} first", folder_of(path).string());
  } else if (error == EACCES || error == EPERM || error == EROFS) {
    hint = fmt::format("choose a folder you may write to, or change the permissions of {}", folder_of(path).string());
  } else if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    hint = "free some space or choose another disk; an earlier version of the file is unchanged";
  }
  throw IoError(fmt::format("cannot write {}: {}", path.string(), std::generic_category().message(error)), hint);
}

// A new file in the folder; the short name fits wherever the target's own name fits.
int create_temporary(const fs::path& path, fs::path& temporary) {
  static std::atomic<unsigned> counter{0};
  for (;;) {
    temporary = folder_of(path) / fmt::format(".saddle-{}-{}.tmp", ::getpid(), counter++);
    const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) return descriptor;
    if (errno != EEXIST && errno != EINTR) fail(path, errno);  // EEXIST: left by a killed process with this id
  }
}

// Makes the rename durable. Folders that cannot be opened or synced are no error: after a power failure they hold the
// old or the new file, never a mixture.
void sync_folder(const fs::path& path) {
  const int folder = ::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  const int error = ::fsync(folder) == 0 ? 0 : errno;
  ::close(folder);
  if (error == EIO) fail(path, error);
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& path) : path_(path) {
  std::error_code none;
  if (fs::is_symlink(path, none)) {
    const fs::path target = fs::canonical(path, none);
    if (!none) path_ = target;
  }
  struct stat old {};
  const bool exists = ::stat(path_.c_str(), &old) == 0;
  // Renaming over a device such as /dev/null would destroy it.
  if (exists && !S_ISREG(old.st_mode))
    throw IoError(fmt::format("cannot write {}: it is {}, not a regular file", path.string(),
                              S_ISDIR(old.st_mode) ? "a folder" : "a device or pipe"),
                  "give the name of a file");

  descriptor_ = create_temporary(path_, temporary_);
  // Best effort: a file system without permissions must not stop the write.
  if (exists && ::fchmod(descriptor_, old.st_mode & 07777) != 0) errno = 0;
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      fail(path_, errno);
    }
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail(path_, errno);
  // Some network file systems report a full disk only here.
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) fail(path_, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, errno);
  temporary_.clear();
  sync_folder(path_);
}

void write_atomically(const fs::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_atomically(const fs::path& path, std::string_view text) {
  write_atomically(path, std::as_bytes(std::span(text)));
}

}  // namespace saddle::io

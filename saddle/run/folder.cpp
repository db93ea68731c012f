#include "saddle/run/folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "saddle/base/error.hpp"
#include "saddle/io/atomic_file.hpp"

namespace saddle::run {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const std::string& what) { throw IoError(fmt::format("{}: {}", what, std::strerror(errno))); }

// What a run writes; anything else in the folder is somebody's own and stays.
void remove_run(const fs::path& folder) {
  // config.toml last: a folder with it holds a run, whatever else is left of it.
  for (const char* name : {"result.json", "checkpoints", "metrics.jsonl", "env.json", "predictions.csv", "inspect.json",
                           "report.html", "config.toml"})
    fs::remove_all(folder / name);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("events.out.tfevents")) fs::remove(entry.path());
}

}  // namespace

bool has_run(const fs::path& folder) { return fs::exists(folder / "config.toml"); }
bool is_finished(const fs::path& folder) { return fs::exists(folder / "result.json"); }

Folder::Folder(const fs::path& path, Open how, double patience) : path_(path) {
  if (how == Open::resume && !has_run(path_))
    throw InvalidArgument(fmt::format("{} holds no run that could be resumed", path_.string()),
                          "a run has a config.toml; leave out --resume to start one");
  if (how == Open::fresh && has_run(path_))
    throw InvalidArgument(fmt::format("{} holds a run already", path_.string()),
                          is_finished(path_)
                              ? "give another --out, or --force to replace it"
                              : "give --resume to go on with it, another --out, or --force to replace it");
  std::error_code error;
  fs::create_directories(path_ / "checkpoints", error);
  if (error) throw IoError(fmt::format("cannot create the folder {}: {}", path_.string(), error.message()));
  lock_ = ::open(file(".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) fail(fmt::format("cannot write to the folder {}", path_.string()));
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience);
  while (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    ::close(lock_);
    throw IoError(fmt::format("{} is in use by another process", path_.string()), "wait for it, or give another --out");
  }
  if (how == Open::replace) {
    remove_run(path_);
    fs::create_directories(path_ / "checkpoints");
  }
  metrics_ = ::open(file("metrics.jsonl").c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (metrics_ < 0) {
    ::close(lock_);
    fail(fmt::format("cannot write {}", file("metrics.jsonl").string()));
  }
}

Folder::~Folder() {
  ::close(metrics_);
  ::close(lock_);
}

void Folder::write(std::string_view name, std::string_view text) const { io::write_atomically(file(name), text); }

std::string Folder::read(std::string_view name) const {
  std::ifstream in(file(name), std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void Folder::append_metrics(std::string_view line) {
  const std::string text = std::string(line) + "\n";
  // One write: a line is there as a whole, or its beginning is cut off by the next resume.
  if (::write(metrics_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    fail(fmt::format("cannot write {}", file("metrics.jsonl").string()));
}

Index Folder::metrics_size() {
  struct stat status {};
  if (::fsync(metrics_) != 0 || ::fstat(metrics_, &status) != 0)
    fail(fmt::format("cannot write {}", file("metrics.jsonl").string()));
  return status.st_size;
}

void Folder::cut_metrics(Index bytes) {
  const Index found = metrics_size();
  if (found < bytes)
    throw DataError(file("metrics.jsonl").string(), 0, 0,
                    fmt::format("the checkpoint was written behind byte {}, but the file has only {}", bytes, found),
                    "the file was changed by somebody; --force starts the run again");
  if (::ftruncate(metrics_, bytes) != 0) fail(fmt::format("cannot write {}", file("metrics.jsonl").string()));
}

}  // namespace saddle::run

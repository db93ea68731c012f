// The folder of a run: one process at a time, files replaced as a whole, metrics that only grow.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "saddle/base/view.hpp"

namespace saddle::run {

class Folder {
 public:
  enum class Open { fresh, replace, resume };
  // fresh refuses a folder with a run in it, replace empties it, resume needs one. Throws InvalidArgument or IoError,
  // also when another process still holds the folder after so many seconds.
  Folder(const std::filesystem::path& path, Open how, double patience = 0);
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(std::string_view name) const { return path_ / name; }

  // Replaces a file as a whole.
  void write(std::string_view name, std::string_view text) const;
  // The whole file, empty if there is none.
  std::string read(std::string_view name) const;
  // One line of metrics.jsonl.
  void append_metrics(std::string_view line);
  // Makes the metrics durable and says how many bytes they have.
  Index metrics_size();
  // Forgets what came later: lines of a time that a resumed run comes to again. Throws DataError if there is less.
  void cut_metrics(Index bytes);

 private:
  std::filesystem::path path_;
  int lock_ = -1, metrics_ = -1;
};

// Is there a run in this folder, and is it complete?
bool has_run(const std::filesystem::path& folder);
bool is_finished(const std::filesystem::path& folder);

}  // namespace saddle::run

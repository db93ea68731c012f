#include "folder.hpp"

#include <cstdlib>
#include <filesystem>

#include "saddle/base/error.hpp"

namespace saddle::bench {

namespace fs = std::filesystem;

SharedFolder::SharedFolder() {
  const fs::path memory = "/dev/shm";
  std::error_code ignored;
  path_ = ((fs::is_directory(memory, ignored) ? memory : fs::temp_directory_path()) / "saddle-bench-XXXXXX").string();
  if (mkdtemp(path_.data()) == nullptr) throw IoError("cannot make a folder for the inputs of peers");
}

SharedFolder::~SharedFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace saddle::bench

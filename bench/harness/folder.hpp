// A folder through which this program and those it starts hand each other tensors: in memory, where there is such a
// place, and gone with the object.
#pragma once

#include <string>

namespace saddle::bench {

class SharedFolder {
 public:
  // Throws IoError.
  SharedFolder();
  ~SharedFolder();
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace saddle::bench

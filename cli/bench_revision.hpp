// Another revision of this repository, built in a folder that goes away with the object.
#pragma once

#include <functional>
#include <string>

namespace saddle::cli {

class Revision {
 public:
  // Checks out and builds; throws IoError with the end of the failing command's output.
  Revision(const std::string& name, const std::function<void(const std::string&)>& progress);
  ~Revision();
  Revision(const Revision&) = delete;
  Revision& operator=(const Revision&) = delete;

  // The saddle of that revision.
  std::string program() const { return folder_ + "/build/saddle"; }

 private:
  void remove() const;

  std::string folder_, repository_;
};

}  // namespace saddle::cli

// A process that answers requests: one line of JSON in, one line of JSON out.
#pragma once

#include <sys/types.h>

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace saddle::bench {

using Json = nlohmann::ordered_json;

class Child {
 public:
  // Throws IoError when it cannot be started.
  Child(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Throws IoError with what the process said last when it ends, takes longer than `seconds` or answers nonsense.
  Json ask(const Json& request, double seconds);
  // False once it has failed: it cannot be asked again.
  bool usable() const { return usable_; }

 private:
  [[noreturn]] void fail(const std::string& what);
  [[noreturn]] void ended();
  std::string read_line(double seconds);

  pid_t process_ = -1;
  int to_ = -1, from_ = -1, errors_ = -1;
  std::string pending_;
  bool usable_ = true;
};

}  // namespace saddle::bench

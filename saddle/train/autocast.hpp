// Products in bfloat16 while one lives.
#pragma once

#include <ATen/autocast_mode.h>

namespace saddle::train {

class Autocast {
 public:
  explicit Autocast(bool wanted) : before_(at::autocast::is_cpu_enabled()) { at::autocast::set_cpu_enabled(wanted); }
  ~Autocast() {
    at::autocast::set_cpu_enabled(before_);
    at::autocast::clear_cache();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool before_;
};

}  // namespace saddle::train

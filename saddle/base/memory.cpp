#include "saddle/base/memory.hpp"

#include <cstdlib>
#include <string_view>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace saddle {

void keep_large_blocks() {
#ifdef __GLIBC__
  const char* const tunables = std::getenv("GLIBC_TUNABLES");
  if (tunables != nullptr && std::string_view(tunables).find("glibc.malloc") != std::string_view::npos) return;
  constexpr int never = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, never);
  mallopt(M_TRIM_THRESHOLD, never);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

}  // namespace saddle

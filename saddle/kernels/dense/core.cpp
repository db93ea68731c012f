#include "saddle/kernels/dense/core.hpp"

namespace saddle::kernels::dense {

const Core& core() {
#if defined(__x86_64__)
  const Isa isa = best_isa();
  if (isa >= Isa::avx512) return avx512_core();
  if (isa >= Isa::avx2) return avx2_core();
#endif
  return scalar_core();
}

}  // namespace saddle::kernels::dense

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "saddle/kernels/dense/core_avx2.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "saddle/kernels/dense/core.hpp"

#if HWY_TARGET == HWY_AVX2

#include "saddle/kernels/dense/core-inl.hpp"

namespace saddle::kernels::dense {

const Core& avx2_core() {
  static const Core table = HWY_NAMESPACE::table(Isa::avx2);
  return table;
}

}  // namespace saddle::kernels::dense

#endif

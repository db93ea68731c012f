#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "saddle/kernels/hyla/core_avx2.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "saddle/kernels/hyla/core.hpp"

#if HWY_TARGET == HWY_AVX2

#include "saddle/kernels/hyla/core-inl.hpp"

namespace saddle::kernels::hyla {

template <class T>
const Core<T>& avx2_core() {
  return HWY_NAMESPACE::table<T>();
}
template const Core<float>& avx2_core();
template const Core<double>& avx2_core();

}  // namespace saddle::kernels::hyla

#endif

// Limits of AVX-512. Nothing here runs before the processor was asked.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "limits_avx512.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX3
#include "limits-inl.hpp"
#endif

#if HWY_ONCE
#include "limits.hpp"

namespace saddle::bench {

LimitLoops avx512_limits() { return N_AVX3::loops(); }

}  // namespace saddle::bench
#endif

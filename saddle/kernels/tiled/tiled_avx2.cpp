// The tiled core for AVX2.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "saddle/kernels/tiled/tiled_avx2.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX2
#include "saddle/kernels/tiled/table-inl.hpp"
#endif

#if HWY_ONCE
#include "saddle/kernels/tiled/tiled_core.hpp"

namespace saddle::kernels {

template <class T>
const TiledKernels<T>& TiledTables<T>::avx2() {
  return N_AVX2::table<T>(Isa::avx2);
}
template const TiledKernels<float>& TiledTables<float>::avx2();
template const TiledKernels<double>& TiledTables<double>::avx2();

}  // namespace saddle::kernels
#endif

// The tiled core for AVX-512.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "saddle/kernels/tiled/tiled_avx512.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX3
#include "saddle/kernels/tiled/table-inl.hpp"
#endif

#if HWY_ONCE
#include "saddle/kernels/tiled/tiled_core.hpp"

namespace saddle::kernels {

template <class T>
const TiledKernels<T>& TiledTables<T>::avx512() {
  return N_AVX3::table<T>(Isa::avx512);
}
template const TiledKernels<float>& TiledTables<float>::avx512();
template const TiledKernels<double>& TiledTables<double>::avx512();

}  // namespace saddle::kernels
#endif

// The tiled core without vector instructions: one lane.
#define HWY_COMPILE_ONLY_SCALAR
#include <hwy/highway.h>

#include "saddle/kernels/tiled/table-inl.hpp"
#include "saddle/kernels/tiled/tiled_core.hpp"

namespace saddle::kernels {

template <class T>
const TiledKernels<T>& TiledTables<T>::scalar() {
  return N_SCALAR::table<T>(Isa::scalar);
}
template const TiledKernels<float>& TiledTables<float>::scalar();
template const TiledKernels<double>& TiledTables<double>::scalar();

}  // namespace saddle::kernels

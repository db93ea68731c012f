#include "saddle/kernels/tiled/tiled_core.hpp"

namespace saddle::kernels {

template <class T>
TiledScratch<T>::TiledScratch(std::size_t count) : memory_(count + 64 / sizeof(T)), size_(count) {
  auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
  aligned_ = memory_.data() + (64 - address % 64) % 64 / sizeof(T);
}

template <class T>
const TiledKernels<T>& tiled_kernels() {
  const Isa isa = best_isa();
  if (isa >= Isa::avx512) return TiledTables<T>::avx512();
  return isa == Isa::avx2 ? TiledTables<T>::avx2() : TiledTables<T>::scalar();
}

template struct TiledScratch<float>;
template struct TiledScratch<double>;
template const TiledKernels<float>& tiled_kernels();
template const TiledKernels<double>& tiled_kernels();

}  // namespace saddle::kernels

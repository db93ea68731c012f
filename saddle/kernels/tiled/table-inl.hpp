// The entry points of the tiled core for the target being compiled.
#if defined(SADDLE_KERNELS_TILED_TABLE_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_TILED_TABLE_INL_HPP_
#undef SADDLE_KERNELS_TILED_TABLE_INL_HPP_
#else
#define SADDLE_KERNELS_TILED_TABLE_INL_HPP_
#endif

#include "saddle/kernels/tiled/backward-inl.hpp"
#include "saddle/kernels/tiled/forward-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::HWY_NAMESPACE {

template <class T>
Index scratch_elements(Index D, Index E) {
  return std::max(ForwardBlock<T, ExpScore<T>>::scratch(D, E), BackwardBlock<T, ExpScore<T>>::scratch(D, E)) + 64;
}

template <class T>
const TiledKernels<T>& table(Isa isa) {
  static const TiledKernels<T> kernels{
      isa, block_queries<T>, lanes<T>, &scratch_elements<T>, &forward_block<T>, &backward_block<T>};
  return kernels;
}

}  // namespace saddle::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

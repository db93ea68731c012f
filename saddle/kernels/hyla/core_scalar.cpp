#define HWY_COMPILE_ONLY_EMU128
#include <hwy/highway.h>

#include "saddle/kernels/hyla/core-inl.hpp"

namespace saddle::kernels::hyla {

template <class T>
const Core<T>& scalar_core() {
  return HWY_NAMESPACE::table<T>();
}
template const Core<float>& scalar_core();
template const Core<double>& scalar_core();

}  // namespace saddle::kernels::hyla

#define HWY_COMPILE_ONLY_EMU128
#include <hwy/highway.h>

#include "saddle/kernels/dense/core-inl.hpp"

namespace saddle::kernels::dense {

const Core& scalar_core() {
  static const Core table = HWY_NAMESPACE::table(Isa::scalar);
  return table;
}

}  // namespace saddle::kernels::dense

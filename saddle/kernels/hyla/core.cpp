#include "saddle/kernels/hyla/core.hpp"

namespace saddle::kernels::hyla {

template <class T>
const Core<T>& core(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return avx512_core<T>();
  if (isa >= Isa::avx2) return avx2_core<T>();
#endif
  (void)isa;
  return scalar_core<T>();
}
template const Core<float>& core(Isa isa);
template const Core<double>& core(Isa isa);

}  // namespace saddle::kernels::hyla

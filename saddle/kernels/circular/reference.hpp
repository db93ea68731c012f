// The judge of the circular kernel: its definitions as loops, in double.
#pragma once

#include "saddle/kernels/circular/circular.hpp"

namespace saddle::kernels::circular::reference {

SADDLE_API void forward(const CircularCall<double>& call, const View<double, 4>& y);
SADDLE_API void backward(const CircularCall<double>& call, const View<const double, 4>& dy, const View<double, 4>& dw,
                         const View<double, 4>& dv);
SADDLE_API void causal_forward(const CausalCall<double>& call, const View<double, 4>& y);
// Does not look at y: it takes the weights again.
SADDLE_API void causal_backward(const CausalCall<double>& call, const View<const double, 4>& dy,
                                const View<double, 3>& dz, const View<double, 4>& dv);

}  // namespace saddle::kernels::circular::reference

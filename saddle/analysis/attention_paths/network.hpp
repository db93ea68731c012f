// The network that the theory is about, with its gradient, and the order parameter that its weights have.
#pragma once

#include "saddle/analysis/attention_paths/attention_paths.hpp"

namespace saddle::analysis::attention_paths {

struct NetworkWeights {
  Matrix v0;                        // [N_1,N0]
  std::vector<Array<double, 3>> v;  // layer l: [H_l,N_(l+1),N_l], the last one [H_L,N_a,N_L]
  Vector a;                         // [N_a]
};

// f [P] = a . z_L / sqrt(N_a), for x [P,N0,T] and the attention of every layer.
SADDLE_API Vector network_output(const NetworkWeights& weights, const Array<double, 3>& x,
                                 const std::vector<Attention>& attention, Readout readout);
// The same from the attended input xi [P,N0,Pi] of input variance 1: attention is fixed, so all that the weights do is
// to weigh the paths.
SADDLE_API Vector network_output(const NetworkWeights& weights, const Array<double, 3>& xi);
// Gradients of sum_p cotangent[p] f[p] with respect to the weights.
SADDLE_API NetworkWeights network_gradient(const NetworkWeights& weights, const Array<double, 3>& x,
                                           const std::vector<Attention>& attention, Readout readout,
                                           const Vector& cotangent);
// The order parameter U_1 [Pi,Pi] of samples of the weights; the theory says that over the posterior it is the minimum.
SADDLE_API Matrix sampled_order_parameter(const std::vector<NetworkWeights>& samples);

}  // namespace saddle::analysis::attention_paths

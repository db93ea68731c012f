// Networks of the theory as the posterior has them: draws of all weights, given examples and labels.
#pragma once

#include "saddle/analysis/attention_paths/network.hpp"
#include "saddle/base/random.hpp"

namespace saddle::analysis::attention_paths {

struct SampleOptions {
  Index networks = 10;
  Index descent = 200;      // steps of gradient descent on the labels that come first
  Index trajectories = 10;  // left out before the first network is taken; the size of steps adapts here
  Index steps = 150;        // of a trajectory, one for each network
  double size = 0.005;      // of a step, at first
};
// Draws of the weights by Hamiltonian Monte Carlo, for examples xi [P,N0,Pi] with labels y [P]. Throws InvalidArgument
// where prior, xi and y do not fit.
SADDLE_API std::vector<NetworkWeights> sample_networks(const Array<double, 3>& xi, const Vector& y, const Prior& prior,
                                                       Stream& stream, const SampleOptions& options = {});

// The heads of each layer that stay.
using Kept = std::vector<std::vector<bool>>;
// The network without the others; a layer that keeps k of H heads is divided by sqrt(k) instead of sqrt(H).
SADDLE_API NetworkWeights with_heads(NetworkWeights weights, const Kept& kept);
// Of every head, layer by layer: the norm of its value weights.
SADDLE_API std::vector<double> head_norms(const NetworkWeights& weights);
// What stays as heads go one after the other, small scores first, from all heads to one in each layer.
SADDLE_API std::vector<Kept> removals(const std::vector<double>& scores, const std::vector<Index>& heads);

}  // namespace saddle::analysis::attention_paths

// What a spiking network would cost on hardware made for spikes: firing rates, operations and energy of every layer.
#pragma once

#include "saddle/analysis/registry.hpp"

namespace saddle::analysis::energy {

// Of each layer, over splits weighted by their samples. Throws InvalidArgument when splits have other layers.
SADDLE_API std::vector<mechanisms::spiking::LayerEnergy> mean_of(const std::vector<Probe>& probes);

SADDLE_API const Analysis& analysis();

}  // namespace saddle::analysis::energy

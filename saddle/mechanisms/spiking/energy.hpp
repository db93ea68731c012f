// Energy of spiking networks by counting operations, for 45 nm: what the papers of spiking transformers report.
#pragma once

#include <string>
#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/base/view.hpp"

namespace saddle::mechanisms::spiking {

// Picojoules of a multiply-accumulate, an accumulate and a bit shift.
constexpr double mac_energy = 4.6, ac_energy = 0.9, shift_energy = 0.045;

struct Operations {
  double macs = 0, acs = 0, shifts = 0;

  SADDLE_API Operations& operator+=(const Operations& other);
  SADDLE_API double picojoules() const;
  double millijoules() const { return picojoules() * 1e-9; }
};

// Synaptic operations of a layer with `macs` multiply-accumulates per step whose inputs are spikes.
SADDLE_API Operations synaptic(double firing_rate, Index T, double macs);

// q (k^T v) of H heads of width D, as the script of Spikingformer counts it.
SADDLE_API Operations ssa_product(Index T, Index H, Index N, Index D, double rate_q, double rate_k, double rate_v);
// The ternary product, N^2 D min of both rates, and weights times values by shifts and accumulations.
SADDLE_API Operations bsa_product(Index T, Index H, Index N, Index D, double rate_q, double rate_k);

// One layer of a model: what it did for one sample.
struct LayerEnergy {
  std::string name;
  double firing_rate = 1;  // of its input, the share of numbers that are not 0; 1 where real numbers come in
  Operations operations;
};

struct EnergyReport {
  std::vector<LayerEnergy> layers;

  SADDLE_API Operations total() const;
  // A table: layer, firing rate, operations, picojoules.
  SADDLE_API std::string text() const;
};

}  // namespace saddle::mechanisms::spiking

#include "saddle/mechanisms/spiking/energy.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace saddle::mechanisms::spiking {

Operations& Operations::operator+=(const Operations& other) {
  macs += other.macs;
  acs += other.acs;
  shifts += other.shifts;
  return *this;
}

double Operations::picojoules() const { return mac_energy * macs + ac_energy * acs + shift_energy * shifts; }

Operations synaptic(double firing_rate, Index T, double macs) {
  return {0, firing_rate * static_cast<double>(T) * macs, 0};
}

Operations ssa_product(Index T, Index H, Index N, Index D, double rate_q, double rate_k, double rate_v) {
  return synaptic(std::min(rate_k, rate_v) + rate_q, T, static_cast<double>(H * N * D * D));
}

Operations bsa_product(Index T, Index H, Index N, Index D, double rate_q, double rate_k) {
  const double pairs = static_cast<double>(H * D) * static_cast<double>(N) * static_cast<double>(N);
  Operations operations = synaptic(std::min(rate_q, rate_k), T, pairs);
  operations += {0, static_cast<double>(T) * pairs, static_cast<double>(T) * pairs};
  return operations;
}

Operations EnergyReport::total() const {
  Operations sum;
  for (const LayerEnergy& layer : layers) sum += layer.operations;
  return sum;
}

std::string EnergyReport::text() const {
  std::string table =
      fmt::format("{:<28} {:>8} {:>12} {:>12} {:>12} {:>14}\n", "layer", "rate", "MACs", "ACs", "shifts", "pJ");
  const auto line = [&](const std::string& name, const std::string& rate, const Operations& o) {
    table += fmt::format("{:<28} {:>8} {:>12.5g} {:>12.5g} {:>12.5g} {:>14.6g}\n", name, rate, o.macs, o.acs, o.shifts,
                         o.picojoules());
  };
  for (const LayerEnergy& layer : layers) line(layer.name, fmt::format("{:.4f}", layer.firing_rate), layer.operations);
  line("all", "", total());
  return table;
}

}  // namespace saddle::mechanisms::spiking

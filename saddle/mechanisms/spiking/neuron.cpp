#include "saddle/mechanisms/spiking/neuron.hpp"

#include <fmt/format.h>

#include <cmath>

#include "saddle/base/error.hpp"

namespace saddle::mechanisms::spiking {

using tape::Value;

Neuron Neuron::ternary() {
  Neuron neuron;
  neuron.form = Form::ternary;
  neuron.tau = 0.5;
  return neuron;
}

Neuron Neuron::with_threshold(double value) const {
  Neuron neuron = *this;
  neuron.threshold = value;
  return neuron;
}

void check(const Neuron& neuron) {
  if (!(neuron.tau > 0) || !std::isfinite(neuron.tau))
    throw InvalidArgument(fmt::format("[spiking] tau of a neuron is {}: it must be above 0", neuron.tau));
  if (!neuron.reset && neuron.form != Form::leaky)
    throw InvalidArgument("[spiking] only the neuron of SpikingJelly works without a reset value",
                          "give a reset value, such as 0");
  if (neuron.surrogate == Surrogate::clamp && neuron.form != Form::ternary)
    throw InvalidArgument("[spiking] the surrogate 'clamp' is one of ternary neurons", "use sigmoid");
}

double spike(const Neuron& neuron, double u) {
  if (neuron.form == Form::ternary && u < 0) return u <= -neuron.threshold ? -1.0 : 0.0;
  if (neuron.form == Form::ternary && u == 0) return 0.0;
  return u >= neuron.threshold ? 1.0 : 0.0;
}

double surrogate(const Neuron& neuron, double u) {
  if (neuron.surrogate == Surrogate::clamp) return std::fabs(u) <= neuron.bound ? 1.0 : 0.0;
  const auto g = [&](double z) {
    const double sigma = 1 / (1 + std::exp(-neuron.alpha * z));
    return neuron.alpha * sigma * (1 - sigma);
  };
  return g(u - neuron.threshold) + (neuron.form == Form::ternary ? g(-u - neuron.threshold) : 0.0);
}

Fired fire(const Value& x, const Neuron& neuron) {
  check(neuron);
  const Shape step(x.shape().begin() + 1, x.shape().end());
  const bool leaky = neuron.form == Form::leaky;
  const Value r = neuron.reset.value_or(0), tau = neuron.tau;
  Value v = tape::full(step, leaky ? neuron.reset.value_or(0) : 0.0);
  std::vector<Value> spikes, states;
  for (Index t = 0; t < x.size(0); ++t) {
    const Value in = tape::at(x, 0, t);
    const Value u = !leaky ? v + in : neuron.decay_input ? v + (in - (v - r)) / tau : v - (v - r) / tau + in;
    const Value s = tape::map(
        u, [&](double number) { return spike(neuron, number); },
        [neuron](double number) { return surrogate(neuron, number); });
    const Value resetting = neuron.detach ? tape::detach(s) : s;
    const Value fired = neuron.form == Form::ternary ? tape::abs(resetting) : resetting;
    if (!neuron.reset)
      v = u - resetting * Value(neuron.threshold);
    else if (leaky)
      v = (Value(1.0) - fired) * u + fired * r;
    else
      v = r * resetting + tau * u * (Value(1.0) - fired);
    spikes.push_back(s);
    states.push_back(v);
  }
  return {tape::stack(spikes, 0), tape::stack(states, 0)};
}

}  // namespace saddle::mechanisms::spiking

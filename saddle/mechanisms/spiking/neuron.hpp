// Spiking neurons: leaky integrate-and-fire with binary spikes, and ternary ones, with surrogate gradients.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "saddle/base/tape.hpp"
#include "saddle/primal/part.hpp"

namespace saddle::mechanisms::spiking {

// u is the potential that fires, v what the next step begins with, r the reset value, Theta(0) = 1.
//   leaky    u = v + (x - (v - r)) / tau, or v - (v - r) / tau + x without decay_input; s = Theta(u - threshold);
//            v = (1 - s) u + s r, without a reset value u - s threshold
//   binary   u = v + x; s = Theta(u - threshold);           v = r s + tau u (1 - s)
//   ternary  u = v + x; s = sign(u) Theta(|u| - threshold); v = r s + tau u (1 - |s|)
// leaky is the neuron of SpikingJelly, whose tau divides; in the other two it is a factor. v begins at r for leaky and
// at 0 for the others.
enum class Form { leaky, binary, ternary };

// ds/du. sigmoid: g(u - threshold), for ternary + g(-u - threshold), g(z) = alpha sigma(alpha z) (1 - sigma(alpha z)).
// clamp (ternary alone): 1 where |u| <= bound, else 0.
enum class Surrogate { sigmoid, clamp };

struct Neuron {
  Form form = Form::leaky;
  double tau = 2, threshold = 1;
  std::optional<double> reset = 0;  // leaky alone may have none
  bool decay_input = true;          // of leaky
  bool detach = true;               // no gradient passes through the spike that resets
  Surrogate surrogate = Surrogate::sigmoid;
  double alpha = 4, bound = 1;

  // The neuron of the ternary products, with tau = 0.5.
  SADDLE_API static Neuron ternary();
  SADDLE_API Neuron with_threshold(double value) const;

  bool operator==(const Neuron&) const = default;
};

// Throws InvalidArgument for numbers that make no neuron.
SADDLE_API void check(const Neuron& neuron);

// One potential -> its spike, and the surrogate ds/du.
SADDLE_API double spike(const Neuron& neuron, double u);
SADDLE_API double surrogate(const Neuron& neuron, double u);

struct Fired {
  tape::Value s, v;  // [T,..]: spikes, and what each step left
};
// x [T,..]
SADDLE_API Fired fire(const tape::Value& x, const Neuron& neuron);

}  // namespace saddle::mechanisms::spiking

template <>
inline constexpr std::array<std::string_view, 2> saddle::primal::enum_words<saddle::mechanisms::spiking::Surrogate>{
    "sigmoid", "clamp"};

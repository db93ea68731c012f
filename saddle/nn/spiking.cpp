#include "saddle/nn/spiking.hpp"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/spiking/shiftmax.hpp"
#include "saddle/nn/dense/batched_product.hpp"
#include "saddle/nn/plain.hpp"

namespace saddle::nn {

namespace {

using mechanisms::spiking::ceil_log2;
using mechanisms::spiking::Form;
using mechanisms::spiking::Neuron;
using mechanisms::spiking::Surrogate;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

thread_local EnergyMeter* current_meter = nullptr;

// f((T*)nullptr) of the type of x.
template <class F>
void with_type(const Tensor& x, F&& f) {
  if (x.scalar_type() == torch::kFloat64) return f(static_cast<double*>(nullptr));
  if (x.scalar_type() == torch::kFloat32) return f(static_cast<float*>(nullptr));
  throw InvalidArgument(std::string("[spiking] spikes are float or double, found ") + c10::toString(x.scalar_type()));
}

// All three forms in one, without a branch:
//   u = leak v + gain x + drift;  v = u (keep_fired + keep (1 - s^2)) + impulse s
template <class T>
struct Step {
  explicit Step(const Neuron& neuron)
      : threshold(T(neuron.threshold)), alpha(T(neuron.alpha)), bound(T(neuron.bound)), through(neuron.detach ? 0 : 1) {
    const double r = neuron.reset.value_or(0);
    if (neuron.form == Form::leaky) {
      leak = T(1 - 1 / neuron.tau);
      gain = T(neuron.decay_input ? 1 / neuron.tau : 1);
      drift = T(r / neuron.tau);
      start = T(r);
    }
    keep_fired = neuron.reset ? 0 : 1;
    keep = neuron.reset ? T(neuron.form == Form::leaky ? 1 : neuron.tau) : 0;
    impulse = neuron.reset ? T(r) : -threshold;
    far = std::exp(2 * alpha * threshold);
  }

  T threshold, alpha, bound, through;
  T leak = 1, gain = 1, drift = 0, start = 0, keep_fired = 0, keep = 1, impulse = 0;
  T far;  // exp(2 alpha threshold): between the slopes at both thresholds of a ternary neuron
};

constexpr Index block = 1024;

// What is kept for the way back is alpha (threshold - u) for the sigmoid, whose exponential the slope needs, else u.
template <bool ternary, bool clamp, class T>
void fire_block(const Step<T>& step, const T* x, Index input_stride, T* s, T* kept, Index n, Index stride,
                Index steps) {
  T v[block];
  std::fill(v, v + n, step.start);
  for (Index t = 0; t < steps; ++t) {
    const T* const in = x + t * input_stride;
    T* const out = s + t * stride;
    for (Index i = 0; i < n; ++i) {
      const T u = step.leak * v[i] + step.gain * in[i] + step.drift;
      T spike = u >= step.threshold ? T(1) : T(0);
      if (ternary) spike -= u <= -step.threshold ? T(1) : T(0);
      out[i] = spike;
      v[i] = u * (step.keep_fired + step.keep * (1 - spike * spike)) + step.impulse * spike;
      if (kept != nullptr) kept[t * stride + i] = clamp ? u : step.alpha * (step.threshold - u);
    }
  }
}

// kept: exponentials of what was kept, or u. dx is added to where steps share their input.
template <bool ternary, bool clamp, class T>
void fire_back(const Step<T>& step, const T* s, const T* kept, const T* u_of, const T* ds, T* dx, Index input_stride,
               Index n, Index stride, Index steps) {
  T dv[block];
  std::fill(dv, dv + n, T(0));
  for (Index t = steps; t-- > 0;) {
    const Index at = t * stride;
    T* const out = dx + t * input_stride;
    for (Index i = 0; i < n; ++i) {
      const T spike = s[at + i], e = kept[at + i];
      T slope;
      if (clamp) {
        slope = std::abs(e) <= step.bound ? T(1) : T(0);
      } else {
        const T up = 1 / (1 + e);
        slope = step.alpha * up * (1 - up);
        if (ternary) {
          const T down = 1 / (1 + step.far / e);
          slope += step.alpha * down * (1 - down);
        }
      }
      const T u = clamp ? e : step.threshold - u_of[at + i] / step.alpha;
      const T of_spike = step.impulse - step.keep * u * (ternary ? spike : T(1));
      const T gradient = ds[at + i] + step.through * dv[i] * of_spike;
      const T du = dv[i] * (step.keep_fired + step.keep * (1 - spike * spike)) + gradient * slope;
      out[i] += step.gain * du;
      dv[i] = step.leak * du;
    }
  }
}

// f.template operator()<ternary, clamp>()
template <class F>
void with_form(const Neuron& neuron, F&& f) {
  if (neuron.form != Form::ternary) return f.template operator()<false, false>();
  if (neuron.surrogate == Surrogate::clamp) return f.template operator()<true, true>();
  f.template operator()<true, false>();
}

// Blocks of the n neurons, on all threads.
template <class F>
void for_neurons(Index n, F&& f) {
  at::parallel_for(0, n, block, [&](int64_t begin, int64_t end) {
    for (Index i = begin; i < end; i += block) f(i, std::min(block, end - i));
  });
}

std::vector<int64_t> shape_of_steps(const Tensor& x, Index T) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape[0] = T;
  return shape;
}

// x [S,..], contiguous -> spikes; `kept`, if defined, for the way back.
Tensor fired(const Tensor& x, const Neuron& neuron, Index T, Tensor& kept) {
  Tensor s = torch::empty(shape_of_steps(x, T), x.options());
  const Index n = T > 0 ? s.numel() / T : 0, input_stride = x.size(0) == T ? n : 0;
  with_type(x, [&]<class Type>(Type*) {
    const Step<Type> step(neuron);
    const Type* const from = x.data_ptr<Type>();
    Type* const to = s.data_ptr<Type>();
    Type* const keeping = kept.defined() ? kept.data_ptr<Type>() : nullptr;
    with_form(neuron, [&]<bool ternary, bool clamp>() {
      for_neurons(n, [&](Index i, Index count) {
        fire_block<ternary, clamp>(step, from + i, input_stride, to + i, keeping == nullptr ? nullptr : keeping + i,
                                   count, n, T);
      });
    });
  });
  return s;
}

struct NeuronHolder : torch::CustomClassHolder {
  explicit NeuronHolder(const Neuron& given) : neuron(given) {}
  Neuron neuron;
};

class Fire : public torch::autograd::Function<Fire> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Neuron& neuron, int64_t T) {
    Tensor kept = torch::empty(shape_of_steps(x, T), x.options());
    Tensor s = fired(x, neuron, T, kept);
    context->save_for_backward({s, kept});
    context->saved_data["neuron"] = torch::IValue::make_capsule(c10::make_intrusive<NeuronHolder>(neuron));
    context->saved_data["given"] = x.size(0);
    return s;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &s = saved[0], &kept = saved[1], ds = gradients[0].contiguous();
    const Neuron neuron =
        c10::static_intrusive_pointer_cast<NeuronHolder>(context->saved_data["neuron"].toCapsule())->neuron;
    const Index T = s.size(0), n = s.numel() / T, given = context->saved_data["given"].toInt();
    Tensor dx = torch::zeros(shape_of_steps(s, given), s.options());
    const Tensor exponentials = neuron.surrogate == Surrogate::sigmoid ? kept.exp() : kept;
    with_type(s, [&]<class Type>(Type*) {
      const Step<Type> step(neuron);
      with_form(neuron, [&]<bool ternary, bool clamp>() {
        for_neurons(n, [&](Index i, Index count) {
          fire_back<ternary, clamp>(step, s.data_ptr<Type>() + i, exponentials.data_ptr<Type>() + i,
                                    kept.data_ptr<Type>() + i, ds.data_ptr<Type>() + i, dx.data_ptr<Type>() + i,
                                    given == T ? n : 0, count, n, T);
        });
      });
    });
    return {dx, Tensor(), Tensor()};
  }
};

// 2^x of a whole x, 0 where that is no normal number; exact, by its bits.
template <class T>
T power_of_two(T x) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  constexpr Bits digits = std::numeric_limits<T>::digits - 1, offset = std::numeric_limits<T>::max_exponent - 1;
  return x > -T(offset) ? std::bit_cast<T>((static_cast<Bits>(x) + offset) << digits) : T(0);
}

// f over n numbers in lanes: one behind the other each would wait for the one before.
template <class T, class F>
T folded(const T* x, Index n, T start, F f) {
  constexpr Index lanes = 16;
  T lane[lanes];
  std::fill(lane, lane + lanes, start);
  Index j = 0;
  for (; j + lanes <= n; j += lanes)
    for (Index l = 0; l < lanes; ++l) lane[l] = f(lane[l], x[j + l]);
  for (; j < n; ++j) lane[0] = f(lane[0], x[j]);
  for (Index l = 1; l < lanes; ++l) lane[0] = f(lane[0], lane[l]);
  return lane[0];
}

// Which of G heads and N queries a block holds.
struct Block {
  Index head, heads, row, rows;
};

// Blocks whose scores are about 2^17 numbers, which stay in a cache: many heads of short sequences, or some rows of a
// long one.
template <class F>
void for_score_blocks(Index G, Index N, F&& f) {
  constexpr Index most = Index{1} << 17;
  const Index rows = std::clamp<Index>(most / std::max<Index>(N, 1), 1, N);
  const Index heads = rows < N ? 1 : std::clamp<Index>(most / (N * N), 1, G);
  for (Index head = 0; head < G; head += heads)
    for (Index row = 0; row < N; row += rows) f(Block{head, std::min(heads, G - head), row, std::min(rows, N - row)});
}

Tensor of_block(const Tensor& x, const Block& b) { return x.narrow(0, b.head, b.heads).narrow(1, b.row, b.rows); }
Tensor of_heads(const Tensor& x, const Block& b) { return x.narrow(0, b.head, b.heads); }

// Heads [G,..] with the keys of their samples, H heads for each of B masks.
struct Keys {
  Tensor mask;  // [B,M], bool, or undefined
  Index H;

  const bool* of(Index head) const {
    return mask.defined() ? mask.data_ptr<bool>() + head / H % mask.size(0) * mask.size(1) : nullptr;
  }
};

// Scores q k^T of a block -> weights in their place. gamma [G,N] is written, or read if it is known.
Tensor block_weights(const Tensor& q, const Tensor& k, const Block& b, const Keys& keys, Tensor& gamma, bool known) {
  Tensor scores = batched_product(of_block(q, b), of_heads(k, b).transpose(1, 2));
  const Index M = scores.size(2), N = q.size(1);
  with_type(scores, [&]<class T>(T*) {
    T* const all = scores.data_ptr<T>();
    T* const gammas = gamma.data_ptr<T>();
    at::parallel_for(0, b.heads * b.rows, 16, [&](int64_t begin, int64_t end) {
      for (Index i = begin; i < end; ++i) {
        T* const x = all + i * M;
        const Index head = b.head + i / b.rows;
        const bool* const exists = keys.of(head);
        const T nothing = -std::numeric_limits<T>::infinity();
        if (exists != nullptr)
          for (Index j = 0; j < M; ++j) x[j] = exists[j] ? x[j] : nothing;
        T& row_gamma = gammas[head * N + b.row + i % b.rows];
        if (known) {
          for (Index j = 0; j < M; ++j) x[j] = power_of_two(x[j] - row_gamma);
          continue;
        }
        T most = folded(x, M, nothing, [](T one, T other) { return one < other ? other : one; });
        if (most == nothing) most = 0;
        for (Index j = 0; j < M; ++j) x[j] = power_of_two(x[j] - most);
        const T sum = folded(x, M, T(0), [](T one, T other) { return one + other; });
        const T shift = sum > 0 ? T(ceil_log2(sum)) : T(0), factor = power_of_two(-shift);
        for (Index j = 0; j < M; ++j) x[j] *= factor;
        row_gamma = most + shift;
      }
    });
  });
  return scores;
}

Tensor row_exponents(const Tensor& q) { return torch::empty({q.size(0), q.size(1)}, q.options()); }

// Products of whole numbers are exact in float, not in bfloat16: batched_product stays in float whoever calls.
class SpikeProduct : public torch::autograd::Function<SpikeProduct> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v) {
    context->save_for_backward({q, k, v});
    return keys_first(q) ? batched_product(q, batched_product(k.transpose(1, 2), v))
                         : batched_product(batched_product(q, k.transpose(1, 2)), v);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], dy = gradients[0].contiguous();
    if (keys_first(q)) {
      const Tensor state = batched_product(k.transpose(1, 2), v), d_state = batched_product(q.transpose(1, 2), dy);
      return {batched_product(dy, state.transpose(1, 2)), batched_product(v, d_state.transpose(1, 2)),
              batched_product(k, d_state)};
    }
    const Tensor score = batched_product(q, k.transpose(1, 2)), d_score = batched_product(dy, v.transpose(1, 2));
    return {batched_product(d_score, k), batched_product(d_score.transpose(1, 2), q),
            batched_product(score.transpose(1, 2), dy)};
  }

 private:
  static bool keys_first(const Tensor& q) { return q.size(2) < q.size(1); }
};

class ShiftmaxProduct : public torch::autograd::Function<ShiftmaxProduct> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        const c10::optional<Tensor>& given_mask, int64_t H) {
    const Tensor mask = given_mask.value_or(Tensor());
    Tensor gamma = row_exponents(q), y = torch::empty({v.size(0), q.size(1), v.size(2)}, v.options());
    for_score_blocks(q.size(0), q.size(1), [&](const Block& b) {
      of_block(y, b).copy_(batched_product(block_weights(q, k, b, {mask, H}, gamma, false), of_heads(v, b)));
    });
    context->save_for_backward({q, k, v, mask, gamma});
    context->saved_data["heads"] = H;
    return y;
  }

  // With W the weights and gamma constant: dW = dy v^T, dS = ln 2 W dW.
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], dy = gradients[0].contiguous();
    const Keys keys{saved[3], context->saved_data["heads"].toInt()};
    Tensor gamma = saved[4];
    Tensor dq = torch::empty_like(q), dk = torch::zeros_like(k), dv = torch::zeros_like(v);
    for_score_blocks(q.size(0), q.size(1), [&](const Block& b) {
      const Tensor w = block_weights(q, k, b, keys, gamma, true), dy_block = of_block(dy, b);
      of_heads(dv, b).add_(batched_product(w.transpose(1, 2), dy_block));
      const Tensor ds = batched_product(dy_block, of_heads(v, b).transpose(1, 2)).mul_(w).mul_(std::numbers::ln2);
      of_block(dq, b).copy_(batched_product(ds, of_heads(k, b)));
      of_heads(dk, b).add_(batched_product(ds.transpose(1, 2), of_block(q, b)));
    });
    return {dq, dk, dv, Tensor(), Tensor()};
  }
};

bool plainly(const Tensor& x) { return PlainOperations::are_wanted() || !x.is_cpu(); }

// What a spike is taken for on the way back, so that its slope is the surrogate's.
Tensor smooth_spike(const Tensor& u, const Neuron& neuron) {
  if (neuron.surrogate == Surrogate::clamp) return u.clamp(-neuron.bound, neuron.bound);
  const Tensor up = torch::sigmoid((u - neuron.threshold) * neuron.alpha);
  return neuron.form == Form::ternary ? up - torch::sigmoid((u + neuron.threshold) * -neuron.alpha) : up;
}

// As `fired`, step by step.
Tensor plain_fired(const Tensor& x, const Neuron& neuron, Index T) {
  const Step<double> step(neuron);
  const bool ternary = neuron.form == Form::ternary, learns = torch::GradMode::is_enabled() && x.requires_grad();
  Tensor v;
  std::vector<Tensor> spikes;
  for (Index t = 0; t < T; ++t) {
    const Tensor in = x.select(0, x.size(0) == T ? t : 0) * step.gain;
    const Tensor u = t == 0 ? in + (step.leak * step.start + step.drift) : v * step.leak + in + step.drift;
    Tensor s = u.ge(step.threshold).to(x.scalar_type());
    if (ternary) s = s - u.le(-step.threshold).to(x.scalar_type());
    if (learns) {
      const Tensor smooth = smooth_spike(u, neuron);
      s = s + (smooth - smooth.detach());
    }
    spikes.push_back(s);
    const Tensor fired = neuron.detach ? s.detach() : s;
    const Tensor silent = torch::rsub(ternary ? fired.abs() : fired, 1);
    v = u * (silent * step.keep + step.keep_fired) + fired * step.impulse;
  }
  return torch::stack(spikes);
}

// 2^(x - max) rounded to a sum of at most 1 by a power of two: scores [G,N,M], H heads for each of B masks.
Tensor plain_shiftmax(const Tensor& scores, const Tensor& mask, Index H) {
  const double nothing = -std::numeric_limits<double>::infinity();
  Tensor x = scores;
  if (mask.defined()) {
    const Index G = x.size(0), B = mask.size(0);
    x = x.view({G / (B * H), B, H, x.size(1), x.size(2)})
            .masked_fill(mask.logical_not().view({1, B, 1, 1, -1}), nothing)
            .view({G, x.size(1), x.size(2)});
  }
  const Tensor kept = x.detach(), most = kept.amax({2}, true).clamp_min(-std::numeric_limits<float>::max());
  const Tensor sum = torch::pow(2, kept - most).sum(2, true).clamp_min(1);
  // The logarithm is rounded: which whole number lies above is decided by the sum itself.
  const Tensor near = (sum.log() / std::numbers::ln2).round();
  const Tensor shift = near + sum.gt(torch::pow(2, near)).to(x.scalar_type());
  return torch::pow(2, x - most - shift);
}

Tensor bool_mask(const Tensor& mask) { return mask.defined() ? mask.to(torch::kBool).contiguous() : mask; }

}  // namespace

Tensor fire(const Tensor& given, const Neuron& neuron, Index T) {
  mechanisms::spiking::check(neuron);
  if (given.dim() < 1 || T < 1 || (given.size(0) != T && given.size(0) != 1))
    throw InvalidArgument("[spiking] " + std::to_string(given.dim() < 1 ? 0 : given.size(0)) +
                          " time steps are given for " + std::to_string(T) + ": 1 or as many are expected");
  if (plainly(given)) return plain_fired(given, neuron, T);
  const Tensor x = given.contiguous();
  if (torch::GradMode::is_enabled() && x.requires_grad()) return Fire::apply(x, neuron, T);
  Tensor nothing;
  return fired(x, neuron, T, nothing);
}

Tensor spike_product(const Tensor& q, const Tensor& k, const Tensor& v) {
  if (plainly(q)) return batched_product(q, batched_product(k.transpose(1, 2), v));
  return SpikeProduct::apply(q.contiguous(), k.contiguous(), v.contiguous());
}

Tensor shiftmax_product(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& key_mask, Index heads) {
  if (plainly(q)) return batched_product(plain_shiftmax(batched_product(q, k.transpose(1, 2)), key_mask, heads), v);
  c10::optional<Tensor> mask;
  if (key_mask.defined()) mask = bool_mask(key_mask);
  return ShiftmaxProduct::apply(q.contiguous(), k.contiguous(), v.contiguous(), mask, heads);
}

Tensor shiftmax_weights(const Tensor& q, const Tensor& k, const Tensor& key_mask, Index heads) {
  const torch::NoGradGuard no_gradient;
  Tensor gamma = row_exponents(q);
  const Block all{0, q.size(0), 0, q.size(1)};
  return block_weights(q, k, all, {bool_mask(key_mask), heads}, gamma, false);
}

double firing_rate(const Tensor& spikes) {
  return static_cast<double>(spikes.count_nonzero().item<int64_t>()) / static_cast<double>(spikes.numel());
}

EnergyMeter::EnergyMeter() : before_(current_meter) { current_meter = this; }
EnergyMeter::~EnergyMeter() { current_meter = before_; }
EnergyMeter* EnergyMeter::current() { return current_meter; }

void EnergyMeter::spikes_into(const std::string& layer, const Tensor& spikes, Index T, double macs) {
  const double rate = firing_rate(spikes);
  add(layer, rate, mechanisms::spiking::synaptic(rate, T, macs));
}

void EnergyMeter::numbers_into(const std::string& layer, Index T, double macs) {
  add(layer, 1, {static_cast<double>(T) * macs, 0, 0});
}

void EnergyMeter::add(const std::string& layer, double rate, const mechanisms::spiking::Operations& operations) {
  report.layers.push_back({prefix + layer, rate, operations});
}

}  // namespace saddle::nn

#include "saddle/nn/time_encoding.hpp"

#include <fmt/format.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <numbers>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/time_attention/time_encoder.hpp"

namespace saddle::nn {

namespace {

using mechanisms::time_bochner::Bochner;
using mechanisms::time_mercer::Mercer;
namespace bochner = mechanisms::time_bochner;
namespace mercer = mechanisms::time_mercer;

constexpr double turn = 2 * std::numbers::pi;

// 0 .. 8 in float32, as published.
Tensor exponents(int64_t count) { return torch::linspace(0, 8, count, torch::kFloat32); }

Tensor glorot(std::vector<int64_t> shape) {
  Tensor weight = torch::empty(shape);
  torch::nn::init::xavier_uniform_(weight);
  return weight;
}

Tensor negative_power(const Tensor& x) { return torch::exp(x * -std::numbers::ln10); }

// What is left of a phase in double behind whole turns, in another type: small numbers lose little.
Tensor rest_of(const Tensor& phase, torch::ScalarType type) {
  return (phase - turn * (phase.detach() / turn).round()).to(type);
}

Tensor exact(const Tensor& x) { return x.to(torch::kFloat64); }

// t [B,N], frequencies [m] -> rests of phases [B,N,m] in the type of the frequencies.
Tensor rests(const Tensor& t, const Tensor& frequency) {
  return rest_of(t.unsqueeze(-1) * exact(frequency), frequency.scalar_type());
}

Tensor sines_and_cosines(const Tensor& t, const Tensor& frequency) {
  const Tensor phase = rests(t, frequency);
  return torch::cat({phase.sin(), phase.cos()}, -1);
}

// cos and sin in turn: [..,m] -> [..,2m]
Tensor pairs(const Tensor& phase) { return torch::stack({phase.cos(), phase.sin()}, -1).flatten(-2); }

class FourierSeries : public torch::autograd::Function<FourierSeries> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& phase, const Tensor& coef) {
    context->save_for_backward({phase, coef});
    const Tensor c = phase.cos(), s = phase.sin();
    const int64_t m = coef.size(1) / 2;
    // Real part of sum_j (b_j - i a_j) z^j with z = exp(i phase), by Horner's rule.
    Tensor real = torch::zeros_like(phase), imaginary = torch::zeros_like(phase);
    for (int64_t j = m - 1; j >= 0; --j) {
      const Tensor x = real + coef.select(1, m + j), y = imaginary - coef.select(1, j);
      real = torch::addcmul(x * c, y, s, -1);
      imaginary = torch::addcmul(x * s, y, c);
    }
    return real;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &phase = saved[0], &coef = saved[1], &g = gradients[0];
    const int64_t m = coef.size(1) / 2;
    const Tensor c = phase.cos(), s = phase.sin();
    Tensor real = c, imaginary = s;  // of z^j
    Tensor of_phase = torch::zeros_like(phase), of_coef = torch::empty_like(coef);
    const auto total = [&](const Tensor& x) { return (g * x).reshape({-1, g.size(-1)}).sum(0); };
    for (int64_t j = 0; j < m; ++j) {
      of_coef.select(1, j).copy_(total(imaginary));
      of_coef.select(1, m + j).copy_(total(real));
      const auto factor = static_cast<double>(j + 1);
      of_phase.addcmul_(real, coef.select(1, j), factor).addcmul_(imaginary, coef.select(1, m + j), -factor);
      if (j + 1 == m) break;
      const Tensor next = torch::addcmul(real * c, imaginary, s, -1);
      imaginary = torch::addcmul(real * s, imaginary, c);
      real = next;
    }
    return {of_phase * g, of_coef};
  }
};

// 1 .. m
Tensor harmonics(int64_t m) { return torch::arange(1, m + 1, torch::kFloat64); }

using Encode = std::function<Tensor(const Tensor& t, const Tensor& mask, const Tensor& sample)>;

// Where encodings put their parameters.
struct Owner {
  std::function<Tensor(const char* name, const Tensor& start)> parameter;
  std::function<torch::nn::Linear(const char* name, int64_t width)> linear;
};

Encode mercer_paper(int64_t k, int64_t m, const Owner& owner) {
  const Tensor omega = owner.parameter("omega", torch::pow(10.0, exponents(k))),
               sqrt_c = owner.parameter("sqrt_c", glorot({k, 2 * m + 1}));
  return [=](const Tensor& t, const Tensor&, const Tensor&) {
    const Tensor frequency = std::numbers::pi * harmonics(m) / exact(omega).unsqueeze(1);
    const Tensor phase = rest_of(t.unsqueeze(-1).unsqueeze(-1) * frequency, omega.scalar_type());  // [B,N,k,m]
    const Tensor basis = torch::cat({torch::ones_like(phase.narrow(-1, 0, 1)), pairs(phase)}, -1);
    return (basis * sqrt_c).flatten(-2);
  };
}

Encode mercer_encoding(const Mercer& own, int64_t T, const Owner& owner) {
  const int64_t k = own.frequencies(T), m = own.degree;
  if (own.variant == mercer::Variant::paper) return mercer_paper(k, m, owner);
  const Tensor coef = owner.parameter("coef", glorot({k, 2 * m})), bias = owner.parameter("bias", torch::zeros({k}));
  if (own.variant == mercer::Variant::flex) {
    const Tensor start = turn * torch::pow(10.0, exponents(k)).unsqueeze(1) / harmonics(m);
    const Tensor period = owner.parameter("period", start.to(torch::kFloat32));
    return [=](const Tensor& t, const Tensor&, const Tensor&) {
      const Tensor phase = rest_of(t.unsqueeze(-1).unsqueeze(-1) / exact(period), period.scalar_type());  // [B,N,k,m]
      return (torch::cat({phase.sin(), phase.cos()}, -1) * coef).sum(-1) + bias;
    };
  }
  const Tensor exponent = owner.parameter("exponent", exponents(k));
  return [=](const Tensor& t, const Tensor&, const Tensor&) {
    const Tensor phase = t.unsqueeze(-1) * negative_power(exact(exponent));
    return fourier_series(rest_of(phase, exponent.scalar_type()), coef) + bias;
  };
}

Encode bochner_nonparametric(int64_t m, const Owner& owner) {
  const Tensor sine = owner.parameter("sin_exponent", exponents(m)),
               cosine = owner.parameter("cos_exponent", exponents(m)),
               beta = owner.parameter("beta", torch::ones({2 * m}));
  return [=](const Tensor& t, const Tensor&, const Tensor&) {
    const auto phase = [&](const Tensor& exponent) {
      return rest_of(t.unsqueeze(-1) * negative_power(exact(exponent)), exponent.scalar_type());
    };
    return beta * torch::cat({phase(sine).sin(), phase(cosine).cos()}, -1);
  };
}

Encode bochner_network(int64_t m, const Owner& owner) {
  const std::vector<torch::nn::Linear> layers{owner.linear("mlp0", m), owner.linear("mlp1", m),
                                              owner.linear("mlp2", m)};
  return [=](const Tensor& t, const Tensor&, const Tensor& sample) {
    const auto apply = [&](std::size_t i, const Tensor& x) {
      return torch::mv(layers[i]->weight, x) + layers[i]->bias;
    };
    const Tensor start = negative_power(sample.defined() ? sample : torch::rand_like(layers[0]->bias));
    return sines_and_cosines(t, apply(2, apply(1, apply(0, start).relu()) + start).exp());
  };
}

Encode bochner_encoding(const Bochner& own, int64_t T, const Owner& owner) {
  const int64_t m = T / 2;
  switch (own.variant) {
    case bochner::Variant::nonparametric: return bochner_nonparametric(m, owner);
    case bochner::Variant::invcdf_mlp: return bochner_network(m, owner);
    case bochner::Variant::normal: {
      const Tensor mean = owner.parameter("mean", torch::pow(10.0, exponents(m) / -turn));
      return [=](const Tensor& t, const Tensor&, const Tensor& sample) {
        return sines_and_cosines(t, mean + (sample.defined() ? sample : torch::randn_like(mean)));
      };
    }
    case bochner::Variant::log_normal: {
      const Tensor shift = owner.parameter("shift", torch::zeros({1})),
                   scale = owner.parameter("log_scale", torch::zeros({1}));
      return [=](const Tensor& t, const Tensor&, const Tensor& sample) {
        const Tensor eps = sample.defined() ? sample : torch::randn({m}, shift.scalar_type());
        return sines_and_cosines(t, (shift + scale.clamp(-5, 3).exp() * eps).exp());
      };
    }
    case bochner::Variant::uniform:
      return [=](const Tensor& t, const Tensor&, const Tensor& sample) {
        const Tensor period = sample.defined() ? sample : torch::empty({m}).uniform_(1, 1e8);
        return sines_and_cosines(t, std::get<0>(period.reciprocal().sort()));
      };
    case bochner::Variant::paper: break;
  }
  const Tensor omega = owner.parameter("omega", torch::pow(10.0, -exponents(m)));
  return [=](const Tensor& t, const Tensor&, const Tensor&) {
    return pairs(rests(t, omega)) / std::sqrt(static_cast<double>(m));
  };
}

Encode position_encoding(int64_t most, int64_t T, const Owner& owner) {
  if (most < 1) throw InvalidArgument("[TimeEncoding] positions need to know how many events a sequence has at most");
  const Tensor table = owner.parameter("table", glorot({most, T}));
  return [=](const Tensor& t, const Tensor& mask, const Tensor&) {
    if (t.size(1) > most)
      throw InvalidArgument(fmt::format("[TimeEncoding] {} events are given, there are {} positions", t.size(1), most));
    // The last row is that of the last event, wherever the padding stands.
    const Tensor exists = (mask.defined() ? mask : torch::ones_like(t)).to(torch::kInt64);
    const Tensor behind = exists.sum(1, true) - exists.cumsum(1);
    return torch::embedding(table, (most - 1 - behind).clamp(0, most - 1));
  };
}

}  // namespace

Tensor fourier_series(const Tensor& phase, const Tensor& coef) { return FourierSeries::apply(phase, coef); }

TimeEncodingImpl::TimeEncodingImpl(const TimeEncodingOptions& given) : options(given) { reset(); }

void TimeEncodingImpl::reset() {
  namespace events = mechanisms::time_attention;
  const int64_t T = options.width();
  const events::TimeEncoder encoder = events::parse_time_encoder(options.encoding());
  events::check(encoder, T);
  const Owner owner{[this](const char* name, const Tensor& start) { return register_parameter(name, start); },
                    [this](const char* name, int64_t width) {
                      torch::nn::Linear layer = register_module(name, torch::nn::Linear(width, width));
                      torch::nn::init::xavier_uniform_(layer->weight);
                      torch::nn::init::zeros_(layer->bias);
                      return layer;
                    }};
  if (const auto* series = std::get_if<Mercer>(&encoder)) {
    encode_ = mercer_encoding(*series, T, owner);
  } else if (const auto* features = std::get_if<Bochner>(&encoder)) {
    encode_ = bochner_encoding(*features, T, owner);
  } else {
    encode_ = position_encoding(options.positions(), T, owner);
  }
}

void TimeEncodingImpl::pretty_print(std::ostream& stream) const {
  stream << "saddle::nn::TimeEncoding(width=" << options.width() << ", encoding=" << options.encoding() << ")";
}

Tensor TimeEncodingImpl::forward(const Tensor& t, const Tensor& mask, const Tensor& sample) {
  if (!t.defined() || t.dim() != 2)
    throw InvalidArgument(
        fmt::format("[TimeEncoding] times have {} dimensions: (B,N) is expected", t.defined() ? t.dim() : 0));
  if (sample.defined() && (sample.dim() != 1 || sample.size(0) != options.width() / 2))
    throw InvalidArgument(fmt::format("[TimeEncoding] {} random numbers are given, {} are expected", sample.numel(),
                                      options.width() / 2));
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return encode_(exact(t), mask, sample);
}

double TimeEncodingImpl::multiply_adds(int64_t N) const {
  namespace events = mechanisms::time_attention;
  return events::cost(events::parse_time_encoder(options.encoding()), N, options.width());
}

}  // namespace saddle::nn

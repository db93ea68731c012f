#include "limits.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "problem.hpp"
#include "saddle/base/parallel.hpp"
#include "statistics.hpp"

namespace saddle::bench {

namespace {

// The best rate of `work(thread)`, which returns what it did, over bursts within `seconds`.
double best_rate(int threads, double seconds, const std::function<double(Index thread)>& work) {
  double best = 0;
  const double end = now() + seconds;
  for (int burst = 0; burst < 8 || now() < end; ++burst) {
    std::vector<double> done(static_cast<std::size_t>(threads));
    const double start = now();
    parallel_for(threads, 1, [&](Index t) { done[static_cast<std::size_t>(t)] = work(t); }, {Schedule::even, threads});
    const double elapsed = now() - start;
    double sum = 0;
    for (double d : done) sum += d;
    best = std::max(best, sum / elapsed * 1e-9);
  }
  return best;
}

double rate(double (*loop)(long), const Limits& limits, const LimitOptions& options) {
  if (loop == nullptr) return 0;
  // Bursts of about a millisecond: long enough to drown the start of a loop, short enough to fall between disturbances.
  long repeats = 64;
  for (double elapsed = 0; elapsed < 5e-4; repeats *= 2) {
    const double start = now();
    loop(repeats);
    elapsed = now() - start;
  }
  return best_rate(limits.threads, options.seconds, [&](Index) { return loop(repeats); });
}

// a = b + 3 c and the sum of b, over arrays beyond the caches.
void measure_memory(Limits& limits, const LimitOptions& options) {
  const Index n = std::clamp<Index>(cpu().l3, Index{64} << 20, Index{128} << 20) / 4;
  const Buffer a(static_cast<std::size_t>(n) * 4), b(static_cast<std::size_t>(n) * 4),
      c(static_cast<std::size_t>(n) * 4);
  const auto floats = [](const Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); };
  const Index part = n / limits.threads;
  limits.triad = best_rate(limits.threads, options.seconds, [&](Index t) {
    float* x = floats(a) + t * part;
    const float *y = floats(b) + t * part, *z = floats(c) + t * part;
    for (Index i = 0; i < part; ++i) x[i] = y[i] + 3 * z[i];
    return 12.0 * static_cast<double>(part);
  });
  limits.read = best_rate(limits.threads, options.seconds, [&](Index t) {
    const auto* words = reinterpret_cast<const std::uint64_t*>(floats(b) + t * part);
    std::array<std::uint64_t, 8> sums{};
    for (Index i = 0; i + 8 <= part / 2; i += 8)
      for (Index k = 0; k < 8; ++k) sums[static_cast<std::size_t>(k)] += words[i + k];
    volatile std::uint64_t sink = sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
    static_cast<void>(sink);
    return 4.0 * static_cast<double>(part);
  });
}

template <class T>
double scalar_fma(long repeats) {
  std::array<T, 8> a{};
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<T>(i);
  volatile T factor = static_cast<T>(1.000001), addend = static_cast<T>(1e-7);
  const T x = factor, y = addend;
  for (long r = 0; r < repeats; ++r)
    for (T& value : a) value = value * x + y;
  T sum = 0;
  for (T value : a) sum += value;
  volatile T sink = sum;
  static_cast<void>(sink);
  return 16.0 * static_cast<double>(repeats);
}

template <class T>
double scalar_exp(long repeats) {
  volatile T sink = 0;
  T x = static_cast<T>(-0.5), sum = 0;
  for (long r = 0; r < repeats; ++r) {
    sum += std::exp(x);
    x = x < -8 ? static_cast<T>(-0.5) : x - static_cast<T>(0.01);
  }
  sink = sum;
  static_cast<void>(sink);
  return static_cast<double>(repeats);
}

}  // namespace

LimitLoops scalar_limits() { return {scalar_fma<float>, scalar_fma<double>, scalar_exp<float>, scalar_exp<double>}; }

std::vector<Limits> measure_limits(Isa isa, const std::vector<int>& threads, const LimitOptions& options) {
  const LimitLoops loops = isa >= Isa::avx512 ? avx512_limits() : isa >= Isa::avx2 ? avx2_limits() : scalar_limits();
  std::vector<Limits> all;
  for (int count : threads) {
    Limits limits;
    limits.threads = count;
    limits.fma_f32 = rate(loops.fma_f32, limits, options);
    limits.fma_f64 = rate(loops.fma_f64, limits, options);
    limits.fma_avx2 = isa >= Isa::avx2 ? rate(avx2_limits().fma_f32, limits, options) : 0;
    limits.exp_f32 = rate(loops.exp_f32, limits, options);
    limits.exp_f64 = rate(loops.exp_f64, limits, options);
    if (isa >= Isa::amx) limits.amx_bf16 = rate(amx_tile_products, limits, options);
    if (options.memory) measure_memory(limits, options);
    all.push_back(limits);
  }
  return all;
}

void improve(std::vector<Limits>& limits, const std::vector<Limits>& again) {
  constexpr double Limits::*quantities[] = {&Limits::fma_f32, &Limits::fma_f64, &Limits::fma_avx2, &Limits::amx_bf16,
                                            &Limits::exp_f32, &Limits::exp_f64, &Limits::triad,    &Limits::read};
  for (Limits& known : limits)
    for (const Limits& fresh : again)
      if (fresh.threads == known.threads)
        for (const auto quantity : quantities) known.*quantity = std::max(known.*quantity, fresh.*quantity);
}

}  // namespace saddle::bench

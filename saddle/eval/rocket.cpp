#include "saddle/eval/rocket.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "saddle/base/parallel.hpp"
#include "saddle/base/random.hpp"

namespace saddle::eval {

namespace {

RocketKernel random_kernel(Index length, Index channels, Stream& random) {
  constexpr Index taps[] = {7, 9, 11};
  RocketKernel kernel;
  kernel.length = std::min(taps[random.below(3)], length);
  if (kernel.length > 1) {
    const Index most = (length - 1) / (kernel.length - 1);
    const double span = std::log2(static_cast<double>(length - 1) / static_cast<double>(kernel.length - 1));
    kernel.dilation = std::min(most, static_cast<Index>(std::exp2(random.uniform() * span)));
  }
  if (random.below(2) == 1) kernel.padding = (kernel.length - 1) * kernel.dilation / 2;
  const auto limit = static_cast<double>(std::min(channels, kernel.length));
  const auto part = static_cast<std::ptrdiff_t>(std::exp2(random.uniform() * std::log2(limit + 1)));
  kernel.channels.resize(static_cast<std::size_t>(channels));
  std::iota(kernel.channels.begin(), kernel.channels.end(), Index{0});
  random.shuffle(kernel.channels);
  kernel.channels.resize(static_cast<std::size_t>(std::min<std::ptrdiff_t>(part, channels)));
  std::sort(kernel.channels.begin(), kernel.channels.end());
  for (std::size_t c = 0; c < kernel.channels.size(); ++c) {
    std::vector<double> weights(static_cast<std::size_t>(kernel.length));
    for (double& weight : weights) weight = random.normal();
    const double mean = std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(weights.size());
    for (const double weight : weights) kernel.weights.push_back(static_cast<float>(weight - mean));
  }
  kernel.bias = static_cast<float>(2 * random.uniform() - 1);
  return kernel;
}

// out[i] = bias + sum over channels c and taps j of weight(c,j) x(c, i - padding + j dilation), 0 outside of the
// series.
void convolve(const RocketKernel& kernel, const float* series, Index length, std::vector<float>& out) {
  const Index size = length + 2 * kernel.padding - (kernel.length - 1) * kernel.dilation;
  out.assign(static_cast<std::size_t>(size), kernel.bias);
  const float* weight = kernel.weights.data();
  for (const Index channel : kernel.channels) {
    const float* x = series + channel * length;
    for (Index j = 0; j < kernel.length; ++j, ++weight) {
      const Index shift = j * kernel.dilation - kernel.padding;
      const Index begin = std::max<Index>(0, -shift), end = std::min(size, length - shift);
      const float w = *weight;
      for (Index i = begin; i < end; ++i) out[static_cast<std::size_t>(i)] += w * x[i + shift];
    }
  }
}

}  // namespace

std::vector<RocketKernel> rocket_kernels(Index count, Index length, Index channels, std::uint64_t seed) {
  Stream random(seed, "rocket");
  std::vector<RocketKernel> kernels;
  for (Index i = 0; i < count; ++i) kernels.push_back(random_kernel(length, channels, random));
  return kernels;
}

Features rocket_features(const Features& series, Index channels, const std::vector<RocketKernel>& kernels) {
  const Index length = series.cols() / channels;
  Features features(series.rows(), 2 * static_cast<Index>(kernels.size()));
  parallel_for(series.rows(), 1,
               [&](Index begin, Index end) {
                 std::vector<float> out;
                 for (Index i = begin; i < end; ++i)
                   for (std::size_t k = 0; k < kernels.size(); ++k) {
                     convolve(kernels[k], series.row(i).data(), length, out);
                     float largest = out[0];
                     Index positive = 0;
                     for (const float value : out) {
                       largest = std::max(largest, value);
                       positive += value > 0 ? 1 : 0;
                     }
                     features(i, 2 * static_cast<Index>(k)) = largest;
                     features(i, 2 * static_cast<Index>(k) + 1) =
                         static_cast<float>(positive) / static_cast<float>(out.size());
                   }
               },
               {Schedule::dynamic});
  return features;
}

}  // namespace saddle::eval

#include "saddle/data/generate/multiscale.hpp"

#include <cmath>
#include <iterator>
#include <numbers>
#include <string>

#include "saddle/data/generate/settings.hpp"
#include "saddle/data/records.hpp"

namespace saddle::data {

namespace {

constexpr int channels = 3;
constexpr double tau = 2 * std::numbers::pi;
constexpr double sharpness = 3;                                  // of the bursts
constexpr double places[] = {0, tau / 4, 3 * tau / 4, tau / 2};  // of the classes in the slow wave

struct Wave {
  double step, phase;  // radians
  double angle(Index t) const { return step * static_cast<double>(t) + phase; }
};

// A random phase, and this many periods over the length.
Wave draw_wave(Stream& stream, Index length, double fewest, double most) {
  const double periods = fewest + (most - fewest) * stream.uniform();
  return {tau * periods / static_cast<double>(length), tau * stream.uniform()};
}

double burst(const Wave& slow, const Wave& carrier, double place, Index t) {
  return std::exp(sharpness * (std::cos(slow.angle(t) - place) - 1)) * std::cos(carrier.angle(t));
}

DatasetPtr dataset(Description description, Index count, const Settings& settings) {
  std::vector<float> values;
  std::vector<Record> list;
  const Index length = settings.whole("length");
  for (Index i = 0; i < count; ++i) {
    Stream stream(settings.seed(), "multiscale/" + description.split + "/" + std::to_string(i));
    const MultiscaleSample sample = draw_multiscale(stream, length, settings.number("noise"));
    values.insert(values.end(), sample.values.begin(), sample.values.end());
    list.push_back({0, 0, length, sample.label});
  }
  description.kind = Kind::series;
  description.channels = channels;
  description.channel_names = {"slow", "fast", "other"};
  description.classes = {"crest", "fall", "rise", "trough"};
  description.checksum = checksum_of(values);
  return series_in_memory(std::move(description), std::move(values), list);
}

}  // namespace

MultiscaleSample draw_multiscale(Stream& stream, Index length, double noise) {
  MultiscaleSample sample;
  sample.label = static_cast<int>(stream.below(std::size(places)));
  const auto steps = static_cast<double>(length);
  const Wave slow = draw_wave(stream, length, 2, 4), fast = draw_wave(stream, length, steps / 9, steps / 5);
  const Wave other_slow = draw_wave(stream, length, 2, 4), other_fast = draw_wave(stream, length, steps / 9, steps / 5);
  const double place = places[sample.label], other_place = tau * stream.uniform();
  for (Index t = 0; t < length; ++t) {
    const double clean[channels] = {std::cos(slow.angle(t)), burst(slow, fast, place, t),
                                    0.5 * std::cos(other_slow.angle(t)) + burst(slow, other_fast, other_place, t)};
    for (const double value : clean) sample.values.push_back(static_cast<float>(value + noise * stream.normal()));
  }
  return sample;
}

Generator multiscale_generator() {
  std::vector<GeneratorOption> options{{"length", "steps of a series", 256, 32, 65536},
                                       {"noise", "standard deviation, beside waves of amplitude 1", 0.5, 0, 10, false}};
  for (GeneratorOption& option : split_options(2000, 0, 1000)) options.push_back(std::move(option));
  return {"multiscale", "bursts of a fast wave at one of four places of a slow one; chance 25 %", Kind::series, options,
          [options](const std::map<std::string, std::string>& given) {
            const Settings settings("multiscale", options, given);
            const auto part = [settings](const char* split) {
              return [settings, split] {
                Description description;
                description.name = settings.name();
                description.split = split;
                return dataset(std::move(description), settings.whole(split), settings);
              };
            };
            return Task{settings.name(), part("train"), {}, part("test")};
          }};
}

}  // namespace saddle::data

#include "saddle/data/generate/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::data {

namespace {

double read_value(const std::string& generator, const GeneratorOption& option, const std::string& text) {
  const auto value = parse_number(text);
  const bool fits =
      value && *value >= option.low && *value <= option.high && (!option.whole || *value == std::floor(*value));
  if (!fits)
    throw InvalidArgument(fmt::format("{}: {} takes a {} from {} to {}, found '{}'", generator, option.name,
                                      option.whole ? "whole number" : "number", format_number(option.low),
                                      format_number(option.high), text));
  return *value;
}

}  // namespace

Settings::Settings(const std::string& generator, const std::vector<GeneratorOption>& options,
                   const std::map<std::string, std::string>& given) {
  for (const auto& entry : given) {
    const std::string& name = entry.first;
    const bool known = std::any_of(options.begin(), options.end(), [&](const auto& o) { return o.name == name; });
    if (known) continue;
    std::vector<std::string> names;
    for (const GeneratorOption& option : options) names.push_back(option.name);
    const std::string close = nearest(name, names);
    throw InvalidArgument(fmt::format("{} has no option '{}', expected {}", generator, name, join(names)),
                          close.empty() ? "" : fmt::format("did you mean '{}'?", close));
  }
  std::vector<std::string> changed;
  for (const GeneratorOption& option : options) {
    const auto found = given.find(option.name);
    const double value = found == given.end() ? option.fallback : read_value(generator, option, found->second);
    values_[option.name] = value;
    if (value != option.fallback) changed.push_back(option.name + "=" + format_number(value));
  }
  name_ = changed.empty() ? generator : fmt::format("{}({})", generator, join(changed, ","));
}

Index Settings::whole(const std::string& option) const { return static_cast<Index>(values_.at(option)); }

double Settings::number(const std::string& option) const { return values_.at(option); }

std::uint64_t Settings::seed() const { return static_cast<std::uint64_t>(values_.at("seed")); }

std::vector<GeneratorOption> split_options(double train, double validation, double test) {
  constexpr double most = 1e7;
  std::vector<GeneratorOption> options{{"train", "samples to train on", train, 1, most}};
  if (validation > 0) options.push_back({"validation", "samples to validate on; 0: none", validation, 0, most});
  options.push_back({"test", "samples to test on", test, 1, most});
  options.push_back({"seed", "of all random numbers", 0, 0, 4294967295.0});
  return options;
}

}  // namespace saddle::data

#include "saddle/data/generate/fuzzy_logic.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "saddle/base/error.hpp"
#include "saddle/data/generate/settings.hpp"
#include "saddle/data/records.hpp"

namespace saddle::data {

namespace {

using mechanisms::hyla::fuzzy_logic::Bits;

DatasetPtr dataset(Description description, Index count, const std::vector<Bits>& functions, const Settings& settings) {
  const Index variables = settings.whole("variables"), length = settings.whole("length"),
              levels = settings.whole("levels");
  std::vector<float> values;
  std::vector<Record> list;
  for (Index i = 0; i < count; ++i) {
    Stream stream(settings.seed(), "fuzzy_logic/" + description.split + "/" + std::to_string(i));
    const Bits& function = functions[stream.below(functions.size())];
    const FuzzySequence sequence = draw_fuzzy_sequence(stream, function, variables, length);
    values.insert(values.end(), sequence.rows.begin(), sequence.rows.end());
    list.push_back(
        {0, 0, length, std::min(levels - 1, static_cast<Index>(sequence.target * static_cast<double>(levels)))});
  }
  description.kind = Kind::series;
  description.channels = variables + 1;
  for (Index v = 1; v <= variables; ++v) description.channel_names.push_back("x" + std::to_string(v));
  description.channel_names.emplace_back("y");
  const std::size_t digits = std::to_string(levels - 1).size();
  for (Index level = 0; level < levels; ++level) description.classes.push_back(fmt::format("{:0{}}", level, digits));
  description.checksum = checksum_of(values);
  return series_in_memory(std::move(description), std::move(values), list);
}

Task make(const Settings& settings) {
  const Index variables = settings.whole("variables"), terms = settings.whole("terms");
  const bool other = settings.whole("ood") == 1;
  const FuzzyFunctions functions = fuzzy_functions(variables, terms, settings.number("held_out"), settings.seed());
  const auto& tested = other ? functions.other : functions.test;
  if (functions.train.empty() || tested.empty())
    throw InvalidArgument(
        fmt::format("fuzzy_logic: {} terms of {} variables leave {} functions to train on and {} to "
                    "test on{}",
                    terms, variables, functions.train.size(), tested.size(), other ? " out of distribution" : ""),
        "take more variables, fewer terms or another share held_out");
  const auto part = [=](const char* split, const std::vector<Bits>& from) {
    return [=] {
      Description description;
      description.name = settings.name();
      description.split = split;
      return dataset(std::move(description), settings.whole(split), from, settings);
    };
  };
  Task task{settings.name(), part("train", functions.train), {}, part("test", tested)};
  if (settings.whole("validation") > 0) task.validation = part("validation", functions.train);
  return task;
}

}  // namespace

FuzzySequence draw_fuzzy_sequence(Stream& stream, const Bits& function, Index variables, Index length) {
  FuzzySequence sequence;
  std::vector<double> x(static_cast<std::size_t>(variables));
  for (Index i = 0; i < length; ++i) {
    for (double& value : x) value = stream.uniform();
    sequence.target = mechanisms::hyla::fuzzy_logic::value_of(function, x);
    for (const double value : x) sequence.rows.push_back(static_cast<float>(value));
    sequence.rows.push_back(i + 1 < length ? static_cast<float>(sequence.target) : 0.0F);
  }
  return sequence;
}

FuzzyFunctions fuzzy_functions(Index variables, Index terms, double held_out, std::uint64_t seed) {
  auto [known, other] = mechanisms::hyla::fuzzy_logic::functions(variables, terms);
  Stream(seed, "fuzzy_logic/functions").shuffle(known);
  const auto first_train = known.begin() + static_cast<std::ptrdiff_t>(held_out * static_cast<double>(known.size()));
  return {{first_train, known.end()}, {known.begin(), first_train}, std::move(other)};
}

Generator fuzzy_logic_generator() {
  std::vector<GeneratorOption> options{
      {"variables", "of a function", 4, 2, 6},
      {"terms", "conjunctions of a function", 2, 1, 4},
      {"length", "of a sequence of points", 32, 2, 4096},
      {"levels", "classes: steps of equal width that the value is rounded down to", 8, 2, 100},
      {"held_out", "share of the functions that are tested, not trained", 0.7, 0, 1, false},
      {"ood", "test functions: 0 of the conjunctions of the training, 1 of others", 0, 0, 1}};
  for (GeneratorOption& option : split_options(50000, 5000, 16000)) options.push_back(std::move(option));
  return {"fuzzy_logic", "a fuzzy logic function at the last of several points, in levels; always the commonest: 25 %",
          Kind::series, options, [options](const std::map<std::string, std::string>& given) {
            return make(Settings("fuzzy_logic", options, given));
          }};
}

}  // namespace saddle::data

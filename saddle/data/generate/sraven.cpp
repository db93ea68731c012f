#include "saddle/data/generate/sraven.hpp"

#include <algorithm>
#include <numeric>

#include "saddle/data/generate/settings.hpp"
#include "saddle/data/records.hpp"

namespace saddle::data {

namespace {

using namespace mechanisms::hyla::sraven;

constexpr std::uint8_t first_value = 1, blank = 9, asked = 10;

Draws draw_feature(Stream& stream) {
  Draws draws;
  const auto any = [&] { return static_cast<Index>(stream.below(static_cast<std::uint64_t>(rule_modulus))); };
  for (Index& value : draws.first) value = any();
  for (Index& value : draws.second) value = any();
  std::vector<Index> symbols(static_cast<std::size_t>(rule_modulus));
  std::iota(symbols.begin(), symbols.end(), Index{0});
  stream.shuffle(symbols);
  std::copy_n(symbols.begin(), size, draws.symbols.begin());
  for (auto& permutation : draws.permutations) {
    std::iota(permutation.begin(), permutation.end(), Index{0});
    stream.shuffle(std::span<Index>(permutation));
  }
  return draws;
}

DatasetPtr dataset(Description description, Index count, const std::vector<std::vector<int>>& combinations,
                   std::uint64_t seed) {
  std::string bytes;
  std::vector<Record> list;
  for (Index i = 0; i < count; ++i) {
    Stream stream(seed, "sraven/" + description.split + "/" + std::to_string(i));
    const auto panels = draw_sraven(stream, combinations[stream.below(combinations.size())]);
    const std::size_t feature = stream.below(sraven_features), offset = bytes.size();
    for (const Index value : context_of(panels)) bytes.push_back(static_cast<char>(first_value + value));
    for (std::size_t f = 0; f < sraven_features; ++f) bytes.push_back(static_cast<char>(f == feature ? asked : blank));
    const Index length = static_cast<Index>(bytes.size() - offset);
    list.push_back({offset, bytes.size() - offset, length, panels[size - 1][size - 1][feature]});
  }
  Checksum checksum;
  checksum.add(bytes);
  description.checksum = checksum.text();
  description.kind = Kind::tokens;
  description.token_names = {"padding", "0", "1", "2", "3", "4", "5", "6", "7", "answer", "asked"};
  description.vocabulary = static_cast<Index>(description.token_names.size());
  for (char value = '0'; value < '0' + rule_modulus; ++value) description.classes.emplace_back(1, value);
  const std::string name = description.name;
  return records(
      std::move(description), contents_of(std::move(bytes), name), std::move(list),
      [](std::string_view text, const Record&, Sample& into) { into.tokens.assign(text.begin(), text.end()); });
}

Task make(const Settings& settings) {
  const auto part = [settings](const char* split) {
    return [settings, split] {
      Description description;
      description.name = settings.name();
      description.split = split;
      const SravenCombinations combinations = sraven_combinations(settings.seed());
      const bool other = description.split == "test" && settings.whole("ood") == 1;
      return dataset(std::move(description), settings.whole(split), other ? combinations.held_out : combinations.known,
                     settings.seed());
    };
  };
  Task task{settings.name(), part("train"), {}, part("test")};
  if (settings.whole("validation") > 0) task.validation = part("validation");
  return task;
}

}  // namespace

Square<std::vector<Index>> draw_sraven(Stream& stream, const std::vector<int>& rules) {
  std::vector<Square<Index>> features;
  for (const int rule : rules) features.push_back(grid_of(rule, draw_feature(stream)));
  std::array<std::vector<Index>, size> permutations;
  for (auto& permutation : permutations) {
    permutation.resize(rules.size());
    std::iota(permutation.begin(), permutation.end(), Index{0});
    stream.shuffle(permutation);
  }
  return panels_of(features, permutations);
}

SravenCombinations sraven_combinations(std::uint64_t seed) {
  SravenCombinations made;
  made.known = combinations(sraven_features);
  Stream(seed, "sraven/combinations").shuffle(made.known);
  const auto held_out = made.known.end() - static_cast<std::ptrdiff_t>(made.known.size() / 4);
  made.held_out.assign(held_out, made.known.end());
  made.known.erase(held_out, made.known.end());
  return made;
}

Generator sraven_generator() {
  std::vector<GeneratorOption> options{
      {"ood", "test combinations of rules: 0 those of the training, 1 those held out of it", 0, 0, 1}};
  for (GeneratorOption& option : split_options(100000, 5000, 51200)) options.push_back(std::move(option));
  return {"sraven", "S-RAVEN: one feature of the last of nine panels, which follow rules; chance 12.5 %", Kind::tokens,
          options, [options](const std::map<std::string, std::string>& given) {
            return make(Settings("sraven", options, given));
          }};
}

}  // namespace saddle::data

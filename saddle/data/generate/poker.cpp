#include "saddle/data/generate/poker.hpp"

#include <algorithm>
#include <numeric>

#include "saddle/data/generate/settings.hpp"
#include "saddle/data/records.hpp"

namespace saddle::data {

namespace {

constexpr int suits = 4, ranks = 13, cards = suits * ranks;

DatasetPtr dataset(Description description, Index count, std::uint64_t seed) {
  Stream stream(seed, "poker/" + description.split);
  std::vector<float> values;
  std::vector<Record> list;
  for (Index i = 0; i < count; ++i) {
    const Hand hand = draw_hand(stream);
    for (const Card& card : hand)
      for (int channel = 0; channel < suits + ranks; ++channel)
        values.push_back(channel == card.suit - 1 || channel == suits + card.rank - 1 ? 1.0F : 0.0F);
    list.push_back({0, 0, static_cast<Index>(hand.size()), poker_class(hand)});
  }
  description.kind = Kind::series;
  description.channels = suits + ranks;
  for (int suit = 1; suit <= suits; ++suit) description.channel_names.push_back("suit " + std::to_string(suit));
  for (int rank = 1; rank <= ranks; ++rank) description.channel_names.push_back("rank " + std::to_string(rank));
  for (char label = '0'; label <= '9'; ++label) description.classes.emplace_back(1, label);
  description.checksum = checksum_of(values);
  return series_in_memory(std::move(description), std::move(values), list);
}

}  // namespace

Hand draw_hand(Stream& stream) {
  std::array<int, cards> deck{};
  std::iota(deck.begin(), deck.end(), 0);
  Hand hand;
  for (std::size_t i = 0; i < hand.size(); ++i) {
    std::swap(deck[i], deck[i + stream.below(cards - i)]);
    hand[i] = {deck[i] / ranks + 1, deck[i] % ranks + 1};
  }
  return hand;
}

int poker_class(const Hand& hand) {
  std::array<int, ranks + 1> count{};
  for (const Card& card : hand) ++count[static_cast<std::size_t>(card.rank)];
  std::array<int, 6> groups{};  // how many ranks occur this often
  for (std::size_t rank = 1; rank <= ranks; ++rank) ++groups[static_cast<std::size_t>(count[rank])];
  const auto [low, high] =
      std::minmax_element(hand.begin(), hand.end(), [](const Card& a, const Card& b) { return a.rank < b.rank; });
  const bool different = groups[1] == 5;
  const bool flush =
      std::all_of(hand.begin(), hand.end(), [&](const Card& card) { return card.suit == hand.front().suit; });
  const bool broadway = different && count[1] + count[10] + count[11] + count[12] + count[13] == 5;
  const bool consecutive = different && high->rank - low->rank == 4;
  if (flush && broadway) return 9;
  if (flush && consecutive) return 8;
  if (groups[4] == 1) return 7;
  if (groups[3] == 1 && groups[2] == 1) return 6;
  if (flush) return 5;
  if (consecutive || broadway) return 4;
  if (groups[3] == 1) return 3;
  return groups[2];
}

Generator poker_generator() {
  const std::vector<GeneratorOption> options = split_options(25010, 0, 100000);
  return {"poker", "hands of five cards, one of ten classes; always the commonest: 50.1 %", Kind::series, options,
          [options](const std::map<std::string, std::string>& given) {
            const Settings settings("poker", options, given);
            const auto part = [settings](const char* split) {
              return [settings, split] {
                Description description;
                description.name = settings.name();
                description.split = split;
                return dataset(std::move(description), settings.whole(split), settings.seed());
              };
            };
            return Task{settings.name(), part("train"), {}, part("test")};
          }};
}

}  // namespace saddle::data

// Poker hands: five cards, ten classes, as in the UCI data set.
#pragma once

#include <array>

#include "saddle/base/random.hpp"
#include "saddle/data/generate/generate.hpp"

namespace saddle::data {

struct Card {
  int suit = 1, rank = 1;  // 1 .. 4, 1 .. 13; 1 is the ace
};
using Hand = std::array<Card, 5>;

// Five different cards, all equally likely, in random order.
Hand draw_hand(Stream& stream);

// 0 nothing, 1 one pair, 2 two pairs, 3 three of a kind, 4 straight, 5 flush, 6 full house, 7 four of a kind,
// 8 straight flush, 9 royal flush. The ace is low in a straight, or high in 10 .. ace.
int poker_class(const Hand& hand);

// Series of 5 steps with 17 channels: the suit, then the rank, each as one 1 among zeros.
Generator poker_generator();

}  // namespace saddle::data

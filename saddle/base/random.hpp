// Counter-based random numbers: draw i of a named stream is a pure function of (seed, name, i).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "saddle/base/export.hpp"

namespace saddle {

// Philox4x32 of Salmon, Moraes, Dror and Shaw (2011): 128 random bits from a counter and a key. They advise ten rounds
// and found seven to be enough for every test of BigCrush.
SADDLE_API std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key,
                                               int rounds = 10);

// One seed gives as many independent streams as there are names: "init", "shuffle", "dropout", "features", "dropout/3".
// The *_at functions reach any draw directly; the others take the next one. A draw of any kind uses one counter, so
// kinds mix freely, and a copy, or a new stream after seek(position()), goes on with the same numbers.
class SADDLE_API Stream {
 public:
  Stream(std::uint64_t seed, std::string_view name);

  std::uint32_t bits32_at(std::uint64_t i) const;
  std::uint64_t bits64_at(std::uint64_t i) const;
  double uniform_at(std::uint64_t i) const;                            // in [0,1), all 53 bits random
  double normal_at(std::uint64_t i) const;                             // mean 0, variance 1
  std::uint64_t below_at(std::uint64_t i, std::uint64_t bound) const;  // in [0,bound), every value equally likely

  std::uint32_t bits32() { return bits32_at(position_++); }
  std::uint64_t bits64() { return bits64_at(position_++); }
  double uniform() { return uniform_at(position_++); }
  double normal() { return normal_at(position_++); }
  std::uint64_t below(std::uint64_t bound) { return below_at(position_++, bound); }

  // Puts the items into random order; takes items.size() - 1 draws.
  template <class T>
  void shuffle(std::span<T> items) {
    using std::swap;
    for (std::size_t n = items.size(); n > 1; --n) swap(items[n - 1], items[static_cast<std::size_t>(below(n))]);
  }
  template <class T>
  void shuffle(std::vector<T>& items) {
    shuffle(std::span<T>(items));
  }

  std::uint64_t position() const { return position_; }
  void seek(std::uint64_t position) { position_ = position; }
  bool operator==(const Stream&) const = default;

 private:
  std::array<std::uint64_t, 2> block(std::uint64_t i, std::uint64_t attempt = 0) const;

  std::uint64_t seed_;
  std::uint64_t name_;  // hash
  std::uint64_t position_ = 0;
};

}  // namespace saddle

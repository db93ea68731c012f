#include "interleave.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "saddle/base/error.hpp"

namespace saddle::bench {

namespace {

constexpr double longest_slice = 0.02;  // seconds of calls in one round of one contender
constexpr int few_rounds = 3;
constexpr double longest_wait = 4;  // times the seconds asked for, while a minimum is not confirmed

void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

}  // namespace

void interleave(std::vector<Seat>& seats, const Rounds& rounds) {
  const double start = now(), slice = std::min(longest_slice, rounds.seconds / 10);
  const auto go_on = [&](int round) {
    const double spent = now() - start;
    if (round < rounds.fewest || spent < rounds.seconds) return true;
    return spent < longest_wait * rounds.seconds && std::any_of(seats.begin(), seats.end(), [](const Seat& seat) {
             return seat.contender != nullptr && !seat.contender->expensive() && !is_confirmed(seat.times);
           });
  };
  for (int round = 0; round < rounds.most && go_on(round); ++round) {
    for (Seat& seat : seats) {
      if (seat.contender == nullptr || (seat.contender->expensive() && round >= few_rounds)) continue;
      try {
        seat.times.push_back(seat.contender->round(slice));
        pause(seat.contender->settling());
      } catch (const Error& error) {
        seat.failed(error.what());
        seat.contender = nullptr;
      }
    }
  }
  for (Seat& seat : seats)
    if (seat.contender != nullptr && !seat.times.empty()) seat.done(summarise(seat.times));
}

}  // namespace saddle::bench

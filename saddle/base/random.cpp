#include "saddle/base/random.hpp"

#include <cmath>
#include <numbers>

#include "saddle/base/error.hpp"

namespace saddle {

namespace {

// FNV-1a, then the finaliser of splitmix64 so that similar names differ in every bit.
std::uint64_t hash(std::string_view name) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
  return h ^ (h >> 31);
}

std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

double to_unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> k, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t a = 0xD2511F53u * std::uint64_t{c[0]};
    const std::uint64_t b = 0xCD9E8D57u * std::uint64_t{c[2]};
    c = {high(b) ^ c[1] ^ k[0], low(b), high(a) ^ c[3] ^ k[1], low(a)};
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c;
}

Stream::Stream(std::uint64_t seed, std::string_view name) : seed_(seed), name_(hash(name)) {}

// The seed is the key; the name fills the upper half of the counter, so streams of one seed never overlap.
std::array<std::uint64_t, 2> Stream::block(std::uint64_t i, std::uint64_t attempt) const {
  const std::uint64_t upper = name_ + attempt;
  const auto w = philox({low(i), high(i), low(upper), high(upper)}, {low(seed_), high(seed_)});
  return {w[0] | std::uint64_t{w[1]} << 32, w[2] | std::uint64_t{w[3]} << 32};
}

std::uint32_t Stream::bits32_at(std::uint64_t i) const { return low(block(i)[0]); }
std::uint64_t Stream::bits64_at(std::uint64_t i) const { return block(i)[0]; }
double Stream::uniform_at(std::uint64_t i) const { return to_unit(block(i)[0]); }

// Box and Muller; 1 - u is never 0, and the second normal of the pair is given up for one draw per counter.
double Stream::normal_at(std::uint64_t i) const {
  const auto bits = block(i);
  const double radius = std::sqrt(-2.0 * std::log1p(-to_unit(bits[0])));
  return radius * std::cos(2.0 * std::numbers::pi * to_unit(bits[1]));
}

// Lemire's multiplication; the few products that would favour some values are refused and drawn again.
std::uint64_t Stream::below_at(std::uint64_t i, std::uint64_t bound) const {
  if (bound == 0) throw InvalidArgument("a random integer below 0 was asked for: the bound must be at least 1");
  __extension__ using Wide = unsigned __int128;
  const std::uint64_t refuse = (0 - bound) % bound;
  for (std::uint64_t attempt = 0;; ++attempt) {
    const Wide product = Wide{block(i, attempt)[0]} * bound;
    if (static_cast<std::uint64_t>(product) >= refuse) return static_cast<std::uint64_t>(product >> 64);
  }
}

}  // namespace saddle

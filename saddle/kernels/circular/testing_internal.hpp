// Support for the tests of the circular kernel: problems with memory around them that nobody may touch, instruction
// sets, comparison.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "saddle/base/cpu.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/base/random.hpp"
#include "saddle/kernels/circular/circular.hpp"

namespace saddle::kernels::circular::testing {

// Limits the instruction set as a user would, while it lives.
class AtMost {
 public:
  explicit AtMost(Isa isa) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, to_string(isa), 1);
  }
  ~AtMost() { before_ ? setenv(name, before_->c_str(), 1) : unsetenv(name); }
  AtMost(const AtMost&) = delete;
  AtMost& operator=(const AtMost&) = delete;

 private:
  static constexpr const char* name = "SADDLE_MAX_ISA";
  std::optional<std::string> before_;
};

inline std::vector<Isa> isas() {
  std::vector<Isa> list;
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512})
    if (isa <= best_isa()) list.push_back(isa);
  return list;
}

enum class Layout { bhnd, bnhd };

// A tensor [B,H,N,C] in memory of either order, with a gap behind the channels of each token. Everything starts as NaN.
template <class T>
class Block {
 public:
  Block(const CircularShape& shape, Index C, Layout layout)
      : shape_{shape.B, shape.H, shape.N, C},
        memory_(static_cast<std::size_t>(shape.B * shape.H * shape.N * (C + gap)),
                std::numeric_limits<T>::quiet_NaN()) {
    const Index row = C + gap;
    stride_ = layout == Layout::bhnd ? std::array<Index, 4>{shape.H * shape.N * row, shape.N * row, row, 1}
                                     : std::array<Index, 4>{shape.N * shape.H * row, row, shape.H * row, 1};
  }

  View<T, 4> view() { return {memory_.data(), shape_, stride_}; }
  View<const T, 4> view() const { return {memory_.data(), shape_, stride_}; }
  // The first channel alone.
  View<T, 3> flat() {
    return {memory_.data(), {shape_[0], shape_[1], shape_[2]}, {stride_[0], stride_[1], stride_[2]}};
  }
  View<const T, 3> flat() const {
    return {memory_.data(), {shape_[0], shape_[1], shape_[2]}, {stride_[0], stride_[1], stride_[2]}};
  }

  // f(b, h, i, c, value) for all elements.
  template <class F>
  void each(const F& f) {
    const View<T, 4> x = view();
    for (Index b = 0; b < shape_[0]; ++b)
      for (Index h = 0; h < shape_[1]; ++h)
        for (Index i = 0; i < shape_[2]; ++i)
          for (Index c = 0; c < shape_[3]; ++c) f(b, h, i, c, x(b, h, i, c));
  }

  // The same values in another type and order of memory.
  template <class U>
  Block<U> as(Layout layout) const {
    Block<U> to({shape_[0], shape_[1], shape_[2], 0}, shape_[3], layout);
    const View<const T, 4> from = view();
    to.each([&](Index b, Index h, Index i, Index c, U& x) { x = static_cast<U>(from(b, h, i, c)); });
    return to;
  }

  bool gaps_untouched() const {
    std::size_t numbers = 0;
    for (T x : memory_) numbers += !std::isnan(x);
    return numbers <=
               memory_.size() / static_cast<std::size_t>(shape_[3] + gap) * static_cast<std::size_t>(shape_[3]) &&
           std::isnan(memory_.back());
  }
  bool operator==(const Block& other) const {
    return std::equal(memory_.begin(), memory_.end(), other.memory_.begin(), other.memory_.end(),
                      [](T a, T b) { return a == b || (std::isnan(a) && std::isnan(b)); });
  }

  static constexpr Index gap = 3;

 private:
  std::array<Index, 4> shape_, stride_;
  std::vector<T> memory_;
};

// Normal numbers that float holds exactly, up to the length of each sequence; NaN behind it.
inline Block<double> random_block(const CircularShape& shape, Index C, const std::vector<Index>& lengths,
                                  const char* name) {
  Block<double> block(shape, C, Layout::bhnd);
  Stream stream(7, name);
  block.each([&](Index b, Index, Index i, Index, double& x) {
    const double value = static_cast<double>(static_cast<float>(stream.normal()));
    if (lengths.empty() || i < lengths[static_cast<std::size_t>(b)]) x = value;
  });
  return block;
}

// Largest difference over the largest number in `judge`, or over `least`; infinite if a number is missing.
template <class T>
double error_of(Block<T>& found, Block<double>& judge, double least = 0) {
  double difference = 0, size = least;
  const View<T, 4> x = found.view();
  judge.each([&](Index b, Index h, Index i, Index c, double& y) {
    const double e = std::fabs(static_cast<double>(x(b, h, i, c)) - y);
    difference = std::isnan(e) ? std::numeric_limits<double>::infinity() : std::max(difference, e);
    size = std::max(size, std::fabs(y));
  });
  return size == 0 ? difference : difference / size;
}

template <class T>
constexpr double tolerance = std::is_same_v<T, float> ? 2e-5 : 1e-12;

}  // namespace saddle::kernels::circular::testing

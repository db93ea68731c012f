// Pathfinder-32 of the Long Range Arena, setting "hard": are two discs the ends of the same dashed curve?
#pragma once

#include <array>
#include <cstdint>

#include "saddle/base/random.hpp"
#include "saddle/data/generate/generate.hpp"

namespace saddle::data {

struct PathfinderImage {
  std::array<std::uint8_t, 32 * 32> pixels{};  // row by row
  int label = 0;                               // 1: the same curve
  int distractors = 0;                         // short curves that found a place, of five
};

PathfinderImage draw_pathfinder(Stream& stream);

// As images, and as sequences of 1024 pixels: token = grey value + 1, so that black is no padding.
Generator pathfinder_generator();
Generator pathfinder_pixels_generator();

}  // namespace saddle::data

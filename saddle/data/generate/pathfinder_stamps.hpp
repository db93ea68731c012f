// What a Pathfinder image is drawn with: a short stroke ("paddle") for every direction, the area it needs, and the
// disc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace saddle::data {

// Points are (y, x), y downwards.
struct Point {
  int y = 0, x = 0;
  bool operator==(const Point&) const = default;
};

using Bytes = std::vector<std::uint8_t>;  // a square, row by row

inline std::size_t cell(int y, int x, int width) {
  return static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x);
}

// From n x n to m x m by the Lanczos filter with three lobes, exactly as Pillow does it for bytes.
Bytes reduce_lanczos(const Bytes& image, int n, int m);

struct Stamp {
  static constexpr int size = 9;                  // cells (4,4) are on the pixel where the stroke starts
  std::array<float, size * size> line{}, mask{};  // 0 .. 1
  std::vector<Point> needed;                      // offsets of the cells that must be free where a curve begins
  bool usable = false;                            // a curve may begin in this direction
};

// The stamp of a direction in radians; there are 30 different ones.
const Stamp& stamp_of(double direction);

// The disc at a point of a 32 x 32 image, in bytes.
Bytes disc_at(Point centre);

inline constexpr int image_size = 32;
inline bool inside(Point p) { return p.y >= 0 && p.x >= 0 && p.y < image_size && p.x < image_size; }

}  // namespace saddle::data

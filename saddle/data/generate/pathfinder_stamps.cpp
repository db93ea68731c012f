#include "saddle/data/generate/pathfinder_stamps.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numbers>
#include <utility>

namespace saddle::data {

namespace {

constexpr int field = 17, middle = 8, reach = 4;  // strokes are drawn in twice their size

double lanczos(double u) {
  const auto sinc = [](double x) { return x == 0 ? 1.0 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x); };
  return std::abs(u) < 3 ? sinc(u) * sinc(u / 3) : 0;
}

// Weights of one output pixel, as whole numbers of 22 bits behind the point.
struct Taps {
  int first = 0;
  std::vector<std::int64_t> weights;
};

std::vector<Taps> taps(int n, int m) {
  const double scale = static_cast<double>(n) / m;
  std::vector<Taps> all;
  for (int i = 0; i < m; ++i) {
    const double centre = (i + 0.5) * scale;
    const int low = std::max(0, static_cast<int>(std::floor(centre - 3 * scale + 0.5)));
    const int high = std::min(n, static_cast<int>(std::floor(centre + 3 * scale + 0.5)));
    std::vector<double> weights;
    double sum = 0;
    for (int j = low; j < high; ++j) {
      weights.push_back(lanczos((j - centre + 0.5) / scale));
      sum += weights.back();
    }
    Taps row{low, {}};
    for (const double weight : weights) row.weights.push_back(std::llround(weight / sum * (1 << 22)));
    all.push_back(std::move(row));
  }
  return all;
}

std::uint8_t filtered(const Taps& at, const std::uint8_t* values, int stride) {
  std::int64_t sum = 1 << 21;
  for (std::size_t j = 0; j < at.weights.size(); ++j)
    sum += at.weights[j] * values[(at.first + static_cast<int>(j)) * stride];
  return static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> 22, 0, 255));
}

// From the tip back to the middle, as Bresenham does: the way round decides the ties.
Bytes stroke(Point tip) {
  Bytes image(field * field);
  const int dy = std::abs(tip.y - middle), dx = std::abs(tip.x - middle);
  const int sy = tip.y <= middle ? 1 : -1, sx = tip.x <= middle ? 1 : -1;
  const bool steep = dy > dx;
  const int along = std::max(dy, dx), across = std::min(dy, dx);
  int error = along - 2 * across;
  for (int i = 0; i <= along; ++i) {
    image[cell(tip.y, tip.x, field)] = 255;
    const bool aside = error < 0;
    error += (aside ? 2 * along : 0) - 2 * across;
    if (steep || aside) tip.y += sy;
    if (!steep || aside) tip.x += sx;
  }
  return image;
}

// Everything within two pixels.
Bytes widened(const Bytes& image) {
  Bytes wide(image.size());
  const auto set = [&](int y, int x) {
    for (int dy = -2; dy <= 2; ++dy)
      for (int dx = -2; dx <= 2; ++dx) {
        const int v = y + dy, u = x + dx;
        if (dy * dy + dx * dx <= 4 && v >= 0 && u >= 0 && v < field && u < field) wide[cell(v, u, field)] = 255;
      }
  };
  for (int y = 0; y < field; ++y)
    for (int x = 0; x < field; ++x)
      if (image[cell(y, x, field)] != 0) set(y, x);
  return wide;
}

Stamp make_stamp(Point tip) {
  const Bytes drawn = stroke(tip);
  const Bytes line = reduce_lanczos(drawn, field, Stamp::size),
              mask = reduce_lanczos(widened(drawn), field, Stamp::size);
  Stamp stamp;
  for (std::size_t i = 0; i < line.size(); ++i) {
    stamp.line[i] = static_cast<float>(line[i]) / 255;
    stamp.mask[i] = static_cast<float>(mask[i]) / 255;
  }
  // The reference looks at seven of the nine rows and columns, one cell off the centre; so do we.
  for (int y = 0; y <= 6; ++y)
    for (int x = 0; x <= 6; ++x)
      if (mask[cell(y, x, Stamp::size)] == 255) stamp.needed.push_back({y - 3, x - 3});
  // And it takes a place whose cells all lie outside of the image for "no place left", wherever that is.
  stamp.usable = true;
  for (int y = 0; y < image_size; ++y)
    for (int x = 0; x < image_size; ++x)
      stamp.usable &= std::any_of(stamp.needed.begin(), stamp.needed.end(), [&](Point k) {
        return inside({y + k.y, x + k.x});
      });
  return stamp;
}

}  // namespace

Bytes reduce_lanczos(const Bytes& image, int n, int m) {
  const std::vector<Taps> all = taps(n, m);
  Bytes narrow(cell(n, 0, m)), small(cell(m, 0, m));
  for (int y = 0; y < n; ++y)
    for (int x = 0; x < m; ++x)
      narrow[cell(y, x, m)] = filtered(all[static_cast<std::size_t>(x)], image.data() + y * n, 1);
  for (int y = 0; y < m; ++y)
    for (int x = 0; x < m; ++x) small[cell(y, x, m)] = filtered(all[static_cast<std::size_t>(y)], narrow.data() + x, m);
  return small;
}

const Stamp& stamp_of(double direction) {
  static const std::map<std::pair<int, int>, Stamp> all = [] {
    std::map<std::pair<int, int>, Stamp> stamps;
    for (int degree = -1800; degree < 1800; ++degree) {
      const double t = degree * std::numbers::pi / 1800;
      const Point tip{static_cast<int>(std::ceil(middle + reach * std::sin(t))),
                      static_cast<int>(std::ceil(middle + reach * std::cos(t)))};
      const std::pair key{tip.y, tip.x};
      if (!stamps.contains(key)) stamps.emplace(key, make_stamp(tip));
    }
    return stamps;
  }();
  return all.at({static_cast<int>(std::ceil(middle + reach * std::sin(direction))),
                 static_cast<int>(std::ceil(middle + reach * std::cos(direction)))});
}

Bytes disc_at(Point centre) {
  constexpr int wide = 2 * image_size;
  Bytes image(wide * wide);
  for (int y = 0; y < wide; ++y)
    for (int x = 0; x < wide; ++x) {
      const int dy = y - 2 * centre.y, dx = x - 2 * centre.x;
      if (dy * dy + dx * dx <= 9) image[cell(y, x, wide)] = 255;
    }
  return reduce_lanczos(image, wide, image_size);
}

}  // namespace saddle::data

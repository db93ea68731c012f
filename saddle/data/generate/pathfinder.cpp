#include "saddle/data/generate/pathfinder.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "saddle/data/generate/pathfinder_stamps.hpp"

namespace saddle::data {

namespace {

constexpr int pixels = image_size * image_size;
constexpr double pi = std::numbers::pi;
constexpr float curve_contrast = 1.5F, distractor_contrast = 2.0F;

using Image = std::array<double, pixels>;

std::size_t at(Point p) { return cell(p.y, p.x, image_size); }

Point move(Point from, double direction, double distance) {
  return {static_cast<int>(std::ceil(from.y + distance * std::sin(direction))),
          static_cast<int>(std::ceil(from.x + distance * std::cos(direction)))};
}

double flip(double direction) { return direction < 0 ? direction + pi : direction - pi; }

double degrees(Stream& stream, int first) { return (first + static_cast<int>(stream.below(360))) * pi / 180; }

// Everything below `first` and from `end` on, in rows and in columns.
Image blocked_outside(Image mask, int first, int end) {
  for (int y = 0; y < image_size; ++y)
    for (int x = 0; x < image_size; ++x)
      if (y < first || x < first || y >= end || x >= end) mask[at({y, x})] = 1;
  return mask;
}

// The larger of what is there and the drawing, times the contrast, with its middle on `centre`.
void stamp_onto(Image& image, const std::array<float, Stamp::size * Stamp::size>& drawing, Point centre,
                float contrast = 1) {
  for (int y = 0; y < Stamp::size; ++y)
    for (int x = 0; x < Stamp::size; ++x) {
      const Point p{centre.y + y - Stamp::size / 2, centre.x + x - Stamp::size / 2};
      if (!inside(p)) continue;
      const float value = contrast * drawing[cell(y, x, Stamp::size)];
      image[at(p)] = std::max(image[at(p)], static_cast<double>(value));
    }
}

// Whether the area of the stamp is free enough. Beyond it the sum is that of the mask, which never exceeds 1.
bool fits(const Image& mask, const Stamp& stamp, Point centre) {
  for (int y = 0; y < Stamp::size; ++y)
    for (int x = 0; x < Stamp::size; ++x) {
      const Point p{centre.y + y - Stamp::size / 2, centre.x + x - Stamp::size / 2};
      const double area = stamp.mask[cell(y, x, Stamp::size)];
      if (inside(p) && mask[at(p)] + area >= 1.8) return false;
    }
  return true;
}

void merge(Image& image, const Image& other) {
  std::transform(image.begin(), image.end(), other.begin(), image.begin(),
                 [](double a, double b) { return std::max(a, b); });
}

// Where a curve may begin in the direction of the stamp.
std::vector<Point> free_places(const Image& mask, const Stamp& stamp) {
  std::vector<Point> places;
  for (int y = 0; y < image_size; ++y)
    for (int x = 0; x < image_size; ++x) {
      const bool is_free = std::all_of(stamp.needed.begin(), stamp.needed.end(), [&](Point k) {
        const Point p{y + k.y, x + k.x};
        return !inside(p) || mask[at(p)] <= 0.3;
      });
      if (is_free) places.push_back({y, x});
    }
  return places;
}

struct Seed {
  Point start, pivot;
  double direction = 0;
};

// The pivot lies behind the start: the next stroke begins at its tip. Nothing when either leaves the image.
std::optional<Seed> seed_at(Point start, double direction) {
  const Point head = move(start, direction, 2), pivot = move(head, flip(direction), 3);
  if (!inside(head) || !inside(pivot)) return std::nullopt;
  return Seed{start, pivot, direction};
}

// A place for a curve in the free parts of the mask.
std::optional<Seed> draw_seed(Stream& stream, const Image& mask) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    const double direction = degrees(stream, -180);
    const Stamp& stamp = stamp_of(direction);
    if (!stamp.usable) return std::nullopt;
    const std::vector<Point> places = free_places(mask, stamp);
    if (places.empty()) return std::nullopt;
    if (const auto seed = seed_at(places[stream.below(places.size())], direction)) return seed;
  }
  return std::nullopt;
}

// Seven pixels from the first seed, on any side, whatever lies there.
std::optional<Seed> draw_second_seed(Stream& stream, Point first) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    const double direction = degrees(stream, -180), side = degrees(stream, 0);
    const Point start{static_cast<int>(std::nearbyint(first.y + 7 * std::sin(side))),
                      static_cast<int>(std::nearbyint(first.x + 7 * std::cos(side)))};
    if (const auto seed = seed_at(start, direction)) return seed;
  }
  return std::nullopt;
}

// A dashed curve that grows stroke by stroke. The area of the last stroke is held back until the next one is drawn, or
// it would be in its own way.
class Curve {
 public:
  Curve(const Seed& seed, Image& image, float contrast)
      : contrast_(contrast),
        pivot_(seed.pivot),
        end_(seed.start),
        direction_(seed.direction),
        last_(&stamp_of(seed.direction)) {
    stamp_onto(image, last_->line, end_, contrast_);
  }

  bool extend(Stream& stream, Image& image, Image& mask) {
    static constexpr Point around[] = {{-3, -2}, {-3, -1}, {-3, 0}, {-3, 1}, {-2, -3}, {-2, 2},
                                       {-1, -3}, {-1, 2},  {0, -3}, {0, 2},  {0, 3},   {1, -3},
                                       {1, 2},   {2, -3},  {2, -2}, {2, -1}, {2, 0},   {2, 1}};
    const Point pivot = move(pivot_, direction_, 4);
    std::vector<Point> candidates;
    std::vector<double> weights;
    double sum = 0;
    for (const Point offset : around) {
      const Point c{pivot.y + offset.y, pivot.x + offset.x};
      if (!inside(c)) continue;
      candidates.push_back(c);
      weights.push_back(weight(c, offset, mask));
      sum += weights.back();
    }
    if (sum < 1e-4) return false;
    for (int attempt = 0; attempt < 3; ++attempt) {
      const Point c = candidates[drawn(stream, weights, sum)];
      const double direction = std::atan2(c.y - pivot.y, c.x - pivot.x);
      const Stamp& stamp = stamp_of(flip(direction));
      if (!fits(mask, stamp, c)) continue;
      stamp_onto(image, stamp.line, c, contrast_);
      occupy(mask);
      last_ = &stamp;
      pivot_ = pivot;
      direction_ = direction;
      end_ = c;
      return true;
    }
    return false;
  }

  Point end() const { return end_; }
  // Adds the area of the last stroke.
  void occupy(Image& mask) const { stamp_onto(mask, last_->mask, end_); }

 private:
  // Straight on is likelier, and so is what keeps clear of other curves.
  double weight(Point c, Point offset, const Image& mask) const {
    double occupied = 0;
    for (const Point step : {Point{0, 0}, Point{1, 0}, Point{-1, 0}, Point{0, 1}, Point{0, -1}}) {
      const Point p{c.y + step.y, c.x + step.x};
      if (inside(p)) occupied = std::max(occupied, mask[at(p)]);
    }
    double turn = std::abs(std::remainder(std::atan2(offset.y, offset.x) - direction_, 2 * pi));
    turn = std::min(turn, pi / 2);
    const double straight = std::max(std::cos(turn), 0.0);
    return (1 - occupied) * straight * straight;
  }

  static std::size_t drawn(Stream& stream, const std::vector<double>& weights, double sum) {
    double left = stream.uniform() * sum;
    std::size_t last = 0;  // with a weight above 0: rounding may carry past the end
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] <= 0) continue;
      last = i;
      if (left < weights[i]) return i;
      left -= weights[i];
    }
    return last;
  }

  float contrast_;
  Point pivot_, end_;
  double direction_;
  const Stamp* last_;
};

struct Scene {
  Image image{}, mask{};
  std::array<Point, 2> origin, terminal;
};

// The two long curves of 14 strokes; nothing if one of them got stuck.
std::optional<Scene> draw_curves(Stream& stream) {
  Scene scene;
  scene.mask = blocked_outside(scene.mask, 1, image_size - 1);
  static const Image centre = blocked_outside(Image{}, 14, 18);
  const auto first = draw_seed(stream, centre);
  if (!first) return std::nullopt;
  const auto second = draw_second_seed(stream, first->start);
  if (!second) return std::nullopt;
  Image other{};
  Curve curves[] = {Curve(*first, scene.image, curve_contrast), Curve(*second, other, curve_contrast)};
  for (int stroke = 0; stroke < 13; ++stroke)
    if (!curves[0].extend(stream, scene.image, scene.mask) || !curves[1].extend(stream, other, scene.mask))
      return std::nullopt;
  curves[1].occupy(scene.mask);  // that of the first curve is never added in the reference
  merge(scene.image, other);
  scene.origin = {first->start, second->start};
  scene.terminal = {curves[0].end(), curves[1].end()};
  return scene;
}

bool add_distractor(Stream& stream, Scene& scene) {
  const auto open = std::count_if(scene.mask.begin(), scene.mask.end(), [](double m) { return m <= 0.3; });
  if (static_cast<double>(open) < 0.01 * pixels) return false;
  const auto seed = draw_seed(stream, blocked_outside(scene.mask, 1, image_size - 1));
  if (!seed) return false;
  Image image = scene.image, mask = scene.mask;
  Curve curve(*seed, image, distractor_contrast);
  for (int stroke = 0; stroke < 3; ++stroke)
    if (!curve.extend(stream, image, mask)) return false;
  curve.occupy(mask);
  scene.image = image;
  scene.mask = mask;
  return true;
}

void add_disc(Image& image, Point centre) {
  const Bytes disc = disc_at(centre);
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = std::max(image[i], static_cast<double>(disc[i]) / 255);
}

}  // namespace

PathfinderImage draw_pathfinder(Stream& stream) {
  PathfinderImage result;
  result.label = static_cast<int>(stream.below(2));
  std::optional<Scene> scene;
  while (!scene) scene = draw_curves(stream);
  for (int i = 0; i < 5; ++i)
    for (int attempt = 0; attempt < 5; ++attempt)
      if (add_distractor(stream, *scene)) {
        ++result.distractors;
        break;
      }
  const auto curve = static_cast<std::size_t>(stream.below(2));
  add_disc(scene->image, scene->origin[curve]);
  add_disc(scene->image, scene->terminal[result.label == 1 ? curve : 1 - curve]);
  const auto [low, high] = std::minmax_element(scene->image.begin(), scene->image.end());
  const double base = *low, range = *high - *low;
  for (std::size_t i = 0; i < result.pixels.size(); ++i)
    result.pixels[i] =
        static_cast<std::uint8_t>(std::clamp(std::floor((scene->image[i] - base) * 255 / range + 0.5), 0.0, 255.0));
  return result;
}

}  // namespace saddle::data

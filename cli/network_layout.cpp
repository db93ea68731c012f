#include "network_layout.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "saddle/base/random.hpp"

namespace saddle::cli {

namespace {

using Point = std::pair<double, double>;
using Edges = std::vector<std::pair<Index, Index>>;

constexpr double step = 104;  // pixels between neighbours
constexpr double gap = 14;    // pixels between boxes at least
constexpr int starts = 16;

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

// Number of edges between every two nodes of a connected graph [n,n].
Array<double, 2> distances(Index n, const Edges& edges) {
  std::vector<std::vector<Index>> next(at(n));
  for (const auto& [a, b] : edges) {
    next[at(a)].push_back(b);
    next[at(b)].push_back(a);
  }
  Array<double, 2> distance({n, n}, -1);
  for (Index start = 0; start < n; ++start) {
    std::vector<Index> queue{start};
    distance(start, start) = 0;
    for (std::size_t k = 0; k < queue.size(); ++k)
      for (const Index other : next[at(queue[k])])
        if (distance(start, other) < 0) {
          distance(start, other) = distance(start, queue[k]) + 1;
          queue.push_back(other);
        }
  }
  return distance;
}

// SMACOF with weights 1/d^2: every step lowers the stress.
void majorise(std::vector<Point>& points, const Array<double, 2>& distance) {
  const auto n = static_cast<Index>(points.size());
  for (int round = 0; round < 300; ++round) {
    double moved = 0;
    for (Index i = 0; i < n; ++i) {
      double x = 0, y = 0, total = 0;
      for (Index j = 0; j < n; ++j) {
        if (i == j) continue;
        const double d = step * distance(i, j), weight = 1 / (d * d);
        const double dx = points[at(i)].first - points[at(j)].first, dy = points[at(i)].second - points[at(j)].second;
        const double apart = std::max(1e-6, std::hypot(dx, dy));
        x += weight * (points[at(j)].first + d * dx / apart);
        y += weight * (points[at(j)].second + d * dy / apart);
        total += weight;
      }
      moved += std::hypot(points[at(i)].first - x / total, points[at(i)].second - y / total);
      points[at(i)] = {x / total, y / total};
    }
    if (moved < 0.05 * static_cast<double>(n)) break;
  }
}

// Turned so that the longer way lies flat: pages are wider than high.
void lie_down(std::vector<Point>& points) {
  double mx = 0, my = 0, xx = 0, xy = 0, yy = 0;
  for (const auto& [x, y] : points)
    mx += x / static_cast<double>(points.size()), my += y / static_cast<double>(points.size());
  for (const auto& [x, y] : points) {
    xx += (x - mx) * (x - mx);
    xy += (x - mx) * (y - my);
    yy += (y - my) * (y - my);
  }
  const double angle = -0.5 * std::atan2(2 * xy, xx - yy), c = std::cos(angle), s = std::sin(angle);
  for (auto& [x, y] : points) {
    const double dx = x - mx, dy = y - my;
    x = c * dx - s * dy;
    y = s * dx + c * dy;
  }
}

// Boxes that overlap are pushed apart along the shorter way.
void separate(std::vector<Point>& points, const std::vector<Box>& boxes) {
  for (int round = 0; round < 200; ++round) {
    bool clean = true;
    for (std::size_t i = 0; i < points.size(); ++i)
      for (std::size_t j = i + 1; j < points.size(); ++j) {
        const double dx = points[j].first - points[i].first, dy = points[j].second - points[i].second;
        const double ox = (boxes[i].width + boxes[j].width) / 2 + gap - std::abs(dx);
        const double oy = (boxes[i].height + boxes[j].height) / 2 + gap - std::abs(dy);
        if (ox <= 0 || oy <= 0) continue;
        clean = false;
        if (ox < oy) {
          const double push = (dx < 0 ? -1 : 1) * (ox / 2 + 0.1);
          points[i].first -= push;
          points[j].first += push;
        } else {
          const double push = (dy < 0 ? -1 : 1) * (oy / 2 + 0.1);
          points[i].second -= push;
          points[j].second += push;
        }
      }
    if (clean) return;
  }
}

double side(const Point& a, const Point& b, const Point& c) {
  return (b.first - a.first) * (c.second - a.second) - (b.second - a.second) * (c.first - a.first);
}

bool cross(const Point& a, const Point& b, const Point& c, const Point& d) {
  return side(a, b, c) * side(a, b, d) < 0 && side(c, d, a) * side(c, d, b) < 0;
}

// Whether the line from a to b meets the box around c.
bool meets(const Point& a, const Point& b, const Point& c, const Box& box) {
  const double w = box.width / 2 + 3, h = box.height / 2 + 3;
  const Point corners[] = {{c.first - w, c.second - h},
                           {c.first + w, c.second - h},
                           {c.first + w, c.second + h},
                           {c.first - w, c.second + h}};
  for (int k = 0; k < 4; ++k)
    if (cross(a, b, corners[k], corners[(k + 1) % 4])) return true;
  return false;
}

Index count_crossings(const std::vector<Point>& points, const std::vector<Box>& boxes, const Edges& edges) {
  Index count = 0;
  for (std::size_t e = 0; e < edges.size(); ++e) {
    const Point &a = points[at(edges[e].first)], &b = points[at(edges[e].second)];
    for (std::size_t f = e + 1; f < edges.size(); ++f) {
      const auto& [c, d] = edges[f];
      if (c == edges[e].first || c == edges[e].second || d == edges[e].first || d == edges[e].second) continue;
      count += cross(a, b, points[at(c)], points[at(d)]) ? 1 : 0;
    }
    for (std::size_t v = 0; v < points.size(); ++v)
      if (static_cast<Index>(v) != edges[e].first && static_cast<Index>(v) != edges[e].second)
        count += meets(a, b, points[v], boxes[v]) ? 2 : 0;  // worse than a crossing
  }
  return count;
}

// Moves the points so that the boxes begin at (0,0); returns the size of all of it.
Box normalise(std::vector<Point>& points, const std::vector<Box>& boxes) {
  double left = std::numeric_limits<double>::infinity(), top = left, right = -left, bottom = -left;
  for (std::size_t v = 0; v < points.size(); ++v) {
    left = std::min(left, points[v].first - boxes[v].width / 2);
    right = std::max(right, points[v].first + boxes[v].width / 2);
    top = std::min(top, points[v].second - boxes[v].height / 2);
    bottom = std::max(bottom, points[v].second + boxes[v].height / 2);
  }
  for (auto& [x, y] : points) x -= left, y -= top;
  return {right - left, bottom - top};
}

// Of a connected graph: the start that ends with the fewest crossings.
std::vector<Point> place_part(const std::vector<Box>& boxes, const Edges& edges) {
  const auto n = static_cast<Index>(boxes.size());
  const Array<double, 2> distance = distances(n, edges);
  std::vector<Point> best;
  Index fewest = std::numeric_limits<Index>::max();
  Stream stream(0, "layout");
  for (int start = 0; start < starts; ++start) {
    std::vector<Index> order(at(n));
    std::iota(order.begin(), order.end(), Index{0});
    for (Index i = n - 1; start > 0 && i > 0; --i)
      std::swap(order[at(i)], order[at(static_cast<Index>(stream.uniform() * static_cast<double>(i + 1)))]);
    std::vector<Point> points(at(n));
    for (Index i = 0; i < n; ++i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n);
      const double radius = step * static_cast<double>(n) / 6;
      points[at(order[at(i)])] = {radius * std::cos(angle), radius * std::sin(angle)};
    }
    majorise(points, distance);
    lie_down(points);
    separate(points, boxes);
    const Index count = count_crossings(points, boxes, edges);
    if (count >= fewest) continue;
    fewest = count;
    best = std::move(points);
    if (count == 0) break;
  }
  return best;
}

std::vector<std::vector<Index>> parts_of(Index n, const Edges& edges) {
  std::vector<Index> root(at(n));
  std::iota(root.begin(), root.end(), Index{0});
  const auto find = [&](Index v) {
    while (root[at(v)] != v) v = root[at(v)];
    return v;
  };
  for (const auto& [a, b] : edges) root[at(std::max(find(a), find(b)))] = std::min(find(a), find(b));
  std::vector<std::vector<Index>> parts(at(n));
  for (Index v = 0; v < n; ++v) parts[at(find(v))].push_back(v);
  std::erase_if(parts, [](const auto& part) { return part.empty(); });
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return parts;
}

}  // namespace

Layout lay_out(const std::vector<Box>& boxes, const Edges& edges, double width) {
  const auto n = static_cast<Index>(boxes.size());
  Layout layout;
  layout.centres.resize(boxes.size());
  double x = 0, y = 0, row = 0;  // where the next part begins, and how high this row is
  for (const std::vector<Index>& part : parts_of(n, edges)) {
    std::vector<Box> own;
    std::vector<Index> place(boxes.size(), -1);
    for (const Index v : part) {
      place[at(v)] = static_cast<Index>(own.size());
      own.push_back(boxes[at(v)]);
    }
    Edges inner;
    for (const auto& [a, b] : edges)
      if (place[at(a)] >= 0) inner.emplace_back(place[at(a)], place[at(b)]);
    std::vector<Point> points = part.size() > 1 ? place_part(own, inner) : std::vector<Point>{{0, 0}};
    const Box size = normalise(points, own);
    if (x > 0 && x + size.width > width) {
      x = 0;
      y += row + 2 * gap;
      row = 0;
    }
    for (std::size_t k = 0; k < part.size(); ++k)
      layout.centres[at(part[k])] = {x + points[k].first, y + points[k].second};
    x += size.width + 2 * gap;
    row = std::max(row, size.height);
    layout.width = std::max(layout.width, x - 2 * gap);
    layout.height = std::max(layout.height, y + row);
  }
  return layout;
}

Index crossings(const Layout& layout, const std::vector<Box>& boxes, const Edges& edges) {
  return count_crossings(layout.centres, boxes, edges);
}

}  // namespace saddle::cli

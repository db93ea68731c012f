#include "saddle/analysis/attention_paths/hidden_markov.hpp"

#include <algorithm>
#include <cmath>

namespace saddle::analysis::attention_paths::hidden_markov {

namespace {

constexpr double beta = 10;  // sharpness of the heads

}  // namespace

Sequences draw(Index P, double perpendicular, Stream& stream) {
  Sequences sequences{Array<double, 3>({P, width, tokens}), Vector({P})};
  for (Index p = 0; p < P; ++p) {
    sequences.y(p) = p < P / 2 ? 1 : -1;
    const double stay = p < P / 2 ? 0.7 : 0.3;
    bool plus = stream.uniform() >= 0.5;
    for (Index t = 0; t < tokens; ++t) {
      sequences.x(p, features + t, t) = 1;
      if (t == 0) continue;
      if (t > 1 && stream.uniform() >= stay) plus = !plus;
      std::vector<double> noise(features);
      double mean[2] = {0, 0};  // of either half: the part of the noise in the plane
      for (Index i = 0; i < features; ++i) {
        noise[static_cast<std::size_t>(i)] = stream.normal();
        mean[i / half] += noise[static_cast<std::size_t>(i)] / half;
      }
      for (Index i = 0; i < features; ++i)
        sequences.x(p, i, t) = (plus == (i < half) ? std::sqrt(2.0) : 0) + mean[i / half] +
                               perpendicular * (noise[static_cast<std::size_t>(i)] - mean[i / half]);
    }
  }
  return sequences;
}

Matrix good_head() {
  Matrix w({width, width});
  for (Index i = 0; i < features; ++i)
    for (Index j = 0; j < features; ++j) w(i, j) = beta * 2 / (4.0 * half * half) * ((i < half) == (j < half) ? 1 : -1);
  for (Index t = 1; t < tokens; ++t) {
    w(features, features + t) = beta * 1.5;
    if (t + 1 < tokens) w(features + t, features + t + 1) = beta;
  }
  return w;
}

Matrix uniform_head() { return Matrix({width, width}); }

Matrix random_head(Stream& stream) {
  Matrix w({width, width});
  for (Index i = 0; i < width; ++i)
    for (Index j = 0; j < width; ++j) {
      const int positions = (i < features ? 0 : 1) + (j < features ? 0 : 1);
      w(i, j) = beta * stream.normal() * std::pow(static_cast<double>(features), 0.5 * positions - 1);
    }
  return w;
}

Array<double, 3> layer_of(const std::vector<Matrix>& heads) {
  Array<double, 3> layer({static_cast<Index>(heads.size()), width, width});
  for (std::size_t h = 0; h < heads.size(); ++h)
    std::copy(heads[h].begin(), heads[h].end(), layer.data() + static_cast<Index>(h) * width * width);
  return layer;
}

}  // namespace saddle::analysis::attention_paths::hidden_markov

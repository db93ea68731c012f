// Keys and values of heads against the formula.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "saddle/analysis/kpca_value/kpca_value.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/base/random.hpp"

namespace saddle::analysis::kpca_value {

namespace {

namespace formula = mechanisms::kpca_value;

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

// The first N rows of one head on one sample.
Matrix rows_of(const Array<double, 4>& all, Index sample, Index head, Index N) {
  Matrix rows({N, all.shape()[3]});
  for (Index i = 0; i < N; ++i)
    for (Index c = 0; c < all.shape()[3]; ++c) {
      rows(i, c) = all(sample, head, i, c);
      if (!std::isfinite(rows(i, c))) throw InvalidArgument("[kpca_value] keys or values hold NaN or infinity");
    }
  return rows;
}

// A head that is asked again is compared with the same numbers.
Matrix random_values(Index sample, Index head, Index N, Index E) {
  Stream stream(static_cast<std::uint64_t>(sample), "kpca_value/" + std::to_string(head));
  Matrix values({N, E});
  for (double& value : values) value = stream.normal();
  return values;
}

struct Pair {
  formula::Agreement learned, random;
};

// Nothing where there are not as many axes as values have features.
std::optional<Pair> compared(const Matrix& keys, const Matrix& values, const Matrix& random,
                             formula::Normalisation normalisation) {
  if (keys.shape()[0] <= values.shape()[1]) return std::nullopt;  // centred keys have one axis less than there are keys
  try {
    return Pair{formula::agreement(keys, values, normalisation), formula::agreement(keys, random, normalisation)};
  } catch (const InvalidArgument&) {
    return std::nullopt;  // shapes fit and numbers are finite: too few eigenvalues are positive
  }
}

double mean_of_finite(const std::vector<double>& numbers) {
  double sum = 0, count = 0;
  for (const double number : numbers) {
    if (!std::isfinite(number)) continue;
    sum += number;
    ++count;
  }
  return count > 0 ? sum / count : undefined;
}

// The mean of each axis over the samples where it is defined: gamma divides by what may be 0.
template <class Number>
std::vector<double> axis_means(const std::vector<formula::Agreement>& all, Number number) {
  std::vector<double> means;
  for (Index d = 0; d < all.front().lambda.size(); ++d) {
    std::vector<double> own;
    for (const formula::Agreement& each : all) own.push_back(number(each, d));
    means.push_back(mean_of_finite(own));
  }
  return means;
}

Measures mean_of(const std::vector<formula::Agreement>& all) {
  Measures m;
  m.samples = static_cast<Index>(all.size());
  m.spread = m.linear_cka = m.cosine = m.matched_cosine = undefined;
  if (all.empty()) return m;
  m.lambda = axis_means(all, [](const formula::Agreement& each, Index d) { return each.lambda(d); });
  m.absolute = axis_means(all, [](const formula::Agreement& each, Index d) { return each.absolute[d].mean; });
  m.relative = axis_means(all, [](const formula::Agreement& each, Index d) { return each.relative[d].mean; });
  m.spread = mean_of_finite(m.relative);
  const auto mean = [&](double formula::Agreement::*member) {
    double sum = 0;
    for (const formula::Agreement& each : all) sum += each.*member;
    return sum / static_cast<double>(all.size());
  };
  m.linear_cka = mean(&formula::Agreement::linear_cka);
  m.cosine = mean(&formula::Agreement::cosine);
  m.matched_cosine = mean(&formula::Agreement::matched_cosine);
  return m;
}

}  // namespace

std::vector<Compared> measure(const Array<double, 4>& keys, const Array<double, 4>& values,
                              const std::vector<Index>& lengths, Index most, formula::Normalisation normalisation) {
  const auto [B, H, N, D] = keys.shape();
  if (values.shape()[0] != B || values.shape()[1] != H || values.shape()[2] != N ||
      static_cast<Index>(lengths.size()) != B)
    throw InvalidArgument("[kpca_value] keys, values and lengths are not of the same samples, heads and tokens");
  std::vector<std::optional<Pair>> pairs(static_cast<std::size_t>(B * H));
  const Index heads = H, tokens = N;
  parallel_for(B * H, 1,
               [&](Index i) {
                 const Index b = i / heads, h = i % heads;
                 const Index count = std::min(lengths[static_cast<std::size_t>(b)], tokens);
                 if (count < 1 || count > most) return;
                 const Matrix v = rows_of(values, b, h, count);
                 pairs[static_cast<std::size_t>(i)] =
                     compared(rows_of(keys, b, h, count), v, random_values(b, h, count, v.shape()[1]), normalisation);
               },
               {.schedule = Schedule::dynamic});
  std::vector<Compared> all;
  for (Index h = 0; h < H; ++h) {
    std::vector<formula::Agreement> learned, random;
    for (Index b = 0; b < B; ++b)
      if (const auto& pair = pairs[static_cast<std::size_t>(b * H + h)]) {
        learned.push_back(pair->learned);
        random.push_back(pair->random);
      }
    all.push_back({mean_of(learned), mean_of(random)});
  }
  return all;
}

}  // namespace saddle::analysis::kpca_value

// The assignment problem by shortest augmenting paths with potentials, O(rows^2 columns).
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/kpca_value/kpca_value.hpp"

namespace saddle::mechanisms::kpca_value {

Matching best_matching(const Matrix& scores) {
  const Index N = scores.shape()[0], M = scores.shape()[1];
  if (N > M) throw InvalidArgument(fmt::format("[kpca_value] {} rows cannot have different columns out of {}", N, M));
  for (const double score : scores)
    if (!std::isfinite(score)) throw InvalidArgument("[kpca_value] scores to be matched must be finite");
  // Column M stands for the row that is being added. Potentials keep reduced costs from becoming negative, and those of
  // matched pairs at 0.
  std::vector<double> row_potential(N, 0.0), column_potential(M + 1, 0.0);
  std::vector<Index> row_of(M + 1, -1);
  for (Index added = 0; added < N; ++added) {
    std::vector<double> distance(M, std::numeric_limits<double>::infinity());
    std::vector<Index> before(M, M);
    std::vector<bool> reached(M + 1, false);
    row_of[M] = added;
    Index at = M;
    while (row_of[at] != -1) {
      reached[at] = true;
      const Index i = row_of[at];
      Index next = M;
      double step = std::numeric_limits<double>::infinity();
      for (Index j = 0; j < M; ++j) {
        if (reached[j]) continue;
        const double reduced = -scores(i, j) - row_potential[i] - column_potential[j];
        if (reduced < distance[j]) {
          distance[j] = reduced;
          before[j] = at;
        }
        if (distance[j] < step) {
          step = distance[j];
          next = j;
        }
      }
      for (Index j = 0; j <= M; ++j) {
        if (reached[j]) {
          row_potential[row_of[j]] += step;
          column_potential[j] -= step;
        } else {
          distance[j] -= step;
        }
      }
      at = next;
    }
    for (; at != M; at = before[at]) row_of[at] = row_of[before[at]];
  }
  Matching matching{std::vector<Index>(N, 0), 0};
  for (Index j = 0; j < M; ++j) {
    if (row_of[j] == -1) continue;
    matching.column[row_of[j]] = j;
    matching.mean += scores(row_of[j], j) / static_cast<double>(N);
  }
  return matching;
}

}  // namespace saddle::mechanisms::kpca_value

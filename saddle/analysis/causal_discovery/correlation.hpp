// Correlations between variables, from the attention of a head or from observations.
#pragma once

#include <optional>
#include <utility>

#include "saddle/base/export.hpp"
#include "saddle/base/view.hpp"

namespace saddle::analysis::causal_discovery {

// attention [N,N], row i the weights of query i: the correlations of A v for values v that are independent and of
// variance 1, those of A A^T. Throws InvalidArgument for another shape, values that are not finite, and empty rows.
SADDLE_API Matrix attention_correlation(const Matrix& attention);
// The same without the assumption on the values: those of A S A^T with S the covariance of the rows of values [N,E].
SADDLE_API Matrix attention_correlation(const Matrix& attention, const Matrix& values);
// Those of the tokens alone, without values or with them; the rows of others may be empty.
SADDLE_API Matrix attention_correlation(const Matrix& attention, const Matrix* values,
                                        const std::vector<Index>& tokens);
// Throws InvalidArgument for another shape than [N,N] and for values that are not finite.
SADDLE_API void check_attention(const Matrix& attention);

// Pearson's correlations of the columns of observations [rows, variables]. Throws InvalidArgument for fewer than two
// rows, values that are not finite and columns that are constant.
SADDLE_API Matrix correlation(const Matrix& observations);

// The first two variables, if any, whose correlation is 1 or -1 but for rounding. Given one of them, partial
// correlations of the other are 0/0.
SADDLE_API std::optional<std::pair<Index, Index>> copies(const Matrix& correlation);

// Rows and columns of the matrix that belong to these variables.
SADDLE_API Matrix submatrix(const Matrix& matrix, const std::vector<Index>& variables);

}  // namespace saddle::analysis::causal_discovery

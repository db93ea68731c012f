// Softmax attention as kernel PCA: the values that attention over given keys would need to return projections on the
// principal axes of the keys, and how far the values of a trained layer are from them. One head of one sample each.
#pragma once

#include <vector>

#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms::kpca_value {

// The kernel exp(x.y/sqrt(D)) between keys, each feature map divided by g(k_i) = sum_j exp(k_i.k_j/sqrt(D)).
struct Gram {
  Vector log_g, g;  // [N]
  Matrix scaled;    // [N,N], exp(k_i.k_j/sqrt(D)) / (g_i g_j)
  Matrix centred;   // [N,N], the mean key taken out
};
// k [N,D]
SADDLE_API Gram gram(const Matrix& k);
// The gradient [N,D] of <cotangent, centred> with respect to k.
SADDLE_API Matrix gram_gradient(const Matrix& k, const Matrix& cotangent);

// Each row minus its mean, by its standard deviation (unbiased) + eps; and the way back from the result's gradient.
SADDLE_API Matrix standardised(const Matrix& x, double eps = 0);
SADDLE_API Matrix standardised_gradient(const Matrix& x, const Matrix& cotangent, double eps = 0);

// unit: coefficients of length 1. kpca: axes of length 1 in the feature space, so eigenvalues must be positive.
enum class Normalisation { unit, kpca };

// The `count` largest eigenvalues, falling; of each coefficient vector the entry largest in magnitude is positive.
struct Axes {
  Vector eigenvalues, lambda;  // [count], e_d and e_d / N
  Matrix coefficients;         // [N,count], a_d
  Matrix values;               // [N,count], (a_jd - mean_j a_jd) / g_j
};
// Throws InvalidArgument when more axes are asked for than there are.
SADDLE_API Axes axes(const Gram& gram, Index count, Normalisation normalisation);

// softmax(q k^T/sqrt(D)) values: q [M,D], k [N,D], values [N,E] -> [M,E].
SADDLE_API Matrix attention(const Matrix& q, const Matrix& k, const Matrix& values);
// The same by its meaning: inner products of phi(q_i)/g(q_i) with the axes, for coefficients [N,E] -> [M,E].
SADDLE_API Matrix projections(const Matrix& q, const Matrix& k, const Gram& gram, const Matrix& coefficients);
// |phi(q_i)/g(q_i)|^2 [M]. Less the squares of its projections on axes of length 1, it is the error of reconstruction.
SADDLE_API Vector squared_norms(const Matrix& q, const Matrix& k);
SADDLE_API Vector reconstruction_errors(const Vector& squared_norms, const Matrix& projections);

// gamma_jd of values v [N,E]: constant along j, and lambda_d, where column d comes from an eigenvector.
SADDLE_API Matrix gamma(const Gram& gram, const Matrix& v);

// Mean and standard deviation over pairs i < j of a column.
struct Spread {
  double mean = 0, deviation = 0;
};
// |gamma_i - gamma_j| of each column; and relative to max(|gamma_i|, |gamma_j|) + 1e-10.
SADDLE_API std::vector<Spread> absolute_spread(const Matrix& gamma);
SADDLE_API std::vector<Spread> relative_spread(const Matrix& gamma);

// Linear CKA of two sets of N rows, of any widths: 1 if one is the other turned and scaled, 0 if they have nothing in
// common.
SADDLE_API double linear_cka(const Matrix& x, const Matrix& y);
// Cosines [N,M] of rows x [N,E] with rows y [M,E]; 1e-8 is added to each length.
SADDLE_API Matrix row_cosines(const Matrix& x, const Matrix& y);

// The assignment of rows to different columns with the largest sum, rows <= columns.
struct Matching {
  std::vector<Index> column;  // of each row
  double mean = 0;            // of the scores that are taken
};
SADDLE_API Matching best_matching(const Matrix& scores);

// Learned values v [N,E] against those that keys k [N,D] call for, with E axes of norm `normalisation`.
struct Agreement {
  Vector lambda;                           // [E]
  std::vector<Spread> absolute, relative;  // of gamma, for each axis
  double linear_cka = 0;
  double cosine = 0;          // mean over rows
  double matched_cosine = 0;  // the same for the best one-to-one matching of rows
};
SADDLE_API Agreement agreement(const Matrix& k, const Matrix& v, Normalisation normalisation = Normalisation::kpca);

SADDLE_API GoldenReport check(const TensorFile& golden, DType dtype);

const Mechanism& mechanism();

}  // namespace saddle::mechanisms::kpca_value

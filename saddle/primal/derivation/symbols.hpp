// The parts of a value as formulas: LaTeX in the subset of derivation/formula.hpp.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "saddle/primal/attention.hpp"

namespace saddle::primal {

// 0.5, 10^{-6}, 2.5 \cdot 10^{-3}
std::string number(double value);

// The letters of this value. A pooled key is \bar k_J with J < N_s, an unpooled one k_j with j < M.
struct Symbols {
  explicit Symbols(const Attention& attention);

  std::string j, k, v;                 // key index, key, value
  std::string count;                   // number of keys of a head
  std::string range;                   // what sums over keys run over: j < M, j \in M_i, J \in \bar M_i
  std::string key_point, query_point;  // T k_j, T q_i as letters: k'_j, q'_i, or k_j, q_i without a transform
  std::string offset;                  // " + b + r_i", or nothing

  std::string sum() const { return "\\sum_{" + range + "}"; }
};

// The letters of the regression, with the indices of this value.
struct Regression {
  std::string j, tx, tk, range, b;

  Regression(const Attention& attention, const Symbols& symbols)
      : j(symbols.j),
        tx(attention.transforms.empty() ? "x" : "T x"),
        tk((attention.transforms.empty() ? "" : "T ") + symbols.k),
        range(symbols.range),
        b(attention.bias ? " + b_e" : "") {}

  std::string at(const std::string& symbol) const { return symbol + "_{" + j + "e}"; }
  std::string sum() const { return "\\sum_{" + range + "}"; }
  std::string fitted() const { return "w_e \\cdot u_" + j + b; }
  std::string minus_fitted() const { return "w_e \\cdot u_" + j + (b.empty() ? "" : " - b_e"); }
};

// kappa and its score, at two points given as LaTeX; points are put in parentheses where needed.
struct Point {
  std::string latex;
  bool compound = false;

  std::string fenced() const;
};
std::string score(const Kernel& kernel, const Point& x, const Point& y);  // of softmax and taylor, logits of rbf
std::string kappa(const Kernel& kernel, const Point& x, const Point& y);
// The same as a factor of a product.
std::string kernel_factor(const Kernel& kernel, const Point& x, const Point& y);
// The lines that define Phi, with a sentence that says what they are.
struct FeatureText {
  std::string sentence;
  std::vector<std::string> lines;
};
FeatureText feature_map(const Kernel& kernel);

// h as a function of x; empty range of sums is taken from the symbols.
std::string normaliser(const Attention& attention, const Symbols& symbols);
// The constant value of h as LaTeX, empty for a row sum.
std::string fixed_normaliser(const Attention& attention, const Symbols& symbols);
double den_eps(const Attention& attention);

// T applied to token `index` of the sequence `base`.
Point transformed(const Attention& attention, std::size_t count, const std::string& base, const std::string& index);
// The lines that define T.
std::vector<std::string> transform_lines(const Attention& attention, const Symbols& symbols);

// The condition of M_i, and of \bar M_i when keys are pooled.
std::string key_condition(const KeySet& part);
template <class P>
bool has_transform(const Attention& attention) {
  return std::any_of(attention.transforms.begin(), attention.transforms.end(),
                     [](const Transform& part) { return std::holds_alternative<P>(part); });
}
template <class P>
bool has_keys(const Attention& attention) {
  return std::any_of(attention.keys.begin(), attention.keys.end(),
                     [](const KeySet& part) { return std::holds_alternative<P>(part); });
}
// True when two queries may see different keys.
bool differs_between_queries(const Attention& attention);

// The expansion y_i with T q_i and T k_j given as points.
std::string expansion(const Attention& attention, const Symbols& symbols, const Point& q, const Point& k);
// exp kernel, row sum, den_eps 0: weights are a softmax of scores.
bool is_softmax(const Attention& attention);

}  // namespace saddle::primal

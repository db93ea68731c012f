// How good predictions are: accuracy, confusion, scores per class, log loss.
#pragma once

#include <span>
#include <vector>

#include "saddle/base/view.hpp"

namespace saddle::eval {

// Scores of one class; a quotient with nothing below the line is 0, as in scikit-learn.
struct ClassScores {
  double precision = 0, recall = 0, f1 = 0;
  Index support = 0;
};

struct Metrics {
  Index count = 0;
  double accuracy = 0;
  double log_loss = 0;                        // mean of -log of the probability given to the true class
  std::vector<std::vector<Index>> confusion;  // [truth][prediction]
  std::vector<ClassScores> per_class;
};

// Samples one batch after the other. `expected` samples must come: result() throws if one is missing, so that no loader
// drops the last batch unseen.
class Evaluation {
 public:
  Evaluation(Index classes, Index expected);

  // Labels [B] and probabilities [B, classes], row by row, each row of sum 1 within 1e-3. The prediction is the first
  // of the largest. Throws InvalidArgument for labels outside of the classes and for what is no probability.
  void add(std::span<const Index> labels, std::span<const double> probabilities);
  Metrics result() const;

 private:
  Index classes_, expected_, count_ = 0;
  double loss_ = 0;
  std::vector<std::vector<Index>> confusion_;
};

// From truth and prediction alone; log_loss is left 0.
Metrics metrics_of(std::span<const Index> labels, std::span<const Index> predicted, Index classes);

}  // namespace saddle::eval

#include "saddle/eval/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "saddle/base/error.hpp"

namespace saddle::eval {

namespace {

using Confusion = std::vector<std::vector<Index>>;

Confusion empty_confusion(Index classes) {
  if (classes < 1) throw InvalidArgument(fmt::format("an evaluation needs one class or more, found {}", classes));
  return Confusion(static_cast<std::size_t>(classes), std::vector<Index>(static_cast<std::size_t>(classes)));
}

void require_class(Index label, Index classes, const char* what) {
  if (label < 0 || label >= classes)
    throw InvalidArgument(fmt::format("{} {} is not one of the {} classes 0 .. {}", what, label, classes, classes - 1));
}

double quotient(Index above, Index below) {
  return below == 0 ? 0 : static_cast<double>(above) / static_cast<double>(below);
}

// Everything that follows from the confusion.
Metrics metrics_of(const Confusion& confusion) {
  Metrics metrics;
  metrics.confusion = confusion;
  const std::size_t classes = confusion.size();
  std::vector<Index> predicted(classes);
  Index right = 0;
  for (std::size_t t = 0; t < classes; ++t)
    for (std::size_t p = 0; p < classes; ++p) {
      metrics.count += confusion[t][p];
      predicted[p] += confusion[t][p];
      if (t == p) right += confusion[t][p];
    }
  metrics.accuracy = quotient(right, metrics.count);
  for (std::size_t c = 0; c < classes; ++c) {
    ClassScores scores;
    for (const Index cell : confusion[c]) scores.support += cell;
    scores.precision = quotient(confusion[c][c], predicted[c]);
    scores.recall = quotient(confusion[c][c], scores.support);
    scores.f1 = quotient(2 * confusion[c][c], predicted[c] + scores.support);
    metrics.per_class.push_back(scores);
  }
  return metrics;
}

}  // namespace

Evaluation::Evaluation(Index classes, Index expected)
    : classes_(classes), expected_(expected), confusion_(empty_confusion(classes)) {}

void Evaluation::add(std::span<const Index> labels, std::span<const double> probabilities) {
  const auto width = static_cast<std::size_t>(classes_);
  if (probabilities.size() != labels.size() * width)
    throw InvalidArgument(fmt::format("{} samples of {} classes need {} probabilities, found {}", labels.size(),
                                      classes_, labels.size() * width, probabilities.size()));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    require_class(labels[i], classes_, "label");
    const auto row = probabilities.subspan(i * width, width);
    double sum = 0;
    for (const double p : row) {
      if (!(p >= 0 && p <= 1 + 1e-6))
        throw InvalidArgument(fmt::format("sample {}: {} is no probability", count_ + static_cast<Index>(i), p));
      sum += p;
    }
    if (std::abs(sum - 1) > 1e-3)
      throw InvalidArgument(
          fmt::format("sample {}: the probabilities add up to {}, expected 1", count_ + static_cast<Index>(i), sum));
    const auto truth = static_cast<std::size_t>(labels[i]);
    const auto predicted = static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
    ++confusion_[truth][predicted];
    // A probability that is rounded to 0 costs much, but not everything.
    loss_ -= std::log(std::max(row[truth], std::numeric_limits<double>::min()));
  }
  count_ += static_cast<Index>(labels.size());
}

Metrics Evaluation::result() const {
  if (count_ != expected_ || count_ == 0)
    throw InvalidArgument(fmt::format("{} samples were evaluated, expected {}", count_, expected_),
                          "evaluate every sample of the split exactly once");
  Metrics metrics = metrics_of(confusion_);
  metrics.log_loss = loss_ / static_cast<double>(count_);
  return metrics;
}

Metrics metrics_of(std::span<const Index> labels, std::span<const Index> predicted, Index classes) {
  if (labels.size() != predicted.size() || labels.empty())
    throw InvalidArgument(fmt::format("found {} labels and {} predictions", labels.size(), predicted.size()),
                          "one prediction per label, at least one");
  Confusion confusion = empty_confusion(classes);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    require_class(labels[i], classes, "label");
    require_class(predicted[i], classes, "prediction");
    ++confusion[static_cast<std::size_t>(labels[i])][static_cast<std::size_t>(predicted[i])];
  }
  return metrics_of(confusion);
}

}  // namespace saddle::eval

#include "saddle/train/evaluate.hpp"

#include <fmt/format.h>
#include <torch/nn/functional/activation.h>

#include <chrono>
#include <cmath>
#include <map>
#include <numeric>

#include "saddle/base/error.hpp"
#include "saddle/train/autocast.hpp"

namespace saddle::train {

std::vector<Index> all_of(const data::Dataset& data) {
  std::vector<Index> samples(static_cast<std::size_t>(data.size()));
  std::iota(samples.begin(), samples.end(), Index{0});
  return samples;
}

Evaluation evaluate(const Trained& trained, data::DatasetPtr data, const std::vector<Index>& samples, Index batch_size,
                    Group& group, bool bfloat16) {
  const torch::NoGradGuard no_grad;
  const bool training = trained.model->is_training();
  trained.model->eval();
  const auto start = std::chrono::steady_clock::now();
  const auto n = static_cast<Index>(samples.size()), classes = static_cast<Index>(trained.data.classes.size());
  std::map<Index, Index> place;
  for (Index i = 0; i < n; ++i) place[samples[static_cast<std::size_t>(i)]] = i;

  Tensor probabilities = torch::zeros({n, classes}, torch::kFloat64), seen = torch::zeros({n}, torch::kInt64);
  Tensor losses = torch::zeros({n}, torch::kFloat64);
  const data::LoaderOptions options{
      .batch = batch_size, .max_length = trained.max_length, .part = group.rank(), .parts = group.size()};
  data::Loader loader(data, samples, options, trained.scaling);
  loader.start(0);
  Evaluation evaluation;
  evaluation.labels.resize(samples.size());
  for (data::Batch batch; loader.next(batch);) {
    if (batch.size == 0) continue;
    const LabelledBatch tensors = to_tensors(batch, trained.data, trained.positions);
    Tensor logits;
    {
      const Autocast autocast(bfloat16);
      logits = trained.model->logits(tensors.inputs);
    }
    const Tensor scores = logits.to(torch::kFloat64).log_softmax(-1).contiguous();
    for (Index i = 0; i < batch.size; ++i) {
      const double* const score = scores.data_ptr<double>() + i * classes;
      const Index at = place.at(batch.samples[static_cast<std::size_t>(i)]);
      const Index label = batch.labels[static_cast<std::size_t>(i)];
      for (Index c = 0; c < classes; ++c) probabilities.data_ptr<double>()[at * classes + c] = std::exp(score[c]);
      if (label >= 0) losses.data_ptr<double>()[at] = -score[label];
      ++seen.data_ptr<int64_t>()[at];
    }
  }
  group.sum(probabilities);
  group.sum(losses);
  group.sum(seen);
  if (!seen.eq(1).all().item<bool>())
    throw Error(fmt::format("of {} samples {} were evaluated not exactly once", n, seen.ne(1).sum().item<int64_t>()));

  evaluation.count = n;
  evaluation.samples = samples;
  const Tensor predicted = probabilities.argmax(-1);
  Index known = 0, right = 0;
  double loss = 0;
  for (Index i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    evaluation.labels[at] = data->label(samples[at]);
    evaluation.predicted.push_back(predicted.data_ptr<int64_t>()[i]);
    if (evaluation.labels[at] < 0) continue;
    ++known;
    right += evaluation.labels[at] == evaluation.predicted[at] ? 1 : 0;
    loss += losses.data_ptr<double>()[i];
  }
  evaluation.accuracy = known > 0 ? static_cast<double>(right) / static_cast<double>(known) : 0;
  evaluation.loss = known > 0 ? loss / static_cast<double>(known) : 0;
  evaluation.probabilities.assign(probabilities.data_ptr<double>(), probabilities.data_ptr<double>() + n * classes);
  evaluation.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  trained.model->train(training);
  return evaluation;
}

}  // namespace saddle::train

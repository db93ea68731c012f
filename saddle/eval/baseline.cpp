#include "saddle/eval/baseline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "saddle/base/error.hpp"
#include "saddle/data/records.hpp"
#include "saddle/eval/logistic.hpp"
#include "saddle/eval/ridge.hpp"
#include "saddle/eval/rocket.hpp"

namespace saddle::eval {

namespace {

// Both splits, and what is made of them.
struct Splits {
  data::DatasetPtr train, test;
  std::vector<Index> train_labels, test_labels;
  Index classes = 0;
  Index most = std::numeric_limits<Index>::max();  // steps or tokens; longer samples are cut
  std::uint64_t seed = 0;

  const data::Description& about() const { return train->description(); }
  // A tenth of the training samples, to choose penalties.
  data::Split tenth() const { return data::stratified_split(*train, 0.1, seed); }

  Baseline scored(const std::string& name, const std::string& what, const std::vector<Index>& predicted) const {
    Baseline result{name, what, 0, 0};
    Index right = 0;
    for (std::size_t i = 0; i < predicted.size(); ++i) {
      if (test_labels[i] < 0) continue;
      ++result.count;
      right += predicted[i] == test_labels[i] ? 1 : 0;
    }
    result.accuracy = static_cast<double>(right) / static_cast<double>(result.count);
    return result;
  }
};

Splits open_splits(const data::Task& task, const BaselineOptions& options) {
  if (options.limit < 0) throw InvalidArgument("fit on 1 sample or more; 0 means on all");
  if (options.max_length < 0) throw InvalidArgument("samples are cut at a length of 1 or more; 0 means the usual one");
  Splits splits;
  splits.train = task.train();
  splits.seed = options.seed;
  const data::Description& about = splits.about();
  if (about.kind == data::Kind::events)
    throw NotSupported(fmt::format("{} holds event sequences, which have no classes to tell apart", task.name));
  splits.classes = static_cast<Index>(about.classes.size());
  splits.train_labels = labels_of(*splits.train);
  if (options.limit > 0 && options.limit < std::ssize(splits.train_labels)) {
    std::vector<Index> samples(splits.train_labels.size());
    std::iota(samples.begin(), samples.end(), Index{0});
    samples = data::limited(std::move(samples), options.limit,
                            [&](Index sample) { return splits.train_labels[static_cast<std::size_t>(sample)]; });
    splits.train = data::subset(splits.train, std::move(samples), about.split);
    splits.train_labels = labels_of(*splits.train);
  }
  const auto labelled = [](Index label) { return label >= 0; };
  if (splits.classes < 2 || splits.train_labels.empty() || !std::ranges::all_of(splits.train_labels, labelled))
    throw InvalidArgument(
        fmt::format("{} has {} classes, at least two are needed, and a label for every training sample", task.name,
                    splits.classes));
  splits.test = task.test ? task.test() : nullptr;
  if (splits.test != nullptr) splits.test_labels = labels_of(*splits.test);
  if (std::ranges::none_of(splits.test_labels, labelled))
    throw InvalidArgument(fmt::format("{} has no test samples with labels", task.name),
                          "name a file that has them with --test");
  if (options.max_length > 0)
    splits.most = options.max_length;
  else if (about.usual_length > 0)
    splits.most = about.usual_length;
  return splits;
}

// The class that has the most of these counts, the first of equals.
Index commonest_of(const std::vector<Index>& counts) {
  return static_cast<Index>(std::max_element(counts.begin(), counts.end()) - counts.begin());
}

std::vector<Index> class_counts(const Splits& splits) {
  std::vector<Index> counts(static_cast<std::size_t>(splits.classes));
  for (const Index label : splits.train_labels) ++counts[static_cast<std::size_t>(label)];
  return counts;
}

Baseline commonest(const Splits& splits) {
  const std::vector<Index> predicted(splits.test_labels.size(), commonest_of(class_counts(splits)));
  return splits.scored("commonest", "always the commonest label of the training split", predicted);
}

std::vector<Index> ridge_predictions(const Splits& splits, const Features& train, const Features& test) {
  return fit_ridge(train, splits.train_labels, splits.classes, splits.tenth()).predict(test);
}

// Mean over two draws of the kernels.
Baseline rocket(const Splits& splits, const Features& train, const Features& test, Index length) {
  constexpr Index kernels = 1000;
  constexpr std::uint64_t draws = 2;
  const Index channels = splits.about().channels;
  Baseline mean{"rocket-1k", "ridge classifier on the outputs of 1000 random convolutions, mean of two draws", 0, 0};
  for (std::uint64_t draw = 0; draw < draws; ++draw) {
    const auto drawn = rocket_kernels(kernels, length, channels, draws * splits.seed + draw);
    Features train_features = rocket_features(train, channels, drawn);
    Features test_features = rocket_features(test, channels, drawn);
    const Standard standard(train_features);
    standard.apply(train_features);
    standard.apply(test_features);
    const Baseline one = splits.scored("", "", ridge_predictions(splits, train_features, test_features));
    mean.accuracy += one.accuracy / static_cast<double>(draws);
    mean.count = one.count;
  }
  return mean;
}

void add_series(const Splits& splits, std::vector<Baseline>& all) {
  const Index length = std::min(splits.about().max_length, splits.most);
  std::vector<Index> samples(splits.train_labels.size());
  std::iota(samples.begin(), samples.end(), Index{0});
  const data::Scaling scaling = data::Scaling::fit(*splits.train, samples);
  const Features train = series_of(*splits.train, scaling, length), test = series_of(*splits.test, scaling, length);
  all.push_back(splits.scored("ridge", "ridge classifier on the values, scaled as in training",
                              ridge_predictions(splits, train, test)));
  if (splits.about().table.empty()) all.push_back(rocket(splits, train, test, length));
}

std::int32_t first_of(const data::Dataset& data, Index i, data::Sample& sample) {
  data.read(i, sample);
  return sample.tokens.empty() ? 0 : sample.tokens.front();
}

Baseline first_token(const Splits& splits) {
  std::vector<std::vector<Index>> counts(static_cast<std::size_t>(splits.about().vocabulary),
                                         std::vector<Index>(static_cast<std::size_t>(splits.classes)));
  data::Sample sample;
  for (Index i = 0; i < splits.train->size(); ++i)
    ++counts[static_cast<std::size_t>(first_of(*splits.train, i, sample))]
            [static_cast<std::size_t>(splits.train_labels[static_cast<std::size_t>(i)])];
  const Index otherwise = commonest_of(class_counts(splits));
  std::vector<Index> predicted;
  for (Index i = 0; i < splits.test->size(); ++i) {
    const auto& seen = counts[static_cast<std::size_t>(first_of(*splits.test, i, sample))];
    predicted.push_back(std::ranges::all_of(seen, [](Index count) { return count == 0; }) ? otherwise
                                                                                          : commonest_of(seen));
  }
  return splits.scored("first token", "the commonest label of training samples with the same first token", predicted);
}

Baseline histogram(const Splits& splits) {
  Features train = histograms_of(*splits.train, splits.most), test = histograms_of(*splits.test, splits.most);
  const Standard standard(train);
  standard.apply(train);
  standard.apply(test);
  const Logistic model = fit_logistic(train, splits.train_labels, splits.classes, splits.tenth());
  const std::string cut =
      splits.most == std::numeric_limits<Index>::max() ? "all tokens" : fmt::format("the first {} tokens", splits.most);
  return splits.scored("histogram", "logistic regression on how often each token stands among " + cut,
                       model.predict(test));
}

std::vector<Index> nearest_centroid(const Splits& splits, const Features& train, const Features& test) {
  Eigen::MatrixXd centroids = Eigen::MatrixXd::Zero(splits.classes, train.cols());
  const std::vector<Index> counts = class_counts(splits);
  for (Index i = 0; i < train.rows(); ++i)
    centroids.row(splits.train_labels[static_cast<std::size_t>(i)]) += train.row(i).cast<double>();
  for (Index c = 0; c < splits.classes; ++c)
    centroids.row(c) /= static_cast<double>(std::max<Index>(1, counts[static_cast<std::size_t>(c)]));
  std::vector<Index> predicted(static_cast<std::size_t>(test.rows()));
  for (Index i = 0; i < test.rows(); ++i) {
    Eigen::VectorXd distances = (centroids.rowwise() - test.row(i).cast<double>()).rowwise().squaredNorm();
    for (Index c = 0; c < splits.classes; ++c)
      if (counts[static_cast<std::size_t>(c)] == 0) distances[c] = std::numeric_limits<double>::infinity();
    distances.minCoeff(&predicted[static_cast<std::size_t>(i)]);
  }
  return predicted;
}

void add_pixels(const Splits& splits, std::vector<Baseline>& all) {
  const Features train = pixels_of(*splits.train), test = pixels_of(*splits.test);
  all.push_back(
      splits.scored("ridge on pixels", "ridge classifier on the pixels", ridge_predictions(splits, train, test)));
  all.push_back(splits.scored("nearest centroid", "the class whose mean image is nearest",
                              nearest_centroid(splits, train, test)));
}

}  // namespace

std::vector<Baseline> baselines(const data::Task& task, const BaselineOptions& options) {
  const Splits splits = open_splits(task, options);
  const data::Description& about = splits.about();
  std::vector<Baseline> all{commonest(splits)};
  if (about.kind == data::Kind::series) add_series(splits, all);
  if (about.kind == data::Kind::tokens) all.push_back(first_token(splits));
  const bool text = about.kind == data::Kind::pair || about.kind == data::Kind::image_text;
  if (about.kind == data::Kind::tokens || text) all.push_back(histogram(splits));
  if (about.kind == data::Kind::image || about.rows > 0) add_pixels(splits, all);
  return all;
}

}  // namespace saddle::eval

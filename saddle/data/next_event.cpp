#include "saddle/data/next_event.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "saddle/base/error.hpp"
#include "saddle/data/split.hpp"

namespace saddle::data {

namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

class NextEvents final : public Dataset {
 public:
  NextEvents(DatasetPtr sequences, std::vector<Index> which, Index window, const Description* like)
      : sequences_(std::move(sequences)), which_(std::move(which)), window_(window) {
    if (window < 1) throw InvalidArgument(fmt::format("a window has at least one event, found {}", window));
    about_ = sequences_->description();
    const Description& known = like != nullptr ? *like : about_;
    about_.vocabulary = known.vocabulary;
    about_.token_names = known.token_names;
    Sample sample;
    Index longest = 0;
    for (const Index sequence : which_) {
      sequences_->read(sequence, sample);
      longest = std::max(longest, sample.length);
      for (Index i = 0; i < sample.length; ++i) {
        if (sample.tokens[at(i)] >= about_.vocabulary)
          throw DataError(about_.files.empty() ? about_.name : about_.files.front(), sequence + 1, 0,
                          fmt::format("found the type {}, the training split has 1 to {}", sample.tokens[at(i)],
                                      about_.vocabulary - 1));
        if (i > 0) labels_.push_back(sample.tokens[at(i)] - 1);
      }
      starts_.push_back(static_cast<Index>(labels_.size()));
    }
    about_.classes.clear();
    for (Index type = 1; type < about_.vocabulary; ++type)
      about_.classes.push_back(about_.token_names.empty() ? std::to_string(type) : about_.token_names[at(type)]);
    about_.min_length = labels_.empty() ? 0 : 1;
    about_.max_length = std::clamp<Index>(longest - 1, 0, window);
    about_.usual_length = window;
    about_.notes = {
        fmt::format("every event but the first of {} sequences is a sample: at most {} events before it, the "
                    "time that is left to it, and its type as the class",
                    which_.size(), window)};
  }

  const Description& description() const override { return about_; }
  Index size() const override { return static_cast<Index>(labels_.size()); }
  Index label(Index sample) const override { return labels_[at(sample)]; }
  Index length(Index sample) const override { return std::min(place(sample).second, window_); }
  void read(Index sample, Sample& into) const override {
    const auto [sequence, end] = place(sample);
    sequences_->read(sequence, into);
    const double now = into.times[at(end)];
    into.length = std::min(end, window_);
    const auto cut = [&](auto& values) {
      values.resize(at(end));
      values.erase(values.begin(), values.end() - into.length);
    };
    cut(into.tokens);
    cut(into.times);
    for (double& time : into.times) time = now - time;
    into.label = labels_[at(sample)];
  }

 private:
  // Which sequence, and the place of the event to predict in it.
  std::pair<Index, Index> place(Index sample) const {
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), sample);
    const auto number = static_cast<Index>(next - starts_.begin()) - 1;
    return {which_[at(number)], sample - starts_[at(number)] + 1};
  }

  DatasetPtr sequences_;
  std::vector<Index> which_;
  Index window_;
  Description about_;
  std::vector<Index> starts_{0};  // first sample of each sequence, and the end
  std::vector<std::int32_t> labels_;
};

}  // namespace

DatasetPtr next_events(DatasetPtr sequences, std::vector<Index> which, Index window, const Description* like) {
  return std::make_shared<NextEvents>(std::move(sequences), std::move(which), window, like);
}

Task next_event_task(const Task& sequences, const NextEventOptions& options) {
  Task task;
  task.name = sequences.name;
  // Events of one sequence never stand on both sides.
  const auto part = [=](std::vector<Index> Split::*which) {
    return [=] {
      const DatasetPtr all = sequences.train();
      return next_events(all, stratified_split(*all, options.validation, options.seed).*which, options.window);
    };
  };
  task.train = part(&Split::train);
  if (options.validation > 0) task.validation = part(&Split::validation);
  if (sequences.test)
    task.test = [=] {
      const DatasetPtr train = sequences.train(), test = sequences.test();
      std::vector<Index> all(at(test->size()));
      std::iota(all.begin(), all.end(), Index{0});
      return next_events(test, std::move(all), options.window, &train->description());
    };
  return task;
}

}  // namespace saddle::data

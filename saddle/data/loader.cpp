#include "saddle/data/loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"

namespace saddle::data {

namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

// The samples of an epoch, batch after batch.
struct Order {
  std::vector<Index> samples;
  std::vector<Index> starts;  // of every batch, and the end

  std::span<const Index> batch(Index b) const {
    return std::span(samples).subspan(at(starts[at(b)]), at(starts[at(b) + 1] - starts[at(b)]));
  }
};

// Sorts by length within pools of some batches, so that the order stays random on the whole; then mixes the batches.
void sort_by_length(const Dataset& data, const LoaderOptions& options, Stream& random, Order& order) {
  constexpr Index pool = 64;  // batches
  const auto shorter = [&](Index a, Index b) { return data.length(a) < data.length(b); };
  const auto count = static_cast<Index>(order.samples.size());
  const Index size = options.shuffle ? pool * options.batch : std::max<Index>(1, count);
  for (Index start = 0; start < count; start += size)
    std::stable_sort(order.samples.begin() + start, order.samples.begin() + std::min(start + size, count), shorter);
  if (!options.shuffle) return;
  std::vector<Index> batches(order.starts.size() - 1);
  std::iota(batches.begin(), batches.end(), Index{0});
  random.shuffle(batches);
  Order mixed{{}, {0}};
  for (const Index b : batches) {
    const auto samples = order.batch(b);
    mixed.samples.insert(mixed.samples.end(), samples.begin(), samples.end());
    mixed.starts.push_back(static_cast<Index>(mixed.samples.size()));
  }
  order = std::move(mixed);
}

Order order_of(const Dataset& data, const std::vector<Index>& samples, const LoaderOptions& options, Index epoch) {
  Order order{samples, {}};
  const auto count = static_cast<Index>(samples.size());
  for (Index start = 0; start < count; start += options.batch) order.starts.push_back(start);
  order.starts.push_back(count);
  Stream random(options.seed, "shuffle");
  // At most 2 draws per sample: every epoch has its own range of the stream.
  random.seek(2 * static_cast<std::uint64_t>(epoch) * static_cast<std::uint64_t>(count));
  if (options.shuffle) random.shuffle(order.samples);
  if (options.by_length) sort_by_length(data, options, random, order);
  return order;
}

// Copies a sample's tokens into row i of [B,N] and marks those that are no padding.
void put_tokens(const std::vector<std::int32_t>& tokens, Index i, Index length, std::vector<std::int64_t>& into,
                std::vector<std::uint8_t>& mask) {
  const Index count = std::min(length, static_cast<Index>(tokens.size()));
  for (Index t = 0; t < count; ++t) {
    into[at(i * length + t)] = tokens[at(t)];
    mask[at(i * length + t)] = tokens[at(t)] != 0;
  }
}

}  // namespace

struct Loader::State {
  DatasetPtr data;
  std::vector<Index> samples;
  LoaderOptions options;
  Scaling scaling;
  Index batches = 0;

  Order order;
  Index position = 0;  // of the batch that is made next; of the thread while it runs

  // Between the threads.
  std::thread thread;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Batch> ready;
  std::exception_ptr error;
  bool stop = false, finished = false;

  ~State() { halt(); }

  void halt() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
    if (thread.joinable()) thread.join();
    ready.clear();
    error = nullptr;
    stop = finished = false;
  }

  // Length of the padded batch, from all samples of it, also those of other workers.
  Index padded_length(std::span<const Index> batch, Index longest) const {
    if (options.pad_to_max) return options.max_length > 0 ? options.max_length : longest;
    Index length = 0;
    for (const Index i : batch) length = std::max(length, data->length(i));
    return options.max_length > 0 ? std::min(length, options.max_length) : length;
  }

  Batch make(Index b) const {
    const Description& description = data->description();
    const auto all = order.batch(b);
    const auto count = static_cast<Index>(all.size());
    const Index begin = count * options.part / options.parts, end = count * (options.part + 1) / options.parts;
    const auto own = all.subspan(at(begin), at(end - begin));
    Batch batch;
    batch.size = end - begin;
    batch.samples.assign(own.begin(), own.end());
    const bool both = description.kind == Kind::image_text;
    const bool image = description.kind == Kind::image;
    const Index pixels = description.channels * description.rows * description.columns;
    if (!image) batch.length = padded_length(all, description.max_length);
    const std::size_t steps = at(batch.size * batch.length);
    if (image || both) batch.values.reserve(at(batch.size * pixels));
    if (description.kind == Kind::series) batch.values.assign(steps * at(description.channels), 0);
    if (!image) batch.mask.assign(steps, 0);
    const bool tokens = !image && description.kind != Kind::series;
    if (tokens) batch.tokens.assign(steps, 0);
    if (description.kind == Kind::events) batch.times.assign(steps, 0);
    if (description.kind == Kind::pair) {
      batch.second_length = batch.length;
      batch.second.assign(steps, 0);
      batch.second_mask.assign(steps, 0);
    }

    Sample sample;
    for (Index i = 0; i < batch.size; ++i) {
      data->read(own[at(i)], sample);
      batch.labels.push_back(sample.label);
      if (image || both) batch.values.insert(batch.values.end(), sample.values.begin(), sample.values.end());
      if (image) continue;
      const Index length = std::min(sample.length, batch.length);
      if (description.kind == Kind::series) {
        scaling.apply(sample, description.channels);
        std::copy_n(sample.values.begin(), length * description.channels,
                    batch.values.begin() + i * batch.length * description.channels);
        std::fill_n(batch.mask.begin() + i * batch.length, length, std::uint8_t{1});
      }
      if (tokens) put_tokens(sample.tokens, i, batch.length, batch.tokens, batch.mask);
      if (description.kind == Kind::events)
        std::copy_n(sample.times.begin(), length, batch.times.begin() + i * batch.length);
      if (description.kind == Kind::pair) put_tokens(sample.second, i, batch.length, batch.second, batch.second_mask);
    }
    return batch;
  }

  // Two batches wait at most: one is enough when all take equally long, the other evens out long samples.
  void work() {
    constexpr std::size_t most = 2;
    try {
      for (; position < batches; ++position) {
        Batch batch = make(position);
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return stop || ready.size() < most; });
        if (stop) return;
        ready.push_back(std::move(batch));
        lock.unlock();
        changed.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex);
      finished = true;
    }
    changed.notify_all();
  }
};

Loader::Loader(DatasetPtr data, std::vector<Index> samples, LoaderOptions options, Scaling scaling)
    : state_(std::make_unique<State>()) {
  const auto refuse = [](bool wrong, const std::string& message) {
    if (wrong) throw InvalidArgument(message);
  };
  refuse(data == nullptr, "a loader needs a data set");
  refuse(options.batch < 1, fmt::format("a batch has at least one sample, found {}", options.batch));
  refuse(options.max_length < 0, fmt::format("max_length must be 0 or more, found {}", options.max_length));
  refuse(options.parts < 1 || options.part < 0 || options.part >= options.parts,
         fmt::format("part {} of {} does not exist", options.part, options.parts));
  for (const Index i : samples)
    refuse(i < 0 || i >= data->size(), fmt::format("sample {} does not exist, there are {}", i, data->size()));
  state_->data = std::move(data);
  state_->samples = std::move(samples);
  state_->options = options;
  state_->scaling = std::move(scaling);
  state_->batches = (static_cast<Index>(state_->samples.size()) + options.batch - 1) / options.batch;
  start(0);
}

Loader::~Loader() = default;

Index Loader::samples() const { return static_cast<Index>(state_->samples.size()); }

Index Loader::batches() const { return state_->batches; }

void Loader::start(Index epoch, Index batch) {
  if (epoch < 0 || batch < 0 || batch > state_->batches)
    throw InvalidArgument(
        fmt::format("batch {} of epoch {} does not exist, an epoch has {}", batch, epoch, state_->batches));
  state_->halt();
  state_->order = order_of(*state_->data, state_->samples, state_->options, epoch);
  state_->position = batch;
}

bool Loader::next(Batch& into) {
  State& state = *state_;
  if (!state.options.prefetch) {
    if (state.position >= state.batches) return false;
    into = state.make(state.position);
    ++state.position;
    return true;
  }
  // The thread starts with the first batch that is asked for.
  if (!state.thread.joinable()) state.thread = std::thread([&state] { state.work(); });
  std::unique_lock lock(state.mutex);
  state.changed.wait(lock, [&] { return !state.ready.empty() || state.finished; });
  if (state.ready.empty()) {
    if (state.error) std::rethrow_exception(state.error);
    return false;
  }
  into = std::move(state.ready.front());
  state.ready.pop_front();
  lock.unlock();
  state.changed.notify_all();
  return true;
}

}  // namespace saddle::data

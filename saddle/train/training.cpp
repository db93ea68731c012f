#include "saddle/train/training.hpp"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"
#include "saddle/base/log.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/io/event_file.hpp"
#include "saddle/nn/layer.hpp"
#include "saddle/run/progress.hpp"
#include "saddle/train/autocast.hpp"
#include "saddle/train/buckets.hpp"
#include "saddle/train/evaluate.hpp"
#include "saddle/train/optimiser.hpp"
#include "saddle/train/result.hpp"
#include "saddle/train/run_folder.hpp"
#include "saddle/train/setup.hpp"
#include "saddle/train/state.hpp"
#include "saddle/train/tabular/training.hpp"

namespace saddle::train {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

bool has_batch_norm(const nn::Model& model) {
  const auto buffers = model.named_buffers();
  return std::any_of(buffers.begin(), buffers.end(),
                     [](const auto& item) { return item.key().ends_with("running_mean"); });
}

class Training {
 public:
  Training(Setup setup, const RunOptions& options, Group& group)
      : setup_(std::move(setup)),
        options_(options),
        group_(group),
        train_(setup_.settings.train),
        paper_(setup_.settings.data.protocol == "paper"),
        optimiser_(*setup_.trained.model, train_),
        buckets_(*setup_.trained.model, group),
        loader_(setup_.train, setup_.split.train,
                data::LoaderOptions{.batch = train_.batch,
                                    .max_length = setup_.trained.max_length,
                                    .shuffle = true,
                                    .seed = static_cast<std::uint64_t>(train_.seed),
                                    .part = group.rank(),
                                    .parts = group.size()},
                setup_.trained.scaling),
        per_epoch_(loader_.batches()),
        total_(train_.steps > 0 ? train_.steps : train_.epochs * per_epoch_) {
    if (train_.ema > 0)
      for (const auto& [name, tensor] : weights()) average_[name] = tensor.detach().clone();
    if (group.size() > 1 && has_batch_norm(*setup_.trained.model)) {
      const Index rest = static_cast<Index>(setup_.split.train.size()) % train_.batch;
      if (train_.batch < group.size() || (rest != 0 && rest < group.size()))
        throw InvalidArgument(
            fmt::format("the last batch of an epoch has {} samples for {} workers, and batch norm needs one for each",
                        rest == 0 ? train_.batch : rest, group.size()),
            "choose another --batch, or fewer --workers");
      shared_batches_ = std::make_unique<nn::SharedBatches>([&group](Tensor& tensor) { group.sum(tensor); });
    }
    if (paper_) {
      if (!setup_.task.test)
        throw InvalidArgument(fmt::format("{} has no test split, which --protocol paper needs", setup_.task.name));
      test_ = setup_.task.test();
    }
  }

  Ended run();

 private:
  NamedTensors weights() const { return weights_of(*setup_.trained.model); }
  // Those that are evaluated and kept.
  const NamedTensors& chosen_weights() {
    current_ = weights();
    return average_.empty() ? current_ : average_;
  }
  double epoch_at(Index step) const { return static_cast<double>(step) / static_cast<double>(per_epoch_); }
  bool evaluates_at(Index step) const;
  [[noreturn]] void diverged(double loss) const;
  void log_line(const std::string& text) const {
    if (group_.leads()) log(LogLevel::info, text);
  }

  DataOrigin origin() const {
    const data::Description& about = setup_.train->description();
    return {setup_.task.name, about.files, about.checksum};
  }
  void resume();
  void read_state();
  void update(data::Batch& batch);
  void average();
  Evaluation evaluate_now(const data::DatasetPtr& data, const std::vector<Index>& samples);
  void evaluate_and_choose();
  void record(const char* split, double loss, double accuracy);
  void write_checkpoint_now();
  void write_state();
  void rescue();
  void finish();

  Setup setup_;
  const RunOptions& options_;
  Group& group_;
  const run::TrainSettings& train_;
  bool paper_;
  Optimiser optimiser_;
  Buckets buckets_;
  data::Loader loader_;
  Index per_epoch_, total_;
  NamedTensors average_, current_;
  NamedTensors buffers_before_;  // the update that is under way
  data::DatasetPtr test_;
  std::unique_ptr<nn::SharedBatches> shared_batches_;
  std::unique_ptr<run::Folder> folder_;  // the leader's
  std::unique_ptr<io::EventFile> events_;

  State state_;
  std::string stopped_ = "epochs";
  bool interrupted_ = false, due_ = false;
  Clock::time_point last_checkpoint_ = Clock::now();
};

void Training::diverged(double loss) const {
  throw Error(fmt::format("the loss is {} behind update {}: training has diverged", loss, state_.step),
              "a smaller --lr, --clip 1, or --precision float32 may help");
}

bool Training::evaluates_at(Index step) const {
  if (step == total_) return true;
  if (train_.evaluate_steps > 0) return step % train_.evaluate_steps == 0;
  if (step % per_epoch_ != 0) return false;
  const Index epoch = step / per_epoch_;
  return epoch == 1 || epoch % train_.evaluate_every == 0;
}

// Everything that decides the future: weights, their averages, the optimiser, and how far things are.
void Training::resume() {
  if (options_.open != run::Folder::Open::resume) return;
  if (group_.leads()) read_state();
  share(state_, group_);
  for (const NamedTensors& tensors : {weights(), optimiser_.state(), average_}) share(tensors, group_);
  optimiser_.set_steps(state_.step);
  if (state_.step > total_)
    throw InvalidArgument(
        fmt::format("the run has {} updates behind it, but these settings ask for {} only", state_.step, total_));
  if (folder_) {
    // Going on to more epochs: the result is that of fewer, and the run is no longer complete.
    if (state_.step < total_) fs::remove(folder_->file("result.json"));
    describe_run(*folder_, options_, setup_.settings, origin(), group_.size());
  }
  log_line(state_.step == 0 ? "no checkpoint yet: starting from the beginning"
                            : fmt::format("resuming behind update {} of {}", state_.step, total_));
}

void Training::read_state() {
  const std::optional<Last> last = read_last(options_.out);
  if (last) {
    restore(last->checkpoint, "model.", weights());
    restore(last->checkpoint, "optimizer.", optimiser_.state());
    restore(last->checkpoint, "average.", average_);
    state_ = last->state;
  }
  folder_->cut_metrics(last ? last->metrics_bytes : 0);
}

void Training::write_state() {
  NamedTensors tensors;
  for (const auto& [name, tensor] : weights()) tensors["model." + name] = tensor;
  for (const auto& [name, tensor] : optimiser_.state()) tensors["optimizer." + name] = tensor;
  for (const auto& [name, tensor] : average_) tensors["average." + name] = tensor;
  write_last(options_.out, tensors, state_, folder_->metrics_size());
}

void Training::write_checkpoint_now() {
  last_checkpoint_ = Clock::now();
  if (folder_) write_state();
}

// Behind a lost worker: the updates done are the same everywhere, so any survivor can write them down. The leader has
// the folder; if it is the one that is gone, the first of the others takes it, once the dying process has let go: its
// connections end before its locks do.
void Training::rescue() {
  const torch::NoGradGuard guard;
  for (const auto& [name, before] : buffers_before_) setup_.trained.model->named_buffers()[name].copy_(before);
  try {
    if (!folder_) folder_ = std::make_unique<run::Folder>(options_.out, run::Folder::Open::resume, 5);
    write_state();
    log(LogLevel::warn,
        fmt::format("another worker is gone: wrote a checkpoint behind update {}, --resume goes on from it",
                    state_.step));
  } catch (const Error& error) {
    log(LogLevel::info, fmt::format("another worker is gone; the checkpoint is left to others: {}", error.what()));
  }
}

// Weights and averages move together; whole numbers are copied.
void Training::average() {
  const torch::NoGradGuard guard;
  for (const auto& [name, tensor] : weights()) {
    Tensor& mean = average_.at(name);
    if (mean.is_floating_point()) {
      mean.lerp_(tensor, 1 - train_.ema);
    } else {
      mean.copy_(tensor);
    }
  }
}

void Training::update(data::Batch& raw) {
  const auto start = Clock::now();
  if (group_.size() > 1)
    for (const auto& item : setup_.trained.model->named_buffers()) buffers_before_[item.key()] = item.value().clone();
  // Every update has random numbers of its own: nothing of a generator must be kept for a resumed run.
  const auto seed = static_cast<std::uint64_t>(train_.seed);
  const auto draw = static_cast<std::uint64_t>(state_.step * group_.size() + group_.rank());
  torch::manual_seed(Stream(seed, "dropout").bits64_at(draw));
  const Index global =
      std::min(train_.batch, static_cast<Index>(setup_.split.train.size()) - state_.step % per_epoch_ * train_.batch);
  setup_.trained.model->train();
  optimiser_.forget_gradients();
  double loss = 0, right = 0;
  if (raw.size > 0) {
    LabelledBatch batch = to_tensors(raw, setup_.trained.data, setup_.trained.positions);
    if (train_.mixup > 0) mix(batch, train_.mixup, Stream(seed, fmt::format("mixup/{}", draw)));
    // The same number on every worker: norms over the batch add up between them.
    const Index pieces = std::min(train_.accumulate, std::max<Index>(1, global / group_.size()));
    for (Index piece = 0; piece < pieces; ++piece) {
      const Index first = batch.size() * piece / pieces, end = batch.size() * (piece + 1) / pieces;
      const LabelledBatch part = slice(batch, first, end - first);
      if (piece + 1 == pieces) buckets_.start();
      Tensor sum, logits, total;
      {
        const Autocast autocast(train_.precision == "bfloat16");
        const nn::ExtraLosses extra;
        logits = setup_.trained.model->logits(part.inputs);
        sum = loss_sum(logits, part, train_.label_smoothing);
        const Tensor term = extra.mean();
        total = term.defined() ? sum + static_cast<double>(part.size()) * term : sum;
      }
      (total / static_cast<double>(global)).backward();
      loss += sum.item<double>();
      right += logits.detach().argmax(-1).eq(part.labels).sum().item<double>();
    }
  } else {
    buckets_.start();
  }
  buckets_.finish();
  const Rate rate = rate_at(train_, state_.step, total_);
  optimiser_.clip_values(train_.clip_value);
  if (train_.clip > 0) optimiser_.clip(train_.clip);
  Tensor news = torch::tensor(
      {options_.interrupted() ? 1.0 : 0.0,
       group_.leads() && train_.checkpoint_every > 0 && seconds_since(last_checkpoint_) > train_.checkpoint_every ? 1.0
                                                                                                                  : 0.0,
       group_.leads() && train_.budget > 0 && state_.train_seconds + seconds_since(start) > train_.budget ? 1.0 : 0.0,
       loss, right, static_cast<double>(raw.size)},
      torch::kFloat64);
  group_.sum(news);
  const auto* const told = news.data_ptr<double>();
  if (!std::isfinite(told[3])) diverged(told[3]);
  // From here on the update counts, on every worker.
  buffers_before_.clear();
  optimiser_.step(rate);
  if (train_.ema > 0) average();
  ++state_.step;
  interrupted_ = told[0] > 0;
  due_ = told[1] > 0;
  if (told[2] > 0) stopped_ = "budget";
  state_.tally.loss += told[3];
  state_.tally.right += told[4];
  state_.tally.count += told[5];
  state_.train_seconds += seconds_since(start);
}

Evaluation Training::evaluate_now(const data::DatasetPtr& data, const std::vector<Index>& samples) {
  const bool bfloat16 = train_.precision == "bfloat16";
  const Index batch = std::max<Index>(train_.batch, 32);
  if (average_.empty()) return evaluate(setup_.trained, data, samples, batch, group_, bfloat16);
  const torch::NoGradGuard guard;
  NamedTensors kept;
  for (auto& [name, tensor] : weights()) {
    kept[name] = tensor.detach().clone();
    tensor.copy_(average_.at(name));
  }
  const auto put_back = [&] {
    for (auto& [name, tensor] : weights()) tensor.copy_(kept.at(name));
  };
  try {
    const Evaluation evaluation = evaluate(setup_.trained, data, samples, batch, group_, bfloat16);
    put_back();
    return evaluation;
  } catch (...) {
    put_back();
    throw;
  }
}

void Training::record(const char* split, double loss, double accuracy) {
  if (!folder_) return;
  const double epoch = epoch_at(state_.step);
  const Json number = epoch == std::floor(epoch) ? Json(static_cast<Index>(epoch)) : Json(epoch);
  folder_->append_metrics(Json{
      {"epoch", number},
      {"step", state_.step},
      {"split", split},
      {"loss", loss},
      {"accuracy", accuracy},
      {"lr", rate_at(train_, state_.step - 1, total_).lr},
      {"seconds",
       state_.train_seconds}}.dump());
  events_->scalar(fmt::format("loss/{}", split), state_.step, loss);
  events_->scalar(fmt::format("accuracy/{}", split), state_.step, accuracy);
}

void Training::evaluate_and_choose() {
  // First what may fail: until then nothing has changed, and a resumed run comes here again.
  const data::DatasetPtr& data = paper_ ? test_ : setup_.validation;
  std::optional<Evaluation> evaluation;
  if (data) evaluation = evaluate_now(data, paper_ ? all_of(*data) : setup_.split.validation);
  if (evaluation && !std::isfinite(evaluation->loss)) diverged(evaluation->loss);
  const double count = std::max(state_.tally.count, 1.0);
  record("train", state_.tally.loss / count, state_.tally.right / count);
  std::string line = fmt::format("epoch {:.4g}/{:.4g}  train loss {:.4f} accuracy {:.1f} %", epoch_at(state_.step),
                                 epoch_at(total_), state_.tally.loss / count, 100 * state_.tally.right / count);
  state_.tally = {};
  state_.evaluated = state_.step;
  if (evaluation) {
    const char* split = paper_ ? "test" : "validation";
    record(split, evaluation->loss, evaluation->accuracy);
    line +=
        fmt::format(", {}{} loss {:.4f} accuracy {:.1f} %", split, paper_ ? " (chooses the epoch: protocol paper)" : "",
                    evaluation->loss, 100 * evaluation->accuracy);
    ++state_.since_best;
    if (state_.best.beaten_by(evaluation->accuracy, evaluation->loss)) {
      state_.best = {evaluation->accuracy, evaluation->loss, epoch_at(state_.step), state_.step};
      state_.since_best = 0;
      line += " *";
    }
  } else {
    state_.best = {-1, 0, epoch_at(state_.step), state_.step};  // nothing to choose by: the last
  }
  if (folder_ && state_.best.step == state_.step)
    write_trained(folder_->file("checkpoints") / "best.safetensors", setup_.trained, chosen_weights());
  if (events_) events_->flush();
  log_line(line + fmt::format(", {}", run::duration_text(state_.train_seconds)));
  if (train_.patience > 0 && state_.since_best >= train_.patience) stopped_ = "early";
}

void Training::finish() {
  const bool bfloat16 = train_.precision == "bfloat16";
  Outcome outcome;
  outcome.best_epoch = state_.best.epoch;
  outcome.epochs = epoch_at(state_.step);
  outcome.stopped = stopped_;
  outcome.train_seconds = state_.train_seconds;
  outcome.updates = state_.step;
  outcome.workers = group_.size();
  if (setup_.validation) outcome.validation = {state_.best.accuracy, state_.best.loss};
  // Opened here for the first time, unless the protocol is the leaky one.
  if (!test_ && setup_.task.test) test_ = setup_.task.test();
  if (test_) {
    outcome.last = evaluate_now(test_, all_of(*test_));
    outcome.test = outcome.last;
  }
  if (group_.leads()) setup_.trained = read_trained(options_.out);
  share(weights(), group_);
  if (test_ && state_.best.step != state_.step)
    outcome.test = evaluate(setup_.trained, test_, all_of(*test_), std::max<Index>(train_.batch, 32), group_, bfloat16);
  if (folder_) write_result(*folder_, setup_, outcome, test_);
  group_.wait_for_all();
}

Ended Training::run() {
  if (group_.leads()) folder_ = open_run(options_, setup_.settings, origin(), group_.size());
  group_.wait_for_all();
  resume();
  if (folder_) events_ = std::make_unique<io::EventFile>(options_.out, state_.step);
  if (folder_ && state_.step == 0) {
    const data::Description& about = setup_.trained.data;
    log_line(fmt::format(
        "{}: {} samples train, {} validate, {} classes; {} with {} parameters, {} updates in {:.4g} epochs{}",
        about.name, setup_.split.train.size(), setup_.split.validation.size(), about.classes.size(),
        setup_.settings.model, parameter_count(*setup_.trained.model), total_, epoch_at(total_),
        paper_ ? "; PROTOCOL PAPER: the epoch is chosen on the test split, figures are too good" : ""));
  }
  run::Progress progress(total_, "updates", state_.step, group_.leads() && !options_.quiet);
  const bool stopped_before = train_.patience > 0 && state_.since_best >= train_.patience;
  if (stopped_before) stopped_ = "early";
  try {
    // A worker was lost in the evaluation of the last update.
    if (state_.step > 0 && state_.evaluated != state_.step && evaluates_at(state_.step)) {
      evaluate_and_choose();
      write_checkpoint_now();
    }
    data::Batch batch;
    loader_.start(state_.step / per_epoch_, state_.step % per_epoch_);
    while (state_.step < total_ && stopped_ == "epochs") {
      if (!loader_.next(batch)) {
        loader_.start(state_.step / per_epoch_);
        continue;
      }
      update(batch);
      progress.at(state_.step, fmt::format("loss {:.3f}", state_.tally.loss / std::max(state_.tally.count, 1.0)));
      if (evaluates_at(state_.step) || stopped_ == "budget") {
        progress.clear();
        evaluate_and_choose();
        write_checkpoint_now();
      } else if (due_ && !interrupted_) {
        write_checkpoint_now();
      }
      if (interrupted_ && state_.step < total_) {
        progress.clear();
        write_checkpoint_now();
        log_line(fmt::format("interrupted behind update {} of {}; --resume goes on from here", state_.step, total_));
        return Ended::interrupted;
      }
    }
  } catch (const WorkerLost&) {
    progress.clear();
    rescue();
    throw;
  }
  progress.clear();
  finish();
  return Ended::finished;
}

// Nothing that was said is left unheard.
void refuse_table_settings(const run::Settings& settings) {
  for (const auto& [key, origin] : settings.origins)
    if (key.starts_with("table."))
      throw InvalidArgument(fmt::format("{} is a setting of models that see a table as a whole ({})", key, origin),
                            "--model npt is one");
}

}  // namespace

run::Settings complete(run::Settings settings) {
  if (tabular::sees_table(settings)) return tabular::complete(std::move(settings));
  refuse_table_settings(settings);
  return set_up(std::move(settings)).settings;
}

Ended train(const run::Settings& settings, const RunOptions& options, Group& group) {
  if (tabular::sees_table(settings)) return tabular::train(settings, options, group);
  refuse_table_settings(settings);
  return Training(set_up(settings), options, group).run();
}

}  // namespace saddle::train

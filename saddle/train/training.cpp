#include "saddle/train/training.hpp"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"
#include "saddle/base/log.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/io/event_file.hpp"
#include "saddle/run/progress.hpp"
#include "saddle/train/autocast.hpp"
#include "saddle/train/buckets.hpp"
#include "saddle/train/evaluate.hpp"
#include "saddle/train/optimiser.hpp"
#include "saddle/train/result.hpp"
#include "saddle/train/setup.hpp"

namespace saddle::train {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// What the training samples said since the last evaluation, over all workers.
struct Tally {
  double loss = 0, right = 0, count = 0;
};

bool has_batch_norm(const nn::Model& model) {
  const auto buffers = model.named_buffers();
  return std::any_of(buffers.begin(), buffers.end(),
                     [](const auto& item) { return item.key().ends_with("running_mean"); });
}

// The evaluation that chose the weights.
struct Best {
  double accuracy = -1, loss = 0, epoch = 0;
  Index step = 0;

  bool beaten_by(const Evaluation& other) const {
    return step == 0 || other.accuracy > accuracy || (other.accuracy == accuracy && other.loss < loss);
  }
};

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

  void open_folder();
  void describe_run() const;
  void check_same_data() const;
  void resume();
  void read_state();
  void share_state();
  void share(const NamedTensors& tensors);
  void update(data::Batch& batch);
  void average();
  Evaluation evaluate_now(const data::DatasetPtr& data, const std::vector<Index>& samples);
  void evaluate_and_choose();
  void record(const char* split, double loss, double accuracy);
  void write_checkpoint_now();
  void write_state(const fs::path& folder, Index metrics_bytes);
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

  Index step_ = 0;       // updates done
  Index evaluated_ = 0;  // of them, at the last evaluation
  Tally tally_;
  Best best_;
  Index since_best_ = 0;
  std::string stopped_ = "epochs";
  double train_seconds_ = 0, lr_ = 0;
  bool interrupted_ = false, due_ = false;
  Clock::time_point last_checkpoint_ = Clock::now();
};

void Training::diverged(double loss) const {
  throw Error(fmt::format("the loss is {} behind update {}: training has diverged", loss, step_),
              "a smaller --lr, --clip 1, or --precision float32 may help");
}

bool Training::evaluates_at(Index step) const {
  if (step == total_) return true;
  if (train_.evaluate_steps > 0) return step % train_.evaluate_steps == 0;
  if (step % per_epoch_ != 0) return false;
  const Index epoch = step / per_epoch_;
  return epoch == 1 || epoch % train_.evaluate_every == 0;
}

void Training::open_folder() {
  if (!group_.leads()) return;
  folder_ = std::make_unique<run::Folder>(options_.out, options_.open);
  if (options_.open == run::Folder::Open::resume) {
    const run::Settings before = run::resolve(run::read_settings(folder_->file("config.toml").string()));
    std::vector<std::string> changed;
    for (const run::Difference& difference : run::differences(before, setup_.settings)) {
      const auto& allowed = options_.allowed;
      if (std::find(allowed.begin(), allowed.end(), difference.key) == allowed.end())
        changed.push_back(fmt::format("{} was {} and is {}", difference.key, difference.before, difference.now));
    }
    if (!changed.empty())
      throw InvalidArgument(fmt::format("the run in {} was started with other settings: {}", options_.out.string(),
                                        fmt::join(changed, "; ")),
                            "leave the flags out, or name the keys with --allow");
    check_same_data();
  } else {
    describe_run();
  }
}

void Training::describe_run() const {
  folder_->write("config.toml", run::to_toml(setup_.settings, false));
  folder_->write("env.json", environment_json(setup_, options_.command, group_.size()));
}

void Training::check_same_data() const {
  const Json before = Json::parse(folder_->read("env.json"), nullptr, false);
  const std::string now = setup_.train->description().checksum;
  if (before.is_object() && before.value("data_checksum", now) != now)
    throw InvalidArgument(
        fmt::format("{} has changed since the run in {} was started", setup_.task.name, options_.out.string()),
        "--force starts the run again");
}

// Everything that decides the future: weights, their averages, the optimiser, and how far things are.
void Training::resume() {
  if (options_.open != run::Folder::Open::resume) return;
  if (group_.leads()) read_state();
  share_state();
  if (step_ > total_)
    throw InvalidArgument(
        fmt::format("the run has {} updates behind it, but these settings ask for {} only", step_, total_));
  if (folder_) {
    // Going on to more epochs: the result is that of fewer, and the run is no longer complete.
    if (step_ < total_) fs::remove(folder_->file("result.json"));
    describe_run();
  }
  log_line(step_ == 0 ? "no checkpoint yet: starting from the beginning"
                      : fmt::format("resuming behind update {} of {}", step_, total_));
}

void Training::read_state() {
  const fs::path file = options_.out / "checkpoints" / "last.safetensors";
  if (!fs::exists(file)) {
    folder_->cut_metrics(0);
    return;
  }
  const Checkpoint checkpoint = [&] {
    try {
      return read_checkpoint(file);
    } catch (const DataError& error) {
      const fs::path earlier = options_.out / "checkpoints" / "previous.safetensors";
      throw DataError(error.file(), error.line(), error.column(), error.what(),
                      fs::exists(earlier) ? fmt::format("the checkpoint before it is {}: put it in its place to resume "
                                                        "from there",
                                                        earlier.string())
                                          : "--force starts the run again");
    }
  }();
  try {
    const Json state = Json::parse(checkpoint.state);
    restore(checkpoint, "model.", weights());
    restore(checkpoint, "optimizer.", optimiser_.state());
    restore(checkpoint, "average.", average_);
    step_ = state.at("step");
    evaluated_ = state.at("evaluated");
    tally_ = {state.at("tally").at(0), state.at("tally").at(1), state.at("tally").at(2)};
    const Json& best = state.at("best");
    best_ = {best.at("accuracy"), best.at("loss"), best.at("epoch"), best.at("step")};
    since_best_ = state.at("since_best");
    train_seconds_ = state.at("train_seconds");
    folder_->cut_metrics(state.at("metrics_bytes"));
  } catch (const Json::exception& error) {
    throw DataError(file.string(), 0, 0, fmt::format("does not describe the state of a run: {}", error.what()));
  }
}

// What the leader has read: the others may not see its folder.
void Training::share_state() {
  Tensor numbers = torch::tensor({static_cast<double>(step_), static_cast<double>(evaluated_), tally_.loss,
                                  tally_.right, tally_.count, best_.accuracy, best_.loss, best_.epoch,
                                  static_cast<double>(best_.step), static_cast<double>(since_best_), train_seconds_},
                                 torch::kFloat64);
  group_.broadcast(numbers);
  const auto* const told = numbers.data_ptr<double>();
  step_ = static_cast<Index>(told[0]);
  evaluated_ = static_cast<Index>(told[1]);
  tally_ = {told[2], told[3], told[4]};
  best_ = {told[5], told[6], told[7], static_cast<Index>(told[8])};
  since_best_ = static_cast<Index>(told[9]);
  train_seconds_ = told[10];
  share(weights());
  share(optimiser_.state());
  share(average_);
  optimiser_.set_steps(step_);
}

// Everybody gets the leader's values.
void Training::share(const NamedTensors& tensors) {
  if (group_.size() == 1) return;
  const torch::NoGradGuard guard;
  for (const auto& [name, tensor] : tensors) {
    Tensor dense = tensor.detach().contiguous();
    group_.broadcast(dense);
    tensor.detach().copy_(dense);
  }
}

void Training::write_state(const fs::path& folder, Index metrics_bytes) {
  NamedTensors tensors;
  for (const auto& [name, tensor] : weights()) tensors["model." + name] = tensor;
  for (const auto& [name, tensor] : optimiser_.state()) tensors["optimizer." + name] = tensor;
  for (const auto& [name, tensor] : average_) tensors["average." + name] = tensor;
  const Json state{
      {"schema", "saddle.checkpoint/1"},
      {"step", step_},
      {"evaluated", evaluated_},
      {"total", total_},
      {"tally", {tally_.loss, tally_.right, tally_.count}},
      {"best", {{"accuracy", best_.accuracy}, {"loss", best_.loss}, {"epoch", best_.epoch}, {"step", best_.step}}},
      {"since_best", since_best_},
      {"train_seconds", train_seconds_},
      {"metrics_bytes", metrics_bytes}};
  const fs::path last = folder / "checkpoints" / "last.safetensors",
                 previous = folder / "checkpoints" / "previous.safetensors";
  if (fs::exists(last)) {
    // A second name for the file that is about to be replaced: at no moment is there none.
    const fs::path link = folder / "checkpoints" / "previous.new";
    std::error_code ignored;
    fs::remove(link, ignored);
    fs::create_hard_link(last, link, ignored);
    if (!ignored) fs::rename(link, previous, ignored);
  }
  write_checkpoint(last, tensors, state.dump());
}

void Training::write_checkpoint_now() {
  last_checkpoint_ = Clock::now();
  if (folder_) write_state(options_.out, folder_->metrics_size());
}

// Behind a lost worker: the updates done are the same everywhere, so any survivor can write them down. The leader has
// the folder; if it is the one that is gone, the first of the others takes it.
void Training::rescue() {
  const torch::NoGradGuard guard;
  for (const auto& [name, before] : buffers_before_) setup_.trained.model->named_buffers()[name].copy_(before);
  try {
    if (!folder_) folder_ = std::make_unique<run::Folder>(options_.out, run::Folder::Open::resume);
    write_state(options_.out, folder_->metrics_size());
    log(LogLevel::warn,
        fmt::format("another worker is gone: wrote a checkpoint behind update {}, --resume goes on from it", step_));
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
  const auto draw = static_cast<std::uint64_t>(step_ * group_.size() + group_.rank());
  torch::manual_seed(Stream(seed, "dropout").bits64_at(draw));
  const Index global =
      std::min(train_.batch, static_cast<Index>(setup_.split.train.size()) - step_ % per_epoch_ * train_.batch);
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
      Tensor sum, logits;
      {
        const Autocast autocast(train_.precision == "bfloat16");
        logits = setup_.trained.model->logits(part.inputs);
        sum = loss_sum(logits, part, train_.label_smoothing);
      }
      (sum / static_cast<double>(global)).backward();
      loss += sum.item<double>();
      right += logits.detach().argmax(-1).eq(part.labels).sum().item<double>();
    }
  } else {
    buckets_.start();
  }
  buckets_.finish();
  const Rate rate = rate_at(train_, step_, total_);
  if (train_.clip > 0) optimiser_.clip(train_.clip);
  Tensor news = torch::tensor(
      {options_.interrupted() ? 1.0 : 0.0,
       group_.leads() && train_.checkpoint_every > 0 && seconds_since(last_checkpoint_) > train_.checkpoint_every ? 1.0
                                                                                                                  : 0.0,
       group_.leads() && train_.budget > 0 && train_seconds_ + seconds_since(start) > train_.budget ? 1.0 : 0.0, loss,
       right, static_cast<double>(raw.size)},
      torch::kFloat64);
  group_.sum(news);
  const auto* const told = news.data_ptr<double>();
  if (!std::isfinite(told[3])) diverged(told[3]);
  // From here on the update counts, on every worker.
  buffers_before_.clear();
  optimiser_.step(rate);
  if (train_.ema > 0) average();
  ++step_;
  lr_ = rate.lr;
  interrupted_ = told[0] > 0;
  due_ = told[1] > 0;
  if (told[2] > 0) stopped_ = "budget";
  tally_.loss += told[3];
  tally_.right += told[4];
  tally_.count += told[5];
  train_seconds_ += seconds_since(start);
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
  const double epoch = epoch_at(step_);
  const Json number = epoch == std::floor(epoch) ? Json(static_cast<Index>(epoch)) : Json(epoch);
  folder_->append_metrics(Json{
      {"epoch", number},
      {"step", step_},
      {"split", split},
      {"loss", loss},
      {"accuracy", accuracy},
      {"lr", lr_},
      {"seconds",
       train_seconds_}}.dump());
  events_->scalar(fmt::format("loss/{}", split), step_, loss);
  events_->scalar(fmt::format("accuracy/{}", split), step_, accuracy);
}

void Training::evaluate_and_choose() {
  // First what may fail: until then nothing has changed, and a resumed run comes here again.
  const data::DatasetPtr& data = paper_ ? test_ : setup_.validation;
  std::optional<Evaluation> evaluation;
  if (data) evaluation = evaluate_now(data, paper_ ? all_of(*data) : setup_.split.validation);
  if (evaluation && !std::isfinite(evaluation->loss)) diverged(evaluation->loss);
  const double count = std::max(tally_.count, 1.0);
  record("train", tally_.loss / count, tally_.right / count);
  std::string line = fmt::format("epoch {:.4g}/{:.4g}  train loss {:.4f} accuracy {:.1f} %", epoch_at(step_),
                                 epoch_at(total_), tally_.loss / count, 100 * tally_.right / count);
  tally_ = {};
  evaluated_ = step_;
  if (evaluation) {
    const char* split = paper_ ? "test" : "validation";
    record(split, evaluation->loss, evaluation->accuracy);
    line +=
        fmt::format(", {}{} loss {:.4f} accuracy {:.1f} %", split, paper_ ? " (chooses the epoch: protocol paper)" : "",
                    evaluation->loss, 100 * evaluation->accuracy);
    ++since_best_;
    if (best_.beaten_by(*evaluation)) {
      best_ = {evaluation->accuracy, evaluation->loss, epoch_at(step_), step_};
      since_best_ = 0;
      line += " *";
    }
  } else {
    best_ = {-1, 0, epoch_at(step_), step_};  // nothing to choose by: the last
  }
  if (folder_ && best_.step == step_)
    write_trained(folder_->file("checkpoints") / "best.safetensors", setup_.trained, chosen_weights());
  if (events_) events_->flush();
  log_line(line + fmt::format(", {}", run::duration_text(train_seconds_)));
  if (train_.patience > 0 && since_best_ >= train_.patience) stopped_ = "early";
}

void Training::finish() {
  const bool bfloat16 = train_.precision == "bfloat16";
  Outcome outcome;
  outcome.best_epoch = best_.epoch;
  outcome.epochs = epoch_at(step_);
  outcome.stopped = stopped_;
  outcome.train_seconds = train_seconds_;
  outcome.updates = step_;
  outcome.workers = group_.size();
  if (setup_.validation) outcome.validation = {best_.accuracy, best_.loss};
  // Opened here for the first time, unless the protocol is the leaky one.
  if (!test_ && setup_.task.test) test_ = setup_.task.test();
  if (test_) {
    outcome.last = evaluate_now(test_, all_of(*test_));
    outcome.test = outcome.last;
  }
  if (group_.leads()) setup_.trained = read_trained(options_.out);
  share(weights());
  if (test_ && best_.step != step_)
    outcome.test = evaluate(setup_.trained, test_, all_of(*test_), std::max<Index>(train_.batch, 32), group_, bfloat16);
  if (folder_) write_result(*folder_, setup_, outcome, test_);
  group_.wait_for_all();
}

Ended Training::run() {
  open_folder();
  group_.wait_for_all();
  resume();
  if (folder_) events_ = std::make_unique<io::EventFile>(options_.out, step_);
  if (folder_ && step_ == 0) {
    const data::Description& about = setup_.trained.data;
    log_line(fmt::format(
        "{}: {} samples train, {} validate, {} classes; {} with {} parameters, {} updates in {:.4g} epochs{}",
        about.name, setup_.split.train.size(), setup_.split.validation.size(), about.classes.size(),
        setup_.settings.model, parameter_count(*setup_.trained.model), total_, epoch_at(total_),
        paper_ ? "; PROTOCOL PAPER: the epoch is chosen on the test split, figures are too good" : ""));
  }
  run::Progress progress(total_, "updates", step_, group_.leads() && !options_.quiet);
  const bool stopped_before = train_.patience > 0 && since_best_ >= train_.patience;
  if (stopped_before) stopped_ = "early";
  try {
    // A worker was lost in the evaluation of the last update.
    if (step_ > 0 && evaluated_ != step_ && evaluates_at(step_)) {
      evaluate_and_choose();
      write_checkpoint_now();
    }
    data::Batch batch;
    loader_.start(step_ / per_epoch_, step_ % per_epoch_);
    while (step_ < total_ && stopped_ == "epochs") {
      if (!loader_.next(batch)) {
        loader_.start(step_ / per_epoch_);
        continue;
      }
      update(batch);
      progress.at(step_, fmt::format("loss {:.3f}", tally_.loss / std::max(tally_.count, 1.0)));
      if (evaluates_at(step_) || stopped_ == "budget") {
        progress.clear();
        evaluate_and_choose();
        write_checkpoint_now();
      } else if (due_ && !interrupted_) {
        write_checkpoint_now();
      }
      if (interrupted_ && step_ < total_) {
        progress.clear();
        write_checkpoint_now();
        log_line(fmt::format("interrupted behind update {} of {}; --resume goes on from here", step_, total_));
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

}  // namespace

run::Settings complete(run::Settings settings) { return set_up(std::move(settings)).settings; }

Ended train(const run::Settings& settings, const RunOptions& options, Group& group) {
  return Training(set_up(settings), options, group).run();
}

}  // namespace saddle::train

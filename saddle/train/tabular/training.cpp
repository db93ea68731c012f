#include "saddle/train/tabular/training.hpp"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"
#include "saddle/base/log.hpp"
#include "saddle/io/event_file.hpp"
#include "saddle/run/progress.hpp"
#include "saddle/train/optimiser.hpp"
#include "saddle/train/result.hpp"
#include "saddle/train/run_folder.hpp"
#include "saddle/train/setup.hpp"
#include "saddle/train/state.hpp"
#include "saddle/train/tabular/result.hpp"

namespace saddle::train::tabular {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class Training {
 public:
  Training(Setup setup, const RunOptions& options)
      : setup_(std::move(setup)),
        options_(options),
        train_(setup_.settings.train),
        table_(setup_.settings.table),
        columns_(setup_.trained.encoding.model_columns()),
        encoded_(setup_.trained.encoding.encode(setup_.table.values)),
        optimiser_(*setup_.trained.model, train_) {
    inputs_ = static_cast<Index>(setup_.parts.size());
    if (table_.rows == "train") inputs_ = static_cast<Index>(setup_.rows_of(Part::train).size());
    per_epoch_ = (inputs_ + train_.batch - 1) / train_.batch;
    total_ = train_.steps > 0 ? train_.steps : train_.epochs * per_epoch_;
    if (table_.balance && setup_.trained.predicts_classes())
      for (Index row = 0; row < setup_.table.rows; ++row)
        groups_.push_back(setup_.table.missing(row, setup_.table.width() - 1)
                              ? -1
                              : static_cast<Index>(setup_.table.at(row, setup_.table.width() - 1)));
  }

  Ended run();

 private:
  nn::Model& model() { return *setup_.trained.model; }
  NamedTensors weights() { return weights_of(model()); }
  bool classes() const { return setup_.trained.predicts_classes(); }
  double epoch_at(Index step) const { return static_cast<double>(step) / static_cast<double>(per_epoch_); }
  bool evaluates_at(Index step) const;
  DataOrigin origin() const { return {setup_.table.name, setup_.table.files, setup_.table.checksum}; }

  void resume();
  void write_state();
  void start_epoch(Index epoch);
  void update();
  Scores score_validation();
  Scores score_test();
  std::string score_text(double loss, double accuracy) const;
  void record(const char* split, double loss, double accuracy);
  void evaluate_and_choose();
  void finish();

  Setup setup_;
  const RunOptions& options_;
  const run::TrainSettings& train_;
  const run::TableSettings& table_;
  std::vector<nn::NptColumn> columns_;
  Tensor encoded_;
  Optimiser optimiser_;
  Index inputs_ = 0, per_epoch_ = 1, total_ = 1;
  std::vector<Index> groups_;
  std::unique_ptr<run::Folder> folder_;
  std::unique_ptr<io::EventFile> events_;

  Index epoch_ = -1;  // that pass_ and batches_ are for
  Pass pass_;
  std::vector<std::vector<Index>> batches_;
  State state_;
  std::string stopped_ = "epochs";
  Clock::time_point last_checkpoint_ = Clock::now();
};

bool Training::evaluates_at(Index step) const {
  if (step == total_) return true;
  if (train_.evaluate_steps > 0) return step % train_.evaluate_steps == 0;
  if (step % per_epoch_ != 0) return false;
  const Index epoch = step / per_epoch_;
  return epoch == 1 || epoch % train_.evaluate_every == 0;
}

void Training::resume() {
  if (options_.open != run::Folder::Open::resume) return;
  const std::optional<Last> last = read_last(options_.out);
  if (last) {
    restore(last->checkpoint, "model.", weights());
    restore(last->checkpoint, "optimizer.", optimiser_.state());
    state_ = last->state;
  }
  folder_->cut_metrics(last ? last->metrics_bytes : 0);
  optimiser_.set_steps(state_.step);
  if (state_.step > total_)
    throw InvalidArgument(
        fmt::format("the run has {} updates behind it, but these settings ask for {} only", state_.step, total_));
  // Going on to more updates: the result is that of fewer, and the run is no longer complete.
  if (state_.step < total_) fs::remove(folder_->file("result.json"));
  describe_run(*folder_, options_, setup_.settings, origin(), 1);
  log(LogLevel::info, state_.step == 0 ? "no checkpoint yet: starting from the beginning"
                                       : fmt::format("resuming behind update {} of {}", state_.step, total_));
}

void Training::write_state() {
  NamedTensors tensors;
  for (const auto& [name, tensor] : weights()) tensors["model." + name] = tensor;
  for (const auto& [name, tensor] : optimiser_.state()) tensors["optimizer." + name] = tensor;
  write_last(options_.out, tensors, state_, folder_->metrics_size());
  last_checkpoint_ = Clock::now();
}

// Masks and batches follow from seed and epoch alone: nothing of them must be kept for a resumed run.
void Training::start_epoch(Index epoch) {
  if (epoch == epoch_) return;
  epoch_ = epoch;
  const auto seed = static_cast<std::uint64_t>(train_.seed);
  Stream masks(seed, fmt::format("masks/{}", epoch)), order(seed, fmt::format("batches/{}", epoch));
  pass_ = training_pass(setup_.table.values, setup_.parts, encoded_, columns_, table_, masks);
  batches_ = batches_of(pass_.rows, setup_.parts, groups_, train_.batch, order);
}

void Training::update() {
  const auto start = Clock::now();
  start_epoch(state_.step / per_epoch_);
  torch::manual_seed(
      Stream(static_cast<std::uint64_t>(train_.seed), "dropout").bits64_at(static_cast<std::uint64_t>(state_.step)));
  model().train();
  optimiser_.forget_gradients();
  const auto& rows = batches_[static_cast<std::size_t>(state_.step % per_epoch_)];
  const Tensor index = torch::tensor(rows, torch::kInt64);
  const auto of_batch = [&](const Tensor& all) { return all.index_select(0, index); };
  const Tensor truth = of_batch(encoded_), targets = of_batch(pass_.targets);
  nn::NptLoss loss;
  Tensor outputs;
  {
    const nn::ExtraLosses extra;
    outputs = model().logits({of_batch(pass_.seen), {}, {}, {}});
    loss = nn::npt_loss(outputs, truth, columns_, targets, of_batch(pass_.features),
                        share_at(table_, state_.step, total_));
    const Tensor term = extra.mean();
    (term.defined() ? loss.loss + term : loss.loss).backward();
  }
  const double value = loss.loss.item<double>();
  if (!std::isfinite(value))
    throw Error(fmt::format("the loss is {} behind update {}: training has diverged", value, state_.step),
                "a smaller --lr may help");
  optimiser_.clip_values(train_.clip_value);
  if (train_.clip > 0) optimiser_.clip(train_.clip);
  optimiser_.step(rate_at(train_, state_.step, total_));
  ++state_.step;
  state_.tally.loss += loss.targets.item<double>();
  state_.tally.count += loss.target_count.item<double>();
  if (classes()) {
    const int64_t width = columns_.back().width;
    const Tensor right = outputs.detach()
                             .narrow(1, outputs.size(1) - width, width)
                             .argmax(1)
                             .eq(truth.narrow(1, truth.size(1) - width - 1, width).argmax(1));
    state_.tally.right += (right * targets.select(1, targets.size(1) - 1)).sum().item<double>();
  }
  state_.train_seconds += seconds_since(start);
}

Scores Training::score_validation() {
  const auto start = Clock::now();
  const Pass pass = scoring_pass(setup_.table.values, setup_.parts, encoded_, columns_, table_, Part::validation);
  Stream stream(static_cast<std::uint64_t>(train_.seed), "batches to score");
  const auto batches = batches_of(pass.rows, setup_.parts, {}, train_.batch, stream);
  Scores scores = score_targets(setup_.trained, outputs_of(setup_.trained, pass, batches), setup_.table.values,
                                setup_.rows_of(Part::validation));
  scores.seconds = seconds_since(start);
  return scores;
}

// As everybody who has the model scores them later. Only here do the targets of test rows come back.
Scores Training::score_test() {
  const auto start = Clock::now();
  const auto d = static_cast<std::size_t>(setup_.table.width());
  const std::vector<Index> rows = setup_.rows_of(Part::test);
  data::WholeTable test{setup_.table.name, setup_.table.columns, static_cast<Index>(rows.size()), {}};
  std::vector<Index> all;
  for (const Index row : rows) {
    const auto at = static_cast<std::size_t>(row);
    const auto first = setup_.table.values.begin() + static_cast<std::ptrdiff_t>(at * d);
    test.values.insert(test.values.end(), first, first + static_cast<std::ptrdiff_t>(d) - 1);
    test.values.push_back(setup_.test_targets[at]);
    all.push_back(static_cast<Index>(all.size()));
  }
  Scores scores = score_targets(setup_.trained, meet(setup_.trained, test, false), test.values, all);
  scores.rows = rows;
  scores.seconds = seconds_since(start);
  return scores;
}

std::string Training::score_text(double loss, double accuracy) const {
  if (classes()) return fmt::format("loss {:.4f} accuracy {:.1f} %", loss, 100 * accuracy);
  return fmt::format("loss {:.4f} RMSE {:.4g}", loss, std::sqrt(loss) * setup_.trained.encoding.deviation.back());
}

void Training::record(const char* split, double loss, double accuracy) {
  const double epoch = epoch_at(state_.step);
  Json line{{"epoch", epoch == std::floor(epoch) ? Json(static_cast<Index>(epoch)) : Json(epoch)},
            {"step", state_.step},
            {"split", split},
            {"loss", loss}};
  const char* const measure = classes() ? "accuracy" : "rmse";
  line[measure] = classes() ? accuracy : std::sqrt(loss) * setup_.trained.encoding.deviation.back();
  line["lr"] = rate_at(train_, state_.step - 1, total_).lr;
  line["seconds"] = state_.train_seconds;
  folder_->append_metrics(line.dump());
  events_->scalar(fmt::format("loss/{}", split), state_.step, loss);
  events_->scalar(fmt::format("{}/{}", measure, split), state_.step, line[measure].get<double>());
}

void Training::evaluate_and_choose() {
  // First what may fail: until then nothing has changed, and a resumed run comes here again.
  std::optional<Scores> scores;
  if (!setup_.rows_of(Part::validation).empty()) scores = score_validation();
  if (scores && !std::isfinite(scores->loss))
    throw Error(fmt::format("the validation loss is {} behind update {}", scores->loss, state_.step),
                "a smaller --lr may help");
  const double count = std::max(state_.tally.count, 1.0);
  record("train", state_.tally.loss / count, state_.tally.right / count);
  std::string line = fmt::format("update {}/{}  train {}", state_.step, total_,
                                 score_text(state_.tally.loss / count, state_.tally.right / count));
  state_.tally = {};
  state_.evaluated = state_.step;
  ++state_.since_best;
  if (scores) {
    record("validation", scores->loss, scores->accuracy);
    line += ", validation " + score_text(scores->loss, scores->accuracy);
  }
  // By the loss alone; without rows that validate the last one stays.
  if (!scores || state_.best.step == 0 || scores->loss < state_.best.loss) {
    state_.best = {-1, scores ? scores->loss : 0, epoch_at(state_.step), state_.step};
    state_.since_best = 0;
    write_trained_table(folder_->file("checkpoints") / "best.safetensors", setup_.trained, weights());
    line += scores ? " *" : "";
  }
  events_->flush();
  log(LogLevel::info, line + fmt::format(", {}", run::duration_text(state_.train_seconds)));
  if (train_.patience > 0 && state_.since_best >= train_.patience) stopped_ = "early";
}

void Training::finish() {
  setup_.trained.model = read_trained_table(options_.out).model;
  Outcome outcome;
  outcome.best_epoch = state_.best.epoch;
  outcome.epochs = epoch_at(state_.step);
  outcome.stopped = stopped_;
  outcome.train_seconds = state_.train_seconds;
  outcome.updates = state_.step;
  outcome.rows_seen = static_cast<Index>(epoch_at(state_.step) * static_cast<double>(inputs_));
  if (!setup_.rows_of(Part::validation).empty()) outcome.validation = score_validation();
  if (!setup_.rows_of(Part::test).empty()) outcome.test = score_test();
  write_result(*folder_, setup_, outcome);
}

Ended Training::run() {
  folder_ = open_run(options_, setup_.settings, origin(), 1);
  resume();
  events_ = std::make_unique<io::EventFile>(options_.out, state_.step);
  if (state_.step == 0) {
    for (const std::string& note : setup_.table.notes)
      log(LogLevel::info, fmt::format("{}: {}", setup_.table.name, note));
    log(LogLevel::info,
        fmt::format("{}: {} rows train, {} validate, {} test ({}); predicts {} of '{}' from {} columns; {} with {} "
                    "parameters, {} updates of at most {} rows",
                    setup_.table.name, setup_.rows_of(Part::train).size(), setup_.rows_of(Part::validation).size(),
                    setup_.rows_of(Part::test).size(), setup_.split, classes() ? "classes" : "numbers",
                    setup_.trained.target().name, columns_.size() - 1, setup_.settings.model, parameter_count(model()),
                    total_, std::min(train_.batch, inputs_)));
  }
  run::Progress progress(total_, "updates", state_.step, !options_.quiet);
  if (train_.patience > 0 && state_.since_best >= train_.patience) stopped_ = "early";
  while (state_.step < total_ && stopped_ == "epochs") {
    update();
    progress.at(state_.step, fmt::format("loss {:.3f}", state_.tally.loss / std::max(state_.tally.count, 1.0)));
    if (train_.budget > 0 && state_.train_seconds > train_.budget) stopped_ = "budget";
    const bool interrupted = options_.interrupted() && state_.step < total_;
    if (evaluates_at(state_.step) || stopped_ == "budget") {
      progress.clear();
      evaluate_and_choose();
      write_state();
    } else if (interrupted ||
               (train_.checkpoint_every > 0 && seconds_since(last_checkpoint_) > train_.checkpoint_every)) {
      write_state();
    }
    if (interrupted) {
      progress.clear();
      log(LogLevel::info,
          fmt::format("interrupted behind update {} of {}; --resume goes on from here", state_.step, total_));
      return Ended::interrupted;
    }
  }
  progress.clear();
  finish();
  return Ended::finished;
}

}  // namespace

bool sees_table(const run::Settings& settings) {
  return settings.model == "npt" ||
         (settings.model.empty() && data::has_fixed_splits(settings.data.name, where_of(settings.data)));
}

run::Settings complete(run::Settings settings) { return set_up(std::move(settings)).settings; }

Ended train(const run::Settings& settings, const RunOptions& options, Group& group) {
  if (group.size() > 1)
    throw NotSupported("a table is trained by one process: all rows of a batch see each other", {},
                       "leave out --workers; threads share the work");
  return Training(set_up(settings), options).run();
}

}  // namespace saddle::train::tabular

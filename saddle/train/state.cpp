#include "saddle/train/state.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"

namespace saddle::train {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using torch::Tensor;

namespace {

fs::path last_of(const fs::path& folder) { return folder / "checkpoints" / "last.safetensors"; }
fs::path previous_of(const fs::path& folder) { return folder / "checkpoints" / "previous.safetensors"; }

}  // namespace

void write_last(const fs::path& folder, const NamedTensors& tensors, const State& state, Index metrics_bytes) {
  const Tally& tally = state.tally;
  const Best& best = state.best;
  const Json document{
      {"schema", "saddle.checkpoint/1"},
      {"step", state.step},
      {"evaluated", state.evaluated},
      {"tally", {tally.loss, tally.right, tally.count}},
      {"best", {{"accuracy", best.accuracy}, {"loss", best.loss}, {"epoch", best.epoch}, {"step", best.step}}},
      {"since_best", state.since_best},
      {"train_seconds", state.train_seconds},
      {"metrics_bytes", metrics_bytes}};
  if (fs::exists(last_of(folder))) {
    // A second name for the file that is about to be replaced: at no moment is there none.
    const fs::path link = folder / "checkpoints" / "previous.new";
    std::error_code ignored;
    fs::remove(link, ignored);
    fs::create_hard_link(last_of(folder), link, ignored);
    if (!ignored) fs::rename(link, previous_of(folder), ignored);
  }
  write_checkpoint(last_of(folder), tensors, document.dump());
}

std::optional<Last> read_last(const fs::path& folder) {
  const fs::path file = last_of(folder);
  if (!fs::exists(file)) return std::nullopt;
  Last last;
  try {
    last.checkpoint = read_checkpoint(file);
  } catch (const DataError& error) {
    throw DataError(error.file(), error.line(), error.column(), error.what(),
                    fs::exists(previous_of(folder))
                        ? fmt::format("the checkpoint before it is {}: put it in its place to resume from there",
                                      previous_of(folder).string())
                        : "--force starts the run again");
  }
  try {
    const Json document = Json::parse(last.checkpoint.state);
    const Json &tally = document.at("tally"), &best = document.at("best");
    last.state = {document.at("step"),
                  document.at("evaluated"),
                  {tally.at(0), tally.at(1), tally.at(2)},
                  {best.at("accuracy"), best.at("loss"), best.at("epoch"), best.at("step")},
                  document.at("since_best"),
                  document.at("train_seconds")};
    last.metrics_bytes = document.at("metrics_bytes");
  } catch (const Json::exception& error) {
    throw DataError(file.string(), 0, 0, fmt::format("does not describe the state of a run: {}", error.what()));
  }
  return last;
}

void share(State& state, Group& group) {
  const auto number = [](Index value) { return static_cast<double>(value); };
  Tensor numbers = torch::tensor({number(state.step), number(state.evaluated), state.tally.loss, state.tally.right,
                                  state.tally.count, state.best.accuracy, state.best.loss, state.best.epoch,
                                  number(state.best.step), number(state.since_best), state.train_seconds},
                                 torch::kFloat64);
  group.broadcast(numbers);
  const auto* const told = numbers.data_ptr<double>();
  const auto whole = [&](int i) { return static_cast<Index>(told[i]); };
  state = {whole(0), whole(1), {told[2], told[3], told[4]}, {told[5], told[6], told[7], whole(8)}, whole(9), told[10]};
}

void share(const NamedTensors& tensors, Group& group) {
  if (group.size() == 1) return;
  const torch::NoGradGuard guard;
  for (const auto& [name, tensor] : tensors) {
    Tensor dense = tensor.detach().contiguous();
    group.broadcast(dense);
    tensor.detach().copy_(dense);
  }
}

}  // namespace saddle::train

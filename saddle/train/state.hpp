// How far a run is: what beside tensors decides its future, and the checkpoint that holds both.
#pragma once

#include <filesystem>
#include <optional>

#include "saddle/base/view.hpp"
#include "saddle/train/checkpoint.hpp"
#include "saddle/train/group.hpp"

namespace saddle::train {

// What the training samples said since the last evaluation, over all workers.
struct Tally {
  double loss = 0, right = 0, count = 0;
};

// The evaluation that chose the weights; none yet before step 1.
struct Best {
  double accuracy = -1, loss = 0, epoch = 0;
  Index step = 0;

  // By accuracy, ties by loss, then the earlier one stays.
  bool beaten_by(double other_accuracy, double other_loss) const {
    return step == 0 || other_accuracy > accuracy || (other_accuracy == accuracy && other_loss < loss);
  }
};

struct State {
  Index step = 0;       // updates done
  Index evaluated = 0;  // of them, at the last evaluation
  Tally tally;
  Best best;
  Index since_best = 0;  // evaluations
  double train_seconds = 0;
};

// checkpoints/last.safetensors in the folder of a run; what was there becomes previous.safetensors.
void write_last(const std::filesystem::path& folder, const NamedTensors& tensors, const State& state,
                Index metrics_bytes);

struct Last {
  Checkpoint checkpoint;
  State state;
  Index metrics_bytes = 0;
};

// Nothing if there is none. Throws DataError, which names the one before it if that is there.
std::optional<Last> read_last(const std::filesystem::path& folder);

// Everybody gets the leader's, who alone may see the folder.
void share(State& state, Group& group);
void share(const NamedTensors& tensors, Group& group);

}  // namespace saddle::train

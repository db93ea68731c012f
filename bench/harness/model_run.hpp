// Runs the models of a suite: both sides take the same steps and are compared, then steps are timed in turn.
#pragma once

#include "run.hpp"

namespace saddle::bench {

// torch: tuned, its threads sleep when they wait; torch_spinning: tuned, they never do, in bf16 only;
// torch_as_installed: only the number of threads is set.
enum class Side { own, torch, torch_spinning, torch_as_installed };

struct SideResult {
  std::optional<Timing> timing;  // of one step; none when the check is red
  double memory = -1;            // bytes beyond what was resident before the first step, at its peak; -1: not known
  std::string reason;            // why there is no time
};

struct ModelResult {
  ModelEntry entry;
  Check check;             // gradients of the first step and losses of three, against those of torch
  bool red = false;        // the check is, or our side failed
  std::string unmeasured;  // what is absent here; empty: nothing
  SideResult own, torch, spinning, as_installed;
  std::vector<BarResult> bars;

  // Time of torch over ours; none when one of them is missing.
  std::optional<double> ratio(const SideResult& peer) const;
  // The smallest one of all settings: those that are faster keep more. -1: not known.
  double torch_memory() const;
  bool passed() const;
};

// Starts the program that takes a side; throws IoError when there is none.
using StartSide = std::function<std::shared_ptr<Child>(Side, const ModelRow&)>;
std::shared_ptr<Child> start_side(Side side, const ModelRow& row);

ModelResult run_model(const ModelEntry& entry, const RunOptions& options, const StartSide& start = start_side);

}  // namespace saddle::bench

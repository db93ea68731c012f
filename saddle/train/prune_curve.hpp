// How good a model stays as its heads go, by each score.
#pragma once

#include <functional>

#include "saddle/data/dataset.hpp"
#include "saddle/train/prune.hpp"
#include "saddle/train/result.hpp"

namespace saddle::train {

// Samples that a model is judged on.
struct Judged {
  std::string name;  // "validation", "test"
  data::DatasetPtr data;
  std::vector<Index> samples;
};
Score judge(const Trained& trained, const Judged& judged);

struct PrunePoint {
  Index kept = 0;             // heads
  std::vector<Score> scores;  // on each set of samples
};

struct PruneCurve {
  std::string by;
  std::vector<PrunePoint> points;  // from all heads to the fewest
};

struct CurveOptions {
  std::vector<std::string> by = head_score_names();
  Index draws = 5;         // curves by random
  Index most_points = 24;  // of a curve
  Index samples = 0;       // see probe_training
  ScoreOptions score;      // the seed of the first random order
  bool rescale = false;
  std::function<void(Index done, Index total)> progress = [](Index, Index) {};
};

struct PruneCurves {
  std::vector<PruneCurve> curves;  // one for each score, `draws` for random
  std::vector<std::string> notes;
};

// A score that cannot be had for this model is left out with a note. Scores come from the training samples `train`.
PruneCurves prune_curves(const Trained& trained, const Judged& train, const std::vector<Judged>& judged,
                         const CurveOptions& options = {});

}  // namespace saddle::train

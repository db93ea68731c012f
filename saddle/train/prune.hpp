// Which heads of a trained model can go: scores, the order that they give, and the model without the heads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "saddle/analysis/attention_paths/attention_paths.hpp"
#include "saddle/nn/prune.hpp"
#include "saddle/train/trained.hpp"

namespace saddle::train {

struct Head {
  Index layer = 0, head = 0;
  bool operator==(const Head&) const = default;
};

// Small scores go first.
//   theory      how much a head takes part in the paths that the task needs, by analysis/attention_paths
//   magnitude   the norm of its weights
//   redundancy  the distance of its outputs to those of the nearest head of its layer, by analysis/head_redundancy;
//               measured again behind every head that goes, so that of two twins one stays
//   random      a draw of the seed
const std::vector<std::string>& head_score_names();
// Throws InvalidArgument for a name that is none of them.
void check_head_score(const std::string& by);
// Whether a score needs to see the model at work.
bool needs_probe(const std::string& by);

struct Ranking {
  std::string by;
  std::vector<std::vector<double>> scores;  // of layer and head; none for layers that cannot lose heads
  std::vector<Head> order;                  // in which they go
  std::vector<double> turns;                // of `order`: the score when it is a head's turn, NaN for a last one
  std::vector<std::string> notes;           // what a reader should know
};

struct ScoreOptions {
  std::uint64_t seed = 0;                               // of random
  analysis::attention_paths::ModelOptions theory = {};  // temperature, width, readout
};

// `train` is what the model did on training samples. Throws InvalidArgument for an unknown score, NotSupported where
// nothing can go or the theory cannot look.
Ranking rank_heads(const Trained& trained, const analysis::Probe& train, const std::string& by,
                   const ScoreOptions& options = {});

// As many training samples, evenly spread, as asked; 0: at most 128, fewer if their attention maps would be large.
analysis::Probe probe_training(const Trained& trained, const data::DatasetPtr& data, const std::vector<Index>& samples,
                               Index count);

// The heads that stay when heads go in the order of the ranking until `total` are left, layers with no more than
// `least` [layers] being spared. Throws InvalidArgument if that cannot be reached.
nn::KeptHeads kept_heads(const nn::Model& model, const Ranking& ranking, const std::vector<Index>& least, Index total);
// One for each layer that can lose heads, all for the others.
std::vector<Index> fewest_heads(const nn::Model& model);
Index head_count(const nn::KeptHeads& heads);

// The same with a smaller model.
Trained with_heads(const Trained& trained, const nn::KeptHeads& kept, bool rescale = false);

}  // namespace saddle::train

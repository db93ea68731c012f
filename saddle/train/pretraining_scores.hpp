// How well a model of images with texts does what it was pre-trained by: masked words, matching texts, masked features.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "saddle/train/trained.hpp"

namespace saddle::train {

struct ObjectiveScore {
  double score = 0, floor = 0;  // accuracies of words and texts, mean squared errors of features
  Index count = 0;              // words, pairs or features
};

// Each is there if its weight in the loss is above 0.
struct PretrainingScores {
  std::optional<ObjectiveScore> words;     // floor: always the commonest word of its place in these texts
  std::optional<ObjectiveScore> matches;   // floor: 0.5
  std::optional<ObjectiveScore> features;  // floor: always the mean of the masked features
};

// Over all samples, each seen once beside its own text or that of another one, words and features of matching pairs.
// Masks and pairs follow from the seed. Nothing for a model that has no such objectives.
std::optional<PretrainingScores> pretraining_scores(const Trained& trained, const data::DatasetPtr& data,
                                                    std::uint64_t seed = 0);

// {"masked_words": {"accuracy": .., "floor": .., "count": ..}, "matching": .., "masked_features": {"error": ..}}
nlohmann::ordered_json to_json(const PretrainingScores& scores);
// A line for each objective.
std::string to_text(const nlohmann::ordered_json& scores);

}  // namespace saddle::train

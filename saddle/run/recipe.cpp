// What follows from the kind of data where nothing was said.
#include <fmt/format.h>

#include "saddle/run/settings.hpp"

namespace saddle::run {

namespace {

// The smallest patch that makes at most so many tokens of an image and divides it.
Index patch_of(Index rows, Index columns, Index most) {
  for (Index patch = 1; patch < std::min(rows, columns); ++patch)
    if (rows % patch == 0 && columns % patch == 0 && (rows / patch) * (columns / patch) <= most) return patch;
  return 1;
}

std::vector<Given> recipe(const data::Description& data) {
  switch (data.kind) {
    case data::Kind::image:
      return {{"model.name", "vision_transformer", ""},
              {"model.patch", std::to_string(patch_of(data.rows, data.columns, 64)), ""},
              {"model.width", "64", ""},
              {"model.heads", "4", ""},
              {"model.depth", "4", ""},
              {"train.optimizer", "adamw", ""},
              {"train.weight_decay", "0.05", ""},
              {"train.schedule", "cosine", ""},
              {"train.warmup", "0.05", ""},
              {"train.batch", "128", ""},
              {"train.epochs", "20", ""}};
    case data::Kind::tokens:
    case data::Kind::pair:
      return {{"model.name", "sequence_classifier", ""},
              {"train.optimizer", "adamw", ""},
              {"train.eps", "1e-6", ""},
              {"train.schedule", "one_cycle", ""},
              {"train.warmup", "0.2", ""},
              {"train.batch", "32", ""},
              {"train.epochs", "20", ""}};
    case data::Kind::events:
      return {{"model.name", "event_model", ""},
              {"train.optimizer", "adam", ""},
              {"train.beta2", "0.98", ""},
              {"train.batch", "128", ""},
              {"train.epochs", "5", ""}};
    case data::Kind::image_text:
      return {{"model.name", "vision_language", ""},
              {"model.patch", std::to_string(patch_of(data.rows, data.columns, 16)), ""},
              {"train.optimizer", "adamw", ""},
              {"train.weight_decay", "0.01", ""},
              {"train.schedule", "cosine", ""},
              {"train.warmup", "0.05", ""},
              {"train.clip", "1", ""},
              {"train.batch", "64", ""},
              {"train.epochs", "20", ""}};
    default:
      return {{"model.name", "flowformer", ""}, {"model.width", "64", ""}, {"model.hidden", "256", ""},
              {"model.heads", "8", ""},         {"model.depth", "2", ""},  {"train.optimizer", "radam", ""},
              {"train.clip", "4", ""}};
  }
}

const char* word_for(data::Kind kind) {
  switch (kind) {
    case data::Kind::image: return "images";
    case data::Kind::tokens: return "tokens";
    case data::Kind::pair: return "pairs";
    case data::Kind::events: return "events";
    case data::Kind::image_text: return "images with texts";
    default: return "series";
  }
}

// Published but for the size of the model, which is one for CPUs.
const std::vector<Given> table_recipe{
    {"model.width", "32", ""},         {"model.heads", "4", ""},     {"model.depth", "4", ""},
    {"train.optimizer", "lamb", ""},   {"train.lookahead", "6", ""}, {"train.eps", "1e-6", ""},
    {"train.clip_value", "1", ""},     {"train.lr", "1e-3", ""},     {"train.schedule", "flat_anneal", ""},
    {"train.flat", "0.7", ""},         {"train.batch", "2048", ""},  {"train.steps", "2000", ""},
    {"train.evaluate_steps", "20", ""}};

}  // namespace

void apply_table_recipe(Settings& settings) {
  const auto has = [&](const std::string& key) { return settings.origins.count(key) != 0; };
  for (Given given : table_recipe) {
    if (has(given.key) || (given.key == "train.steps" && has("train.epochs")) ||
        (given.key == "train.evaluate_steps" && has("train.evaluate_every")))
      continue;
    given.origin = "recipe for tables";
    put(settings, given);
  }
}

void apply_recipe(Settings& settings, const data::Description& data) {
  // Sizes belong to the recipe's model: one that was named brings its own.
  const bool own_model = settings.origins.count("model.name") == 0;
  for (Given given : recipe(data)) {
    if (settings.origins.count(given.key) != 0 || (given.key.starts_with("model.") && !own_model)) continue;
    given.origin = fmt::format("recipe for {}", word_for(data.kind));
    put(settings, given);
  }
}

}  // namespace saddle::run

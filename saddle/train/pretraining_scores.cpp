#include "saddle/train/pretraining_scores.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "saddle/base/random.hpp"
#include "saddle/data/loader.hpp"
#include "saddle/nn/models/vision_language.hpp"
#include "saddle/train/batch.hpp"
#include "saddle/train/evaluate.hpp"

namespace saddle::train {

namespace {

using Json = nlohmann::ordered_json;

constexpr Index batch_size = 64;

// Of all batches: what was asked, and what the model said.
struct Answers {
  std::vector<Tensor> word, place, word_said, match, match_said, feature, feature_said;
  Tensor counts;  // [max_len,vocab], of every word in its place

  void add(nn::VisionLanguageImpl& model, const nn::Batch& batch) {
    const Tensor exist = batch.mask.defined() ? batch.mask : batch.inputs.ne(0);
    const auto parsed = model.parse(batch.images, model.options.mfr() > 0);
    const auto pass = model.pretrain(batch.inputs, exist, parsed);
    const Tensor matching = pass.matches.match.unsqueeze(1);
    const int64_t L = model.options.max_len();
    if (model.options.mlm() > 0) {
      if (!counts.defined()) counts = torch::zeros({L, model.options.vocab()}, torch::kInt64);
      const Tensor places = torch::arange(L).unsqueeze(0).expand({batch.inputs.size(0), L});
      counts.index_put_({places.index({exist}), batch.inputs.index({exist})}, torch::ones({}, torch::kInt64),
                        /*accumulate=*/true);
      const Tensor asked = pass.words.chosen.logical_and(matching);
      word.push_back(pass.tokens.index({asked}));
      place.push_back(places.index({asked}));
      word_said.push_back(model.word_logits(pass.fused).argmax(-1).index({asked}));
    }
    if (model.options.itm() > 0) {
      match.push_back(pass.matches.match);
      match_said.push_back(model.match_logits(pass.fused).argmax(-1).to(torch::kBool));
    }
    if (model.options.mfr() > 0) {
      const Tensor asked = pass.hidden.logical_and(matching);
      feature.push_back(parsed.tokens.index({asked}));
      feature_said.push_back(model.feature_predictions(pass.fused).index({asked}));
    }
  }
};

double share(const Tensor& right) { return right.numel() > 0 ? right.to(torch::kFloat64).mean().item<double>() : 0; }

}  // namespace

std::optional<PretrainingScores> pretraining_scores(const Trained& trained, const data::DatasetPtr& data,
                                                    std::uint64_t seed) {
  auto* const model = dynamic_cast<nn::VisionLanguageImpl*>(trained.model.get());
  if (model == nullptr || !model->pretrains()) return std::nullopt;
  const torch::NoGradGuard no_grad;
  const bool training = model->is_training();
  model->eval();
  torch::manual_seed(Stream(seed, "pretraining scores").bits64_at(0));
  data::Loader loader(data, all_of(*data), {.batch = batch_size, .max_length = trained.max_length}, trained.scaling);
  loader.start(0);
  Answers answers;
  for (data::Batch batch; loader.next(batch);)
    answers.add(*model, to_tensors(batch, trained.data, trained.positions).inputs);
  model->train(training);

  PretrainingScores scores;
  if (model->options.mlm() > 0) {
    const Tensor words = torch::cat(answers.word), places = torch::cat(answers.place);
    const Tensor commonest = answers.counts.argmax(1).index_select(0, places);
    scores.words = {share(torch::cat(answers.word_said).eq(words)), share(commonest.eq(words)), words.numel()};
  }
  if (model->options.itm() > 0) {
    const Tensor match = torch::cat(answers.match);
    scores.matches = {share(torch::cat(answers.match_said).eq(match)), 0.5, match.numel()};
  }
  if (model->options.mfr() > 0) {
    const Tensor features = torch::cat(answers.feature).to(torch::kFloat64);
    const Tensor said = torch::cat(answers.feature_said).to(torch::kFloat64);
    const auto error = [&](const Tensor& guess) { return share((features - guess).square()); };
    scores.features = {error(said), error(features.mean(0, true)), features.size(0)};
  }
  return scores;
}

Json to_json(const PretrainingScores& scores) {
  Json json = Json::object();
  const auto put = [&](const char* name, const char* measure, const std::optional<ObjectiveScore>& each) {
    if (each) json[name] = {{measure, each->score}, {"floor", each->floor}, {"count", each->count}};
  };
  put("masked_words", "accuracy", scores.words);
  put("matching", "accuracy", scores.matches);
  put("masked_features", "error", scores.features);
  return json;
}

std::string to_text(const Json& scores) {
  std::string text;
  for (const auto& [name, label, floor, unit] :
       {std::tuple{"masked_words", "masked words", "the commonest of its place", "words"},
        std::tuple{"matching", "does the text match", "chance", "pairs"}})
    if (scores.contains(name)) {
      const Json& own = scores[name];
      text += fmt::format("{}: accuracy {:.2f} % of {} {}; {}: {:.2f} %\n", label, 100 * own["accuracy"].get<double>(),
                          own["count"].get<Index>(), unit, floor, 100 * own["floor"].get<double>());
    }
  if (scores.contains("masked_features")) {
    const Json& own = scores["masked_features"];
    text += fmt::format("masked features: mean squared error {:.3f} of {} features; their mean: {:.3f}\n",
                        own["error"].get<double>(), own["count"].get<Index>(), own["floor"].get<double>());
  }
  return text;
}

}  // namespace saddle::train

#include "saddle/train/inspect.hpp"

#include <fmt/format.h>
#include <torch/nn/functional/pooling.h>

#include <nlohmann/json.hpp>
#include <set>

#include "saddle/nn/models/vision_language.hpp"
#include "saddle/nn/models/vision_transformer.hpp"
#include "saddle/primal/pooling.hpp"

namespace saddle::train {

using Json = nlohmann::ordered_json;

namespace {

constexpr Index largest_map = 64;
// Weights of all layers are there at once before they are averaged down, also those that a layer does without: of
// longer sequences they would not fit into memory.
constexpr Index longest_sequence = 4096;

std::string base64(const std::vector<std::uint8_t>& bytes) {
  static constexpr char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto at = [&](std::size_t k) { return i + k < bytes.size() ? std::uint32_t{bytes[i + k]} : 0U; };
    const std::uint32_t three = at(0) << 16 | at(1) << 8 | at(2);
    for (int k = 0; k < 4; ++k)
      text += i + static_cast<std::size_t>(k) <= bytes.size() ? letters[three >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::uint8_t byte_of(double share) { return static_cast<std::uint8_t>(std::clamp(share, 0.0, 1.0) * 255 + 0.5); }

// weights [N,K] of one head -> at most 64 x 64 cells, 255 for the largest.
Json map_json(Tensor weights) {
  weights = weights.to(torch::kFloat64);
  const Index N = weights.size(0), K = weights.size(1);
  const Index rows = std::min(N, largest_map), columns = std::min(K, largest_map);
  if (rows < N || columns < K)
    weights = torch::nn::functional::adaptive_avg_pool2d(
                  weights.view({1, 1, N, K}), torch::nn::functional::AdaptiveAvgPool2dFuncOptions({rows, columns}))
                  .view({rows, columns});
  weights = weights.contiguous();
  const double max = weights.numel() > 0 ? weights.max().item<double>() : 0;
  std::vector<std::uint8_t> bytes;
  for (Index i = 0; i < rows * columns; ++i)
    bytes.push_back(byte_of(max > 0 ? weights.data_ptr<double>()[i] / max : 0));
  Json map{{"rows", rows}, {"columns", columns}, {"max", max}, {"data", base64(bytes)}};
  if (rows < N || columns < K)
    map["scale"] = {static_cast<double>(N) / static_cast<double>(rows),
                    static_cast<double>(K) / static_cast<double>(columns)};
  return map;
}

std::vector<std::string> words_of(const data::Sample& sample, const data::Description& data) {
  std::vector<std::string> words;
  for (Index i = 0; i < std::min<Index>(sample.length, 512); ++i) {
    const std::int32_t token = sample.tokens[static_cast<std::size_t>(i)];
    const bool named = token >= 0 && static_cast<std::size_t>(token) < data.token_names.size();
    words.push_back(named ? data.token_names[static_cast<std::size_t>(token)] : std::to_string(token));
  }
  return words;
}

// `positions`: of the text beside an image, which a model pads to so many.
Json input_json(const data::Sample& sample, const data::Description& data, Index positions) {
  if (data.kind == data::Kind::image || data.kind == data::Kind::image_text) {
    std::vector<std::uint8_t> bytes;
    for (const float value : sample.values) bytes.push_back(byte_of(value));
    Json input{{"kind", "image"},
               {"channels", data.channels},
               {"rows", data.rows},
               {"columns", data.columns},
               {"values", base64(bytes)}};
    if (data.kind == data::Kind::image_text) {
      std::vector<std::string> words = words_of(sample, data);
      words.resize(static_cast<std::size_t>(positions));
      words.insert(words.begin(), "[CLS]");
      words.emplace_back("[SEP]");
      input["words"] = words;
    }
    return input;
  }
  if (data.kind == data::Kind::series) {
    Json channels = Json::array();
    for (Index c = 0; c < data.channels; ++c) {
      Json values = Json::array();
      for (Index t = 0; t < sample.length; ++t)
        values.push_back(sample.values[static_cast<std::size_t>(t * data.channels + c)]);
      channels.push_back(std::move(values));
    }
    Json input{{"kind", "series"}, {"channels", data.channels}, {"length", sample.length}, {"values", channels}};
    if (!data.channel_names.empty()) input["channel_names"] = data.channel_names;
    return input;
  }
  const std::vector<std::string> words = words_of(sample, data);
  return {{"kind", "tokens"}, {"length", static_cast<Index>(words.size())}, {"text", words}};
}

// Runs `body` with the tensors of the samples, batch by batch, in evaluation mode.
template <class Body>
void for_batches(const Trained& trained, const data::DatasetPtr& data, const std::vector<Index>& samples,
                 Index batch_size, Body&& body) {
  const torch::NoGradGuard guard;
  trained.model->eval();
  data::Loader loader(data, samples, {.batch = batch_size, .max_length = trained.max_length, .prefetch = false},
                      trained.scaling);
  loader.start(0);
  for (data::Batch batch; loader.next(batch);) body(batch, to_tensors(batch, trained.data, trained.positions));
}

}  // namespace

std::vector<nn::HeadDistance> head_distances(const Trained& trained, data::DatasetPtr data,
                                             const std::vector<Index>& samples) {
  std::vector<nn::HeadDistance> sums;
  const std::size_t depth = trained.model->attentions().size();
  double count = 0;
  for_batches(trained, data, samples, 32, [&](const data::Batch& batch, const LabelledBatch& tensors) {
    nn::Taps taps(false);
    trained.model->logits(tensors.inputs);
    sums.resize(taps.layers.size());
    const auto weight = static_cast<double>(batch.size);
    for (std::size_t layer = 0; layer < sums.size(); ++layer) {
      const Tensor& heads = taps.layers[layer].heads;
      const Tensor& mask = tensors.inputs.mask;
      const bool fits = mask.defined() && mask.size(1) == heads.size(2) && layer < depth;
      const nn::HeadDistance distance = nn::head_distance(heads, fits ? mask : Tensor());
      sums[layer].mean += weight * distance.mean;
      sums[layer].deviation += weight * (distance.deviation * distance.deviation + distance.mean * distance.mean);
      sums[layer].norm += weight * distance.norm;
    }
    count += weight;
  });
  for (nn::HeadDistance& sum : sums) {
    sum.mean /= count;
    sum.norm /= count;
    sum.deviation = std::sqrt(std::max(0.0, sum.deviation / count - sum.mean * sum.mean));
  }
  return sums;
}

std::vector<Index> worth_inspecting(const Evaluation& evaluation, Index count) {
  std::vector<Index> chosen;
  for (const bool right : {true, false}) {
    std::set<Index> seen;
    for (std::size_t i = 0; i < evaluation.samples.size() && static_cast<Index>(chosen.size()) < count; ++i)
      if ((evaluation.labels[i] == evaluation.predicted[i]) == right && seen.insert(evaluation.labels[i]).second)
        chosen.push_back(evaluation.samples[i]);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

Json inspect_json(const Trained& trained, data::DatasetPtr data, const std::vector<Index>& samples,
                  const Evaluation& evaluation) {
  const auto classes = static_cast<std::size_t>(trained.data.classes.size());
  std::map<Index, std::size_t> place;
  for (std::size_t i = 0; i < evaluation.samples.size(); ++i) place[evaluation.samples[i]] = i;
  Json list = Json::array(), pooling = Json::array();
  const std::vector<nn::AttentionOfLayer> attentions = trained.model->attentions();
  for_batches(trained, data, samples, 1, [&](const data::Batch& batch, const LabelledBatch& tensors) {
    const Index sample = batch.samples.front();
    const std::size_t at = place.at(sample);
    data::Sample raw;
    data->read(sample, raw);
    raw.length = trained.max_length > 0 ? std::min(raw.length, trained.max_length) : raw.length;
    nn::Taps taps(raw.length <= longest_sequence);
    trained.model->logits(tensors.inputs);
    Json layers = Json::array();
    for (std::size_t layer = 0; layer < std::min(taps.layers.size(), attentions.size()); ++layer) {
      if (!taps.layers[layer].weights.defined()) {  // no maps
        layers.push_back({{"heads", Json::array()}});
        continue;
      }
      Tensor weights = taps.layers[layer].weights[0];  // [H,N,K]
      // Padded steps are nothing to look at.
      const bool image = trained.data.kind == data::Kind::image || trained.data.kind == data::Kind::image_text;
      const Index steps = image ? weights.size(1) : std::min(weights.size(1), raw.length);
      Json heads = Json::array();
      for (Index head = 0; head < weights.size(0); ++head) {
        Index keys = steps;
        if (const auto& pooled = attentions[layer].value.pooling)
          keys = primal::pooled_count(*pooled, primal::pooling_factor(*pooled, weights.size(0), head), steps);
        heads.push_back(map_json(weights[head].narrow(0, 0, steps).narrow(1, 0, std::min(keys, weights.size(2)))));
      }
      layers.push_back({{"heads", heads}});
    }
    std::vector<double> probabilities(
        evaluation.probabilities.begin() + static_cast<std::ptrdiff_t>(at * classes),
        evaluation.probabilities.begin() + static_cast<std::ptrdiff_t>((at + 1) * classes));
    list.push_back({{"index", sample},
                    {"label", evaluation.labels[at]},
                    {"predicted", evaluation.predicted[at]},
                    {"probabilities", probabilities},
                    {"input", input_json(raw, trained.data, trained.positions)},
                    {"layers", layers}});
  });
  for (std::size_t layer = 0; layer < attentions.size(); ++layer)
    if (const auto& pooled = attentions[layer].value.pooling)
      pooling.push_back({{"layer", layer}, {"factors", primal::pooling_factors(*pooled, attentions[layer].heads)}});
  Json grid;
  const auto put_grid = [&](const auto& options, Index prefix) {
    grid = {{"prefix", prefix},
            {"rows", options.image().rows / options.patch().rows},
            {"columns", options.image().columns / options.patch().columns}};
  };
  if (const auto* vision = dynamic_cast<const nn::VisionTransformerImpl*>(trained.model.get()))
    put_grid(vision->options, vision->prefix());
  if (const auto* both = dynamic_cast<const nn::VisionLanguageImpl*>(trained.model.get()))
    put_grid(both->options, both->options.max_len() + 2);
  return {{"schema", "saddle.inspect/1"}, {"samples", list}, {"grid", grid}, {"pooling", pooling}};
}

}  // namespace saddle::train

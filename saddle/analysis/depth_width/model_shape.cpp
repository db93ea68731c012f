#include "saddle/analysis/depth_width/model_shape.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "saddle/base/error.hpp"

namespace saddle::analysis::depth_width {

namespace {

using Json = nlohmann::json;

constexpr Index largest = Index{1} << 40;

// The options of a model as texts, whatever file they came from.
using Options = std::map<std::string, std::string>;

[[noreturn]] void not_a_size(const std::string& file, std::string_view key, const std::string& found) {
  throw DataError(file, 0, 0, fmt::format("'{}' must be a whole number from 0 to {}, found {}", key, largest, found));
}

Index size_of(const Options& options, const std::string& name, const std::string& file) {
  const auto found = options.find(name);
  if (found == options.end()) return 0;
  const std::string& text = found->second;
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > largest)
    not_a_size(file, name, "'" + text + "'");
  return value;
}

struct Size {
  std::string_view name;
  Index width, depth, heads, hidden;  // hidden 0: 4 width
};

// Sizes that a saddle model has where a file leaves them out. Vision
// transformers are known by the beginning of their names, as in
// deit_tiny_patch16_224.
constexpr Size sizes[] = {
    {"time_series", 64, 3, 8, 256},         {"mvts", 64, 3, 8, 256},         {"flowformer", 512, 2, 8, 2048},
    {"sequence_classifier", 64, 2, 2, 128}, {"lra_", 64, 2, 2, 128},         {"language_model", 256, 4, 4, 0},
    {"vision_transformer", 192, 12, 3, 0},  {"deit_tiny_", 192, 12, 3, 0},   {"deit_small_", 384, 12, 6, 0},
    {"deit_base_", 768, 12, 12, 0},         {"vit_tiny_", 192, 12, 3, 0},    {"vit_small_", 384, 12, 6, 0},
    {"vit_base_", 768, 12, 12, 0},          {"vit_large_", 1024, 24, 16, 0}, {"spiking_vit", 384, 4, 12, 0},
    {"vision_language", 64, 2, 4, 0},       {"event_model", 32, 1, 1, 0},    {"npt", 64, 8, 8, 0},
};

const Size* named(std::string_view model) {
  for (const Size& size : sizes)
    if (model == size.name || (size.name.ends_with('_') && model.starts_with(size.name))) return &size;
  return nullptr;
}

void require_shape(const ModelShape& shape, const std::string& file, const std::string& hint) {
  if (shape.depth > 0 && shape.width > 0) return;
  throw DataError(file, 0, 0,
                  fmt::format("the file says nothing about the {} of the model", shape.depth > 0   ? "width"
                                                                                 : shape.width > 0 ? "depth"
                                                                                                   : "depth and width"),
                  hint);
}

ModelShape saddle_shape(const std::string& model, const Options& options, const std::string& file) {
  ModelShape shape;
  shape.model = model;
  shape.depth = size_of(options, "depth", file);
  shape.width = size_of(options, "width", file);
  shape.heads = size_of(options, "heads", file);
  shape.hidden = size_of(options, "hidden", file);
  shape.vocabulary = size_of(options, "vocab", file);
  shape.positions = size_of(options, "max_len", file);
  shape.decoder_only = model == "language_model";
  if (const Size* size = named(model)) {
    if (shape.width == 0) shape.width = size->width;
    if (shape.depth == 0) shape.depth = size->depth;
    if (shape.heads == 0) shape.heads = size->heads;
    if (!options.contains("hidden")) shape.hidden = size->hidden;
  }
  require_shape(shape, file,
                "model and size may follow from the data: 'saddle train "
                "--config FILE --print-config' prints them all");
  return shape;
}

// A value, or the value in {"value": .., "origin": ..} of printed settings.
std::optional<std::string> option_text(const Json& node) {
  const Json& value = node.is_object() && node.contains("value") ? node["value"] : node;
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  return std::nullopt;
}

Options options_of(const Json& object) {
  Options options;
  for (const auto& [name, value] : object.items())
    if (const auto text = option_text(value)) options[name] = *text;
  return options;
}

// The first of several names for one size; 0 if the file has none of them, or
// null.
Index first_of(const Json& document, std::initializer_list<const char*> names, const std::string& file) {
  for (const char* name : names) {
    if (!document.contains(name) || document[name].is_null()) continue;
    const Json& value = document[name];
    if (!value.is_number_integer() || value.get<double>() < 0 || value.get<double>() > static_cast<double>(largest))
      not_a_size(file, name, value.dump());
    return value.get<Index>();
  }
  return 0;
}

std::string word_of(const Json& document, const char* name) {
  return document.contains(name) && document[name].is_string() ? document[name].get<std::string>() : "";
}

// Feed-forward networks with a third matrix, by type of model or by the name of
// their activation.
bool is_gated(const Json& document, const std::string& type) {
  static constexpr std::array<std::string_view, 14> families{"llama",    "mistral",  "mixtral", "gemma",   "qwen2",
                                                             "qwen3",    "phi3",     "olmo",    "cohere",  "stablelm",
                                                             "internlm", "deepseek", "granite", "baichuan"};
  for (const char* key : {"feed_forward_proj", "hidden_act", "activation_function"}) {
    const std::string word = word_of(document, key);
    if (word.find("gated") != std::string::npos || word.find("glu") != std::string::npos) return true;
  }
  return std::any_of(families.begin(), families.end(), [&](std::string_view name) { return type.starts_with(name); });
}

ModelShape hugging_face_shape(const Json& given, const std::string& file) {
  // Models of several kinds of data keep the language model in a part of its
  // own.
  const char* parts[] = {"text_config", "llm_config"};
  const auto* part = std::find_if(std::begin(parts), std::end(parts),
                                  [&](const char* name) { return given.contains(name) && given[name].is_object(); });
  const Json& document = part == std::end(parts) ? given : given[*part];
  ModelShape shape;
  shape.model = word_of(document, "model_type");
  shape.depth = first_of(document, {"num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"}, file);
  shape.width = first_of(document, {"hidden_size", "n_embd", "d_model", "dim", "model_dim"}, file);
  shape.heads =
      first_of(document, {"num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"}, file);
  shape.hidden =
      first_of(document, {"intermediate_size", "n_inner", "ffn_dim", "d_ff", "hidden_dim", "encoder_ffn_dim"}, file);
  shape.key_value_heads = first_of(document, {"num_key_value_heads"}, file);
  shape.vocabulary = first_of(document, {"vocab_size"}, file);
  shape.positions = first_of(document, {"max_position_embeddings", "n_positions", "n_ctx"}, file);
  shape.gated = is_gated(document, shape.model);
  static constexpr std::array<std::string_view, 14> encoders{
      "bert", "roberta", "distilbert", "electra",  "deberta", "albert", "xlm-roberta",
      "vit",  "deit",    "beit",       "wav2vec2", "hubert",  "esm",    "modernbert"};
  const bool both = document.contains("is_encoder_decoder") && document["is_encoder_decoder"] == true;
  shape.decoder_only = !both && std::none_of(encoders.begin(), encoders.end(), [&](std::string_view name) {
    return shape.model == name || shape.model.starts_with(std::string(name) + "-");
  });
  require_shape(shape, file,
                "a config.json has num_hidden_layers and hidden_size, or names "
                "like n_layer and n_embd");
  return shape;
}

ModelShape json_shape(const std::string& text, const std::string& file) {
  // No description of a model is nested deeper; what is would only overflow the
  // stack.
  constexpr int deepest = 32;
  bool too_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, const Json&) {
    too_deep = too_deep || depth > deepest;
    return !too_deep;
  };
  Json document;
  try {
    document = Json::parse(text, watch);
  } catch (const Json::exception& error) {
    throw DataError(file, 0, 0, fmt::format("not valid JSON: {}", error.what()));
  }
  if (too_deep || !document.is_object()) throw DataError(file, 0, 0, "a description of a model is one JSON object");
  if (document.contains("model") && document["model"].is_object()) {  // printed settings
    const Options options = options_of(document["model"]);
    const auto name = options.find("name");
    return saddle_shape(name == options.end() ? "" : name->second, options, file);
  }
  if (document.contains("model") && document["model"].is_string()) {  // a model's description, or a result
    const bool result = document.contains("options") && document["options"].is_object();
    return saddle_shape(document["model"], options_of(result ? document["options"] : document), file);
  }
  return hugging_face_shape(document, file);
}

ModelShape toml_shape(const std::string& text, const std::string& file) {
  toml::table document;
  try {
    document = toml::parse(text);
  } catch (const toml::parse_error& error) {
    const auto& at = error.source().begin;
    throw DataError(file, static_cast<long>(at.line), static_cast<long>(at.column), std::string(error.description()));
  }
  if (document.contains("part"))
    throw DataError(file, 0, 0, "this is an experiment with models of several shapes",
                    "plan with the config.toml of one of its runs");
  Options options;
  if (const toml::table* model = document["model"].as_table())
    for (const auto& [key, node] : *model) {
      if (const auto* word = node.as_string()) options[std::string(key.str())] = word->get();
      if (const auto* number = node.as_integer()) options[std::string(key.str())] = std::to_string(number->get());
    }
  return saddle_shape(options.contains("name") ? options["name"] : "", options, file);
}

}  // namespace

double ModelShape::layer_params() const {
  const auto d = static_cast<double>(width);
  const double shared =
      key_value_heads > 0 && heads > 0 ? static_cast<double>(key_value_heads) / static_cast<double>(heads) : 1;
  const double inner = hidden > 0 ? static_cast<double>(hidden) : 4 * d;
  return static_cast<double>(depth) * ((2 + 2 * shared) * d * d + (gated ? 3 : 2) * d * inner);
}

ModelShape parse_model_shape(const std::string& text, const std::string& file) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) throw DataError(file, 0, 0, "the file is empty");
  return text[first] == '{' || file.ends_with(".json") ? json_shape(text, file) : toml_shape(text, file);
}

}  // namespace saddle::analysis::depth_width

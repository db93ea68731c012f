#include "saddle/analysis/depth_width/model_shape.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <limits>
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
    {"vision_language", 64, 2, 4, 0},       {"event_model", 32, 1, 1, 0},
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
  if (model == "npt")
    throw NotSupported(
        fmt::format("{}: every other layer of npt is as wide as all columns of its table together, the others are as "
                    "wide as one; the rule is about layers of one width",
                    file),
        {}, "plan for one of the two by --depth and --width");
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

// The first of several names for one size; 0 if the file has none of them, or null. A list says that layers differ:
// then there is no one size, which `differing`, if it is given, is told.
Index first_of(const Json& document, std::initializer_list<const char*> names, const std::string& file,
               std::string* differing = nullptr) {
  for (const char* name : names) {
    if (!document.contains(name) || document[name].is_null()) continue;
    const Json& value = document[name];
    if (value.is_array()) {
      if (differing == nullptr)
        throw NotSupported(
            fmt::format("{}: '{}' is a list: models in stages, whose layers are not all alike, are not supported", file,
                        name),
            {}, "plan for one of the stages by --depth and --width");
      *differing = fmt::format("'{}' differs from layer to layer", name);
      return 0;
    }
    if (!value.is_number_integer() || value.get<double>() < 0 || value.get<double>() > static_cast<double>(largest))
      not_a_size(file, name, value.dump());
    return value.get<Index>();
  }
  return 0;
}

bool is_true(const Json& document, const char* name) { return document.contains(name) && document[name] == true; }

std::string word_of(const Json& document, const char* name) {
  return document.contains(name) && document[name].is_string() ? document[name].get<std::string>() : "";
}

bool begins_with_one(const std::string& type, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return type.starts_with(name); });
}

// Feed-forward networks with a third matrix, by type of model or by the name of their activation: families that write
// silu have them.
bool is_gated(const Json& document, const std::string& type) {
  for (const char* key : {"feed_forward_proj", "hidden_act", "activation_function", "hidden_activation"}) {
    const std::string word = word_of(document, key);
    if (word.find("gated") != std::string::npos || word.find("glu") != std::string::npos || word == "silu") return true;
  }
  return begins_with_one(
      type, {"llama", "mistral", "mixtral", "gemma", "qwen2", "qwen3", "phi3", "phimoe", "olmo", "cohere", "stablelm",
             "internlm", "deepseek", "granite", "baichuan", "chatglm", "dbrx", "gpt_oss", "modernbert"});
}

// Layers that are no attention, or none that this counts. Some files leave the sizes of such layers out.
bool has_other_layers(const Json& document, const std::string& model) {
  if (begins_with_one(model, {"mamba", "falcon_mamba", "falcon_h1", "rwkv", "xlstm", "recurrent_gemma", "jamba",
                              "zamba", "bamba", "nemotron_h", "granitemoehybrid", "lfm2", "retnet", "hyena"}))
    return true;
  for (const char* key :
       {"linear_num_key_heads", "attn_layer_period", "mamba_d_state", "ssm_cfg", "ssm_state_size", "state_size",
        "block_types", "hybrid_override_pattern", "layers_block_type", "linear_attn_config"})
    if (document.contains(key) && !document[key].is_null()) return true;
  if (document.contains("layer_types") && document["layer_types"].is_array())
    for (const Json& type : document["layer_types"])
      if (!type.is_string() || (type != "full_attention" && type != "sliding_attention" && type != "chunked_attention"))
        return true;
  return false;
}

// How wide keys, queries and values are, and how many heads share them.
void read_attention(const Json& document, const std::string& file, ModelShape& shape) {
  const auto size = [&](std::initializer_list<const char*> names) {
    return first_of(document, names, file, &shape.uncounted);
  };
  shape.key_value_heads =
      size({"num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads", "multi_query_group_num"});
  if (is_true(document, "multi_query") && !is_true(document, "new_decoder_architecture")) shape.key_value_heads = 1;
  shape.head_width = size({"head_dim", "d_kv", "kv_channels", "d_head"});
  const auto d = static_cast<double>(shape.width), H = static_cast<double>(shape.heads);
  if (const auto rank = static_cast<double>(size({"kv_lora_rank"})); rank > 0) {
    // Keys and values, and mostly queries, pass through a narrow layer.
    const auto query_rank = static_cast<double>(size({"q_lora_rank"})),
               rope = static_cast<double>(size({"qk_rope_head_dim"})),
               nope = static_cast<double>(size({"qk_nope_head_dim"})),
               value = static_cast<double>(size({"v_head_dim"}));
    if (H == 0 || nope == 0 || value == 0) {
      shape.uncounted = "it does not say how wide the heads of its latent attention are";
      return;
    }
    const double queries = H * (nope + rope);
    shape.attention_weights = (query_rank > 0 ? (d + queries) * query_rank : d * queries) + d * (rank + rope) +
                              rank * H * (nope + value) + H * value * d;
    return;
  }
  // Relative positions have a matrix of their own.
  if (begins_with_one(shape.model, {"xlnet", "transfo-xl"}))
    shape.attention_weights = 5 * d * (shape.head_width > 0 ? H * static_cast<double>(shape.head_width) : d);
  // In these the width of a head does not follow from the others.
  if (begins_with_one(shape.model, {"gemma", "qwen3"}) && (shape.head_width == 0 || shape.heads == 0))
    shape.uncounted = "it does not say how many and how wide the heads are (num_attention_heads, head_dim)";
  if (shape.heads == 0 && (shape.head_width > 0 || shape.key_value_heads > 0))
    shape.uncounted = "it does not say how many heads there are";
}

// In which layers the experts stand, by the conventions of DeepSeek, Qwen and Llama.
void place_experts(const Json& document, const std::string& file, ModelShape& shape) {
  if (document.contains("moe_layers") && document["moe_layers"].is_array()) {  // one by one
    shape.dense_layers = std::max<Index>(0, shape.depth - static_cast<Index>(document["moe_layers"].size()));
    return;
  }
  for (const char* key : {"expert_layer_period", "moe_layer_frequency", "moe_layer_interval", "moe_layers",
                          "moe_every_n_layers", "moe_layers_enum", "num_sparse_encoder_layers", "encoder_sparse_step"})
    if (document.contains(key) && !document[key].is_null()) {
      shape.uncounted = fmt::format("which layers have experts follows from '{}', which is not known here", key);
      return;
    }
  const auto size = [&](const char* name, Index fallback) {
    const Index value = first_of(document, {name}, file, &shape.uncounted);
    return value > 0 ? value : fallback;
  };
  const Index from = size("first_k_dense_replace", 0), every = size("moe_layer_freq", 1),
              step = size("decoder_sparse_step", size("interleave_moe_layer_step", 1));
  constexpr Index deepest = 100000;
  if (shape.depth > deepest) {
    shape.uncounted = "it has too many layers";
    return;
  }
  const Json none = Json::array(), &dense = document.contains("mlp_only_layers") ? document["mlp_only_layers"] : none;
  for (Index layer = 0; layer < shape.depth; ++layer)
    if (layer < from || layer % every != 0 || (layer + 1) % step != 0 ||
        std::find(dense.begin(), dense.end(), Json(layer)) != dense.end())
      ++shape.dense_layers;
}

void read_experts(const Json& document, const std::string& file, ModelShape& shape) {
  const auto size = [&](std::initializer_list<const char*> names) {
    return first_of(document, names, file, &shape.uncounted);
  };
  shape.experts = size({"num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts"});
  if (shape.experts < 2) {
    shape.experts = 0;
    for (const auto& [key, value] : document.items())
      if (key.find("expert") != std::string::npos && value.is_number_integer() && value > 1)
        shape.uncounted =
            fmt::format("it has experts ('{}'), but does not say how many in a way that is known here", key);
    return;
  }
  shape.experts_used = size({"num_experts_per_tok", "num_experts_per_token", "moe_top_k", "top_k_experts"});
  shape.expert_hidden = size({"moe_intermediate_size"});
  if (shape.expert_hidden == 0) shape.expert_hidden = shape.hidden;
  shape.shared_hidden = size({"shared_expert_intermediate_size", "shared_intermediate_size"});
  if (const Index shared = size({"n_shared_experts", "num_shared_experts"}); shape.shared_hidden == 0 && shared > 0) {
    if (shared > largest / std::max<Index>(1, shape.expert_hidden))
      not_a_size(file, "n_shared_experts", std::to_string(shared));
    shape.shared_hidden = shared * shape.expert_hidden;
  }
  if (const Index dense = size({"intermediate_size_mlp"}); dense > 0) {  // Llama 4
    shape.shared_hidden = shape.expert_hidden;
    shape.hidden = dense;
  }
  if (shape.expert_hidden == 0) shape.uncounted = "it does not say how wide its experts are";
  place_experts(document, file, shape);
}

// Models of an encoder and a decoder; the theory knows one stack.
void read_decoder(const Json& document, const std::string& file, ModelShape& shape) {
  if (begins_with_one(shape.model, {"xlnet"})) shape.other_stack = "it attends in two streams and in many orders";
  const bool both = (document.contains("encoder_layers") && document.contains("decoder_layers")) ||
                    begins_with_one(shape.model, {"t5", "mt5", "umt5", "longt5", "switch_transformers", "bart", "mbart",
                                                  "plbart", "pegasus", "bigbird_pegasus", "marian", "m2m_100",
                                                  "whisper", "blenderbot", "led", "prophetnet"});
  if (!is_true(document, "is_encoder_decoder") && (document.contains("is_encoder_decoder") || !both)) return;
  shape.other_stack = "it is an encoder with a decoder, and the shape is that of the encoder";
  shape.decoder_depth = first_of(document, {"num_decoder_layers", "decoder_layers"}, file);
  shape.decoder_hidden = first_of(document, {"decoder_ffn_dim"}, file);
  if (shape.decoder_hidden == 0) shape.decoder_hidden = shape.hidden;
  // T5 writes the number down only if the two differ.
  if (shape.decoder_depth == 0 && document.contains("num_layers")) shape.decoder_depth = shape.depth;
  if (shape.decoder_depth == 0) shape.uncounted = "it does not say how many layers its decoder has";
  if (shape.experts > 0) shape.uncounted = "it has experts in an encoder and a decoder";
}

// Models of several kinds of data keep the language model in a part of its own; its name, or nothing.
std::string language_part(const Json& given) {
  for (const char* name : {"text_config", "llm_config"})
    if (given.contains(name) && given[name].is_object()) return name;
  return "";
}

// Some keep attention and feed-forward networks in parts.
Json flat(Json document) {
  for (const char* name : {"attn_config", "ffn_config"})
    if (document.contains(name) && document[name].is_object()) {
      const Json inner = document[name];
      for (const auto& [key, value] : inner.items())
        if (!document.contains(key)) document[key] = value;
    }
  return document;
}

ModelShape hugging_face_shape(const Json& given, const std::string& file) {
  const std::string part = language_part(given);
  const Json document = flat(part.empty() ? given : given[part]);
  for (const char* name : {"depths", "hidden_sizes"}) first_of(document, {name}, file);  // refuses stages
  ModelShape shape;
  shape.model = word_of(document, "model_type");
  if (!part.empty()) {
    const std::string whole = word_of(given, "model_type");
    shape.part = whole.empty() ? part : fmt::format("{} of {}", part, whole);
  }
  shape.depth = first_of(
      document, {"num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "num_encoder_layers"},
      file);
  shape.width = first_of(document, {"hidden_size", "n_embd", "n_embed", "d_model", "dim", "model_dim"}, file);
  shape.heads =
      first_of(document, {"num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"}, file);
  shape.hidden = first_of(document,
                          {"intermediate_size", "n_inner", "ffn_dim", "d_ff", "hidden_dim", "encoder_ffn_dim",
                           "d_inner", "ffn_hidden_size"},
                          file, &shape.uncounted);
  shape.vocabulary = first_of(document, {"vocab_size"}, file);
  shape.positions = first_of(document, {"max_position_embeddings", "n_positions", "n_ctx"}, file);
  shape.gated = is_gated(document, shape.model);
  if (shape.model == "qwen") {  // whose width is that of two matrices side by side
    shape.gated = true;
    shape.hidden /= 2;
  }
  require_shape(shape, file,
                "a config.json has num_hidden_layers and hidden_size, or names "
                "like n_layer and n_embd");
  read_attention(document, file, shape);
  read_experts(document, file, shape);
  read_decoder(document, file, shape);
  shape.distinct_layers = first_of(document, {"num_hidden_groups"}, file);
  if (shape.gated && shape.hidden == 0 && (shape.experts == 0 || shape.dense_layers > 0) && shape.uncounted.empty())
    shape.uncounted = "it does not say how wide the feed-forward networks are (intermediate_size)";
  if (has_other_layers(document, shape.model))
    shape.uncounted = "some of its layers are of another kind than attention, of which rule and theory say nothing";
  static constexpr std::array<std::string_view, 14> encoders{
      "bert", "roberta", "distilbert", "electra",  "deberta", "albert", "xlm-roberta",
      "vit",  "deit",    "beit",       "wav2vec2", "hubert",  "esm",    "modernbert"};
  shape.decoder_only =
      shape.other_stack.empty() && std::none_of(encoders.begin(), encoders.end(), [&](std::string_view name) {
        return shape.model == name || shape.model.starts_with(std::string(name) + "-");
      });
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

// Of all layers, with so many experts in each.
double weights_of(const ModelShape& shape, Index experts) {
  if (!shape.uncounted.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto number = [](Index value) { return static_cast<double>(value); };
  const double d = number(shape.width), depth = number(shape.depth);
  const auto network = [&](double inner) { return (shape.gated ? 3 : 2) * d * inner; };
  const auto inner = [&](Index hidden) { return hidden > 0 ? number(hidden) : 4 * d; };
  const double queries = shape.heads > 0 && shape.head_width > 0 ? number(shape.heads) * number(shape.head_width) : d;
  const double shared =
      shape.key_value_heads > 0 && shape.heads > 0 ? number(shape.key_value_heads) / number(shape.heads) : 1;
  const double attention = shape.attention_weights > 0 ? shape.attention_weights : (2 + 2 * shared) * d * queries;
  double sum = depth * attention;
  if (shape.experts == 0) {
    sum += depth * network(inner(shape.hidden));
  } else {
    sum += number(shape.dense_layers) * network(inner(shape.hidden)) +
           (depth - number(shape.dense_layers)) * (number(experts) * network(number(shape.expert_hidden)) +
                                                   network(number(shape.shared_hidden)) + d * number(shape.experts));
  }
  if (shape.distinct_layers > 0) sum *= std::min(1.0, number(shape.distinct_layers) / depth);
  // A layer of a decoder attends to itself and to the encoder.
  return sum + number(shape.decoder_depth) * (2 * attention + network(inner(shape.decoder_hidden)));
}

}  // namespace

double ModelShape::layer_params() const { return weights_of(*this, experts); }
double ModelShape::active_params() const { return weights_of(*this, experts_used > 0 ? experts_used : experts); }

ModelShape parse_model_shape(const std::string& text, const std::string& file) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) throw DataError(file, 0, 0, "the file is empty");
  return text[first] == '{' || file.ends_with(".json") ? json_shape(text, file) : toml_shape(text, file);
}

}  // namespace saddle::analysis::depth_width

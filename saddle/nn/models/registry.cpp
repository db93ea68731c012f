#include "saddle/nn/models/registry.hpp"

#include <functional>
#include <nlohmann/json.hpp>

#include "saddle/nn/models/event_model.hpp"
#include "saddle/nn/models/language_model.hpp"
#include "saddle/nn/models/npt.hpp"
#include "saddle/nn/models/options_internal.hpp"
#include "saddle/nn/models/sequence_classifier.hpp"
#include "saddle/nn/models/spiking_vit.hpp"
#include "saddle/nn/models/time_series.hpp"
#include "saddle/nn/models/vision_language.hpp"
#include "saddle/nn/models/vision_transformer.hpp"

namespace saddle::nn {

namespace {

using Json = nlohmann::ordered_json;

struct Entry {
  std::string name;
  std::vector<OptionValue> options;
  std::function<std::shared_ptr<Model>(const OptionTexts&)> make;
};

template <class Impl, class Options>
Entry entry(const std::string& name, const Options& defaults) {
  return {name, option_values_of(defaults), [name, defaults](const OptionTexts& given) {
            Options options = defaults;
            assign(options, given, name);
            return std::make_shared<Impl>(options);
          }};
}

Entry vision_entry(const std::string& name) {
  return entry<VisionTransformerImpl>(name, *VisionTransformerOptions::named(name));
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = [] {
    std::vector<Entry> list{
        entry<TimeSeriesTransformerImpl>("time_series", TimeSeriesOptions(0, 0, 0)),
        entry<SequenceClassifierImpl>("sequence_classifier", SequenceClassifierOptions(0, 0, 0)),
        entry<VisionTransformerImpl>("vision_transformer", VisionTransformerOptions()),
        entry<SpikingVitImpl>("spiking_vit", SpikingVitOptions()),
        entry<LanguageModelImpl>("language_model", LanguageModelOptions(0, 0)),
        entry<EventModelImpl>("event_model", EventModelOptions(0, 0, 0)),
        entry<VisionLanguageImpl>("vision_language", VisionLanguageOptions(0, 0, 0)),
        entry<NptImpl>("npt", NptOptions()),
        entry<TimeSeriesTransformerImpl>("mvts", TimeSeriesOptions::mvts(0, 0, 0)),
        entry<TimeSeriesTransformerImpl>("flowformer", TimeSeriesOptions::flowformer(0, 0, 0)),
    };
    for (const std::string& task : SequenceClassifierOptions::lra_tasks())
      list.push_back(entry<SequenceClassifierImpl>("lra_" + task, SequenceClassifierOptions::lra(task)));
    for (const char* size : {"tiny", "small", "base"})
      for (const char* distilled : {"", "_distilled"})
        list.push_back(vision_entry(fmt::format("deit_{}{}_patch16_224", size, distilled)));
    for (const char* size : {"tiny", "small", "base", "large"})
      list.push_back(vision_entry(fmt::format("vit_{}_patch16_224", size)));
    return list;
  }();
  return all;
}

Entry find(const std::string& name) {
  for (const Entry& each : entries())
    if (each.name == name) return each;
  if (VisionTransformerOptions::named(name)) return vision_entry(name);
  const std::vector<std::string> names = model_names();
  const std::string close = nearest(name, names);
  const std::string hint = close.empty() ? "" : fmt::format("did you mean '{}'?", close);
  throw InvalidArgument(fmt::format("[make_model] unknown model '{}', expected {}{}{}", name, join(names),
                                    hint.empty() ? "" : "; ", hint),
                        hint);
}

std::string text_of(const Json& value, const std::string& name) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean() || value.is_number_integer()) return value.dump();
  if (value.is_number()) return format_number(value.get<double>());
  if (value.is_array()) {
    std::vector<std::string> items;
    for (const Json& item : value) {
      if (!item.is_string()) throw InvalidArgument(fmt::format("[model] '{}' must be a list of written forms", name));
      items.push_back(item.get<std::string>());
    }
    return join(items, ",");
  }
  throw InvalidArgument(
      fmt::format("[model] '{}' must be a number, a word, true, false or a list, found {}", name, value.dump()));
}

Json json_of(const OptionValue& option) {
  const bool plain =
      option.kind == kind_of(int64_t{}) || option.kind == kind_of(double{}) || option.kind == kind_of(bool{});
  return plain ? Json::parse(option.value) : Json(option.value);
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Entry& each : entries()) names.push_back(each.name);
  return names;
}

std::vector<OptionValue> model_options(const std::string& name) { return find(name).options; }

std::shared_ptr<Model> make_model(const std::string& name, const OptionTexts& options) {
  return find(name).make(options);
}

std::shared_ptr<Model> model_from_json(std::string_view text) {
  // No description of a model is nested deeper; what is would only overflow the stack.
  const auto not_too_deep = [](int depth, Json::parse_event_t, const Json&) {
    if (depth > 3) throw InvalidArgument("[model] the JSON is nested too deeply to be a model");
    return true;
  };
  Json document;
  try {
    document = Json::parse(text, not_too_deep);
  } catch (const Json::exception& error) {
    throw InvalidArgument(fmt::format("[model] not valid JSON: {}", error.what()));
  }
  if (!document.is_object() || !document.contains("model") || !document["model"].is_string())
    throw InvalidArgument("[model] expected an object with a \"model\" and its options",
                          R"({"model": "deit_tiny_patch16_224", "attention": "softmax+bn"})");
  OptionTexts options;
  for (const auto& [name, value] : document.items())
    if (name != "model") options[name] = text_of(value, name);
  return make_model(document["model"].get<std::string>(), options);
}

std::string describe(const Model& model, int indent) {
  Json document{{"model", model.name()}};
  for (const OptionValue& option : model.option_values()) document[option.name] = json_of(option);
  return document.dump(indent);
}

}  // namespace saddle::nn

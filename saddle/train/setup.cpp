#include "saddle/train/setup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/base/text.hpp"
#include "saddle/data/next_event.hpp"
#include "saddle/nn/models/registry.hpp"
#include "saddle/train/evaluate.hpp"

namespace saddle::train {

namespace {

bool is_zero(const nn::OptionValue& option) { return option.value == "0"; }

// Options that only the data know, where nothing was said.
void fill_model_options(run::Settings& settings, const data::Description& data, Index max_length) {
  std::map<std::string, std::string> facts{{"classes", std::to_string(data.classes.size())}};
  switch (data.kind) {
    case data::Kind::series: facts["dims"] = std::to_string(data.channels); break;
    case data::Kind::image:
      facts["image"] = fmt::format("{}x{}", data.rows, data.columns);
      facts["channels"] = std::to_string(data.channels);
      break;
    case data::Kind::image_text:
      facts["image"] = fmt::format("{}x{}", data.rows, data.columns);
      facts["channels"] = std::to_string(data.channels);
      break;
    default: facts["pairs"] = data.kind == data::Kind::pair ? "true" : "false";
  }
  const std::vector<nn::OptionValue> known = nn::model_options(settings.model);
  for (const nn::OptionValue& option : known) {
    if (option.name == "max_len" && is_zero(option)) facts["max_len"] = std::to_string(max_length);
    if (option.name == "vocab" && is_zero(option)) facts["vocab"] = std::to_string(data.vocabulary);
  }
  for (const auto& [name, value] : facts) {
    const bool takes =
        std::any_of(known.begin(), known.end(), [&](const nn::OptionValue& option) { return option.name == name; });
    if (takes && settings.origins.count("model." + name) == 0) run::put(settings, {"model." + name, value, "the data"});
  }
  // All options, so that the file says what was trained.
  for (const nn::OptionValue& option : known)
    if (settings.model_options.count(option.name) == 0) settings.model_options[option.name] = option.value;
}

// The one that the model has where nothing is said: not every model takes softmax.
std::string own_attention(const std::string& model) {
  for (const nn::OptionValue& option : nn::model_options(model))
    if (option.name == "attention") return option.value;
  return "softmax";
}

const char* model_kind_for(data::Kind kind) {
  switch (kind) {
    case data::Kind::series: return "time_series, mvts, flowformer";
    case data::Kind::image: return "vision_transformer, deit_.., vit_.., spiking_vit";
    case data::Kind::events: return "event_model";
    case data::Kind::image_text: return "vision_language";
    default: return "sequence_classifier, lra_..";
  }
}

void check_model_takes(const run::Settings& settings, const data::Description& data) {
  const char* needed = data.kind == data::Kind::series       ? "dims"
                       : data.kind == data::Kind::image      ? "image"
                       : data.kind == data::Kind::events     ? "time"
                       : data.kind == data::Kind::image_text ? "parser_depth"
                                                             : "pairs";
  for (const nn::OptionValue& option : nn::model_options(settings.model))
    if (option.name == needed) return;
  throw InvalidArgument(fmt::format("the model '{}' does not take {}, which {} has", settings.model,
                                    data::to_string(data.kind), data.name),
                        fmt::format("models for it: {}", model_kind_for(data.kind)));
}

void keep_only(std::vector<Index>& samples, const std::vector<Index>& kept) {
  std::erase_if(samples, [&](Index sample) { return !std::binary_search(kept.begin(), kept.end(), sample); });
}

}  // namespace

data::Where where_of(const run::DataSettings& settings) {
  data::Where where;
  where.folder = settings.folder;
  where.test = settings.test;
  where.target = settings.target;
  where.format = settings.format;
  where.series_id = settings.series_id;
  where.time = settings.time;
  where.missing = settings.missing == "zero"     ? data::Missing::zero
                  : settings.missing == "refuse" ? data::Missing::refuse
                                                 : data::Missing::interpolate;
  where.test_share = settings.test_share;
  std::istringstream columns(settings.leave_out);
  for (std::string column; std::getline(columns, column, ',');) where.leave_out.push_back(column);
  return where;
}

Setup set_up(run::Settings settings) {
  if (settings.data.name.empty())
    throw InvalidArgument("no data to train on", "give --data NAME or a file; 'saddle data list' shows what there is");
  Setup setup;
  setup.task = data::find_task(settings.data.name, where_of(settings.data));
  setup.train = setup.task.train();
  const bool paper = settings.data.protocol == "paper";
  if (setup.train->description().kind == data::Kind::events) {
    data::NextEventOptions next;
    if (settings.data.max_length > 0) next.window = settings.data.max_length;
    next.validation = paper ? 0 : settings.data.validation;
    next.seed = static_cast<std::uint64_t>(settings.train.seed);
    setup.task = data::next_event_task(setup.task, next);
    setup.train = setup.task.train();
  }
  const data::Description& about = setup.train->description();
  if (about.classes.size() < 2)
    throw InvalidArgument(fmt::format("{} has {} classes, at least two are needed to train a classifier", about.name,
                                      about.classes.size()));
  if (settings.train.mixup > 0 && about.kind != data::Kind::series && about.kind != data::Kind::image)
    throw InvalidArgument(fmt::format("mixup mixes numbers, and {} holds tokens", about.name), "leave out --mixup");
  if (settings.train.optimizer == "adam" && settings.train.weight_decay > 0)
    throw InvalidArgument("adam has no weight decay here", "--optimizer adamw has");
  if (!paper && setup.task.validation) {
    setup.validation = setup.task.validation();
    setup.split = {all_of(*setup.train), all_of(*setup.validation)};
  } else if (!paper && settings.data.validation > 0) {
    setup.validation = setup.train;
    setup.split =
        data::stratified_split(*setup.train, settings.data.validation, static_cast<std::uint64_t>(settings.train.seed));
  } else {
    setup.split.train = all_of(*setup.train);
  }
  if (settings.data.limit > 0) {
    const std::vector<Index> kept = data::limited(all_of(*setup.train), settings.data.limit,
                                                  [&](Index sample) { return setup.train->label(sample); });
    keep_only(setup.split.train, kept);
    if (setup.validation == setup.train) keep_only(setup.split.validation, kept);
  }
  // Too few samples to spare one of any class.
  if (setup.split.validation.empty()) setup.validation = nullptr;
  if (setup.split.train.empty()) throw InvalidArgument(fmt::format("no sample of {} is left to train on", about.name));

  Index longest = 0;
  for (const Index sample : setup.split.train) longest = std::max(longest, setup.train->length(sample));
  if (settings.data.max_length == 0 && about.usual_length > 0)
    run::put(settings, {"data.max_length", std::to_string(about.usual_length), "the usual length of this data set"});
  if (settings.data.max_length > 0) longest = std::min(longest, settings.data.max_length);
  run::apply_recipe(settings, about);
  if (settings.origins.count("model.attention") == 0)
    run::put(settings, {"model.attention", own_attention(settings.model), "default"});
  check_model_takes(settings, about);
  fill_model_options(settings, about, longest);
  torch::manual_seed(Stream(static_cast<std::uint64_t>(settings.train.seed), "init").bits64_at(0));
  setup.trained.model = nn::make_model(settings.model, {settings.model_options.begin(), settings.model_options.end()});
  setup.trained.data = about;
  setup.trained.max_length = longest;
  const auto positions = settings.model_options.find("max_len");
  setup.trained.positions = positions == settings.model_options.end() ? 0 : std::stoll(positions->second);
  if (about.kind != data::Kind::image && setup.trained.positions < longest)
    setup.trained.max_length = setup.trained.positions;
  if (about.kind == data::Kind::series) {
    // Series are padded by the loader, to as many steps as the model has.
    setup.trained.max_length = setup.trained.positions;
    setup.trained.scaling = data::Scaling::fit(*setup.train, setup.split.train);
  }
  setup.settings = std::move(settings);
  return setup;
}

}  // namespace saddle::train

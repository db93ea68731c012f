#include "saddle/train/trained.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"
#include "saddle/data/description_json.hpp"
#include "saddle/nn/models/registry.hpp"

namespace saddle::train {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

NamedTensors weights_of(const nn::Model& model) {
  NamedTensors weights;
  for (const auto& item : model.named_parameters()) weights[item.key()] = item.value();
  for (const auto& item : model.named_buffers()) weights[item.key()] = item.value();
  return weights;
}

void write_trained(const fs::path& path, const Trained& trained, const NamedTensors& weights,
                   const std::string& settings) {
  Json state{{"schema", "saddle.trained/1"},        {"model", Json::parse(nn::describe(*trained.model))},
             {"data", data::to_json(trained.data)}, {"scaling", data::to_json(trained.scaling)},
             {"max_length", trained.max_length},    {"positions", trained.positions}};
  if (!settings.empty()) state["settings"] = settings;
  write_checkpoint(path, weights, state.dump());
}

Trained read_trained(const fs::path& path) {
  fs::path file = path;
  if (fs::is_directory(path)) {
    file = path / "checkpoints" / "best.safetensors";
    if (!fs::exists(file))
      throw InvalidArgument(fmt::format("{} holds no trained model", path.string()),
                            "expected the folder of a run of saddle train, with checkpoints/best.safetensors");
  }
  const Checkpoint checkpoint = read_checkpoint(file);
  Trained trained;
  try {
    const Json state = Json::parse(checkpoint.state);
    if (state.at("schema") == "saddle.trained_table/1")
      throw InvalidArgument(
          fmt::format("{} holds a model of a table, which is no model of single samples", file.string()),
          "saddle eval, saddle predict and saddle analyze take it");
    if (state.at("schema") != "saddle.trained/1")
      throw DataError(checkpoint.file, 0, 0,
                      fmt::format("holds '{}', expected saddle.trained/1", state.at("schema").get<std::string>()));
    trained.model = nn::model_from_json(state.at("model").dump());
    trained.data = data::description_from_json(state.at("data"));
    trained.scaling = data::scaling_from_json(state.at("scaling"));
    trained.max_length = state.at("max_length");
    trained.positions = state.at("positions");
  } catch (const Json::exception& error) {
    throw DataError(checkpoint.file, 0, 0, fmt::format("does not describe a trained model: {}", error.what()));
  }
  restore(checkpoint, "", weights_of(*trained.model));
  trained.model->eval();
  return trained;
}

}  // namespace saddle::train

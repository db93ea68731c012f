// A model with all it needs to meet data again: scale, classes, length. What `saddle train` leaves behind.
#pragma once

#include <filesystem>
#include <memory>

#include "saddle/data/split.hpp"
#include "saddle/nn/models/model.hpp"
#include "saddle/train/checkpoint.hpp"

namespace saddle::train {

struct Trained {
  std::shared_ptr<nn::Model> model;
  data::Description data;  // of the training split
  data::Scaling scaling;
  Index max_length = 0;  // longer samples are cut
  Index positions = 0;   // token sequences are padded to so many
};

// Parameters and buffers, under their dotted names.
NamedTensors weights_of(const nn::Model& model);

// The weights may be others than those in the model now: averages over time. A file that stands without the folder of
// its run keeps the settings of the run, in TOML.
void write_trained(const std::filesystem::path& path, const Trained& trained, const NamedTensors& weights,
                   const std::string& settings = {});
// From the folder of a run (its best weights) or from a file. The model is in evaluation mode.
Trained read_trained(const std::filesystem::path& path);

}  // namespace saddle::train

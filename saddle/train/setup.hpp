// What a run starts from: data split and scaled, a fresh model that fits them.
#pragma once

#include <optional>

#include "saddle/data/find.hpp"
#include "saddle/run/settings.hpp"
#include "saddle/train/trained.hpp"

namespace saddle::train {

struct Setup {
  run::Settings settings;  // complete
  data::Task task;
  data::DatasetPtr train, validation;  // the same one if validation samples are taken out of the training data
  data::Split split;
  Trained trained;
};

data::Where where_of(const run::DataSettings& settings);

// Opens the training data, splits and scales them, and makes the model, initialised by the seed.
Setup set_up(run::Settings settings);

}  // namespace saddle::train

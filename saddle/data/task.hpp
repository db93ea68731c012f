// Tasks from readers: splits that share the classes of the training split, or a part held out of a single file.
#pragma once

#include "saddle/data/dataset.hpp"

namespace saddle::data {

using OpenTrain = std::function<DatasetPtr()>;
// Given the description of the training split, for classes and channels.
using OpenOther = std::function<DatasetPtr(const Description& train)>;

// A split without a function has none. The training split is read at most once while somebody holds it.
Task make_task(std::string name, OpenTrain train, OpenOther validation, OpenOther test);

// Holds `share` of the samples out for the test, stratified, the same ones for every seed of a run.
Task hold_out(std::string name, OpenTrain all, double share);

}  // namespace saddle::data

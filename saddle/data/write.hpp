// Data sets as files that the readers read back.
#pragma once

#include <filesystem>

#include "saddle/data/dataset.hpp"

namespace saddle::data {

// The name of the file for a split: X_TRAIN.ts for series, X_train.tsv for tokens, train-images-idx3-ubyte for images,
// X_train.safetensors for images with texts.
// Throws NotSupported for other kinds.
std::string file_name_for(Kind kind, const std::string& name, const std::string& split);

// Series as .ts; tokens as lines of label and tokens, ListOps in its own letters; grey images as IDX, with the labels
// in a second file beside it; images with texts as safetensors. Every file appears complete or not at all. Throws
// NotSupported, InvalidArgument for class labels that the format cannot hold, IoError.
void write_dataset(const Dataset& data, const std::filesystem::path& file);

}  // namespace saddle::data

// Tensors and a line of JSON in one safetensors file that is complete or not there.
#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>

namespace saddle::train {

using NamedTensors = std::map<std::string, torch::Tensor>;

// A checksum over all of it goes into the metadata, beside `state` under the key "saddle".
void write_checkpoint(const std::filesystem::path& path, const NamedTensors& tensors, const std::string& state);

struct Checkpoint {
  std::string file;
  NamedTensors tensors;
  std::string state;  // JSON
};

// Throws DataError that names the file for anything that is not what was written: damaged, cut short, of another
// program.
Checkpoint read_checkpoint(const std::filesystem::path& path);

// Copies tensors under `prefix` into those of the same names. Throws DataError that names what is missing or of another
// shape, before anything is changed.
void restore(const Checkpoint& checkpoint, const std::string& prefix, const NamedTensors& into);

}  // namespace saddle::train

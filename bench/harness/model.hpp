// What is measured of training: one step of a small transformer, ours against the same model in eager torch.
#pragma once

#include <string>
#include <vector>

#include "bar.hpp"

namespace saddle::bench {

// Pre-norm blocks with softmax attention and a GELU network four times as wide, a LayerNorm, the mean over tokens, a
// linear layer to ten classes, AdamW. bf16: autocast, the residual stream and all parameters in float32.
struct ModelRow {
  Index B = 1, N = 1, width = 1, heads = 1, layers = 1;
  DType dtype = DType::f32;
  int threads = 1;
};

struct ModelEntry {
  ModelRow row;
  std::string work;  // what it is about, for people
  std::vector<Bar> bars;
  std::vector<std::string> peers = {"torch"};  // who is asked; the only one there is
};

// "16,197,192,3,12"
std::string shape_text(const ModelRow& row);
// "16,197,192,3,12 bf16, 2 threads"
std::string to_string(const ModelRow& row);

// Five numbers B,N,width,heads,layers into a row; throws InvalidArgument when there is no such model.
ModelRow model_of(const std::vector<Index>& numbers);
// f32 or bf16; throws InvalidArgument.
DType parse_model_dtype(const std::string& text);

}  // namespace saddle::bench

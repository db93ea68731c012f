#include "model.hpp"

#include <fmt/format.h>

#include "saddle/base/error.hpp"

namespace saddle::bench {

std::string shape_text(const ModelRow& row) {
  return fmt::format("{},{},{},{},{}", row.B, row.N, row.width, row.heads, row.layers);
}

std::string to_string(const ModelRow& row) {
  return fmt::format("{} {}, {} thread{}", shape_text(row), saddle::to_string(row.dtype), row.threads,
                     row.threads == 1 ? "" : "s");
}

ModelRow model_of(const std::vector<Index>& n) {
  constexpr Index most = Index{1} << 20;
  if (n.size() != 5)
    throw InvalidArgument(fmt::format("shape: expected five numbers B,N,width,heads,layers, found {}", n.size()),
                          "batch 16, 197 tokens, width 192, 3 heads, 12 layers: 16,197,192,3,12");
  for (Index extent : n)
    if (extent < 1 || extent > most)
      throw InvalidArgument(fmt::format("shape: every number must be from 1 to {}, found {}", most, extent));
  const ModelRow row{n[0], n[1], n[2], n[3], n[4], DType::f32, 1};
  if (row.width % row.heads != 0)
    throw InvalidArgument(fmt::format("shape: width {} cannot be cut into {} heads", row.width, row.heads));
  // Parameters, and what a layer keeps for its gradient.
  const double width = static_cast<double>(row.width), layers = static_cast<double>(row.layers);
  const double elements = 12 * layers * width * (width + static_cast<double>(row.B) * static_cast<double>(row.N));
  if (elements > 2e9) throw InvalidArgument(fmt::format("shape: the model would keep {:.2g} elements", elements));
  return row;
}

DType parse_model_dtype(const std::string& text) {
  const DType dtype = parse_dtype(text);
  if (dtype == DType::f64) throw InvalidArgument("models are trained in f32 or bf16, found f64");
  return dtype;
}

}  // namespace saddle::bench

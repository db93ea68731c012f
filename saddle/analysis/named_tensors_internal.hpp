// What a file holds under its own names or those of recorded cases.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "saddle/base/error.hpp"
#include "saddle/base/tensor.hpp"
#include "saddle/base/view.hpp"

namespace saddle::analysis {

// A tensor by its name, or as recorded cases call it; null where there is none.
inline const Tensor* find_tensor(const TensorFile& file, const std::string& name) {
  for (const std::string& full : {name, "in." + name, "param." + name})
    if (const auto found = file.tensors.find(full); found != file.tensors.end()) return &found->second;
  return nullptr;
}

// Its values; `expected` says what the file at `path` should hold where there is none. Throws DataError.
template <int Rank>
Array<double, Rank> tensor_values(const TensorFile& file, const std::string& path, const std::string& name,
                                  const char* expected) {
  const Tensor* const tensor = find_tensor(file, name);
  if (tensor == nullptr) throw DataError(path, 0, 0, fmt::format("there is no tensor '{}'", name), expected);
  if (tensor->shape().size() != Rank)
    throw DataError(path, 0, 0,
                    fmt::format("'{}' has shape {}, expected {} dimensions", name, to_string(tensor->shape()), Rank));
  return to_double<Rank>(tensor->view());
}

// Recorded cases hold JSON: texts stand in quotes.
inline std::string metadata_text(const TensorFile& file, const std::string& name, const std::string& fallback) {
  const auto found = file.metadata.find(name);
  if (found == file.metadata.end()) return fallback;
  const auto value = nlohmann::json::parse(found->second, nullptr, false);
  return value.is_string() ? value.get<std::string>() : found->second;
}

}  // namespace saddle::analysis

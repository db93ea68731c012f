// What users type, as values: an attention, a shape, an element type, a list of words.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saddle/base/dtype.hpp"
#include "saddle/base/shape.hpp"
#include "saddle/mechanisms/layer.hpp"
#include "saddle/mechanisms/time_attention/time_encoder.hpp"
#include "saddle/primal/attention.hpp"

namespace saddle::cli {

// The help line of every <attention> argument.
inline constexpr const char* attention_help =
    "a mechanism or a written form such as 'softmax+bn(beta=0.6)', or @file.toml, @file.json";

// A written form with mechanism names, or the document in a file after '@'.
primal::Attention read_attention(const std::string& text);
// The written form of a declared attention or a mechanism of the layer level.
std::string canonical_attention(const std::string& text);
// Null for a declared attention.
mechanisms::LayerPtr read_layer(const std::string& text);
// time_mercer or time_bochner, which are no attention but stand beside the embedding of events; else nothing.
std::optional<mechanisms::time_attention::TimeEncoder> read_time_encoding(const std::string& text);

// "B,H,N,D"; keys and value_width are M and E, 0 means: as N and D. Throws InvalidArgument beyond what can be counted.
Dims read_dims(const std::string& shape, Index keys, Index value_width);

DType read_dtype(const std::string& name);

// The whole text as a whole number; nothing if it is none or does not fit.
std::optional<Index> read_index(std::string_view text);

// The pieces between commas, without blanks around them.
std::vector<std::string> split(std::string_view text);

// The whole file, or stdin for "-". Throws IoError.
std::string read_text(const std::string& file);

}  // namespace saddle::cli

// The written form of an attention, `softmax+bn(beta=0.6)+sh(1,1,2,2)`, and its TOML and JSON forms. All three are
// lists of terms; a term is a part's name with its options.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "saddle/base/export.hpp"
#include "saddle/primal/attention.hpp"

namespace saddle::primal {

struct Argument {
  std::string key;  // empty: positional
  std::string value;
  std::size_t position = 0;  // of the first character in the text, from 1; 0 when not from text
};

struct Term {
  std::string name;
  std::vector<Argument> arguments;
  std::size_t position = 0;
};

// Names that stand for a whole value, such as `attention_bn`; the mechanisms bring them.
struct Presets {
  std::vector<std::string> names;
  std::function<Attention(const Term&)> resolve;
};

// Text to value and back. parse throws InvalidArgument with the position, what was expected and the nearest known name.
// to_text prints the canonical form: kernel, normaliser, transforms, pooling, key sets, offset; defaults left out.
SADDLE_API Attention parse(std::string_view text, const Presets& presets = {});
SADDLE_API std::string to_text(const Attention& attention);

// The same value as a document: one member per role, or a string in the written form.
SADDLE_API Attention parse_json(std::string_view document, const Presets& presets = {});
SADDLE_API std::string to_json(const Attention& attention, int indent = 2);
SADDLE_API Attention parse_toml(std::string_view document, const Presets& presets = {});
SADDLE_API std::string to_toml(const Attention& attention);

// Terms in between.
SADDLE_API std::vector<Term> parse_terms(std::string_view text);
SADDLE_API Attention build(const std::vector<Term>& terms, const Presets& presets = {});
// Sends each argument to the last term of `composition` that has an option of that name, positional ones to the last.
SADDLE_API Attention build_preset(std::string_view composition, const Term& preset);

// Every part, for help texts and completion.
struct OptionHelp {
  std::string name, kind, default_value, help;
};
struct PartHelp {
  std::string role, name, help;
  std::vector<OptionHelp> options;
};
SADDLE_API const std::vector<PartHelp>& all_parts();

}  // namespace saddle::primal

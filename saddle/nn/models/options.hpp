// Options of models as data: each is stated once, with its name and help, and text, JSON and flags are loops over them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace saddle::nn {

struct OptionInfo {
  std::string_view name, help;
};

// An option of some model as text; kind says what may stand there.
struct OptionValue {
  std::string name, value, kind, help;
};

// Options by name, as flags bring them: {{"dims", "3"}, {"attention", "softmax+bn"}}.
using OptionTexts = std::map<std::string, std::string>;

// Written forms: one for all layers, or one for each.
struct Attentions : std::vector<std::string> {
  using std::vector<std::string>::vector;
  Attentions(const char* for_all) : Attentions{std::string(for_all)} {}  // NOLINT: meant to convert
  Attentions(std::string for_all) : Attentions{std::initializer_list<std::string>{std::move(for_all)}} {}  // NOLINT
  Attentions(std::vector<std::string> each) : std::vector<std::string>(std::move(each)) {}                 // NOLINT
};

// Numbers of heads: empty, or one for each layer.
struct LayerHeads : std::vector<std::int64_t> {
  using std::vector<std::int64_t>::vector;
};

// Rows and columns of pixels; one number stands for a square.
struct PixelSize {
  PixelSize(std::int64_t side) : rows(side), columns(side) {}  // NOLINT: meant to convert
  PixelSize(std::int64_t r, std::int64_t c) : rows(r), columns(c) {}
  bool operator==(const PixelSize&) const = default;

  std::int64_t rows, columns;
};

// The options that all models have.
void visit_encoder_options(auto& self, auto&& visit) {
  visit(OptionInfo{"width", "features of a token"}, self.width());
  visit(OptionInfo{"hidden", "width inside the two-layer networks, 0: 4 width"}, self.hidden());
  visit(OptionInfo{"heads", "of each attention"}, self.heads());
  visit(OptionInfo{"depth", "number of layers"}, self.depth());
  visit(OptionInfo{"dropout", "of embeddings, hidden layers and what layers add"}, self.dropout());
  visit(OptionInfo{"attention_dropout", "of attention weights; linear attentions have none"}, self.attention_dropout());
  visit(OptionInfo{"attention", "one written form for all layers, or one for each"}, self.attention());
  visit(OptionInfo{"last_attention", "of the last layer, if it is another one"}, self.last_attention());
  visit(OptionInfo{"layer_heads",
                   "of each layer, if some are gone: all of width / heads; empty: every layer has them all"},
        self.layer_heads());
}

}  // namespace saddle::nn

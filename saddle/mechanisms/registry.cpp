#include "saddle/mechanisms/registry.hpp"

#include <algorithm>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::mechanisms {

namespace {

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const Mechanism* mechanism : all()) list.push_back(mechanism->name);
  return list;
}

// Names of the parts of a value, for comparing values.
std::vector<std::string> part_names(const primal::Attention& attention) {
  std::vector<std::string> parts;
  for (const primal::Term& term : primal::parse_terms(primal::to_text(attention))) parts.push_back(term.name);
  std::sort(parts.begin(), parts.end());
  return parts;
}

}  // namespace

std::string_view to_string(Tier tier) {
  switch (tier) {
    case Tier::declared: return "declared";
    case Tier::composed: return "composed";
    case Tier::own: return "own";
  }
  return "unknown";
}

std::string_view to_string(Level level) { return level == Level::kernel ? "kernel" : "layer"; }

Mechanism declared(std::string name, std::string title, std::string summary, std::string composition,
                   std::string bibtex) {
  Mechanism mechanism;
  mechanism.name = std::move(name);
  mechanism.title = std::move(title);
  mechanism.summary = std::move(summary);
  mechanism.composition = std::move(composition);
  mechanism.bibtex = std::move(bibtex);
  mechanism.declare = [text = mechanism.composition](const primal::Term& term) {
    return primal::build_preset(text, term);
  };
  std::string golden = mechanism.name;
  std::replace(golden.begin(), golden.end(), '_', '-');
  mechanism.golden.push_back({golden, [](const TensorFile& file, DType dtype) { return check_declared(file, dtype); }});
  return mechanism;
}

const std::vector<const Mechanism*>& all() {
  static const std::vector<const Mechanism*> list = [] {
    std::vector<const Mechanism*> sorted = generated_list();
    std::sort(sorted.begin(), sorted.end(), [](const Mechanism* a, const Mechanism* b) { return a->name < b->name; });
    return sorted;
  }();
  return list;
}

const std::vector<const Mechanism*>& all_declared() {
  static const std::vector<const Mechanism*> list = [] {
    std::vector<const Mechanism*> declared = all();
    std::erase_if(declared, [](const Mechanism* mechanism) { return !mechanism->declare; });
    return declared;
  }();
  return list;
}

const Mechanism& find(std::string_view name) {
  std::string wanted(name);
  std::replace(wanted.begin(), wanted.end(), '-', '_');
  for (const Mechanism* mechanism : all())
    if (mechanism->name == wanted) return *mechanism;
  const std::string close = nearest(wanted, names());
  throw InvalidArgument("unknown mechanism '" + std::string(name) + "', known are " + join(names()),
                        close.empty() ? "saddle list shows all mechanisms" : "did you mean '" + close + "'?");
}

const MechanismText& text_of(const Mechanism& mechanism) {
  const auto& texts = generated_texts();
  const auto found =
      std::find_if(texts.begin(), texts.end(), [&](const MechanismText& text) { return text.name == mechanism.name; });
  if (found == texts.end()) throw InvalidArgument("mechanism '" + mechanism.name + "' has no page");
  return *found;
}

const primal::Presets& presets() {
  static const primal::Presets value{
      names(), [](const primal::Term& term) {
        const Mechanism& mechanism = find(term.name);
        if (mechanism.declare) return mechanism.declare(term);
        throw InvalidArgument(mechanism.layer ? "'" + term.name +
                                                    "' maps x to y with projections of its own, a "
                                                    "declared attention is needed here"
                                              : "'" + term.name + "' is not an attention that can be computed",
                              "saddle show " + term.name + " tells what it is");
      }};
  return value;
}

primal::Attention parse(std::string_view text) { return primal::parse(text, presets()); }

std::string canonical(std::string_view text) {
  const LayerPtr layer = find_layer(text);
  return layer ? layer->text() : primal::to_text(parse(text));
}

const Mechanism& mechanism_of(std::string_view text) {
  const auto terms = primal::parse_terms(text);
  const auto known = names();
  const bool named = std::find(known.begin(), known.end(), terms[0].name) != known.end();
  if (named && terms.size() == 1) return find(terms[0].name);
  const auto parts = part_names(parse(text));
  const Mechanism* best = nullptr;
  std::size_t best_score = 0;
  for (const Mechanism* mechanism : all()) {
    if (mechanism->tier != Tier::declared) continue;
    const auto own = part_names(parse(mechanism->name));
    std::vector<std::string> common;
    std::set_intersection(parts.begin(), parts.end(), own.begin(), own.end(), std::back_inserter(common));
    if (common.size() != own.size() || common.size() <= best_score) continue;  // all of its parts must be there
    best = mechanism;
    best_score = common.size();
  }
  return best != nullptr ? *best : find("softmax");
}

}  // namespace saddle::mechanisms

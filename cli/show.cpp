// saddle show: the page of a mechanism, or what a written form stands for.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "argument.hpp"
#include "command.hpp"
#include "markdown.hpp"
#include "output.hpp"
#include "parts.hpp"
#include "saddle/mechanisms/registry.hpp"

namespace saddle::cli {

namespace {

struct ShowOptions {
  std::string attention;
  bool bibtex = false;
};

using mechanisms::Mechanism;

// The mechanism with exactly this name, hyphens allowed; null for any other written form.
const Mechanism* named(std::string text) {
  std::replace(text.begin(), text.end(), '-', '_');
  for (const Mechanism* mechanism : mechanisms::all())
    if (mechanism->name == text) return mechanism;
  return nullptr;
}

std::string heading(const std::string& text) { return "\n" + bold(text) + "\n"; }

std::string value_text(const primal::Attention& attention) {
  std::string text = heading("Written form") + "  " + primal::to_text(attention) + "\n" + heading("Parts");
  Table table({"role", "part", "option", "value", ""}, "lllll");
  for (const PartValue& part : parts_of(attention)) {
    table.add({part.role, part.name, "", "", part.help});
    for (const primal::OptionHelp& option : part.options)
      table.add({"", "", option.name, default_text(option), option.help});
  }
  text += table.text(2);
  text += heading("JSON") + primal::to_json(attention) + "\n" + heading("TOML") + primal::to_toml(attention);
  return text;
}

Json value_json(const primal::Attention& attention) {
  Json parts = Json::array();
  for (const PartValue& part : parts_of(attention)) {
    Json options = Json::array();
    for (const primal::OptionHelp& option : part.options)
      options.push_back({{"name", option.name},
                         {"kind", option.kind},
                         {"value", option.default_value.empty() ? Json() : Json(option.default_value)},
                         {"help", option.help}});
    parts.push_back({{"role", part.role}, {"name", part.name}, {"help", part.help}, {"options", options}});
  }
  return {{"written", primal::to_text(attention)},
          {"parts", parts},
          {"json", Json::parse(primal::to_json(attention))},
          {"toml", primal::to_toml(attention)}};
}

std::string layer_text(const mechanisms::Layer& layer) {
  std::string text = heading("Written form") + "  " + layer.text() + "\n";
  if (layer.options().empty()) return text;
  Table table({"option", "value", "takes", ""}, "llll");
  for (const primal::OptionHelp& option : layer.options())
    table.add({option.name, default_text(option), option.kind, option.help});
  return text + heading("Options") + table.text(2);
}

Json layer_json(const mechanisms::Layer& layer) {
  Json options = Json::array();
  for (const primal::OptionHelp& option : layer.options())
    options.push_back(
        {{"name", option.name}, {"kind", option.kind}, {"value", option.default_value}, {"help", option.help}});
  return {{"written", layer.text()}, {"options", options}};
}

std::string facts(const Mechanism& mechanism) {
  return fmt::format("{}: {}, {} mechanism of {} level\n", bold(mechanism.name), mechanism.composition,
                     to_string(mechanism.tier), to_string(mechanism.level));
}

int show(const ShowOptions& options, const Context& context) {
  const Mechanism* exact = named(options.attention);
  const mechanisms::LayerPtr layer = read_layer(options.attention);
  const bool has_value = !layer && (exact == nullptr || exact->declare != nullptr);
  const primal::Attention value = has_value ? read_attention(options.attention) : primal::Attention{};
  const Mechanism& mechanism = exact != nullptr ? *exact
                               : layer          ? mechanisms::find(layer->name())
                                                : mechanisms::mechanism_of(primal::to_text(value));

  if (context.json) {
    Json document{{"attention", options.attention},    {"mechanism", mechanism.name},
                  {"exact", exact != nullptr},         {"title", mechanism.title},
                  {"summary", mechanism.summary},      {"composition", mechanism.composition},
                  {"tier", to_string(mechanism.tier)}, {"level", to_string(mechanism.level)},
                  {"bibtex", mechanism.bibtex},        {"page", mechanisms::text_of(mechanism).readme}};
    if (has_value) document.update(value_json(value));
    if (layer) document.update(layer_json(*layer));
    print_json("saddle.show/1", document);
  } else if (options.bibtex) {
    print(mechanism.bibtex + "\n");
  } else if (exact != nullptr) {
    print(facts(mechanism) + "\n" + plain_text(mechanisms::text_of(mechanism).readme) +
          (has_value ? value_text(value)
           : layer   ? layer_text(*layer)
                     : "") +
          heading("BibTeX") + mechanism.bibtex + "\n");
  } else {
    print(bold(options.attention) + "\n" + (layer ? layer_text(*layer) : value_text(value)) +
          fmt::format("\nNearest page: saddle show {} ({})\n", mechanism.name, mechanism.summary));
  }
  return Exit::ok;
}

}  // namespace

Command show_command() {
  const auto options = std::make_shared<ShowOptions>();
  return {"show",
          "Show the page of a mechanism with options and citation, or the parts of any written form.",
          {{"the page of a mechanism", "saddle show attention_bn_sh"},
           {"what a written form stands for, also as JSON and TOML", "saddle show 'rbf(gamma=0.5)+window(16)'"},
           {"only the citation", "saddle show linear --bibtex"},
           {"for scripts", "saddle show softmax+bn --json"}},
          {{"attention", "", attention_help, &options->attention, true},
           {"--bibtex", "", "print only the citation", &options->bibtex}},
          [options](const Context& context) { return show(*options, context); }};
}

}  // namespace saddle::cli

// saddle list: the mechanisms, and the parts they are made of.
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "output.hpp"
#include "parts.hpp"
#include "saddle/mechanisms/registry.hpp"

namespace saddle::cli {

namespace {

void list_mechanisms(bool json) {
  if (json) {
    Json list = Json::array();
    for (const mechanisms::Mechanism* m : mechanisms::all())
      list.push_back({{"name", m->name},
                      {"title", m->title},
                      {"composition", m->composition},
                      {"tier", to_string(m->tier)},
                      {"level", to_string(m->level)},
                      {"summary", m->summary}});
    return print_json("saddle.list/1", {{"mechanisms", list}});
  }
  Table table({"name", "composition", "tier", "level", "what it is"}, "lllll");
  for (const mechanisms::Mechanism* m : mechanisms::all())
    table.add({m->name, m->composition, std::string(to_string(m->tier)), std::string(to_string(m->level)), m->summary});
  print(table.text());
}

Json part_json(const primal::PartHelp& part) {
  Json options = Json::array();
  for (const primal::OptionHelp& option : part.options)
    options.push_back({{"name", option.name},
                       {"kind", option.kind},
                       {"default", option.default_value.empty() ? Json() : Json(option.default_value)},
                       {"help", option.help}});
  return {{"role", part.role}, {"name", part.name}, {"help", part.help}, {"options", options}};
}

void list_parts(bool json) {
  if (json) {
    Json list = Json::array();
    for (const primal::PartHelp& part : primal::all_parts()) list.push_back(part_json(part));
    return print_json("saddle.parts/1", {{"parts", list}});
  }
  std::string text, role;
  for (const primal::PartHelp& part : primal::all_parts()) {
    if (part.role != role) text += (role.empty() ? "" : "\n") + bold(part.role) + "\n";
    role = part.role;
    text += wrap(part.name + ": " + part.help, 2);
    if (part.options.empty()) continue;
    Table table({"option", "takes", "default", ""}, "llll");
    for (const primal::OptionHelp& option : part.options)
      table.add({option.name, option.kind, default_text(option), option.help});
    text += table.text(6);
  }
  print(text);
}

}  // namespace

Command list_command() {
  const auto parts = std::make_shared<bool>(false);
  return {"list",
          "List the mechanisms, or the parts that attentions are written with.",
          {{"all mechanisms", "saddle list"},
           {"all parts with their options: kernels, normalisers, transforms, key sets", "saddle list --parts"},
           {"for scripts", "saddle list --json"}},
          {{"--parts", "", "list the parts instead of the mechanisms", parts.get()}},
          [parts](const Context& context) {
            *parts ? list_parts(context.json) : list_mechanisms(context.json);
            return Exit::ok;
          }};
}

}  // namespace saddle::cli

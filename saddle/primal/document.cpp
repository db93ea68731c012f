// The TOML and JSON forms: {"kernel": {"name": "softmax", "scale": 0.5}, "transform": [{"name": "bn"}], ...}.
#define TOML_HEADER_ONLY 0
#include <toml++/toml.h>

#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::primal {

namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string> list_roles{"transform", "keys", "offset"};
const std::vector<std::string> all_roles{"kernel", "normaliser", "transform", "reduction", "keys", "offset"};

// No document of an attention is nested deeper; what is would only overflow the stack.
constexpr int deepest = 16;

const PartHelp* find_part(const std::string& name) {
  for (const PartHelp& part : all_parts())
    if (part.name == name) return &part;
  return nullptr;
}

Json scalar_to_json(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (const auto number = parse_number(text)) {
    std::int64_t whole = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
    return error == std::errc() && end == text.data() + text.size() ? Json(whole) : Json(*number);
  }
  return text;
}

// A term of the written form as an object: options by name, lists as arrays.
Json term_to_json(const Term& term) {
  Json object{{"name", term.name}};
  const PartHelp& part = *find_part(term.name);
  std::size_t next = 0;
  for (const Argument& argument : term.arguments) {
    const OptionHelp& positional = part.options[std::min(next, part.options.size() - 1)];
    if (!argument.key.empty()) {
      object[argument.key] = scalar_to_json(argument.value);
    } else if (positional.kind.starts_with("a list")) {
      object[positional.name].push_back(scalar_to_json(argument.value));
    } else {
      object[positional.name] = scalar_to_json(argument.value);
      ++next;
    }
  }
  return object;
}

Json to_document(const Attention& attention) {
  Json document;
  for (const Term& term : parse_terms(to_text(attention))) {
    const std::string role = find_part(term.name)->role;
    const bool list = std::find(list_roles.begin(), list_roles.end(), role) != list_roles.end();
    if (list)
      document[role].push_back(term_to_json(term));
    else
      document[role] = term_to_json(term);
  }
  return document;
}

std::string scalar_to_text(const Json& value, const std::string& where) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number_integer()) return value.dump();
  if (value.is_number()) return format_number(value.get<double>());
  if (value.is_array()) {
    std::string text;
    for (const Json& item : value) text += (text.empty() ? "" : ",") + scalar_to_text(item, where);
    return text;
  }
  throw InvalidArgument("attention: " + where + " must be a number, a word, true, false or a list, found " +
                        value.dump());
}

Term term_from_json(const Json& object, const std::string& role) {
  if (object.is_string()) return term_from_json({{"name", object}}, role);
  if (!object.is_object() || !object.contains("name") || !object["name"].is_string())
    throw InvalidArgument("attention: a " + role + " must be an object with a \"name\", found " + object.dump());
  Term term{object["name"].get<std::string>(), {}};
  const PartHelp* part = find_part(term.name);
  if (part != nullptr && part->role != role)
    throw InvalidArgument("attention: '" + term.name + "' is a " + part->role + ", not a " + role);
  for (const auto& [key, value] : object.items())
    if (key != "name") term.arguments.push_back({key, scalar_to_text(value, role + "." + key)});
  return term;
}

Attention from_document(const Json& document, const Presets& presets) {
  if (document.is_string()) return parse(document.get<std::string>(), presets);
  if (document.is_object() && document.size() == 1 && document.contains("attention"))
    return from_document(document["attention"], presets);
  if (!document.is_object() || !document.contains("kernel"))
    throw InvalidArgument("attention: expected a written form or an object with a \"kernel\", found " +
                          document.dump());
  for (const auto& [key, value] : document.items())
    if (std::find(all_roles.begin(), all_roles.end(), key) == all_roles.end()) {
      const std::string close = nearest(key, all_roles);
      throw InvalidArgument("attention: unknown member '" + key + "', expected " + join(all_roles, ", ") +
                            (close.empty() ? "" : "; did you mean '" + close + "'?"));
    }
  std::vector<Term> terms;
  for (const std::string& role : all_roles) {
    if (!document.contains(role)) continue;
    const Json& member = document[role];
    if (member.is_array())
      for (const Json& item : member) terms.push_back(term_from_json(item, role));
    else
      terms.push_back(term_from_json(member, role));
  }
  return build(terms, presets);
}

Json from_toml(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    Json object = Json::object();
    for (const auto& [key, value] : *table) object[std::string(key.str())] = from_toml(value);
    return object;
  }
  if (const auto* array = node.as_array()) {
    Json list = Json::array();
    for (const auto& item : *array) list.push_back(from_toml(item));
    return list;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return number->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* truth = node.as_boolean()) return truth->get();
  throw InvalidArgument("attention: dates and times mean nothing here");
}

std::string toml_value(const Json& value) {
  if (value.is_object()) {
    std::string text = "{ ";
    for (const auto& [key, member] : value.items())
      text += (text.size() > 2 ? ", " : "") + key + " = " + toml_value(member);
    return text + " }";
  }
  if (value.is_array()) {
    std::string text = "[";
    for (const Json& item : value) text += (text.size() > 1 ? ", " : "") + toml_value(item);
    return text + "]";
  }
  if (value.is_number_float()) {  // TOML tells 1.0 from 1 and wants digits around the point
    const std::string text = format_number(value.get<double>());
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
  }
  return value.dump();
}

}  // namespace

Attention parse_json(std::string_view document, const Presets& presets) {
  const auto not_too_deep = [](int depth, Json::parse_event_t, const Json&) {
    if (depth > deepest) throw InvalidArgument("attention: the JSON is nested too deeply to be an attention");
    return true;
  };
  Json json;
  try {
    json = Json::parse(document, not_too_deep);
  } catch (const Json::exception& error) {
    throw InvalidArgument(std::string("attention: not valid JSON: ") + error.what());
  }
  return from_document(json, presets);
}

std::string to_json(const Attention& attention, int indent) { return to_document(attention).dump(indent); }

Attention parse_toml(std::string_view document, const Presets& presets) {
  try {
    return from_document(from_toml(toml::parse(document)), presets);
  } catch (const toml::parse_error& error) {
    const auto at = error.source().begin;
    throw InvalidArgument("attention: not valid TOML, line " + std::to_string(at.line) + ", column " +
                          std::to_string(at.column) + ": " + std::string(error.description()));
  }
}

std::string to_toml(const Attention& attention) {
  const Json document = to_document(attention);
  std::string text;
  for (const auto& [role, member] : document.items()) text += role + " = " + toml_value(member) + "\n";
  return text;
}

}  // namespace saddle::primal

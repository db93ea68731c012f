#include "saddle/run/settings.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/run/toml_internal.hpp"

namespace saddle::run {

namespace {

std::string text_of(const std::string& value) { return value; }
std::string text_of(Index value) { return std::to_string(value); }
std::string text_of(double value) { return format_number(value); }
std::string text_of(bool value) { return value ? "true" : "false"; }

bool read(std::string_view text, std::string& value) {
  value = text;
  return true;
}
bool read(std::string_view text, Index& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}
// Shares also as 5%, times also as 90s, 30m and 2h.
bool read(std::string_view text, double& value, bool time = false) {
  static const std::map<char, double> units{{'s', 1}, {'m', 60}, {'h', 3600}, {'%', 0.01}};
  double unit = 1;
  if (text.size() > 1)
    if (const auto found = units.find(text.back()); found != units.end() && (time || found->first == '%')) {
      unit = found->second;
      text.remove_suffix(1);
    }
  const auto number = parse_number(text);
  if (number) value = *number * unit;
  return number.has_value() && std::isfinite(value);
}
bool read(std::string_view text, bool& value) {
  value = text == "true";
  return value || text == "false";
}

const char* kind_of(const std::string&) { return "a word"; }
const char* kind_of(Index) { return "a whole number"; }
const char* kind_of(double) { return "a number"; }
const char* kind_of(bool) { return "true or false"; }

// visit(section, info, field) for all settings of data, train and table.
template <class Any, class Visit>
void visit_all(Any& settings, Visit&& visit) {
  DataSettings::options(settings.data, [&](const SettingInfo& info, auto& field) { visit("data", info, field); });
  TrainSettings::options(settings.train, [&](const SettingInfo& info, auto& field) { visit("train", info, field); });
  TableSettings::options(settings.table, [&](const SettingInfo& info, auto& field) { visit("table", info, field); });
}

std::string key_of(std::string_view section, std::string_view name) { return fmt::format("{}.{}", section, name); }

struct Bounds {
  double low, high;
};

// Of settings that not every number makes sense for.
void check_bounds(const std::string& key, double value, const std::string& origin) {
  constexpr double none = std::numeric_limits<double>::infinity();
  static const std::map<std::string, Bounds> bounds{{"data.validation", {0, 0.9}},
                                                    {"data.test_share", {0.01, 0.9}},
                                                    {"data.max_length", {0, none}},
                                                    {"data.limit", {0, none}},
                                                    {"train.seed", {0, none}},
                                                    {"train.epochs", {1, none}},
                                                    {"train.steps", {0, none}},
                                                    {"train.batch", {1, none}},
                                                    {"train.accumulate", {1, none}},
                                                    {"train.lr", {0, none}},
                                                    {"train.weight_decay", {0, none}},
                                                    {"train.beta1", {0, 0.999999999}},
                                                    {"train.beta2", {0, 0.999999999}},
                                                    {"train.eps", {0, none}},
                                                    {"train.warmup", {0, none}},
                                                    {"train.min_lr", {0, none}},
                                                    {"train.clip", {0, none}},
                                                    {"train.clip_value", {0, none}},
                                                    {"train.flat", {0, 1}},
                                                    {"train.lookahead", {0, none}},
                                                    {"train.lookahead_share", {0, 1}},
                                                    {"train.label_smoothing", {0, 0.99}},
                                                    {"train.mixup", {0, none}},
                                                    {"train.ema", {0, 0.999999999}},
                                                    {"train.patience", {0, none}},
                                                    {"train.evaluate_every", {1, none}},
                                                    {"train.evaluate_steps", {0, none}},
                                                    {"train.budget", {0, none}},
                                                    {"train.checkpoint_every", {0, none}},
                                                    {"train.workers", {1, 64}},
                                                    {"train.threads", {0, 1024}},
                                                    {"table.split", {0, none}},
                                                    {"table.mask_features", {0, 1}},
                                                    {"table.mask_targets", {0, 1}},
                                                    {"table.hidden_share", {0, 1}},
                                                    {"table.feature_share", {-1, 1}}};
  const auto found = bounds.find(key);
  if (found == bounds.end() || (value >= found->second.low && value <= found->second.high)) return;
  const std::string expected = found->second.high == none ? fmt::format("at least {}", format_number(found->second.low))
                                                          : fmt::format("{} to {}", format_number(found->second.low),
                                                                        format_number(found->second.high));
  throw InvalidArgument(fmt::format("{} must be {}, found {} ({})", key, expected, format_number(value), origin));
}

// What can be written down: the empty choice is the default, and has no name.
std::vector<std::string> named_choices(const SettingInfo& info) {
  std::vector<std::string> names(info.choices.begin(), info.choices.end());
  std::erase(names, "");
  return names;
}

template <class T>
void assign(const Given& given, const SettingInfo& info, T& field) {
  bool fits = false;
  if constexpr (std::is_same_v<T, double>) {
    fits = read(given.value, field, given.key == "train.budget" || given.key == "train.checkpoint_every");
  } else {
    fits = read(given.value, field);
  }
  if (!fits)
    throw InvalidArgument(
        fmt::format("{} takes {}, found '{}' ({})", given.key, kind_of(field), given.value, given.origin));
  if constexpr (std::is_same_v<T, std::string>) {
    if (info.choices.empty() || std::find(info.choices.begin(), info.choices.end(), given.value) != info.choices.end())
      return;
    const std::vector<std::string> names = named_choices(info);
    const std::string close = nearest(given.value, names);
    throw InvalidArgument(
        fmt::format("{} takes one of {}, found '{}' ({})", given.key, join(names), given.value, given.origin),
        close.empty() ? "" : fmt::format("did you mean '{}'?", close));
  } else if constexpr (!std::is_same_v<T, bool>) {
    check_bounds(given.key, static_cast<double>(field), given.origin);
  }
}

[[noreturn]] void unknown_key(const Given& given) {
  std::vector<std::string> keys{"attention", "model.name", "model.attention"};
  for (const SettingName& name : setting_names()) keys.push_back(key_of(name.section, name.name));
  std::string close = nearest(given.key, keys);
  if (close.empty())  // the name alone, in the wrong section
    for (const std::string& key : keys)
      if (key.substr(key.find('.') + 1) == given.key.substr(given.key.find('.') + 1)) close = key;
  throw InvalidArgument(
      fmt::format("there is no setting '{}' ({})", given.key, given.origin),
      close.empty() ? "run 'saddle train --help' for all of them" : fmt::format("did you mean '{}'?", close));
}

std::string toml_text(const toml::node& node, const std::string& file, const std::string& key) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return format_number(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* list = node.as_array()) {
    std::vector<std::string> items;
    for (const toml::node& item : *list) items.push_back(toml_text(item, file, key));
    return join(items, ",");
  }
  const auto& at = node.source().begin;
  throw DataError(file, static_cast<long>(at.line), static_cast<long>(at.column),
                  fmt::format("'{}' must be a number, a word, true, false or a list of these", key));
}

std::string toml_quoted(const std::string& text) {
  std::ostringstream out;
  out << toml::value<std::string>(text);
  return out.str();
}

}  // namespace

std::optional<double> parse_seconds(std::string_view text) {
  double value = 0;
  return read(text, value, true) ? std::optional(value) : std::nullopt;
}

void put(Settings& settings, const Given& given) {
  bool found = false;
  visit_all(settings, [&](const char* section, const SettingInfo& info, auto& field) {
    if (key_of(section, info.name) != given.key) return;
    assign(given, info, field);
    found = true;
  });
  if (found) {
    settings.origins[given.key] = given.origin;
    return;
  }
  if (!given.key.starts_with("model.") || given.key.size() == 6) unknown_key(given);
  const std::string name = given.key.substr(6);
  if (name == "name") {
    settings.model = given.value;
  } else {
    settings.model_options[name] = given.value;
  }
  settings.origins[given.key] = given.origin;
}

std::vector<SettingName> setting_names() {
  std::vector<SettingName> names;
  const Settings settings;
  visit_all(settings, [&](const char* section, const SettingInfo& info, const auto&) {
    names.push_back({section, std::string(info.name), std::string(info.help), named_choices(info)});
  });
  return names;
}

Settings resolve(const std::vector<Given>& given) {
  Settings settings;
  for (const Given& each : given) put(settings, each);
  return settings;
}

std::vector<Given> parse_settings(std::string_view text, const std::string& file) {
  const toml::table document = parse_toml(text, file);
  std::vector<Given> given;
  const auto add = [&](const std::string& key, const toml::node& node) {
    const auto& at = node.source().begin;
    const Given one{key, toml_text(node, file, key), fmt::format("{}:{}", file, at.line)};
    try {
      Settings scratch;
      put(scratch, one);
    } catch (const InvalidArgument& error) {
      throw DataError(file, static_cast<long>(at.line), static_cast<long>(at.column), error.what(), error.hint());
    }
    given.push_back(one);
  };
  for (const auto& [name, node] : document) {
    const std::string section(name.str());
    if (section == "attention") {
      add("model.attention", node);
    } else if (const toml::table* table = node.as_table()) {
      for (const auto& [key, value] : *table) add(key_of(section, key.str()), value);
    } else {
      add(section, node);
    }
  }
  return given;
}

std::vector<Given> read_settings(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf()))
    throw IoError(fmt::format("cannot read the settings {}", file), "is the file there, and readable?");
  return parse_settings(text.str(), file);
}

std::vector<Given> settings_of_environment() {
  std::map<std::string, std::string> keys;  // by variable
  for (const SettingName& name : setting_names()) {
    std::string variable = fmt::format("SADDLE_{}_{}", name.section, name.name);
    std::ranges::transform(variable, variable.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    keys[variable] = key_of(name.section, name.name);
  }
  std::vector<Given> given;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string variable(text.substr(0, text.find('=')));
    if (!variable.starts_with("SADDLE_TRAIN_") && !variable.starts_with("SADDLE_DATA_") &&
        !variable.starts_with("SADDLE_TABLE_"))
      continue;
    const auto found = keys.find(variable);
    if (found == keys.end()) {
      std::vector<std::string> names;
      for (const auto& [name, key] : keys) names.push_back(name);
      const std::string close = nearest(variable, names);
      throw InvalidArgument(
          fmt::format("the environment sets {}, which is no setting", variable),
          close.empty() ? "run 'saddle train --help' for all of them" : fmt::format("did you mean '{}'?", close));
    }
    given.push_back({found->second, std::string(text.substr(variable.size() + 1)), "environment " + variable});
  }
  return given;
}

Given parse_assignment(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw InvalidArgument(fmt::format("--set takes key=value, found '{}'", text), "for example --set train.lr=3e-4");
  std::string key = text.substr(0, equals);
  if (key == "attention") key = "model.attention";
  return {key, text.substr(equals + 1), "--set"};
}

std::vector<Entry> entries(const Settings& settings) {
  std::vector<Entry> list;
  const auto add = [&](const std::string& section, std::string_view name, const std::string& value, bool quoted) {
    const auto origin = settings.origins.find(key_of(section, name));
    list.push_back(
        {section, std::string(name), value, origin == settings.origins.end() ? "default" : origin->second, quoted});
  };
  bool modelled = false;
  visit_all(settings, [&](const char* section, const SettingInfo& info, const auto& field) {
    if (!modelled && std::string_view(section) == "train") {
      add("model", "name", settings.model, true);
      for (const auto& [name, value] : settings.model_options) add("model", name, value, true);
      modelled = true;
    }
    if (std::string_view(section) == "table" && settings.model != "npt") return;
    add(section, info.name, text_of(field), std::is_same_v<std::decay_t<decltype(field)>, std::string>);
  });
  return list;
}

std::string to_toml(const Settings& settings, bool with_origins) {
  std::string text, section;
  for (const Entry& entry : entries(settings)) {
    if (entry.section != section) text += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", entry.section);
    section = entry.section;
    text += fmt::format("{} = {}", entry.name, entry.quoted ? toml_quoted(entry.value) : entry.value);
    if (with_origins) text += fmt::format("  # {}", entry.origin);
    text += '\n';
  }
  return text;
}

std::vector<Difference> differences(const Settings& before, const Settings& now) {
  static const std::set<std::string> harmless{"data.folder",  "train.threads", "train.checkpoint_every",
                                              "train.budget", "train.inspect", "train.workers"};
  std::map<std::string, std::string> old;
  visit_all(before, [&](const char* section, const SettingInfo& info, const auto& field) {
    old[key_of(section, info.name)] = text_of(field);
  });
  std::vector<Difference> list;
  visit_all(now, [&](const char* section, const SettingInfo& info, const auto& field) {
    const std::string key = key_of(section, info.name);
    if (harmless.count(key) == 0 && old[key] != text_of(field)) list.push_back({key, old[key], text_of(field)});
  });
  if (before.model != now.model) list.push_back({"model.name", before.model, now.model});
  for (const auto& [name, value] : now.model_options) {
    const auto found = before.model_options.find(name);
    const std::string was = found == before.model_options.end() ? "" : found->second;
    if (was != value) list.push_back({"model." + name, was, value});
  }
  return list;
}

}  // namespace saddle::run

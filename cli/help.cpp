#include "help.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "output.hpp"
#include "saddle/base/text.hpp"

namespace saddle::cli {

namespace {

constexpr std::size_t column = 26;

bool is_positional(const Option& option) { return !option.names.starts_with("-"); }
bool is_list(const Option& option) { return std::holds_alternative<std::vector<std::string>*>(option.target); }

std::string label(const Option& option) {
  if (is_positional(option)) return fmt::format("<{}>{}", option.names, is_list(option) ? "..." : "");
  std::string text = option.names;
  if (const auto comma = text.find(','); comma != std::string::npos) text.insert(comma + 1, " ");
  return option.placeholder.empty() ? text : text + " " + option.placeholder;
}

// A name and its explanation, wrapped beside it.
std::string entry(const std::string& name, const std::string& text) {
  const std::string body = wrap(text, column + 4);
  return name.size() <= column ? fmt::format("  {:<{}}  {}", name, column, body.substr(column + 4))
                               : fmt::format("  {}\n{}", name, body);
}

std::string section(const std::string& title, const std::vector<Option>& options) {
  std::string text;
  for (const Option& option : options) {
    std::string help = option.help;
    if (!option.choices.empty()) help += " (" + join(option.choices) + ")";
    if (option.required && !is_positional(option)) help += " (required)";
    text += entry(label(option), help);
  }
  return text.empty() ? text : "\n" + bold(title) + "\n" + text;
}

std::string usage_line(const std::string& path, const Command& command) {
  std::string text = path;
  if (!command.commands.empty()) return text + " <command> [options]";
  for (const Option& option : command.options)
    if (is_positional(option)) text += " " + label(option);
  for (const Option& option : command.options)
    if (option.required && !is_positional(option)) text += " " + label(option);
  return text + " [options]";
}

}  // namespace

std::string help_text(const std::string& path, const Command& command, const std::vector<Option>& common) {
  std::string text = wrap(command.summary, 0);
  text += "\n" + bold("Usage:") + " " + usage_line(path, command) + "\n";
  text += "\n" + bold("Examples:") + "\n";
  for (const Example& example : command.examples)
    text += "  " + dim("# " + example.purpose) + "\n  " + example.line + "\n";

  std::vector<Option> positional, named;
  std::partition_copy(command.options.begin(), command.options.end(), std::back_inserter(positional),
                      std::back_inserter(named), is_positional);
  text += section("Arguments:", positional) + section("Options:", named);
  if (!command.commands.empty()) {
    text += "\n" + bold("Commands:") + "\n";
    for (const Command& child : command.commands) text += entry(child.name, child.summary);
    text += fmt::format("\nMore with '{0} <command> --help'. ", path);
    text += "Exit codes: 0 ok, 1 failed, 2 usage, 3 bad data, 4 not supported.\n";
  }
  std::vector<Option> rest = common;
  rest.push_back({"-h,--help", "", "this page", {}});
  return text + section("Common options:", rest);
}

}  // namespace saddle::cli

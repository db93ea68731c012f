#include "parser.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <limits>

#include "argument.hpp"
#include "failure.hpp"
#include "help.hpp"
#include "output.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/log.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/base/text.hpp"
#include "saddle/version.hpp"

namespace saddle::cli {

namespace {

// Values of the options that every command has.
struct Common {
  Context context;
  std::string log_file;
  Index threads = 0;
};

std::vector<Option> common_options(Common& common) {
  return {{"--json", "", "print one JSON document instead of text", &common.context.json},
          {"--threads", "COUNT", "threads to use; default all cores", &common.threads},
          {"-v,--verbose", "", "say more", &common.context.verbose},
          {"-q,--quiet", "", "only errors on stderr", &common.context.quiet},
          {"--log-file", "FILE", "append all messages to this file as well", &common.log_file}};
}

void apply(const Common& common) {
  if (common.threads < 0 || common.threads > 1024)
    throw InvalidArgument("--threads takes 0 (all cores) to 1024, found " + std::to_string(common.threads));
  set_threads(static_cast<int>(common.threads));
  set_log_level(common.context.quiet ? LogLevel::error : common.context.verbose ? LogLevel::debug : LogLevel::info);
  set_log_file(common.log_file);
}

// What is wrong with the value of an option, empty when nothing is; CLI11 puts the name of the option in front.
std::string value_problem(const Option& option, const std::string& value) {
  const auto found = [&](const std::string& expected) { return "expected " + expected + ", found '" + value + "'"; };
  if (std::holds_alternative<double*>(option.target) && !parse_number(value)) return found("a number such as 0.5");
  if (std::holds_alternative<Index*>(option.target) && !read_index(value))
    return found("a whole number up to " + std::to_string(std::numeric_limits<Index>::max()));
  const auto& choices = option.choices;
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) return "";
  const std::string close = nearest(value, choices);
  return found("one of " + join(choices)) + (close.empty() ? "" : "; did you mean '" + close + "'?");
}

// Of this command, or one that all commands have.
bool is_option(const CLI::App& app, const std::string& word) {
  for (const CLI::App* at = &app; at != nullptr && word.starts_with("-"); at = at->get_parent())
    if (at->get_option_no_throw(word) != nullptr) return true;
  return false;
}

void add_option(CLI::App& app, const Option& option) {
  CLI::Option* added = std::visit(
      [&]<class T>(T* target) {
        if constexpr (std::is_same_v<T, bool>) {
          return app.add_flag(option.names, *target);
        } else {
          return app.add_option(option.names, *target);
        }
      },
      option.target);
  added->required(option.required);
  if (option.names.starts_with("-")) {
    // An option that may be repeated takes one value each time, not all words that follow, nor the -- behind it.
    added->allow_extra_args(false);
    if (!std::holds_alternative<bool*>(option.target))
      added->check([&app](const std::string& value) {
        return is_option(app, value) ? "takes a value, found the option " + value : "";
      });
  }
  if (!std::holds_alternative<bool*>(option.target))
    added->check([option](const std::string& value) { return value_problem(option, value); });
}

void add_command(CLI::App& app, const std::string& path, const Command& command, const std::vector<Option>& common) {
  app.name(command.name);
  app.set_help_flag("-h,--help");
  app.formatter_fn([text = help_text(path, command, common)](auto...) { return text; });
  for (const Option& option : command.options) add_option(app, option);
  for (const Command& child : command.commands) {
    CLI::App* sub = app.add_subcommand(child.name);
    sub->fallthrough();  // the common options are those of the root and may stand anywhere
    add_command(*sub, path + " " + child.name, child, common);
  }
  if (!command.commands.empty()) app.require_subcommand(1);
}

// The deepest command that was named on the command line.
struct Reached {
  const Command* command;
  std::string path;
};

Reached reach(const Command& root, const CLI::App& app) {
  Reached at{&root, root.name};
  for (const CLI::App* here = &app; !here->get_subcommands().empty();) {
    here = here->get_subcommands().front();
    for (const Command& child : at.command->commands)
      if (child.name == here->get_name()) {
        at = {&child, at.path + " " + child.name};
        break;
      }
  }
  return at;
}

// The messages of CLI11 about the number of values and about flags, as sentences.
std::string sentence(const CLI::ParseError& error) {
  const std::string text = error.what(), prefix = "Could not convert: ";
  const std::string rest = text.starts_with(prefix) ? text.substr(prefix.size()) : text;
  const std::string name = rest.substr(0, rest.find_first_of(": "));
  if (text.ends_with(" missing")) return name + ": expected a value, found none";
  if (text.find("At Most 1 required") != std::string::npos) return name + ": expected one value, found several";
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr)
    return name + ": this option is on when it is named, it takes no value";
  return text;
}

// What is wrong with the command line, and the word that was probably meant.
InvalidArgument usage_error(const CLI::ParseError& error, const Reached& at, const std::vector<std::string>& unread,
                            const std::vector<Option>& common) {
  if (unread.empty()) return InvalidArgument(sentence(error), help_hint(at.path));
  const std::string& word = unread.front();
  const bool is_option = word.size() > 1 && word.front() == '-';
  std::vector<std::string> known;
  if (is_option) {
    for (const auto* options : {&at.command->options, &common})
      for (const Option& option : *options)
        if (const auto dashes = option.names.find("--"); dashes != std::string::npos)
          known.push_back(option.names.substr(dashes));
  } else {
    for (const Command& child : at.command->commands) known.push_back(child.name);
  }
  const std::string close = nearest(word, known);
  const std::string kind = is_option ? "option" : at.command->commands.empty() ? "argument" : "command";
  return InvalidArgument("unknown " + kind + " '" + word + "'",
                         (close.empty() ? "" : "did you mean '" + close + "'? ") + help_hint(at.path));
}

}  // namespace

int run(const Command& root, std::vector<std::string> words) {
  if (!words.empty() && words.front() == "help") {  // `saddle help svr solve` is `saddle svr solve --help`
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  std::string path = root.name;
  return guarded(path, [&]() -> int {
    Common common;
    const std::vector<Option> options = common_options(common);
    CLI::App app;
    add_command(app, root.name, root, options);
    for (const Option& option : options) add_option(app, option);
    app.set_version_flag("--version", std::string("saddle ") + version());
    try {
      app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 takes them from the back
    } catch (const CLI::CallForHelp& error) {
      const Reached at = reach(root, app);
      const auto unread = app.remaining(true);  // the help of a command that does not exist
      if (!at.command->commands.empty() && !unread.empty() && !unread.front().starts_with("-"))
        throw usage_error(error, at, unread, options);
      print(app.help());
      return Exit::ok;
    } catch (const CLI::CallForVersion& answer) {
      print(std::string(answer.what()) + "\n");
      return Exit::ok;
    } catch (const CLI::ParseError& error) {
      throw usage_error(error, reach(root, app), app.remaining(true), options);
    }
    const Reached at = reach(root, app);
    path = at.path;
    apply(common);
    return at.command->run(common.context);
  });
}

}  // namespace saddle::cli

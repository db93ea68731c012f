// A subcommand as data: what it is called, what it takes, how to use it, what it does. parser.cpp turns it into a
// command line and a help page, so commands need no parser headers.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "saddle/base/view.hpp"

namespace saddle::cli {

// Exit codes of the program.
struct Exit {
  static constexpr int ok = 0, failed = 1, usage = 2, bad_data = 3, not_supported = 4, interrupted = 130;
};

// The options that every command has.
struct Context {
  bool json = false;
  bool verbose = false;
  bool quiet = false;
};

struct Option {
  std::string names;        // "-o,--out"; without a dash it is a positional argument
  std::string placeholder;  // what stands for the value in the help; empty for flags and positional arguments
  std::string help;
  std::variant<bool*, std::string*, double*, Index*, std::vector<std::string>*> target;
  bool required = false;
  std::vector<std::string> choices = {};
};

// A line that runs as written in a shell, and what it is for.
struct Example {
  std::string purpose, line;
};

struct Command {
  std::string name, summary;
  std::vector<Example> examples;
  std::vector<Option> options;
  std::function<int(const Context&)> run;  // returns an exit code
  std::vector<Command> commands = {};      // a command with subcommands does not run itself
};

Command list_command();
Command show_command();
Command derive_command();
Command explain_command();
Command svr_command();
Command bench_command();
Command weights_command();
Command data_command();
Command compare_command();
Command report_command();
Command reproduce_command();
Command plan_command();
Command analyze_command();
Command prune_command();
Command train_command();
Command eval_command();
Command predict_command();
Command check_golden_command();
Command doctor_command();
Command version_command();

}  // namespace saddle::cli

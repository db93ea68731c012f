// saddle analyze: looking inside a trained model, or at the file of an analysis.
#include "analyze.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "markdown.hpp"
#include "output.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/io/atomic_file.hpp"
#include "saddle/io/safetensors_stream.hpp"
#include "training.hpp"

namespace saddle::cli {

namespace {

namespace fs = std::filesystem;

int list_analyses(const Context& context) {
  if (context.json) {
    Json list = Json::array();
    for (const analysis::Analysis* each : analysis::all())
      list.push_back({{"name", each->name},
                      {"title", each->title},
                      {"summary", each->summary},
                      {"models", each->on_model != nullptr},
                      {"files", each->on_file != nullptr}});
    print_json("saddle.analyses/1", {{"analyses", list}});
    return Exit::ok;
  }
  Table table({"name", "takes", "what it shows"}, "lll");
  for (const analysis::Analysis* each : analysis::all()) {
    std::vector<std::string> takes;
    if (each->on_model) takes.emplace_back("models");
    if (each->on_file) takes.emplace_back("files");
    table.add({each->name, takes.empty() ? "library only" : join(takes), each->summary});
  }
  print(table.text());
  return Exit::ok;
}

int show_page(const analysis::Analysis& analysis, const Context& context) {
  if (context.json)
    print_json("saddle.analysis-page/1", {{"name", analysis.name}, {"page", analysis::page_of(analysis)}});
  else
    print(plain_text(analysis::page_of(analysis)) + "\n" + bold("BibTeX") + "\n" + analysis.bibtex + "\n");
  return Exit::ok;
}

// The folder of a run, or weights that say which model they belong to.
bool is_model(const std::string& input) {
  if (fs::is_directory(input)) return fs::exists(fs::path(input) / "checkpoints");
  return input.ends_with(".safetensors") && fs::exists(input) &&
         io::SafetensorsReader(input).metadata().contains("saddle");
}

int analyze(const AnalyzeArguments& arguments, const Context& context) {
  if (arguments.name.empty()) return list_analyses(context);
  const analysis::Analysis& analysis = analysis::find(arguments.name);
  if (arguments.input.empty()) return show_page(analysis, context);
  if (is_model(arguments.input)) {
    if (!analysis.on_model)
      throw NotSupported(fmt::format("'{}' does not look into models", analysis.name), {},
                         fmt::format("saddle analyze {} shows what it takes", analysis.name));
    return run_analyze(arguments, context);
  }
  if (!analysis.on_file)
    throw InvalidArgument(fmt::format("'{}' looks into trained models, and {} is none", analysis.name, arguments.input),
                          "give the folder of a run");
  analysis::Options options(analysis_options(arguments));
  return print_analysis(analysis, arguments.input, analysis.on_file(arguments.input, options), arguments.html, context);
}

}  // namespace

std::map<std::string, std::string> analysis_options(const AnalyzeArguments& arguments) {
  std::map<std::string, std::string> options;
  for (const std::string& assignment : arguments.assignments) {
    const auto equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0)
      throw InvalidArgument(fmt::format("--set '{}': expected name=value", assignment));
    options[assignment.substr(0, equals)] = assignment.substr(equals + 1);
  }
  return options;
}

int print_analysis(const analysis::Analysis& analysis, const std::string& input, const analysis::Result& result,
                   const std::string& html, const Context& context) {
  if (!html.empty()) {
    io::write_atomically(html, analysis_page(analysis, input, result));
    const fs::path folder = fs::path(html).parent_path();
    for (const auto& [name, contents] : result.files) io::write_atomically(folder / name, contents);
  }
  if (context.json) {
    print_json("saddle.analysis/1", {{"analysis", analysis.name},
                                     {"input", input},
                                     {"about", result.about},
                                     {"findings", result.findings},
                                     {"result", result.json.empty() ? Json() : Json::parse(result.json)}});
    return Exit::ok;
  }
  std::string text = bold(analysis.title) + "\n" + wrap(result.about, 0);
  for (const analysis::Table& own : result.tables) {
    cli::Table table(own.columns, std::string(own.columns.size(), 'l'));
    for (const auto& row : own.rows) table.add(row);
    text += "\n" + bold(own.title) + "\n" + table.text();
  }
  if (!result.findings.empty()) text += "\n";
  for (const std::string& finding : result.findings) text += wrap(finding, 0);
  print(text + (html.empty() ? "" : "\n" + html + "\n"));
  return Exit::ok;
}

Command analyze_command() {
  const auto a = std::make_shared<AnalyzeArguments>();
  return {"analyze",
          "Look inside a trained model, or at data, by one of the analyses; without a name, list them.",
          {{"what there is", "saddle analyze"},
           {"the page of one", "saddle analyze head_redundancy"},
           {"a trained model, with a page of plots",
            "saddle analyze head_redundancy runs/waves --html runs/waves/heads.html"}},
          {{"name", "", "of the analysis", &a->name},
           {"input", "", "folder of a run, file of its checkpoints, or a file that the analysis takes", &a->input},
           {"--set", "NAME=VALUE", "an option of the analysis", &a->assignments},
           {"--samples", "COUNT", "of each split that a model is shown; default 16", &a->samples},
           {"--data", "NAME", "another data set than the one the model was trained on", &a->data},
           {"--data-dir", "FOLDER", "where data sets are looked for first", &a->folder},
           {"--html", "FILE", "write a page with plots, and other files beside it", &a->html}},
          [a](const Context& context) { return analyze(*a, context); }};
}

}  // namespace saddle::cli

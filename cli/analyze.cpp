// saddle analyze: looking inside a trained model, or at the file of an analysis.
#include "analyze.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "markdown.hpp"
#include "output.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/data/contents.hpp"
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
                      {"files", each->takes_files()},
                      {"example", each->example != nullptr}});
    print_json("saddle.analyses/1", {{"analyses", list}});
    return Exit::ok;
  }
  Table table({"name", "takes", "what it shows"}, "lll");
  for (const analysis::Analysis* each : analysis::all()) {
    std::vector<std::string> takes;
    if (each->on_model) takes.emplace_back("models");
    if (each->takes_files()) takes.emplace_back("files");
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

// A file of the same name without .gz, for as long as this lives.
class Unpacked {
 public:
  explicit Unpacked(const fs::path& packed) {
    std::string name = (fs::temp_directory_path() / "saddle-analyze-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw IoError("cannot make a temporary folder to unpack " + packed.string());
    folder_ = name;
    const data::ContentsPtr contents = data::read_contents(packed.string(), Index{1} << 30);
    path_ = folder_ / packed.filename().stem();
    io::write_atomically(path_, std::string(contents->bytes()));
  }
  ~Unpacked() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;
  std::string path() const { return path_.string(); }

 private:
  fs::path folder_, path_;
};

int analyze(const AnalyzeArguments& arguments, const Context& context) {
  if (arguments.name.empty()) return list_analyses(context);
  const analysis::Analysis& analysis = analysis::find(arguments.name);
  if (arguments.example) {
    if (!arguments.inputs.empty()) throw InvalidArgument("--example takes no input", "leave one of them out");
    if (!analysis.example)
      throw NotSupported(fmt::format("'{}' has no example of its own", analysis.name), {},
                         "give the folder of a run, or a file that its page names");
    analysis::Options options(analysis_options(arguments));
    return print_analysis(analysis, "example", analysis.example(options), arguments.html, context);
  }
  if (arguments.inputs.empty()) return show_page(analysis, context);
  std::vector<std::pair<std::string, analysis::Result>> results;
  for (const std::string& input : arguments.inputs)
    if (is_model(input)) {
      if (!analysis.on_model)
        throw NotSupported(fmt::format("'{}' does not look into models", analysis.name), {},
                           fmt::format("saddle analyze {} shows what it takes", analysis.name));
      return run_analyze(arguments, context);
    }
  for (const std::string& input : arguments.inputs) {
    analysis::Options options(analysis_options(arguments));
    results.emplace_back(input, analyze_plain_file(analysis, input, options));
  }
  return print_analysis(analysis, join(arguments.inputs), analysis::beside(results), arguments.html, context);
}

}  // namespace

bool is_model(const std::string& input) {
  if (fs::is_directory(input)) return fs::exists(fs::path(input) / "checkpoints");
  return input.ends_with(".safetensors") && fs::exists(input) &&
         io::SafetensorsReader(input).metadata().contains("saddle");
}

analysis::Result analyze_plain_file(const analysis::Analysis& analysis, const std::string& file,
                                    analysis::Options& options) {
  if (!file.ends_with(".gz")) return analysis::analyze_file(analysis, file, options);
  return analysis::analyze_file(analysis, Unpacked(file).path(), options, file);
}

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
    // Files beside a page have its name in theirs: pages in one folder do not take them from each other.
    const fs::path page(html);
    const auto named = [&](const std::string& file) { return page.stem().string() + "_" + file; };
    analysis::Result shown = result;
    for (analysis::Network& network : shown.networks)
      if (!network.file.empty()) network.file = named(network.file);
    io::write_atomically(html, analysis_page(analysis, input, shown));
    for (const auto& [name, contents] : result.files) io::write_atomically(page.parent_path() / named(name), contents);
  }
  if (context.json) {
    Json figures = Json::object();
    for (const auto& [name, value] : result.figures) figures[name] = std::isfinite(value) ? Json(value) : Json();
    print_json("saddle.analysis/1", {{"analysis", analysis.name},
                                     {"input", input},
                                     {"about", result.about},
                                     {"findings", result.findings},
                                     {"figures", figures},
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
            "saddle analyze head_redundancy runs/waves --html runs/waves/heads.html"},
           {"several beside each other", "saddle analyze head_redundancy runs/waves runs/bn"},
           {"what a theory shows by itself", "saddle analyze rank_collapse --example"},
           {"which steps a prediction hangs on",
            "saddle analyze causal_discovery runs/waves --sample 3 --set explain=true --set max_calls=200"}},
          {{"name", "", "of the analysis", &a->name},
           {"inputs", "", "folders of runs, files of their checkpoints, or files that the analysis takes", &a->inputs},
           {"--set", "NAME=VALUE", "an option of the analysis", &a->assignments},
           {"--samples", "COUNT", "of each split that a model is shown; default 16", &a->samples},
           {"--sample", "NUMBER", "show the model this sample of each split alone, from 0", &a->sample},
           {"--example", "", "what the analysis has to show without any input", &a->example},
           {"--data", "NAME", "another data set than the one the model was trained on", &a->data},
           {"--data-dir", "FOLDER", "where data sets are looked for first", &a->folder},
           {"--html", "FILE", "write a page with plots, and other files beside it", &a->html}},
          [a](const Context& context) { return analyze(*a, context); }};
}

}  // namespace saddle::cli

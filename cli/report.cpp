// saddle report: runs as one page of HTML.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "argument.hpp"
#include "command.hpp"
#include "output.hpp"
#include "saddle/base/error.hpp"
#include "saddle/io/atomic_file.hpp"
#include "saddle/report/report.hpp"

namespace saddle::cli {

namespace {

struct ReportOptions {
  std::vector<std::string> folders, attentions;
  std::string out = "report.html", title, statistics;
  Index samples = -1;
};

int report(const ReportOptions& options, const Context& context) {
  const std::vector<report::Run> runs = report::read_runs(options.folders);
  report::PageOptions page;
  page.title = options.title;
  page.attentions = options.attentions;
  page.samples = options.samples;
  if (!options.statistics.empty()) page.statistics = read_text(options.statistics);
  const std::string text = report::comparison_page(runs, page);
  if (std::filesystem::is_directory(options.out))
    throw IoError(options.out + " is a folder", "name a file, such as " + options.out + "/report.html");
  io::write_atomically(options.out, text);

  const auto finished = std::count_if(runs.begin(), runs.end(), [](const report::Run& run) { return run.finished; });
  const auto leaky = std::count_if(runs.begin(), runs.end(), [](const auto& run) { return run.protocol == "paper"; });
  if (context.json) {
    print_json("saddle.report/1", {{"out", options.out},
                                   {"bytes", text.size()},
                                   {"runs", runs.size()},
                                   {"finished", finished},
                                   {"paper_protocol", leaky}});
    return Exit::ok;
  }
  print(fmt::format("{}: {} runs, {}\n", options.out, runs.size(), bytes_text(static_cast<double>(text.size()))));
  if (!context.quiet && finished < static_cast<std::ptrdiff_t>(runs.size()))
    print_message(fmt::format("note: {} of the runs are not finished; they have curves but no scores\n",
                              static_cast<std::ptrdiff_t>(runs.size()) - finished));
  if (!context.quiet && leaky > 0)
    print_message(fmt::format("note: {} of the runs chose their epoch on the test split (protocol paper)\n", leaky));
  return Exit::ok;
}

}  // namespace

Command report_command() {
  const auto o = std::make_shared<ReportOptions>();
  return {
      "report",
      "Write one page of HTML that shows a run, or compares many: scores, curves, costs, attention maps. It opens "
      "offline.",
      {{"one run", "saddle report tests/report/runs/softmax-0"},
       {"all runs below a folder", "saddle report tests/report/runs --out comparison.html"}},
      {{"run", "", "folders of runs, or folders that hold runs at any depth", &o->folders, true},
       {"-o,--out", "FILE", "default report.html", &o->out},
       {"--title", "TEXT", "default: what is compared", &o->title},
       {"--attention", "LABEL", "show this one first; may be repeated", &o->attentions},
       {"--samples", "N", "samples with attention maps per attention; default: as many as fit in about 1.5 MB",
        &o->samples},
       {"--statistics", "FILE", "JSON with ranks over data sets, for the critical-difference diagram", &o->statistics}},
      [o](const Context& context) { return report(*o, context); }};
}

}  // namespace saddle::cli

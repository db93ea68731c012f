// saddle report: runs as one page of HTML.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "compare_result.hpp"
#include "output.hpp"
#include "saddle/base/error.hpp"
#include "saddle/io/atomic_file.hpp"
#include "saddle/report/report.hpp"

namespace saddle::cli {

namespace {

struct ReportOptions {
  std::vector<std::string> folders, attentions;
  std::string out = "report.html", title;
  Index samples = -1;
};

// Ranks over data sets, for the critical-difference diagram; empty when the runs do not allow any.
std::string statistics_of(const std::vector<report::Run>& runs, const std::vector<std::string>& order,
                          const Context& context) {
  try {
    const CompareResult result = compare_runs(runs, order, "", eval::Posthoc::wilcoxon_holm, eval::Comparison{}.alpha);
    return result.statistics ? statistics_json(result).dump() : "";
  } catch (const InvalidArgument& error) {
    if (!context.quiet) print_message(fmt::format("note: there are no ranks: {}\n", error.what()));
    return "";
  }
}

int report(const ReportOptions& options, const Context& context) {
  const std::vector<report::Run> runs = report::read_runs(options.folders);
  report::PageOptions page;
  page.title = options.title;
  page.attentions = options.attentions;
  page.samples = options.samples;
  page.statistics = statistics_of(runs, options.attentions, context);
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
  print(fmt::format("{}: {} {}, {}\n", options.out, runs.size(), runs.size() == 1 ? "run" : "runs",
                    bytes_text(static_cast<double>(text.size()))));
  if (!context.quiet && finished < static_cast<std::ptrdiff_t>(runs.size()))
    print_message(fmt::format("note: not finished, with curves but no scores: {} of the runs\n",
                              static_cast<std::ptrdiff_t>(runs.size()) - finished));
  if (!context.quiet && leaky > 0)
    print_message(fmt::format("note: {} of the runs chose their epoch on the test split (protocol paper)\n", leaky));
  return Exit::ok;
}

}  // namespace

Command report_command() {
  const auto o = std::make_shared<ReportOptions>();
  return {"report",
          "Write one page of HTML that shows a run, or compares many: scores, curves, costs, attention maps. It opens "
          "offline.",
          {{"one run", "saddle report tests/report/runs/softmax-0"},
           {"all runs below a folder", "saddle report tests/report/runs --out comparison.html"}},
          {{"run", "", "folders of runs, or folders that hold runs at any depth", &o->folders, true},
           {"-o,--out", "FILE", "default report.html", &o->out},
           {"--title", "TEXT", "default: what is compared", &o->title},
           {"--attention", "LABEL", "show this one first; may be repeated", &o->attentions},
           {"--samples", "N", "samples with attention maps per attention; default: as many as fit in about 1.5 MB",
            &o->samples}},
          [o](const Context& context) { return report(*o, context); }};
}

}  // namespace saddle::cli

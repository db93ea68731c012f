// saddle check-golden: recomputes recorded cases with every implementation that accepts them, those of torch included.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "argument.hpp"
#include "command.hpp"
#include "output.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/io/safetensors.hpp"
#include "saddle/mechanisms/golden.hpp"
#include "training.hpp"

namespace saddle::cli {

namespace {

namespace fs = std::filesystem;
using mechanisms::GoldenReport;
using mechanisms::GoldenResult;

// The files themselves, and every *.safetensors below the folders, sorted.
std::vector<std::string> find_cases(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(path))
      if (entry.path().extension() == ".safetensors" && !entry.is_directory()) found.push_back(entry.path().string());
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

enum class Status { passed, failed, skipped };

const char* to_string(Status status) {
  switch (status) {
    case Status::passed: return "passed";
    case Status::failed: return "failed";
    case Status::skipped: return "skipped";
  }
  return "";
}

struct Case {
  std::string file;
  GoldenReport report;
  Status status = Status::failed;

  std::string label() const { return report.mechanism.empty() ? file : report.mechanism + "/" + report.name; }
};

using Checks = std::vector<mechanisms::GoldenCheck>;

Case check(const std::string& file, DType dtype, bool skip_unknown, const Checks& checks) {
  Case result{file, {}};
  try {
    const TensorFile golden = io::read_safetensors(file);
    result.report = mechanisms::check_golden(golden, fs::path(file).stem().string(), dtype, checks);
  } catch (const std::exception& error) {
    result.report.problem = error.what();
  }
  const auto known = mechanisms::golden_names(checks);
  const std::string& mechanism = result.report.mechanism;
  const bool unknown = !mechanism.empty() && std::find(known.begin(), known.end(), mechanism) == known.end();
  result.status = skip_unknown && unknown ? Status::skipped : result.report.passed() ? Status::passed : Status::failed;
  return result;
}

std::string line(const Case& c, bool verbose) {
  const std::string mark = c.status == Status::passed   ? green("PASS")
                           : c.status == Status::failed ? red("FAIL")
                                                        : dim("SKIP");
  std::vector<std::string> pieces;
  for (const GoldenResult& result : c.report.results) {
    if (!result.refusals.empty()) {
      if (verbose) pieces.push_back(fmt::format("{} refuses ({})", result.implementation, join(result.refusals, "; ")));
      continue;
    }
    std::string piece = fmt::format("{} {} {}", result.implementation, error_text(result.error), result.worst_tensor);
    if (!result.passed) piece += fmt::format(" (tolerance {})", error_text(result.tolerance));
    pieces.push_back(result.passed ? piece : red(piece));
  }
  if (!c.report.problem.empty()) pieces.push_back(c.report.problem);
  if (pieces.empty()) pieces.emplace_back("every implementation refuses, -v says why");
  if (verbose && !c.report.attention.empty()) pieces.push_back(c.report.attention);
  return fmt::format("{}  {:<40}  {}\n", mark, c.label(), join(pieces, ", "));
}

Json to_json(const Case& c) {
  Json results = Json::array();
  for (const GoldenResult& result : c.report.results) {
    Json entry{{"implementation", result.implementation}, {"refusals", result.refusals}};
    if (result.refusals.empty()) {
      entry["passed"] = result.passed;
      entry["worst_tensor"] = result.worst_tensor;
      entry["error"] = result.error;
      entry["tolerance"] = result.tolerance;
    }
    results.push_back(std::move(entry));
  }
  return {{"file", c.file},
          {"mechanism", c.report.mechanism},
          {"case", c.report.name},
          {"attention", c.report.attention},
          {"status", to_string(c.status)},
          {"problem", c.report.problem},
          {"results", results}};
}

// The largest error of anything that ran, and where.
struct Worst {
  double error = 0;
  std::string where = "nothing ran";

  void see(const Case& c) {
    for (const GoldenResult& result : c.report.results)
      if (result.refusals.empty() && (where == "nothing ran" || !(result.error <= error))) {
        error = result.error;
        where = fmt::format("{}, {}, {}", c.label(), result.implementation, result.worst_tensor);
      }
  }
};

}  // namespace

int check_cases(const CheckArguments& options, const Checks& checks, const Context& context) {
  const DType dtype = read_dtype(options.dtype);
  const std::vector<std::string> files = find_cases(options.paths);
  Worst worst;
  Json cases = Json::array();
  int count[3] = {0, 0, 0};
  for (const std::string& file : files) {
    const Case c = check(file, dtype, options.skip_unknown, checks);
    ++count[static_cast<std::size_t>(c.status)];
    worst.see(c);
    context.json ? cases.push_back(to_json(c)) : print(line(c, context.verbose));
  }
  const auto [passed, failed, skipped] = count;
  if (context.json) {
    print_json("saddle.check-golden/1", {{"dtype", options.dtype},
                                         {"cases", cases},
                                         {"worst_error", worst.error},
                                         {"worst_case", worst.where},
                                         {"passed", passed},
                                         {"failed", failed},
                                         {"skipped", skipped}});
  } else if (!files.empty()) {
    print(fmt::format("\nworst relative error {} ({})\n{} passed, {} failed{}\n", error_text(worst.error), worst.where,
                      passed, failed, skipped > 0 ? fmt::format(", {} skipped", skipped) : ""));
  }
  if (files.empty())
    print_error("found no *.safetensors below " + join(options.paths), "name a file or a folder of golden cases");
  else if (passed + failed == 0)
    print_error("all cases were skipped, nothing was checked", "leave --skip-unknown out to see why");
  return failed > 0 || passed == 0 ? Exit::failed : Exit::ok;
}

Command check_golden_command() {
  const auto o = std::make_shared<CheckArguments>();
  return {
      "check-golden",
      "Recompute recorded cases with every implementation that accepts them, operators and modules of the torch part "
      "included where it is built; fail if one misses its tolerance.",
      {{"every case below a folder", "saddle check-golden tests/golden"},
       {"with refusals and written forms", "saddle check-golden -v tests/golden/softmax"},
       {"inputs rounded to single precision, tolerances to match",
        "saddle check-golden tests/golden/attention-bn --dtype f32"}},
      {{"paths", "", "files or folders", &o->paths, true},
       {"--dtype",
        "TYPE",
        "round the inputs to this type first; default f64; bf16 compares outputs only, and rounded inputs alone may "
        "move a standardised case beyond its tolerance; svr runs in f64 only",
        &o->dtype,
        false,
        {"f64", "f32", "bf16"}},
       {"--skip-unknown", "", "skip cases of mechanisms that this build does not have", &o->skip_unknown}},
      [o](const Context& context) { return run_check_golden(*o, context); }};
}

}  // namespace saddle::cli

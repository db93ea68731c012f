// From folders to runs.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "saddle/base/error.hpp"
#include "saddle/report/report.hpp"
#include "saddle/report/run_files_internal.hpp"

namespace saddle::report {

namespace {

namespace fs = std::filesystem;

bool is_run(const fs::path& folder) {
  return fs::exists(folder / "result.json") || fs::exists(folder / "metrics.jsonl");
}

// Run folders at or below `folder`, in order of their names; a run holds no other runs.
void find_runs(const fs::path& folder, std::vector<fs::path>& found) {
  if (is_run(folder)) {
    found.push_back(folder);
    return;
  }
  std::vector<fs::path> children;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory() && !entry.is_symlink()) children.push_back(entry.path());
  std::sort(children.begin(), children.end());
  for (const fs::path& child : children) find_runs(child, found);
}

Run read_run(const fs::path& folder, const std::string& name) {
  Run run;
  run.folder = folder;
  run.name = run.label = name;
  run.finished = fs::exists(folder / "result.json");
  if (run.finished)
    read_result(folder / "result.json", run);
  else if (fs::exists(folder / "config.toml"))
    read_config(folder / "config.toml", run);
  if (fs::exists(folder / "metrics.jsonl")) run.metrics = read_metrics(folder / "metrics.jsonl", run.finished);
  if (fs::exists(folder / "env.json")) run.environment = read_environment(folder / "env.json");
  if (run.finished && fs::exists(folder / "inspect.json")) run.inspect = read_inspect(folder / "inspect.json", run);
  return run;
}

}  // namespace

std::vector<Run> read_runs(const std::vector<std::string>& folders) {
  std::vector<Run> runs;
  std::set<fs::path> seen;
  try {
    for (const std::string& text : folders) {
      fs::path root = text;
      if (root.filename() == "result.json") root = root.has_parent_path() ? root.parent_path() : fs::path(".");
      if (!fs::is_directory(root))
        throw IoError(fmt::format("{}: there is no such folder", text),
                      "name the folder of a run, or one that holds runs at any depth");
      root = fs::canonical(root);
      std::vector<fs::path> found;
      find_runs(root, found);
      for (const fs::path& folder : found)
        if (seen.insert(folder).second)
          runs.push_back(read_run(folder, folder.lexically_relative(root.parent_path()).string()));
    }
  } catch (const fs::filesystem_error& error) {
    throw IoError(error.what());
  }
  if (runs.empty())
    throw InvalidArgument("there is no run in " + (folders.empty() ? std::string("an empty list of folders")
                                                                   : fmt::format("{}", fmt::join(folders, ", "))),
                          "a run is a folder with a result.json, or with a metrics.jsonl while it trains");
  std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) {
    return std::tuple(a.data, a.label.size(), a.label, a.seed) < std::tuple(b.data, b.label.size(), b.label, b.seed);
  });
  return runs;
}

}  // namespace saddle::report

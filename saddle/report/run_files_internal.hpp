// The files of a run folder, each checked and reduced to what the page shows.
#pragma once

#include "saddle/report/report.hpp"

namespace saddle::report {

// result.json: fills what tells runs apart, and `result`.
void read_result(const std::filesystem::path& file, Run& run);
// metrics.jsonl -> {"train":{"epoch":[..],"step":[..],"loss":[..],"accuracy":[..],"seconds":[..]},..}. The last line of
// a run that still writes may be cut short; it is left out.
std::string read_metrics(const std::filesystem::path& file, bool finished);
// inspect.json: samples, grid and pooling, with the tokens behind every pooled key as "groups".
std::string read_inspect(const std::filesystem::path& file, const Run& run);
// env.json
std::string read_environment(const std::filesystem::path& file);
// config.toml of a run without a result: data, attention, seed, protocol as far as it says.
void read_config(const std::filesystem::path& file, Run& run);

// The distinct written forms, joined by " / ".
std::string label_of(const std::vector<std::string>& attention);

}  // namespace saddle::report

// metrics.jsonl, env.json and config.toml of a run.
#include <fmt/format.h>

#include <toml++/toml.h>

#include "saddle/base/error.hpp"
#include "saddle/report/checked_json_internal.hpp"
#include "saddle/report/run_files_internal.hpp"

namespace saddle::report {

namespace {

// A curve is at most some thousand pixels wide: every n-th value, and the last.
void thin(Json& column) {
  constexpr std::size_t most = 400;
  const std::size_t every = (column.size() + most - 1) / most;
  if (every <= 1) return;
  Json kept = Json::array();
  for (std::size_t i = 0; i < column.size(); ++i)
    if (i % every == 0 || i + 1 == column.size()) kept.push_back(column[i]);
  column = kept;
}

}  // namespace

std::string read_metrics(const std::filesystem::path& file, bool finished) {
  const std::string text = read_text(file);
  Json out = Json::object();
  long line = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos && !finished) break;
    const std::string_view row = std::string_view(text).substr(at, end == std::string::npos ? end : end - at);
    at = end == std::string::npos ? text.size() : end + 1;
    ++line;
    if (row.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const Json value = parse_json(row, file.string(), line);
    const Field entry(value, file.string(), line);
    const std::string& split = entry.object().at("split").text();
    if (split != "train" && split != "validation" && split != "test")
      entry.at("split").fail("expected train, validation or test, found " + entry.at("split").json().dump());
    Json& columns = out[split];
    columns["epoch"].push_back(entry.at("epoch").number());
    for (const char* key : {"step", "loss", "accuracy", "seconds"}) {
      const auto number = entry.find(key);  // a loss that is not finite is written as null
      columns[key].push_back(number ? rounded(number->number(), 7) : Json());
    }
    if (const auto rmse = entry.find("rmse")) columns["rmse"].push_back(rounded(rmse->number(), 7));  // of numbers
  }
  for (Json& columns : out)
    for (Json& column : columns) thin(column);
  return out.dump();
}

std::string read_environment(const std::filesystem::path& file) {
  const Json document = parse_json(read_text(file), file.string());
  Json out = Json::object();
  for (const auto& [key, value] : Field(document, file.string()).object().json().items())
    if (key != "schema") out[key] = value.is_string() ? value.get<std::string>() : value.dump();
  return out.dump();
}

void read_config(const std::filesystem::path& file, Run& run) {
  toml::table table;
  try {
    table = toml::parse(read_text(file), file.string());
  } catch (const toml::parse_error& error) {
    const auto& where = error.source().begin;
    throw DataError(file.string(), where.line, where.column, std::string(error.description()));
  }
  run.data = table.at_path("data.name").value_or(run.data);
  run.protocol = table.at_path("data.protocol").value_or(run.protocol);
  run.model = table.at_path("model.name").value_or(run.model);
  run.seed = table.at_path("train.seed").value_or(run.seed);
  if (const auto attention = table.at_path("model.attention").value<std::string>()) {
    run.attention = {*attention};
    run.label = *attention;
  }
}

}  // namespace saddle::report

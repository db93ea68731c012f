// The report: one page of HTML that shows a run, or compares many, and needs nothing else, no network either.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "saddle/base/view.hpp"

namespace saddle::report {

// The folder of a run, read and checked. What tells runs apart stands in fields, what the page shows of it in JSON.
struct Run {
  std::filesystem::path folder;
  std::string name;                         // the folder as it is shown, from the folder that was asked for
  bool finished = false;                    // there is a result.json
  std::string data = "unknown data", kind;  // "JapaneseVowels", "series"
  std::vector<std::string> classes;         // of the data, none when not finished
  std::vector<std::string> attention;       // written form of each layer
  std::string label;                        // the distinct ones, joined by " / ", and the encoding of times
  std::string model, precision;
  std::string protocol = "honest";  // or "paper"
  Index seed = 0;
  std::string options = "{}";      // JSON object: options of the model
  std::string result = "null";     // JSON object: scores and costs; null when not finished
  std::string metrics = "{}";      // JSON object: split -> columns epoch, step, loss, accuracy, seconds
  std::string environment = "{}";  // JSON object: env.json
  std::string inspect = "null";    // JSON object: samples with attention maps; null without
};

// Every run in the folders, at any depth: those with a result.json are finished, those with only metrics.jsonl are not.
// By data, then label with the shorter ones first, then seed. Throws IoError for a folder that cannot be read,
// DataError with file, line and column for broken files, InvalidArgument when there is no run.
std::vector<Run> read_runs(const std::vector<std::string>& folders);

struct PageOptions {
  std::string title;                    // empty: made from what is compared
  std::vector<std::string> attentions;  // labels in the order to show them; others follow
  // JSON object with the statistics over data sets, empty when there are none: {"ranks":[{"name","rank"}],
  // "cliques":[["name",..],..],"p_values":[{"a","b","p","holm"}],"alpha":0.1,"friedman_p":0.01,"test":"nemenyi"}; all
  // but the ranks may be missing
  std::string statistics;
  Index samples = -1;  // with attention maps, per attention and data set; -1: as many as fit in about 1.5 MB
  std::string d3;      // text of the library, empty: read_d3()
};

// The whole page. Throws InvalidArgument without runs, DataError for statistics that are not as above.
std::string comparison_page(const std::vector<Run>& runs, const PageOptions& options = {});

// D3, which draws the plots: the file $SADDLE_D3, or that of Debian's package node-d3. Throws IoError when there is
// none.
std::string read_d3();

}  // namespace saddle::report

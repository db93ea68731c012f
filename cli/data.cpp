// saddle data: which data sets there are, what is in them, what simple methods reach on them, whether files are sound,
// and made ones as files.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "data_baseline.hpp"
#include "data_show.hpp"
#include "output.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/data/files.hpp"
#include "saddle/data/generate/generate.hpp"
#include "saddle/data/write.hpp"

namespace saddle::cli {

namespace fs = std::filesystem;

namespace {

struct DataArguments {
  std::string name, out, missing = "interpolate";
  std::vector<std::string> files, settings;
  data::Where where;
  Index samples = 3, max_length = 0, limit = 0, seed = 0;
  bool force = false;

  data::Where place() const {
    data::Where result = where;
    result.missing = missing == "zero"     ? data::Missing::zero
                     : missing == "refuse" ? data::Missing::refuse
                                           : data::Missing::interpolate;
    return result;
  }
};

int list(const DataArguments& arguments, const Context& context) {
  const std::vector<data::Entry> entries = data::list_tasks(arguments.where);
  if (context.json) {
    Json all = Json::array();
    for (const data::Entry& entry : entries)
      all.push_back({{"name", entry.name},
                     {"kind", data::to_string(entry.kind)},
                     {"summary", entry.summary},
                     {"found", entry.found},
                     {"place", entry.place}});
    print_json("saddle.data.list/1", {{"data", all}});
    return Exit::ok;
  }
  Table table({"name", "kind", "what it is", "where"}, "llll");
  for (const data::Entry& entry : entries)
    table.add({entry.name, data::to_string(entry.kind), entry.summary, entry.found ? entry.place : dim("not here")});
  print(table.text());
  return Exit::ok;
}

int show(const DataArguments& arguments, const Context& context) {
  if (arguments.samples < 0) throw InvalidArgument("--samples must be 0 or more");
  const data::Task task = data::find_task(arguments.name, arguments.place());
  print(context.json ? data_json(task, arguments.samples) : data_text(task, arguments.samples));
  return Exit::ok;
}

int baseline(const DataArguments& arguments, const Context& context) {
  if (arguments.max_length < 0) throw InvalidArgument("--max-length must be 1 or more");
  if (arguments.limit < 0) throw InvalidArgument("--limit must be 1 or more");
  if (arguments.seed < 0) throw InvalidArgument("--seed must be 0 or more");
  const data::Task task = data::find_task(arguments.name, arguments.place());
  const eval::BaselineOptions options{arguments.max_length, static_cast<std::uint64_t>(arguments.seed),
                                      arguments.limit};
  print(context.json ? baseline_json(task, options) : baseline_text(task, options));
  return Exit::ok;
}

// What is wrong with a file, and how many samples it has if nothing is.
struct Checked {
  std::string file;
  Index samples = 0;
  std::vector<DataError> problems;
};

Checked check_file(const std::string& file, const data::Where& where) {
  Checked checked{file, 0, {}};
  try {
    // A .ts file may do without labels, and says so; in a table they are a column like any other.
    const data::Format format = data::format_of(file, where);
    const auto data =
        data::read_file(file, format, {}, where, nullptr, format == data::Format::table, &checked.problems);
    checked.samples = data->size();
  } catch (const DataError& error) {
    checked.problems.push_back(error);
  }
  return checked;
}

// "3:7: what is wrong", without the name of the file.
std::string place_of(const DataError& error) {
  const std::string message = error.what();
  return message.starts_with(error.file() + ":") ? std::string(message.substr(error.file().size() + 1)) : message;
}

int check(const DataArguments& arguments, const Context& context) {
  bool sound = true;
  Json all = Json::array();
  for (const std::string& file : arguments.files) {
    const Checked checked = check_file(file, arguments.place());
    sound = sound && checked.problems.empty();
    Json problems = Json::array();
    for (const DataError& error : checked.problems)
      problems.push_back(
          {{"line", error.line()}, {"column", error.column()}, {"message", error.what()}, {"hint", error.hint()}});
    all.push_back({{"file", file}, {"samples", checked.samples}, {"problems", problems}});
    if (context.json) continue;
    if (checked.problems.empty()) {
      print(fmt::format("{}  {}: {} samples\n", green("OK"), file, checked.samples));
      continue;
    }
    const std::size_t count = checked.problems.size();
    print(fmt::format("{}  {}: {}{} problem{}\n", red("FAILED"), file, count >= 20 ? "the first " : "", count,
                      count == 1 ? "" : "s"));
    for (const DataError& error : checked.problems) {
      print(wrap(place_of(error), 2));
      if (context.verbose && !error.hint().empty()) print(wrap("hint: " + error.hint(), 6));
    }
  }
  if (context.json) print_json("saddle.data.check/1", {{"files", all}});
  return sound ? Exit::ok : Exit::bad_data;
}

std::map<std::string, std::string> settings_of(const std::vector<std::string>& words) {
  std::map<std::string, std::string> settings;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0)
      throw InvalidArgument(fmt::format("--set: expected option=value, found '{}'", word));
    settings[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return settings;
}

const data::Generator& generator_of(const std::string& name) {
  std::vector<std::string> names;
  for (const data::Generator& generator : data::generators()) {
    if (generator.name == name) return generator;
    names.push_back(generator.name);
  }
  const std::string close = nearest(name, names);
  throw InvalidArgument(fmt::format("nothing generates '{}'", name),
                        close.empty() ? "there is " + join(names) : fmt::format("did you mean '{}'?", close));
}

// The file of a split: beside --out if that is the training file, in it if it is a folder. None if the name of the
// training file does not say so: then only that split is written.
fs::path file_for(const DataArguments& arguments, data::Kind kind, const std::string& split) {
  const fs::path out = arguments.out, own = data::file_name_for(kind, arguments.name, split);
  if (out.extension() != ".ts" && out.extension() != ".tsv" && out.extension() != ".safetensors") return out / own;
  if (out.extension() != own.extension())
    throw InvalidArgument(
        fmt::format("{} cannot be written to a file such as {}", arguments.name, out.filename().string()),
        fmt::format("name a folder, or a file such as {}", own.string()));
  if (split == "train") return out;
  const std::vector<fs::path> names = data::sibling_names(out, split);
  return names.empty() ? fs::path() : names.front();
}

int generate(const DataArguments& arguments, const Context& context) {
  const data::Generator& generator = generator_of(arguments.name);
  const data::Task task = generator.make(settings_of(arguments.settings));
  struct Part {
    std::string split;
    std::function<data::DatasetPtr()> open;
    fs::path file;
  };
  std::vector<Part> parts;
  for (const auto& [split, open] :
       {std::pair{"train", task.train}, {"validation", task.validation}, {"test", task.test}})
    if (open)
      if (const fs::path file = file_for(arguments, generator.kind, split); !file.empty())
        parts.push_back({split, open, file});
  for (const Part& part : parts)
    if (fs::exists(part.file) && !arguments.force)
      throw InvalidArgument(fmt::format("{} exists already", part.file.string()), "name another place, or add --force");
  Json written = Json::array();
  for (const Part& part : parts) {
    if (part.file.has_parent_path()) fs::create_directories(part.file.parent_path());
    const data::DatasetPtr data = part.open();
    data::write_dataset(*data, part.file);
    written.push_back({{"split", part.split}, {"file", part.file.string()}, {"samples", data->size()}});
    if (!context.json) print(fmt::format("{}: {} samples\n", part.file.string(), data->size()));
  }
  if (context.json) print_json("saddle.data.generate/1", {{"name", task.name}, {"files", written}});
  return Exit::ok;
}

}  // namespace

Command data_command() {
  const auto a = std::make_shared<DataArguments>();
  const Option folder{"--data-dir", "FOLDER", "searched first; then $SADDLE_DATA, then ../shared/data",
                      &a->where.folder};
  const std::vector<Option> reading = {
      {"--format",
       "FORMAT",
       "of the file; default: told from its name and first line",
       &a->where.format,
       false,
       {"ts", "csv", "idx", "listops", "bytes", "pairs", "tokens", "image_text"}},
      {"--target", "COLUMN", "with the classes of a CSV table; default the last", &a->where.target},
      {"--series-id", "COLUMN", "of a CSV table: rows with the same value are one series", &a->where.series_id},
      {"--time", "COLUMN", "that orders the rows of a series", &a->where.time},
      {"--leave-out", "COLUMN", "of a CSV table that is not read; may be given again", &a->where.leave_out},
      {"--missing",
       "POLICY",
       "what becomes of missing values; default interpolate",
       &a->missing,
       false,
       {"interpolate", "zero", "refuse"}}};
  const auto with = [](std::vector<Option> first, const std::vector<Option>& more) {
    first.insert(first.end(), more.begin(), more.end());
    return first;
  };
  const Command list_command{
      "list",
      "List the data sets that are known by name, and where they are.",
      {{"what is here", "saddle data list"}, {"in another folder", "saddle data list --data-dir examples/data"}},
      {folder},
      [a](const Context& context) { return list(*a, context); }};
  const Command show_command{
      "show",
      "Show a data set: sizes, classes, missing values, the first samples.",
      {{"time series", "saddle data show examples/data/waves"},
       {"a table", "saddle data show examples/data/flowers.csv --target kind"},
       {"generated ones", "saddle data show 'listops(min=10,max=40,train=100)' --samples 1"},
       {"for scripts", "saddle data show examples/data/waves --samples 0 --json"}},
      with({{"name", "", "a data set of 'saddle data list', a file or a folder", &a->name, true},
            folder,
            {"--test", "FILE", "the test split of a file that has none beside it", &a->where.test},
            {"--samples", "COUNT", "how many to show; default 3", &a->samples}},
           reading),
      [a](const Context& context) { return show(*a, context); }};
  const Command baseline_command{
      "baseline",
      "Show what simple methods without attention reach on the test split: what an accuracy is worth.",
      {{"what little gets you", "saddle data baseline examples/data/waves"},
       {"for scripts", "saddle data baseline examples/data/waves --json"}},
      with({{"name", "", "a data set of 'saddle data list', a file or a folder", &a->name, true},
            folder,
            {"--test", "FILE", "the test split of a file that has none beside it", &a->where.test},
            {"--max-length", "COUNT", "steps or tokens at which samples are cut; default as in training",
             &a->max_length},
            {"--limit", "COUNT", "fit on at most so many training samples, of all classes alike; default all",
             &a->limit},
            {"--seed", "NUMBER", "of random kernels and samples held out; default 0", &a->seed}},
           reading),
      [a](const Context& context) { return baseline(*a, context); }};
  const Command check_command{
      "check",
      "Check data files strictly and name every problem, up to 20 a file, with line and column. Exit code 3: some file "
      "is wrong.",
      {{"are they sound?", "saddle data check examples/data/waves/waves_TRAIN.ts examples/data/flowers.csv"}},
      with({{"file", "", "files of any format, also gzip", &a->files, true}}, reading),
      [a](const Context& context) { return check(*a, context); }};
  const Command generate_command{
      "generate",
      "Write a generated data set: series as .ts, tokens as .tsv. --out is a folder, or the file of the training "
      "split.",
      {{"into a folder",
        "saddle data generate listops --out lists --set min=10 --set max=40 --set train=100 --set test=20"},
       {"and look at it", "saddle data show lists --samples 1"}},
      {{"name", "", "the generator, see 'saddle data list'", &a->name, true},
       {"--out", "PLACE", "folder, or file that ends in .ts or .tsv", &a->out, true},
       {"--set", "OPTION=VALUE", "an option of the generator; may be given again", &a->settings},
       {"--force", "", "write over files that exist", &a->force}},
      [a](const Context& context) { return generate(*a, context); }};
  return {"data",
          "Data sets: what there is, what is in them, what simple methods reach, whether files are sound, made ones as "
          "files.",
          {{"what there is", "saddle data list"}, {"what is in it", "saddle data show examples/data/waves"}},
          {},
          nullptr,
          {list_command, show_command, baseline_command, check_command, generate_command}};
}

}  // namespace saddle::cli

#include "saddle/experiment/experiment.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/experiment/experiment_files_internal.hpp"
#include "saddle/mechanisms/registry.hpp"
#include "saddle/report/checked_json_internal.hpp"
#include "saddle/run/layers.hpp"
#include "saddle/run/settings.hpp"
#include "saddle/run/toml_internal.hpp"

namespace saddle::experiment {

namespace {

// A document being read: every error says where.
class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  [[noreturn]] void fail(const toml::node& at, const std::string& message, const std::string& hint = "") const {
    const auto& begin = at.source().begin;
    throw DataError(file_, static_cast<long>(begin.line), static_cast<long>(begin.column), message, hint);
  }

  // Refuses keys that nobody reads.
  void only(const toml::table& table, const std::vector<std::string>& keys) const {
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (std::ranges::find(keys, name) != keys.end()) continue;
      const std::string close = nearest(name, keys);
      fail(node, fmt::format("there is no key '{}' here", name),
           close.empty() ? fmt::format("there are {}", join(keys)) : fmt::format("did you mean '{}'?", close));
    }
  }

  const toml::node& need(const toml::table& table, const std::string& key) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) fail(table, fmt::format("'{}' is missing", key));
    return *node;
  }

  std::string text(const toml::node& node, const std::string& key) const {
    const auto* value = node.as_string();
    if (value == nullptr) fail(node, fmt::format("'{}' must be a text", key));
    return value->get();
  }

  // Texts; numbers count as what is written.
  std::vector<std::string> texts(const toml::table& table, const std::string& key, bool required = true) const {
    std::vector<std::string> list;
    if (table.get(key) == nullptr && !required) return list;
    const toml::node& node = need(table, key);
    const toml::array* items = node.as_array();
    if (items == nullptr || (items->empty() && required)) fail(node, fmt::format("'{}' must be a list", key));
    for (const toml::node& item : *items) {
      if (const auto number = item.value<double>(); number && !item.is_string()) {
        list.push_back(format_number(*number));
      } else {
        list.push_back(text(item, key));
      }
    }
    return list;
  }

  Settings settings(const toml::table& table, const std::string& key) const {
    Settings list;
    const toml::node* node = table.get(key);
    if (node == nullptr) return list;
    if (!node->is_table()) fail(*node, fmt::format("'{}' must be a table of settings of saddle train", key));
    // Written out as a document of its own, whose tables stand in no line.
    toml::table document = *node->as_table();
    document.is_inline(false);
    for (auto&& [name, each] : document)
      if (each.is_table()) each.as_table()->is_inline(false);
    std::ostringstream written;
    written << document;
    try {
      for (const run::Given& given : run::parse_settings(written.str(), file_))
        list.emplace_back(given.key, given.value);
    } catch (const DataError& error) {
      fail(*node, error.what(), error.hint());
    }
    return list;
  }

 private:
  std::string file_;
};

Section section_of(const Reader& reader, const toml::node& node, const std::string& name) {
  static const std::vector<std::pair<std::string, Section>> names{{"accuracy", Section::accuracy},
                                                                  {"choice", Section::choice},
                                                                  {"distance", Section::distance},
                                                                  {"cost", Section::cost},
                                                                  {"sweep", Section::sweep}};
  std::vector<std::string> known;
  for (const auto& [word, section] : names) {
    if (word == name) return section;
    known.push_back(word);
  }
  reader.fail(node, fmt::format("there is no section '{}'", name), fmt::format("there are {}", join(known)));
}

// `of = "uea/d64"`: the runs of another experiment, or some of them.
Part other_part(const Reader& reader, const toml::table& table) {
  const std::string name = reader.text(*table.get("of"), "of");
  const auto slash = name.find('/');
  for (const Part& part : find_experiment(name.substr(0, slash)).parts)
    if (slash != std::string::npos && part.name == name.substr(slash + 1)) return part;
  reader.fail(*table.get("of"), fmt::format("there is no part '{}'", name), "write experiment/part");
}

// Some of the list, or all when nothing is said.
void take(const Reader& reader, const toml::table& table, const std::string& key, std::vector<std::string>& list) {
  if (!table.contains(key)) return;
  const std::vector<std::string> wanted = reader.texts(table, key);
  for (const std::string& each : wanted)
    if (std::ranges::find(list, each) == list.end())
      reader.fail(*table.get(key), fmt::format("'{}' is not among {}", each, join(list)));
  list = wanted;
}

void check_attentions(const Reader& reader, const toml::table& table, const Part& part) {
  for (const std::string& attention : part.attentions) {
    if (attention.find('*') != std::string::npos && part.choices.empty())
      reader.fail(table, fmt::format("'{}' stands for a choice, but there are no 'choices'", attention));
    for (const std::string& value : part.choices.empty() ? std::vector<std::string>{""} : part.choices) {
      try {
        for (const std::string& layer : run::layers_of(with_choice(attention, value))) mechanisms::canonical(layer);
      } catch (const Error& error) {
        reader.fail(table, error.what(), error.hint());
      }
    }
  }
}

// A list of values, or the name of a part above, whose choice holds here too.
void read_choices(const Reader& reader, const toml::table& table, const std::vector<Part>& above, Part& part) {
  const toml::node* node = table.get("choices");
  if (node == nullptr || !node->is_string()) {
    part.choices = reader.texts(table, "choices", false);
    return;
  }
  const std::string name = reader.text(*node, "choices");
  std::vector<std::string> names;
  for (const Part& other : above) {
    names.push_back(other.name);
    if (other.name != name) continue;
    part.chooser = std::make_shared<const Part>(chooser_of(other));
    part.choices = part.chooser->choices;
    return;
  }
  reader.fail(*node, fmt::format("'choices' must be a list, or the name of a part above, found '{}'", name),
              names.empty() ? "there is none above" : fmt::format("there are {}", join(names)));
}

void read_seeds(const Reader& reader, const toml::table& table, Part& part) {
  if (const toml::node* node = table.get("seeds")) {
    part.seeds = node->value<std::int64_t>().value_or(0);
    if (part.seeds < 1) reader.fail(*node, "'seeds' must be a whole number, at least 1");
  }
}

Part part_of(const Reader& reader, const toml::table& table, const std::string& experiment,
             const std::vector<Part>& above) {
  if (table.contains("of")) {
    reader.only(table, {"of", "name", "title", "data", "attentions", "protocols", "seeds"});
    // Other attentions may join: their runs stand beside those that exist.
    Part part = other_part(reader, table);
    if (const toml::node* node = table.get("name")) part.name = reader.text(*node, "name");
    if (const toml::node* node = table.get("title")) part.title = reader.text(*node, "title");
    take(reader, table, "data", part.data);
    if (table.contains("attentions")) part.attentions = reader.texts(table, "attentions");
    take(reader, table, "protocols", part.protocols);
    read_seeds(reader, table, part);
    check_attentions(reader, table, part);
    return part;
  }
  reader.only(table, {"name", "title", "data", "attentions", "choices", "protocols", "seeds", "settings", "paper"});
  Part part;
  part.name = reader.text(reader.need(table, "name"), "name");
  part.folder = experiment + "/" + part.name;
  part.title = reader.text(reader.need(table, "title"), "title");
  part.data = reader.texts(table, "data");
  part.attentions = reader.texts(table, "attentions");
  read_choices(reader, table, above, part);
  part.protocols = reader.texts(table, "protocols", false);
  if (part.protocols.empty()) part.protocols = {"honest"};
  for (const std::string& protocol : part.protocols)
    if (protocol != "honest" && protocol != "paper")
      reader.fail(*table.get("protocols"), fmt::format("there is no protocol '{}'", protocol),
                  "there are honest and paper");
  read_seeds(reader, table, part);
  part.settings = reader.settings(table, "settings");
  part.paper_settings = reader.settings(table, "paper");
  if (std::ranges::none_of(
          part.settings, [](const auto& each) { return each.first == "train.epochs" || each.first == "train.steps"; }))
    reader.fail(table, "'settings' must give train.epochs or train.steps", "a budget of time cuts them");
  check_attentions(reader, table, part);
  return part;
}

}  // namespace

const Part& chooser_of(const Part& part) { return part.chooser ? *part.chooser : part; }

std::string with_choice(std::string attention, const std::string& value) {
  for (std::size_t at = attention.find('*'); at != std::string::npos; at = attention.find('*', at + value.size()))
    attention.replace(at, 1, value);
  return attention;
}

Experiment read_experiment(const std::string& text, const std::string& file) {
  const toml::table document = run::parse_toml(text, file);
  const Reader reader(file);
  reader.only(document, {"title", "question", "remarks", "sections", "part", "published"});
  Experiment experiment;
  experiment.name = std::filesystem::path(file).stem().string();
  experiment.title = reader.text(reader.need(document, "title"), "title");
  experiment.question = reader.text(reader.need(document, "question"), "question");
  experiment.remarks = reader.texts(document, "remarks", false);
  for (const std::string& name : reader.texts(document, "sections"))
    experiment.sections.push_back(section_of(reader, *document.get("sections"), name));
  const toml::array* parts = reader.need(document, "part").as_array();
  if (parts == nullptr) reader.fail(*document.get("part"), "parts are written as [[part]]");
  std::set<std::string> names;
  for (const toml::node& node : *parts) {
    if (!node.is_table()) reader.fail(node, "a part is a table");
    experiment.parts.push_back(part_of(reader, *node.as_table(), experiment.name, experiment.parts));
    if (!names.insert(experiment.parts.back().name).second)
      reader.fail(node, fmt::format("there are two parts '{}'", experiment.parts.back().name));
  }
  if (const toml::node* node = document.get("published")) {
    const toml::array* list = node->as_array();
    if (list == nullptr) reader.fail(*node, "published figures are written as [[published]]");
    for (const toml::node& item : *list) {
      if (!item.is_table()) reader.fail(item, "published figures are tables");
      const toml::table& table = *item.as_table();
      reader.only(table, {"name", "attention", "source", "accuracy"});
      const toml::table* figures = reader.need(table, "accuracy").as_table();
      if (figures == nullptr) reader.fail(*table.get("accuracy"), "'accuracy' is a table: data set = per cent");
      for (const auto& [data, value] : *figures) {
        const auto number = value.value<double>();
        if (!number) reader.fail(value, "an accuracy is a number, in per cent");
        experiment.published.push_back(
            {std::string(data.str()), reader.text(reader.need(table, "name"), "name"),
             table.contains("attention") ? reader.text(*table.get("attention"), "attention") : "", *number,
             reader.text(reader.need(table, "source"), "source")});
      }
    }
  }
  return experiment;
}

std::vector<std::string> experiment_names() {
  std::vector<std::string> names;
  for (const ExperimentFile& file : experiment_files()) names.push_back(file.name);
  return names;
}

Experiment find_experiment(const std::string& name_or_file) {
  for (const ExperimentFile& file : experiment_files())
    if (file.name == name_or_file) return read_experiment(file.text, "configs/" + file.name + ".toml");
  if (name_or_file.ends_with(".toml")) return read_experiment(report::read_text(name_or_file), name_or_file);
  const std::string close = nearest(name_or_file, experiment_names());
  throw InvalidArgument(fmt::format("there is no experiment '{}'", name_or_file),
                        close.empty() ? fmt::format("there are {}; a file ends in .toml", join(experiment_names()))
                                      : fmt::format("did you mean '{}'?", close));
}

}  // namespace saddle::experiment

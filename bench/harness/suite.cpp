#include "suite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "reader.hpp"
#include "saddle/base/text.hpp"

namespace saddle::bench {

namespace {

// Reads one document.
class SuiteReader : private Reader {
 public:
  SuiteReader(const std::string& file, int default_threads) : Reader(file), default_threads_(default_threads) {}

  Suite read(std::string_view text) {
    const toml::table document = parse(text);
    require_keys(document, {"summary", "row", "model", "graph"}, "suite");
    Suite suite{file(), string(document, "summary", ""), {}, {}, {}};
    for (const std::string kind : {"row", "model", "graph"}) {
      const toml::node* list = document.get(kind);
      if (list == nullptr) continue;
      if (list->as_array() == nullptr) fail(*list, fmt::format("expected [[{}]]", kind));
      for (const toml::node& node : *list->as_array()) {
        const toml::table& own = table(node, kind.c_str());
        kind == "row" ? read_row(own, suite) : kind == "model" ? read_model(own, suite) : read_graph(own, suite);
      }
    }
    if (suite.size() == 0) fail(document, "expected at least one [[row]], [[model]] or [[graph]]");
    return suite;
  }

 private:
  const toml::node& required_shape(const toml::table& table, const char* what) const {
    if (table.get("shape") == nullptr) fail(table, fmt::format("a {} needs a 'shape'", what));
    return *table.get("shape");
  }

  // The rows of a table: every combination of its lists. What it does not say is taken from `base`.
  std::vector<Row> rows(const toml::table& table, const Row& base) const {
    const auto attentions = strings(table, "attention", {base.attention});
    const auto dtypes = strings(table, "dtype", {std::string(saddle::to_string(base.dtype))});
    const auto passes = strings(table, "pass", {to_string(base.pass)});
    const auto layouts = strings(table, "layout", {to_string(base.layout)});
    std::vector<Dims> all_dims{base.dims};
    if (const toml::node* node = table.get("shape"))
      all_dims = shapes(*node, [](const std::vector<Index>& numbers) { return dims_of(numbers, "shape"); });
    std::vector<Row> list;
    for (const Dims& dims : all_dims)
      for (const std::string& attention : attentions)
        for (const std::string& dtype : dtypes)
          for (const std::string& pass : passes)
            for (const std::string& layout : layouts)
              for (int count : threads(table, {base.threads})) {
                about(table, [&] {
                  const Row row{attention, dims, parse_dtype(dtype), parse_pass(pass), parse_layout(layout), count};
                  validate(row);
                  list.push_back(row);
                });
              }
    return list;
  }

  Row other_row(const toml::node& node, const Row& row) const {
    const toml::table* table = node.as_table();
    if (table == nullptr) fail(node, "expected a table that says in what the other row differs");
    require_keys(*table, {"attention", "shape", "dtype", "pass", "layout", "threads"}, "row");
    const std::vector<Row> list = rows(*table, row);
    if (list.size() != 1) fail(node, "expected one other row, not a list");
    return list.front();
  }

  // at_least, at_most, or near and within.
  void read_bound(const toml::table& table, Bar& bar) const {
    int bounds = 0;
    for (const auto& [key, slot] :
         {std::pair{"at_least", &bar.at_least}, {"at_most", &bar.at_most}, {"near", &bar.near}})
      if (const toml::node* value = table.get(key)) *slot = number(*value, key), ++bounds;
    if (bounds != 1) fail(table, "a bar has one of at_least, at_most, near");
    if (const toml::node* within = table.get("within")) bar.within = number(*within, "within");
    if (bar.near.has_value() != (bar.within > 0)) fail(table, "'near' and 'within' go together");
  }

  Bar read_bar(const toml::table& table, const Row& row) const {
    require_keys(table, {"share_of", "speed_over", "time_over", "memory", "at_least", "at_most", "near", "within"},
                 "bar");
    Bar bar;
    int kinds = 0;
    if (const toml::node* share = table.get("share_of")) {
      bar.of = string(table, "share_of", "");
      if (bar.of != "fma" && bar.of != "amx") fail(*share, "'share_of' must be \"fma\" or \"amx\"");
      ++kinds;
    }
    if (const toml::node* speed = table.get("speed_over")) {
      bar.kind = speed->is_string() ? Bar::Kind::peer : Bar::Kind::faster;
      if (speed->is_string()) {
        bar.of = string(table, "speed_over", "");
        require_word(*speed, bar.of, peer_names(), "peer");
      } else {
        bar.other = other_row(*speed, row);
      }
      ++kinds;
    }
    if (const toml::node* time = table.get("time_over")) {
      bar.kind = Bar::Kind::slower;
      bar.other = other_row(*time, row);
      ++kinds;
    }
    if (const toml::node* memory = table.get("memory")) {
      bar.kind = Bar::Kind::memory;
      if (memory->value<bool>() != true) fail(*memory, "'memory' must be true");
      ++kinds;
    }
    if (kinds != 1) fail(table, "a bar has one of share_of, speed_over, time_over, memory");
    read_bound(table, bar);
    return bar;
  }

  Bar read_graph_bar(const toml::table& table) const {
    require_keys(table, {"speed_over", "at_least", "at_most", "near", "within"}, "bar");
    Bar bar;
    bar.kind = Bar::Kind::peer;
    bar.of = string(table, "speed_over", "");
    if (bar.of.empty()) fail(table, "a bar of a graph has speed_over");
    require_word(*table.get("speed_over"), bar.of, {"numpy"}, "peer");
    read_bound(table, bar);
    return bar;
  }

  Bar read_model_bar(const toml::table& table) const {
    require_keys(table, {"speed_over", "memory_of", "at_least", "at_most", "near", "within"}, "bar");
    Bar bar;
    int kinds = 0;
    for (const auto& [key, kind] : {std::pair{"speed_over", Bar::Kind::peer}, {"memory_of", Bar::Kind::peer_memory}})
      if (const toml::node* peer = table.get(key)) {
        bar.kind = kind;
        bar.of = string(table, key, "");
        require_word(*peer, bar.of, {"torch"}, "peer");
        ++kinds;
      }
    if (kinds != 1) fail(table, "a bar of a model has one of speed_over, memory_of");
    read_bound(table, bar);
    return bar;
  }

  template <class Read>
  std::vector<Bar> read_bars(const toml::table& row, Read&& read) const {
    std::vector<Bar> list;
    const toml::node* bars = row.get("bars");
    if (bars == nullptr) return list;
    if (bars->as_array() == nullptr) fail(*bars, "'bars' must be a list");
    for (const toml::node& bar : *bars->as_array()) list.push_back(read(table(bar, "bar")));
    return list;
  }

  void read_row(const toml::table& table, Suite& suite) const {
    require_keys(table, {"work", "attention", "shape", "dtype", "pass", "layout", "threads", "peers", "bars", "once"},
                 "row");
    required_shape(table, "row");
    Row base;
    base.threads = default_threads_;
    std::vector<std::string> peers;
    if (const toml::node* node = table.get("peers"))
      for (const std::string& peer : peers = strings(table, "peers", {}))
        require_word(*node, peer, peer_names(), "peer");
    bool once = false;
    if (const toml::node* node = table.get("once")) {
      if (!node->is_boolean()) fail(*node, "'once' must be true or false");
      once = *node->value<bool>();
    }
    for (const Row& row : rows(table, base))
      suite.entries.push_back({row, string(table, "work", ""), peers,
                               read_bars(table, [&](const toml::table& bar) { return read_bar(bar, row); }), once});
  }

  void read_model(const toml::table& table, Suite& suite) const {
    require_keys(table, {"work", "shape", "dtype", "threads", "bars"}, "model");
    const auto bars = read_bars(table, [&](const toml::table& bar) { return read_model_bar(bar); });
    const toml::node* dtype_node = table.get("dtype");
    const auto dtypes = strings(table, "dtype", {"f32"});
    for (ModelRow row : shapes(required_shape(table, "model"), model_of))
      for (const std::string& dtype : dtypes)
        for (int count : threads(table, {default_threads_})) {
          row.dtype = about(dtype_node != nullptr ? *dtype_node : table, [&] { return parse_model_dtype(dtype); });
          row.threads = count;
          ModelEntry entry;
          entry.row = row;
          entry.work = string(table, "work", "model");
          entry.bars = bars;
          suite.models.push_back(std::move(entry));
        }
  }

  void read_graph(const toml::table& table, Suite& suite) const {
    require_keys(table, {"work", "variables", "neighbours", "samples", "alpha", "threads", "bars"}, "graph");
    GraphEntry entry;
    const auto whole = [&](const char* key, Index fallback) {
      const toml::node* node = table.get(key);
      if (node == nullptr) return fallback;
      if (!node->is_integer()) fail(*node, fmt::format("'{}' must be a whole number", key));
      return static_cast<Index>(*node->value<std::int64_t>());
    };
    entry.row.variables = whole("variables", entry.row.variables);
    entry.row.neighbours = whole("neighbours", entry.row.neighbours);
    entry.row.samples = whole("samples", entry.row.samples);
    if (const toml::node* alpha = table.get("alpha")) entry.row.alpha = number(*alpha, "alpha");
    entry.work = string(table, "work", "graph");
    entry.bars = read_bars(table, [&](const toml::table& bar) { return read_graph_bar(bar); });
    about(table, [&] { validate(entry.row); });
    for (const int count : threads(table, {default_threads_})) {
      entry.row.threads = count;
      suite.graphs.push_back(entry);
    }
  }

  int default_threads_;
};

}  // namespace

Suite parse_suite(std::string_view text, const std::string& name, int default_threads) {
  return SuiteReader(name, default_threads).read(text);
}

Suite load_suite(const std::string& name, int default_threads) {
  const auto& known = builtin_suites();
  if (const auto found = known.find(name); found != known.end())
    return parse_suite(found->second, name, default_threads);
  if (!name.ends_with(".toml")) {
    std::vector<std::string> names;
    for (const auto& [suite, text] : known) names.push_back(suite);
    const std::string close = nearest(name, names);
    throw InvalidArgument(
        fmt::format("unknown suite '{}', expected {} or a file that ends in .toml", name, join(names)),
        close.empty() ? "'saddle bench --list' shows them" : fmt::format("did you mean '{}'?", close));
  }
  std::ifstream in(name, std::ios::binary);
  if (!in) throw IoError(fmt::format("cannot read the suite {}", name));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return parse_suite(text, name, default_threads);
}

const std::vector<std::string>& peer_names() {
  static const std::vector<std::string> names{"torch",       "torch-mha",           "onednn",
                                              "onnxruntime", "onnxruntime-unfused", "numpy"};
  return names;
}

}  // namespace saddle::bench

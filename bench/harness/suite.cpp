#include "suite.hpp"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>

#include "saddle/base/cpu.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::bench {

namespace {

// Reads one document; every error names its place.
class Reader {
 public:
  Reader(std::string file, int default_threads) : file_(std::move(file)), default_threads_(default_threads) {}

  Suite read(std::string_view text) {
    const toml::table document = parse(text);
    require_keys(document, {"summary", "row"}, "suite");
    Suite suite{file_, string(document, "summary", ""), {}};
    const toml::node* rows = document.get("row");
    if (rows == nullptr || rows->as_array() == nullptr || rows->as_array()->empty())
      fail(document, "expected at least one [[row]]");
    for (const toml::node& node : *rows->as_array()) {
      const toml::table* table = node.as_table();
      if (table == nullptr) fail(node, "a row must be a table");
      read_row(*table, suite);
    }
    return suite;
  }

 private:
  [[noreturn]] void fail(const toml::node& at, const std::string& message, const std::string& hint = {}) const {
    throw DataError(file_, at.source().begin.line, at.source().begin.column, message, hint);
  }

  toml::table parse(std::string_view text) const {
    try {
      return toml::parse(text);
    } catch (const toml::parse_error& error) {
      throw DataError(file_, error.source().begin.line, error.source().begin.column, std::string(error.description()));
    }
  }

  void require_keys(const toml::table& table, std::vector<std::string> known, const char* what) const {
    for (const auto& [key, value] : table) {
      const std::string name(key.str());
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      const std::string close = nearest(name, known);
      fail(value, fmt::format("unknown key '{}' of a {}, expected {}", name, what, join(known, ", ")),
           close.empty() ? "" : fmt::format("did you mean '{}'?", close));
    }
  }

  std::string string(const toml::table& table, std::string_view key, const std::string& fallback) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) return fallback;
    if (!node->is_string()) fail(*node, fmt::format("'{}' must be a string", key));
    return *node->value<std::string>();
  }

  double number(const toml::node& node, std::string_view key) const {
    const auto value = node.value<double>();
    if (!node.is_number() || !value || !std::isfinite(*value)) fail(node, fmt::format("'{}' must be a number", key));
    return *value;
  }

  std::vector<std::string> strings(const toml::table& table, std::string_view key,
                                   std::vector<std::string> fallback) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) return fallback;
    std::vector<std::string> list;
    const auto add = [&](const toml::node& item) {
      if (!item.is_string()) fail(item, fmt::format("'{}' must be a string or a list of strings", key));
      list.push_back(*item.value<std::string>());
    };
    if (const toml::array* array = node->as_array()) {
      for (const toml::node& item : *array) add(item);
    } else {
      add(*node);
    }
    return list;
  }

  std::vector<Index> integers(const toml::node& node, std::string_view key) const {
    std::vector<Index> list;
    const auto add = [&](const toml::node& item) {
      if (!item.is_integer()) fail(item, fmt::format("'{}' must hold whole numbers", key));
      list.push_back(*item.value<Index>());
    };
    if (const toml::array* array = node.as_array()) {
      for (const toml::node& item : *array) add(item);
    } else {
      add(node);
    }
    return list;
  }

  // Runs an action whose errors are about this node.
  template <class Action>
  auto about(const toml::node& node, Action&& action) const {
    try {
      return action();
    } catch (const InvalidArgument& error) {
      fail(node, error.what(), error.hint());
    }
  }

  std::vector<Dims> shapes(const toml::table& table, std::vector<Dims> fallback) const {
    const toml::node* node = table.get("shape");
    if (node == nullptr) return fallback;
    const toml::array* array = node->as_array();
    if (array == nullptr || array->empty()) fail(*node, "'shape' must be a list of numbers, or a list of such lists");
    std::vector<Dims> list;
    const auto add = [&](const toml::node& one) {
      list.push_back(about(one, [&] { return dims_of(integers(one, "shape"), "shape"); }));
    };
    if (array->front().is_array()) {
      for (const toml::node& one : *array) add(one);
    } else {
      add(*node);
    }
    return list;
  }

  std::vector<int> threads(const toml::table& table, std::vector<int> fallback) const {
    const toml::node* node = table.get("threads");
    if (node == nullptr) return fallback;
    std::vector<int> list;
    for (Index count : integers(*node, "threads")) {
      if (count < 0 || count > 1024)
        fail(*node, fmt::format("'threads' must be 0 (all cores) to 1024, found {}", count));
      list.push_back(count == 0 ? cpu().cores : static_cast<int>(count));
    }
    return list;
  }

  // The rows of a table: every combination of its lists. What it does not say is taken from `base`.
  std::vector<Row> rows(const toml::table& table, const Row& base, bool needs_shape) const {
    if (needs_shape && table.get("shape") == nullptr) fail(table, "a row needs a 'shape'");
    const auto attentions = strings(table, "attention", {base.attention});
    const auto dtypes = strings(table, "dtype", {std::string(saddle::to_string(base.dtype))});
    const auto passes = strings(table, "pass", {to_string(base.pass)});
    const auto layouts = strings(table, "layout", {to_string(base.layout)});
    std::vector<Row> list;
    for (const Dims& dims : shapes(table, {base.dims}))
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

  void require_peer(const toml::node& node, const std::string& name) const {
    const auto& known = peer_names();
    if (std::find(known.begin(), known.end(), name) != known.end()) return;
    const std::string close = nearest(name, known);
    fail(node, fmt::format("unknown peer '{}', expected {}", name, join(known, ", ")),
         close.empty() ? "" : fmt::format("did you mean '{}'?", close));
  }

  Row other_row(const toml::node& node, const Row& row) const {
    const toml::table* table = node.as_table();
    if (table == nullptr) fail(node, "expected a table that says in what the other row differs");
    require_keys(*table, {"attention", "shape", "dtype", "pass", "layout", "threads"}, "row");
    const std::vector<Row> list = rows(*table, row, false);
    if (list.size() != 1) fail(node, "expected one other row, not a list");
    return list.front();
  }

  Bar read_bar(const toml::node& node, const Row& row) const {
    const toml::table* found = node.as_table();
    if (found == nullptr) fail(node, "a bar must be a table");
    const toml::table& table = *found;
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
        require_peer(*speed, bar.of);
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
    if (kinds != 1) fail(node, "a bar has one of share_of, speed_over, time_over, memory");
    int limits = 0;
    for (const auto& [key, slot] :
         {std::pair{"at_least", &bar.at_least}, {"at_most", &bar.at_most}, {"near", &bar.near}})
      if (const toml::node* value = table.get(key)) *slot = number(*value, key), ++limits;
    if (limits != 1) fail(node, "a bar has one of at_least, at_most, near");
    if (const toml::node* within = table.get("within")) bar.within = number(*within, "within");
    if (bar.near.has_value() != (bar.within > 0)) fail(node, "'near' and 'within' go together");
    return bar;
  }

  void read_row(const toml::table& table, Suite& suite) const {
    require_keys(table, {"work", "attention", "shape", "dtype", "pass", "layout", "threads", "peers", "bars", "once"},
                 "row");
    Row base;
    base.threads = default_threads_;
    std::vector<std::string> peers;
    if (const toml::node* node = table.get("peers"))
      for (const std::string& peer : peers = strings(table, "peers", {})) require_peer(*node, peer);
    bool once = false;
    if (const toml::node* node = table.get("once")) {
      if (!node->is_boolean()) fail(*node, "'once' must be true or false");
      once = *node->value<bool>();
    }
    for (const Row& row : rows(table, base, true)) {
      Entry entry{row, string(table, "work", ""), peers, {}, once};
      if (const toml::node* bars = table.get("bars")) {
        if (bars->as_array() == nullptr) fail(*bars, "'bars' must be a list");
        for (const toml::node& bar : *bars->as_array()) entry.bars.push_back(read_bar(bar, row));
      }
      suite.entries.push_back(std::move(entry));
    }
  }

  std::string file_;
  int default_threads_;
};

}  // namespace

bool Bar::reached(double value) const {
  if (at_least) return value >= *at_least;
  if (at_most) return value <= *at_most;
  return std::fabs(value - near.value_or(0)) <= within * std::fabs(near.value_or(0));
}

Suite parse_suite(std::string_view text, const std::string& name, int default_threads) {
  return Reader(name, default_threads).read(text);
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
  static const std::vector<std::string> names{"torch", "torch-mha", "onednn", "onnxruntime", "onnxruntime-unfused"};
  return names;
}

namespace {

// In what another row differs from this one.
std::string difference(const Row& other, const Row& row) {
  std::vector<std::string> words;
  if (other.attention != row.attention) words.push_back(other.attention);
  if (other.dims != row.dims) words.push_back(shape_text(other.dims));
  if (other.dtype != row.dtype) words.emplace_back(saddle::to_string(other.dtype));
  if (other.pass != row.pass) words.push_back(to_string(other.pass));
  if (other.layout != row.layout) words.push_back(to_string(other.layout));
  if (other.threads != row.threads)
    words.push_back(fmt::format("{} thread{}", other.threads, other.threads == 1 ? "" : "s"));
  return words.empty() ? "itself" : join(words, " ");
}

std::string subject(const Bar& bar, const Row& row) {
  switch (bar.kind) {
    case Bar::Kind::share: return bar.of == "amx" ? "AMX ceiling" : "FMA peak";
    case Bar::Kind::peer: return bar.of;
    case Bar::Kind::memory: return "extra memory";
    case Bar::Kind::faster:
    case Bar::Kind::slower: break;
  }
  return difference(bar.other, row);
}

}  // namespace

std::string value_text(const Bar& bar, double value) {
  switch (bar.kind) {
    case Bar::Kind::share: return fmt::format("{:.1f} %", 100 * value);
    case Bar::Kind::memory: return fmt::format("{:.1f} MB", value * 1e-6);
    case Bar::Kind::peer:
    case Bar::Kind::faster: return fmt::format("{:.2f}x", value);
    case Bar::Kind::slower: break;
  }
  return fmt::format("{:.3f}", value);
}

std::string bar_text(const Bar& bar, const Row& row) {
  const std::string of = subject(bar, row);
  const double target = bar.at_least ? *bar.at_least : bar.at_most ? *bar.at_most : bar.near.value_or(0);
  const std::string side = bar.at_most ? "at most " : "";
  const std::string range = bar.near ? fmt::format(" within {:.0f} %", 100 * bar.within) : "";
  switch (bar.kind) {
    case Bar::Kind::share: return fmt::format("{}{:.0f} %{} of {}", side, 100 * target, range, of);
    case Bar::Kind::memory: return fmt::format("{} {}{:.0f} MB{}", of, side, target * 1e-6, range);
    case Bar::Kind::peer:
    case Bar::Kind::faster: return fmt::format("{}{:.1f}x{} {}", side, target, range, of);
    case Bar::Kind::slower: break;
  }
  return fmt::format("time {}{:g}{} of {}", side, target, range, of);
}

}  // namespace saddle::bench

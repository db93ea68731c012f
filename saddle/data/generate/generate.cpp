#include "saddle/data/generate/generate.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/data/generate/fuzzy_logic.hpp"
#include "saddle/data/generate/listops.hpp"
#include "saddle/data/generate/multiscale.hpp"
#include "saddle/data/generate/pathfinder.hpp"
#include "saddle/data/generate/poker.hpp"
#include "saddle/data/generate/shapes_text.hpp"
#include "saddle/data/generate/sraven.hpp"

namespace saddle::data {

namespace {

std::string name_in(const std::string& text) { return text.substr(0, text.find('(')); }

const Generator* find(const std::string& name) {
  for (const Generator& generator : generators())
    if (generator.name == name) return &generator;
  return nullptr;
}

// "min=20, max=100" to its pairs.
std::map<std::string, std::string> pairs_of(const std::string& inside, const std::string& text) {
  std::map<std::string, std::string> pairs;
  const auto stripped = [](const std::string& piece) {
    const auto first = piece.find_first_not_of(' ');
    return first == std::string::npos ? "" : piece.substr(first, piece.find_last_not_of(' ') - first + 1);
  };
  if (stripped(inside).empty()) return pairs;
  for (std::size_t at = 0; at <= inside.size();) {
    const std::size_t end = std::min(inside.find(',', at), inside.size());
    const std::string piece = stripped(inside.substr(at, end - at));
    const auto equals = piece.find('=');
    if (equals == std::string::npos)
      throw InvalidArgument(fmt::format("'{}': expected option=value, found '{}'", text, piece));
    const std::string name = stripped(piece.substr(0, equals));
    if (!pairs.emplace(name, stripped(piece.substr(equals + 1))).second)
      throw InvalidArgument(fmt::format("'{}': {} is given twice", text, name));
    at = end + 1;
  }
  return pairs;
}

}  // namespace

const std::vector<Generator>& generators() {
  static const std::vector<Generator> list{
      fuzzy_logic_generator(),       listops_generator(), multiscale_generator(),  pathfinder_generator(),
      pathfinder_pixels_generator(), poker_generator(),   shapes_text_generator(), sraven_generator()};
  return list;
}

bool is_generated(const std::string& text) {
  return find(name_in(text)) != nullptr && (text.find('(') == std::string::npos || text.ends_with(")"));
}

Task generated(const std::string& text) {
  const std::string name = name_in(text);
  const Generator* generator = find(name);
  if (generator == nullptr) {
    std::vector<std::string> names;
    for (const Generator& known : generators()) names.push_back(known.name);
    const std::string close = nearest(name, names);
    throw InvalidArgument(fmt::format("there is no generator '{}', expected {}", name, join(names)),
                          close.empty() ? "" : fmt::format("did you mean '{}'?", close));
  }
  if (name == text) return generator->make({});
  if (!text.ends_with(")"))
    throw InvalidArgument(fmt::format("'{}': the bracket is not closed", text),
                          "write name(option=value,option=value)");
  return generator->make(pairs_of(text.substr(name.size() + 1, text.size() - name.size() - 2), text));
}

}  // namespace saddle::data

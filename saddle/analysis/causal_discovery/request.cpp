#include "saddle/analysis/causal_discovery/request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "saddle/analysis/causal_discovery/correlation.hpp"
#include "saddle/analysis/causal_discovery/output.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

constexpr std::array<std::string_view, 3> algorithms{"pc", "fci", "icd"}, tests{"auto", "fisher_z", "chi_square"};

template <class Choice>
Choice parse(const std::array<std::string_view, 3>& names, std::string_view name, const char* what) {
  std::string plain(name);
  std::replace(plain.begin(), plain.end(), '-', '_');
  const auto found = std::find(names.begin(), names.end(), plain);
  if (found != names.end()) return static_cast<Choice>(found - names.begin());
  const std::string close = nearest(plain, names);
  throw InvalidArgument(fmt::format("unknown {} '{}', known are {}", what, name, join(names)),
                        close.empty() ? "" : fmt::format("did you mean '{}'?", close));
}

// The node of this name or, if no node has it, of this number in the file.
Index find_node(const Input& input, const std::string& wanted) {
  const auto named = std::find(input.names.begin(), input.names.end(), wanted);
  if (named != input.names.end()) return named - input.names.begin();
  if (const auto number = parse_number(wanted); number && *number == std::floor(*number)) {
    const auto placed = std::find(input.positions.begin(), input.positions.end(), static_cast<Index>(*number));
    if (placed != input.positions.end()) return placed - input.positions.begin();
  }
  const std::string close = nearest(wanted, input.names);
  throw InvalidArgument(fmt::format("the target '{}' is not among the nodes {}", wanted, join(input.names)),
                        close.empty() ? "" : fmt::format("did you mean '{}'?", close));
}

// Of copies one is enough, and which one nobody but the user knows.
void refuse_copies(const Input& input, const std::string& file) {
  const auto* z = std::get_if<FisherZ>(&input.test);
  const auto same = z != nullptr ? copies(z->correlation()) : std::nullopt;
  if (!same) return;
  const auto name = [&](Index v) { return input.names[static_cast<std::size_t>(v)]; };
  throw InvalidArgument(
      fmt::format("{}{}'{}' and '{}' are copies of each other up to scale and shift: their correlation is {}", file,
                  file.empty() ? "" : ": ", name(same->first), name(same->second),
                  z->correlation()(same->first, same->second) > 0 ? 1 : -1),
      fmt::format("leave one of them out: name the others in nodes, without '{}'", name(same->second)));
}

}  // namespace

std::string_view to_string(Algorithm algorithm) { return algorithms[static_cast<std::size_t>(algorithm)]; }
std::string_view to_string(TestKind test) { return tests[static_cast<std::size_t>(test)]; }
Algorithm parse_algorithm(std::string_view name) { return parse<Algorithm>(algorithms, name, "algorithm"); }
TestKind parse_test(std::string_view name) { return parse<TestKind>(tests, name, "independence test"); }

Answer discover(Input input, const Request& request, const IsExplanation& judge) {
  Answer answer{request, std::move(input), {}};
  if (!answer.input.tokens) refuse_copies(answer.input, request.file);
  const IndependenceTest& test = answer.input.test;
  if (request.target) answer.target = find_node(answer.input, *request.target);
  switch (request.algorithm) {
    case Algorithm::pc: answer.discovery = pc(test, request.options); break;
    case Algorithm::fci: answer.discovery = fci(test, request.options); break;
    case Algorithm::icd: answer.discovery = icd(test, request.options); break;
  }
  if (answer.target) answer.explanations = explain(answer.discovery.graph, *answer.target, judge, request.explain);
  answer.json = to_json(answer);
  answer.dot = to_dot(answer.discovery.graph, answer.input.names, answer.target);
  return answer;
}

Answer discover(const Request& request) { return discover(read_input(request), request); }

}  // namespace saddle::analysis::causal_discovery

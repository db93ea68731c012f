#include "saddle/data/generate/listops.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>

#include "saddle/base/error.hpp"
#include "saddle/data/generate/settings.hpp"
#include "saddle/data/records.hpp"
#include "saddle/data/token_text.hpp"

namespace saddle::data {

namespace {

constexpr std::uint8_t first_digit = 1, first_operator = 11, end_token = 15;
constexpr std::array<const char*, 4> operators{"[MIN", "[MAX", "[MED", "[SM"};
constexpr double operator_share = 0.25;

bool is_digit(std::uint8_t token) { return token >= first_digit && token < first_operator; }
bool is_operator(std::uint8_t token) { return token >= first_operator && token < end_token; }

// Appends the tree; false once it is too long. Children are drawn before the operator, whose place is kept for it.
bool grow(Stream& stream, const ListopsRules& rules, Index depth, Expression& tokens) {
  if (static_cast<Index>(tokens.size()) >= rules.max - 1) return false;
  if (depth >= rules.depth || stream.uniform() > operator_share) {
    tokens.push_back(static_cast<std::uint8_t>(first_digit + stream.below(10)));
    return true;
  }
  const std::size_t place = tokens.size();
  tokens.push_back(0);
  const Index count = 2 + static_cast<Index>(stream.below(static_cast<std::uint64_t>(rules.arguments - 1)));
  for (Index i = 0; i < count; ++i)
    if (!grow(stream, rules, depth + 1, tokens)) return false;
  tokens[place] = static_cast<std::uint8_t>(first_operator + stream.below(operators.size()));
  tokens.push_back(end_token);
  return static_cast<Index>(tokens.size()) < rules.max;
}

[[noreturn]] void fail(const std::string& message) { throw InvalidArgument("this is no expression: " + message); }

int apply(std::uint8_t operation, std::vector<int> arguments) {
  std::sort(arguments.begin(), arguments.end());
  const std::size_t n = arguments.size();
  switch (operation - first_operator) {
    case 0: return arguments.front();
    case 1: return arguments.back();
    case 2: return n % 2 == 1 ? arguments[n / 2] : (arguments[n / 2 - 1] + arguments[n / 2]) / 2;
    default: {
      int sum = 0;
      for (const int argument : arguments) sum += argument;
      return sum % 10;
    }
  }
}

// Every expression once: train, then validation, then test.
struct Corpus {
  std::once_flag once;
  std::vector<Expression> expressions;

  const std::vector<Expression>& get(const ListopsRules& rules, Index count, std::uint64_t seed) {
    std::call_once(once, [&] { expressions = draw(rules, count, seed); });
    return expressions;
  }

  static std::vector<Expression> draw(const ListopsRules& rules, Index count, std::uint64_t seed) {
    constexpr int patience = 1'000'000;  // trees without a new expression: there are no more, or hardly any
    Stream stream(seed, "listops");
    std::vector<Expression> found;
    std::set<std::uint64_t> seen;
    for (int idle = 0; static_cast<Index>(found.size()) < count;) {
      if (++idle > patience)
        throw InvalidArgument(
            fmt::format("listops: found {} different expressions with more than {} and fewer than {} tokens, {} are "
                        "needed",
                        found.size(), rules.min, rules.max, count),
            "widen min and max, or ask for fewer samples");
      std::optional<Expression> tree = draw_listops(stream, rules);
      if (!tree || static_cast<Index>(tree->size()) <= rules.min) continue;
      if (!seen.insert(hash(*tree)).second) continue;
      found.push_back(*std::move(tree));
      idle = 0;
    }
    return found;
  }

  static std::uint64_t hash(const Expression& tokens) {
    std::uint64_t value = 14695981039346656037ULL;
    for (const std::uint8_t token : tokens) value = (value ^ token) * 1099511628211ULL;
    return value;
  }
};

DatasetPtr dataset(const std::vector<Expression>& expressions, Index begin, Index count, Description description) {
  std::string bytes;
  std::vector<Record> list;
  for (Index i = begin; i < begin + count; ++i) {
    const Expression& tokens = expressions[static_cast<std::size_t>(i)];
    list.push_back({bytes.size(), tokens.size(), static_cast<Index>(tokens.size()), listops_value(tokens)});
    bytes.append(tokens.begin(), tokens.end());
  }
  Checksum checksum;
  checksum.add(bytes);
  description.checksum = checksum.text();
  description.kind = Kind::tokens;
  description.token_names = listops_names();
  description.vocabulary = static_cast<Index>(description.token_names.size());
  for (char digit = '0'; digit <= '9'; ++digit) description.classes.emplace_back(1, digit);
  const std::string name = description.name;
  return records(
      std::move(description), contents_of(std::move(bytes), name), std::move(list),
      [](std::string_view text, const Record&, Sample& into) { into.tokens.assign(text.begin(), text.end()); });
}

Task make(const Settings& settings) {
  const ListopsRules rules{settings.whole("min"), settings.whole("max"), settings.whole("depth"),
                           settings.whole("args")};
  if (rules.max - rules.min < 2)
    throw InvalidArgument(
        fmt::format("listops: lengths lie strictly between min and max, found {} and {}", rules.min, rules.max));
  const Index train = settings.whole("train"), validation = settings.whole("validation"), test = settings.whole("test");
  const auto corpus = std::make_shared<Corpus>();
  const auto part = [=, name = settings.name(), seed = settings.seed()](const char* split, Index begin, Index count) {
    return [=] {
      Description description;
      description.name = name;
      description.split = split;
      description.usual_length = 2000;
      return dataset(corpus->get(rules, train + validation + test, seed), begin, count, std::move(description));
    };
  };
  Task task{settings.name(), part("train", 0, train), {}, part("test", train + validation, test)};
  if (validation > 0) task.validation = part("validation", train, validation);
  return task;
}

}  // namespace

std::optional<Expression> draw_listops(Stream& stream, const ListopsRules& rules) {
  Expression tokens;
  if (!grow(stream, rules, 1, tokens)) return std::nullopt;
  return tokens;
}

int listops_value(std::span<const std::uint8_t> expression) {
  struct Open {
    std::uint8_t operation;
    std::vector<int> arguments;
  };
  std::vector<Open> open;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const std::uint8_t token = expression[i];
    if (is_operator(token)) {
      open.push_back({token, {}});
      continue;
    }
    int value = token - first_digit;
    if (token == end_token) {
      if (open.empty()) fail(fmt::format("token {} closes what is not open", i + 1));
      if (open.back().arguments.empty()) fail(fmt::format("the operator that token {} closes has no argument", i + 1));
      value = apply(open.back().operation, std::move(open.back().arguments));
      open.pop_back();
    } else if (!is_digit(token)) {
      fail(fmt::format("token {} is {}", i + 1, token));
    }
    if (!open.empty()) {
      open.back().arguments.push_back(value);
    } else if (i + 1 == expression.size()) {
      return value;
    } else {
      fail(fmt::format("it ends with token {}, but more follow", i + 1));
    }
  }
  fail(expression.empty() ? "it is empty" : fmt::format("{} brackets are open at its end", open.size()));
}

std::string listops_text(std::span<const std::uint8_t> expression) {
  listops_value(expression);  // refuses what is none
  const std::vector<std::string> names = listops_names();
  std::vector<std::string> stack;  // of every open operator, what is written so far
  const auto add = [&](const std::string& piece) {
    if (stack.empty())
      stack.push_back(piece);
    else
      stack.back() = "( " + stack.back() + " " + piece + " )";
  };
  for (const std::uint8_t token : expression) {
    if (is_operator(token)) {
      stack.push_back(names[token]);
    } else if (token == end_token) {
      const std::string whole = "( " + stack.back() + " ] )";
      stack.pop_back();
      add(whole);
    } else {
      add(names[token]);
    }
  }
  return stack.front();
}

Expression parse_listops(const std::string& text) {
  const std::vector<std::string> names = listops_names();
  Expression tokens;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    if (word == "(" || word == ")") continue;
    const auto found = std::find(names.begin() + first_digit, names.end(), word);
    if (found == names.end()) fail(fmt::format("'{}' is no token", word));
    tokens.push_back(static_cast<std::uint8_t>(found - names.begin()));
  }
  listops_value(tokens);
  return tokens;
}

Generator listops_generator() {
  std::vector<GeneratorOption> options{{"min", "expressions have more tokens than this", 500, 0, 1e6},
                                       {"max", "and fewer than this", 2000, 2, 1e6},
                                       {"depth", "of the deepest digit; the root has 1", 10, 1, 100},
                                       {"args", "of an operator, at most; at least 2", 10, 2, 100}};
  for (GeneratorOption& option : split_options(96000, 2000, 2000)) options.push_back(std::move(option));
  return {"listops", "nested MIN, MAX, MED and SM of digits; from the first token alone 36.4 % can be had",
          Kind::tokens, options, [options](const std::map<std::string, std::string>& given) {
            return make(Settings("listops", options, given));
          }};
}

}  // namespace saddle::data

#include "saddle/primal/written/terms.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace saddle::primal {

namespace {

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::size_t position() const { return at_ + 1; }
  bool done() { return skip_space(), at_ == text_.size(); }
  bool accept(char c) {
    if (done() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  // A part's name; hyphens are read as underscores.
  std::string name(std::string_view expected) {
    done();
    const std::size_t start = at_;
    while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '-')) ++at_;
    if (start == at_) throw Mistake{position(), fmt::format("expected {}, found {}", expected, found()), ""};
    std::string word(text_.substr(start, at_ - start));
    std::replace(word.begin(), word.end(), '-', '_');
    return word;
  }
  // Everything up to the next , = ) ( with spaces trimmed.
  std::string scalar() {
    done();
    const std::size_t start = at_;
    while (at_ < text_.size() && std::string_view(",=()").find(text_[at_]) == std::string_view::npos) ++at_;
    std::string word(text_.substr(start, at_ - start));
    word.erase(word.find_last_not_of(" \t\n") + 1);
    if (word.empty()) throw Mistake{start + 1, fmt::format("expected a value, found {}", found()), ""};
    return word;
  }
  std::string found() { return done() ? "the end" : fmt::format("'{}'", text_[at_]); }

 private:
  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  std::string_view text_;
  std::size_t at_ = 0;
};

Argument read_argument(Lexer& in) {
  in.done();
  Argument argument{"", "", in.position()};
  argument.value = in.scalar();
  if (in.accept('=')) {
    argument.key = std::move(argument.value);
    argument.value = in.scalar();
  }
  return argument;
}

}  // namespace

std::vector<Term> read_terms(std::string_view text) {
  Lexer in(text);
  std::vector<Term> terms;
  do {
    in.done();
    Term term{"", {}, in.position()};
    term.name = in.name(terms.empty() ? "a kernel or a mechanism" : "a part after '+'");
    if (in.accept('(')) {
      if (!in.accept(')')) {
        do term.arguments.push_back(read_argument(in));
        while (in.accept(','));
        if (!in.accept(')')) throw Mistake{in.position(), fmt::format("expected ',' or ')', found {}", in.found()), ""};
      }
    }
    terms.push_back(std::move(term));
  } while (in.accept('+'));
  if (!in.done()) throw Mistake{in.position(), fmt::format("expected '+' or the end, found {}", in.found()), ""};
  return terms;
}

}  // namespace saddle::primal

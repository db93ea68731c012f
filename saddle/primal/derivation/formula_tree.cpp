#include "saddle/primal/derivation/formula_tree.hpp"

#include <map>

#include "saddle/base/error.hpp"

namespace saddle::primal::formula {

namespace {

struct Glyph {
  Kind kind;
  std::string_view text;
};

const std::map<std::string_view, Glyph> glyphs{
    {"alpha", {Kind::identifier, "α"}}, {"beta", {Kind::identifier, "β"}},
    {"gamma", {Kind::identifier, "γ"}}, {"varepsilon", {Kind::identifier, "ε"}},
    {"eta", {Kind::identifier, "η"}},   {"kappa", {Kind::identifier, "κ"}},
    {"mu", {Kind::identifier, "μ"}},    {"xi", {Kind::identifier, "ξ"}},
    {"sigma", {Kind::identifier, "σ"}}, {"varphi", {Kind::identifier, "φ"}},
    {"Phi", {Kind::identifier, "Φ"}},   {"partial", {Kind::identifier, "∂"}},
    {"exp", {Kind::identifier, "exp"}}, {"max", {Kind::identifier, "max"}},
    {"min", {Kind::identifier, "min"}}, {"bmod", {Kind::symbol, "mod"}},
    {"infty", {Kind::identifier, "∞"}}, {"top", {Kind::symbol, "⊤"}},
    {"cdot", {Kind::symbol, "·"}},      {"le", {Kind::symbol, "≤"}},
    {"ge", {Kind::symbol, "≥"}},        {"ne", {Kind::symbol, "≠"}},
    {"in", {Kind::symbol, "∈"}},        {"notin", {Kind::symbol, "∉"}},
    {"subseteq", {Kind::symbol, "⊆"}},  {"cap", {Kind::symbol, "∩"}},
    {"emptyset", {Kind::symbol, "∅"}},  {"circ", {Kind::symbol, "∘"}},
    {"ast", {Kind::symbol, "∗"}},       {"times", {Kind::symbol, "×"}},
    {"to", {Kind::symbol, "→"}},        {"Rightarrow", {Kind::symbol, "⇒"}},
    {"ldots", {Kind::symbol, "…"}},     {"colon", {Kind::symbol, ":"}},
    {"sum", {Kind::big, "Σ"}},          {"prod", {Kind::big, "Π"}},
    {"quad", {Kind::wide_space, "   "}}};

// Delimiters that are commands; the plain parentheses and brackets are matched by character.
const std::map<std::string_view, std::string_view> openers{
    {"lvert", "|"}, {"lVert", "‖"}, {"lbrace", "{"}, {"lfloor", "⌊"}, {"lceil", "⌈"}};
const std::map<std::string_view, std::string_view> closers{
    {"rvert", "|"}, {"rVert", "‖"}, {"rbrace", "}"}, {"rfloor", "⌋"}, {"rceil", "⌉"}};

struct Accent {
  std::string_view combining, spacing;
};
const std::map<std::string_view, Accent> accents{
    {"tilde", {"\u0303", "~"}}, {"bar", {"\u0304", "¯"}}, {"hat", {"\u0302", "^"}}};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  explicit Parser(std::string_view source) : source_(source) {}

  Node formula() {
    Node row = items();
    if (at_ != source_.size()) fail("unmatched delimiter");
    return row;
  }

 private:
  Node items() {
    Node row;
    while (true) {
      const bool blank = skip_blanks();
      if (at_ == source_.size() || at_closer()) return row;
      Node item = scripted();
      item.blank_before = blank && !row.children.empty();
      row.children.push_back(std::move(item));
    }
  }

  Node scripted() {
    Node base = atom();
    Node sub, sup;
    while (at_ < source_.size()) {
      if (accept('_')) {
        sub = argument();
      } else if (accept('^')) {
        sup = argument();
      } else if (accept('\'')) {
        sup = leaf(Kind::symbol, "′");
      } else {
        break;
      }
    }
    if (empty(sub) && empty(sup)) return base;
    Node node;
    node.kind = Kind::script;
    node.children = {std::move(base), std::move(sub), std::move(sup)};
    return node;
  }

  Node atom() {
    if (at_ == source_.size() || at_closer()) fail("something is missing");
    const char c = source_[at_];
    if (c == '\\') return command();
    if (c == '{') return argument();
    if (c == '(' || c == '[') {
      ++at_;
      return fence(std::string(1, c));
    }
    if (is_digit(c)) {
      const std::size_t start = at_;
      while (at_ < source_.size() && (is_digit(source_[at_]) || source_[at_] == '.')) ++at_;
      return leaf(Kind::number, source_.substr(start, at_ - start));
    }
    ++at_;
    return leaf(is_letter(c) ? Kind::identifier : Kind::symbol, source_.substr(at_ - 1, 1));
  }

  Node command() {
    const std::string_view name = command_name();
    at_ += name.size() + 1;
    if (name == "left") {
      Node node = atom();
      node.stretchy = true;
      return node;
    }
    if (const auto glyph = glyphs.find(name); glyph != glyphs.end())
      return leaf(glyph->second.kind, glyph->second.text);
    if (const auto opener = openers.find(name); opener != openers.end()) return fence(std::string(opener->second));
    if (name == "mathrm" || name == "text") return leaf(name == "text" ? Kind::text : Kind::identifier, verbatim());
    if (name == "mathbb") return verbatim() == "R" ? leaf(Kind::identifier, "ℝ") : leaf(Kind::identifier, "ℕ");
    Node node;
    if (name == "frac") {
      node.kind = Kind::fraction;
      node.children.push_back(argument());
      node.children.push_back(argument());
    } else if (name == "sqrt") {
      node.kind = Kind::root;
      node.children.push_back(argument());
    } else if (const auto accent = accents.find(name); accent != accents.end()) {
      node.kind = Kind::accent;
      node.text = accent->second.combining;
      node.close = accent->second.spacing;
      node.children.push_back(argument());
    } else {
      fail("unknown command");
    }
    return node;
  }

  // {items}, or a single atom.
  Node argument() {
    skip_blanks();
    if (!accept('{')) return atom();
    Node row = items();
    if (!accept('}')) fail("missing }");
    return row;
  }

  // The text of {..}, blanks included.
  std::string_view verbatim() {
    if (!accept('{')) fail("missing {");
    const std::size_t start = at_, end = source_.find('}', at_);
    if (end == std::string_view::npos) fail("missing }");
    at_ = end + 1;
    return source_.substr(start, end - start);
  }

  Node fence(std::string open) {
    Node node = items();
    node.kind = Kind::fence;
    node.text = std::move(open);
    if (command_name() == "right") at_ += 6;
    if (const auto closer = closers.find(command_name()); closer != closers.end()) {
      at_ += closer->first.size() + 1;
      node.close = closer->second;
    } else if (accept(')')) {
      node.close = ")";
    } else if (accept(']')) {
      node.close = "]";
    } else {
      fail("unclosed delimiter");
    }
    return node;
  }

  bool at_closer() const {
    const char c = source_[at_];
    return c == '}' || c == ')' || c == ']' || command_name() == "right" || closers.contains(command_name());
  }
  // The name of the command here, without its backslash; empty if there is none.
  std::string_view command_name() const {
    if (at_ >= source_.size() || source_[at_] != '\\') return {};
    std::size_t end = at_ + 1;
    while (end < source_.size() && is_letter(source_[end])) ++end;
    return source_.substr(at_ + 1, end - at_ - 1);
  }
  bool accept(char c) {
    if (at_ >= source_.size() || source_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool skip_blanks() {
    const std::size_t start = at_;
    while (accept(' ')) {
    }
    return at_ != start;
  }
  static Node leaf(Kind kind, std::string_view text) {
    Node node;
    node.kind = kind;
    node.text = text;
    return node;
  }
  static bool empty(const Node& node) { return node.kind == Kind::row && node.children.empty(); }
  [[noreturn]] void fail(const char* what) const {
    throw Error("formula '" + std::string(source_) + "', character " + std::to_string(at_ + 1) + ": " + what);
  }

  std::string_view source_;
  std::size_t at_ = 0;
};

}  // namespace

Node parse(std::string_view latex) { return Parser(latex).formula(); }

}  // namespace saddle::primal::formula

#include "saddle/primal/derivation_formula.hpp"

#include <map>
#include <vector>

#include "saddle/base/error.hpp"

namespace saddle::primal {

namespace {

enum class Kind { row, identifier, number, symbol, big, text, wide_space, fence, fraction, root, accent, script };

struct Node {
  Kind kind = Kind::row;
  bool blank_before = false;  // in the source
  std::string text;           // plain form of a leaf, first delimiter of a fence, combining character of an accent
  std::string close;          // second delimiter of a fence, spacing character of an accent
  std::vector<Node> children;  // row, fence: items; fraction: two; script: base, sub, sup (empty rows if absent)
};

struct Glyph {
  Kind kind;
  std::string_view text;
};

const std::map<std::string_view, Glyph> glyphs{
    {"alpha", {Kind::identifier, "α"}},     {"beta", {Kind::identifier, "β"}},
    {"gamma", {Kind::identifier, "γ"}},     {"varepsilon", {Kind::identifier, "ε"}},
    {"eta", {Kind::identifier, "η"}},       {"kappa", {Kind::identifier, "κ"}},
    {"mu", {Kind::identifier, "μ"}},        {"xi", {Kind::identifier, "ξ"}},
    {"sigma", {Kind::identifier, "σ"}},     {"varphi", {Kind::identifier, "φ"}},
    {"Phi", {Kind::identifier, "Φ"}},       {"partial", {Kind::identifier, "∂"}},
    {"exp", {Kind::identifier, "exp"}},     {"max", {Kind::identifier, "max"}},
    {"min", {Kind::identifier, "min"}},     {"bmod", {Kind::symbol, "mod"}},
    {"infty", {Kind::identifier, "∞"}},     {"top", {Kind::symbol, "⊤"}},
    {"cdot", {Kind::symbol, "·"}},          {"le", {Kind::symbol, "≤"}},
    {"ge", {Kind::symbol, "≥"}},            {"ne", {Kind::symbol, "≠"}},
    {"in", {Kind::symbol, "∈"}},            {"notin", {Kind::symbol, "∉"}},
    {"subseteq", {Kind::symbol, "⊆"}},      {"cap", {Kind::symbol, "∩"}},
    {"emptyset", {Kind::symbol, "∅"}},      {"circ", {Kind::symbol, "∘"}},
    {"ast", {Kind::symbol, "∗"}},           {"times", {Kind::symbol, "×"}},
    {"to", {Kind::symbol, "→"}},            {"Rightarrow", {Kind::symbol, "⇒"}},
    {"ldots", {Kind::symbol, "…"}},         {"colon", {Kind::symbol, ":"}},
    {"sum", {Kind::big, "Σ"}},              {"prod", {Kind::big, "Π"}},
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
    if (name == "left" || name == "right") {
      skip_blanks();
      return atom();
    }
    if (const auto glyph = glyphs.find(name); glyph != glyphs.end()) return leaf(glyph->second.kind, glyph->second.text);
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

// Plain text

std::string plain(const Node& node);

bool is_partial(const Node& node) { return node.text == "∂"; }

std::string plain_items(const Node& node) {
  std::string text;
  const Node* previous = nullptr;
  for (const Node& child : node.children) {
    // \text brings its own blanks, and the one after \partial only ends the command.
    const bool tight = child.kind == Kind::text || (previous != nullptr && (previous->kind == Kind::text || is_partial(*previous)));
    text += (child.blank_before && !tight ? " " : "") + plain(child);
    previous = &child;
  }
  return text;
}

bool single(const Node& node) { return node.kind != Kind::row || node.children.size() == 1; }
// A letter or a number, perhaps in braces.
bool is_simple(const Node& node) {
  if (node.kind == Kind::row) return node.children.size() == 1 && is_simple(node.children[0]);
  return node.kind == Kind::identifier || node.kind == Kind::number;
}
// -6
bool is_negative_number(const Node& node) {
  return node.children.size() == 2 && node.children[0].text == "-" && node.children[1].kind == Kind::number;
}
// f(x) and t!
bool is_call(const Node& node) {
  return node.kind == Kind::row && node.children.size() == 2 &&
         (node.children[1].kind == Kind::fence || node.children[1].text == "!");
}
bool has_operator(const Node& node) {
  if (node.kind != Kind::row) return false;
  for (const Node& child : node.children)
    if ((child.kind == Kind::symbol && child.text != "!") || child.kind == Kind::big ||
        (child.kind == Kind::script && child.children[0].kind == Kind::big))
      return true;
  return false;
}
std::string in_parentheses(bool needed, const std::string& text) { return needed ? "(" + text + ")" : text; }

// Letters and digits alone need no braces below: a_je.
bool is_word(const Node& node) {
  for (const Node& child : node.children)
    if ((child.kind != Kind::identifier && child.kind != Kind::number) || child.blank_before) return false;
  return true;
}

std::string plain_sub(const Node& node) {
  const std::string text = plain(node);
  return text.empty() ? "" : node.kind == Kind::row && !is_word(node) ? "_{" + text + "}" : "_" + text;
}

std::string plain_sup(const Node& node) {
  static const std::map<std::string_view, std::string_view> raised{{"2", "²"}, {"3", "³"}, {"⊤", "ᵀ"}, {"′", "'"}};
  const std::string text = plain(node);
  if (const auto found = raised.find(text); found != raised.end()) return std::string(found->second);
  return text.empty() ? "" : "^" + in_parentheses(!single(node) && !is_negative_number(node), text);
}

std::string plain(const Node& node) {
  const auto& parts = node.children;
  switch (node.kind) {
    case Kind::row: return plain_items(node);
    case Kind::fence: return node.text + plain_items(node) + node.close;
    case Kind::fraction:
      return in_parentheses(has_operator(parts[0]), plain(parts[0])) + "/" +
             in_parentheses(!single(parts[1]) && !is_call(parts[1]) && !is_partial(parts[1].children[0]), plain(parts[1]));
    case Kind::root: return "√" + in_parentheses(!is_simple(parts[0]), plain(parts[0]));
    case Kind::accent: return plain(parts[0]) + node.text;
    case Kind::script: {
      const bool primed = plain(parts[2]) == "′";  // q'_i, not q_i'
      return plain(parts[0]) + (primed ? "'" + plain_sub(parts[1]) : plain_sub(parts[1]) + plain_sup(parts[2]));
    }
    default: return node.text;
  }
}

// MathML

std::string element(std::string_view name, std::string_view content, std::string_view attributes = "") {
  std::string text = "<";
  text += name;
  text += attributes;
  text += ">";
  text += content;
  text += "</";
  text += name;
  return text + ">";
}

std::string mathml(const Node& node);

std::string mathml_row(const Node& node) {
  std::string text;
  for (const Node& child : node.children) text += mathml(child);
  return node.children.size() == 1 ? text : element("mrow", text);
}

std::string mathml_operator(std::string_view text) {
  if (text == "-") text = "−";
  if (text == "mod") return "<mspace width=\"0.3em\"/>" + element("mo", text) + "<mspace width=\"0.3em\"/>";
  return element("mo", escape_html(text));
}

std::string mathml_script(const Node& node) {
  const bool sub = !plain(node.children[1]).empty(), sup = !plain(node.children[2]).empty();
  const bool limits = node.children[0].kind == Kind::big;  // below and above, beside when inline
  std::string name = "m";
  if (sub) name += limits ? "under" : "sub";
  if (sup) name += limits ? "over" : "sup";
  std::string content = mathml(node.children[0]);
  if (sub) content += mathml(node.children[1]);
  if (sup) content += mathml(node.children[2]);
  return element(name, content);
}

std::string mathml(const Node& node) {
  const auto& parts = node.children;
  switch (node.kind) {
    case Kind::row: return mathml_row(node);
    case Kind::identifier: return element("mi", node.text);
    case Kind::number: return element("mn", node.text);
    case Kind::symbol: return mathml_operator(node.text);
    case Kind::big: return element("mo", node.text == "Σ" ? "∑" : "∏");
    case Kind::text: return element("mtext", escape_html(node.text));
    case Kind::wide_space: return "<mspace width=\"1em\"/>";
    case Kind::fence: {
      std::string content = element("mo", node.text, " fence=\"true\" form=\"prefix\"");
      for (const Node& child : parts) content += mathml(child);
      return element("mrow", content + element("mo", node.close, " fence=\"true\" form=\"postfix\""));
    }
    case Kind::fraction: return element("mfrac", mathml(parts[0]) + mathml(parts[1]));
    case Kind::root: return element("msqrt", mathml(parts[0]));
    case Kind::accent:
      return element("mover", mathml(parts[0]) + element("mo", node.close, " stretchy=\"false\""),
                     " accent=\"true\"");
    case Kind::script: return mathml_script(node);
  }
  return {};
}

}  // namespace

std::string to_plain(std::string_view latex) { return plain(Parser(latex).formula()); }

std::string to_mathml(std::string_view latex) { return mathml(Parser(latex).formula()); }

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool combining = byte == 0xCC;  // U+0300..U+033F, the accents
    if ((byte & 0xC0) != 0x80 && !combining) ++width;
  }
  return width;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (char c : text) switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  return out;
}

}  // namespace saddle::primal

#include "saddle/primal/derivation/formula.hpp"

#include <map>

#include "saddle/primal/derivation/formula_tree.hpp"

namespace saddle::primal {

namespace {

using formula::Kind;
using formula::Node;

// Plain text

std::string plain(const Node& node);

bool is_partial(const Node& node) { return node.text == "∂"; }

std::string plain_items(const Node& node) {
  std::string text;
  const Node* previous = nullptr;
  for (const Node& child : node.children) {
    // \text brings its own blanks, and the one after \partial only ends the command.
    const bool tight =
        child.kind == Kind::text || (previous != nullptr && (previous->kind == Kind::text || is_partial(*previous)));
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
             in_parentheses(!single(parts[1]) && !is_call(parts[1]) && !is_partial(parts[1].children[0]),
                            plain(parts[1]));
    case Kind::root: return "√" + in_parentheses(!is_simple(parts[0]), plain(parts[0]));
    case Kind::accent: {
      const std::string text = plain(parts[0]) + node.text;
      return text == "a\u0303" ? "ã" : text;  // the only one of our letters that has a character of its own
    }
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

// Blanks at the ends would be dropped.
std::string mathml_text(std::string_view text) {
  std::string out;
  for (char c : text) out += c == ' ' ? "\u00a0" : escape_html({&c, 1});
  return element("mtext", out);
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
    case Kind::text: return mathml_text(node.text);
    case Kind::wide_space: return "<mspace width=\"1em\"/>";
    case Kind::fence: {
      const std::string stretchy = node.stretchy ? "true" : "false";
      std::string content = element("mo", node.text, " form=\"prefix\" stretchy=\"" + stretchy + "\"");
      for (const Node& child : parts) content += mathml(child);
      return element("mrow", content + element("mo", node.close, " form=\"postfix\" stretchy=\"" + stretchy + "\""));
    }
    case Kind::fraction: return element("mfrac", mathml(parts[0]) + mathml(parts[1]));
    case Kind::root: return element("msqrt", mathml(parts[0]));
    case Kind::accent:
      return element("mover", mathml(parts[0]) + element("mo", node.close, " stretchy=\"false\""), " accent=\"true\"");
    case Kind::script: return mathml_script(node);
  }
  return {};
}

}  // namespace

std::string to_plain(std::string_view latex) { return plain(formula::parse(latex)); }

std::string to_mathml(std::string_view latex) { return mathml(formula::parse(latex)); }

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
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

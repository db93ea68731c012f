// One self-contained HTML page from the document; formulas are MathML.
#include <fmt/format.h>

#include <algorithm>

#include "saddle/primal/derivation/document.hpp"
#include "saddle/primal/derivation/formula.hpp"

namespace saddle::primal {

namespace {

constexpr std::string_view style = R"(
:root { color-scheme: light dark; --ink: #1c1d21; --soft: #62656f; --line: #dcdee4; --paper: #ffffff; --panel: #f5f6f8;
  --accent: #2f5fb3; --good: #1d7a46; --bad: #b3362b; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e5e9; --soft: #9a9da8; --line: #34363d; --paper: #16171a; --panel: #1f2024; --accent: #8db1f2;
    --good: #62c48c; --bad: #ee8378; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 17px/1.6 system-ui, -apple-system, "Segoe UI", Roboto,
  "Helvetica Neue", "DejaVu Sans", sans-serif; }
main { max-width: 46rem; margin: 0 auto; padding: 3rem 1.25rem 5rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 3rem 0 1rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h2 span { color: var(--accent); margin-right: .6rem; font-variant-numeric: tabular-nums; }
h1 code { display: block; font-weight: 400; font-size: 1.3rem; margin-top: .5rem; padding: 0; background: none; }
p { margin: .8rem 0; }
code { font: .88em ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; background: var(--panel);
  padding: .1em .35em; border-radius: 4px; overflow-wrap: anywhere; }
math { font-size: 1.08em; font-family: "Latin Modern Math", "STIX Two Math", "Cambria Math", "DejaVu Math TeX Gyre", math; }
.display { overflow-x: auto; margin: 1rem 0; padding: .9rem 1.1rem; background: var(--panel); border-radius: 8px; }
.display mtd { padding: .35em 0; text-align: left; }
.display mtd.left { text-align: right; text-align: -webkit-right; padding-right: .35em; }
.table { overflow-x: auto; margin: 1.1rem 0; }
table { border-collapse: collapse; font-size: .93rem; line-height: 1.45; }
th { text-align: left; font-weight: 600; color: var(--soft); }
th, td { padding: .45rem .9rem .45rem 0; border-bottom: 1px solid var(--line); vertical-align: baseline; }
th:last-child, td:last-child { padding-right: 0; }
.right { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.left { white-space: nowrap; }
.left wbr { display: none; }
.wide { width: 100%; }
ul { padding-left: 1.2rem; }
.verdict { margin: 1.6rem 0; padding: .8rem 1.1rem; border-left: 4px solid var(--bad); background: var(--panel);
  border-radius: 0 8px 8px 0; font-weight: 600; }
.verdict.good { border-color: var(--good); }
@media print { .display, code, .verdict { background: none; } }
)";

// A written form may break after + and a comma.
std::string breakable(std::string_view code) {
  std::string out;
  for (char c : code) {
    out += c;
    if (c == '+' || c == ',') out += "<wbr>";
  }
  return out;
}

std::string html_text(std::string_view text) {
  std::string out;
  for (const Span& span : spans_of(text)) {
    switch (span.kind) {
      case Span::Kind::formula: out += "<math>" + to_mathml(span.text) + "</math>"; break;
      case Span::Kind::code: out += "<code>" + breakable(escape_html(span.text)) + "</code>"; break;
      case Span::Kind::literal: out += escape_html(span.text); break;
    }
  }
  return out;
}

std::string cell(const char* tag, const Column& column, const std::string& text) {
  const char* name = column.align == Align::right  ? " class=\"right\""
                     : column.align == Align::left ? " class=\"left\""
                                                   : "";
  return fmt::format("<{0}{1}>{2}</{0}>", tag, name, html_text(text));
}

struct HtmlWriter {
  std::string& out;

  void operator()(const Paragraph& block) const { out += "<p>" + html_text(block.text) + "</p>\n"; }
  void operator()(const Display& block) const {
    out += "<div class=\"display\"><math display=\"block\">";
    if (block.lines.size() == 1 && block.lines[0].find('&') == std::string::npos) {
      out += to_mathml(block.lines[0]);
    } else {
      out += "<mtable displaystyle=\"true\">";
      for (const std::string& line : block.lines) {
        const std::size_t marker = line.find('&');
        const bool aligned = marker != std::string::npos;
        out += "<mtr><mtd class=\"left\">" + to_mathml(aligned ? line.substr(0, marker) : "") + "</mtd><mtd>" +
               to_mathml(line.substr(aligned ? marker + 1 : 0)) + "</mtd></mtr>";
      }
      out += "</mtable>";
    }
    out += "</math></div>\n";
  }
  void operator()(const Bullets& block) const {
    out += "<ul>\n";
    for (const std::string& item : block.items) out += "<li>" + html_text(item) + "</li>\n";
    out += "</ul>\n";
  }
  void operator()(const Verdict& block) const {
    out += fmt::format("<p class=\"verdict{}\">{}</p>\n", block.holds ? " good" : "", html_text(block.text));
  }
  void operator()(const Table& block) const {
    const bool wide = std::any_of(block.columns.begin(), block.columns.end(),
                                  [](const Column& column) { return column.align == Align::wrap; });
    out += fmt::format("<div class=\"table\"><table{}>\n<thead><tr>", wide ? " class=\"wide\"" : "");
    for (const Column& column : block.columns) out += cell("th", column, column.title);
    out += "</tr></thead>\n<tbody>\n";
    for (const auto& row : block.rows) {
      out += "<tr>";
      for (std::size_t c = 0; c < row.size(); ++c) out += cell("td", block.columns[c], row[c]);
      out += "</tr>\n";
    }
    out += "</tbody>\n</table></div>\n";
  }
};

}  // namespace

std::string render_html(const Document& document) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      escape_html(to_plain_text(document.title)) + "</title>\n<style>" + std::string(style) +
      "</style>\n</head>\n<body>\n<main>\n<h1>" + html_text(document.title) + "</h1>\n";
  for (std::size_t s = 0; s < document.steps.size(); ++s) {
    out += fmt::format("<section>\n<h2><span>{}</span>{}</h2>\n", s, html_text(document.steps[s].title));
    for (const Block& block : document.steps[s].blocks) std::visit(HtmlWriter{out}, block);
    out += "</section>\n";
  }
  return out + "</main>\n</body>\n</html>\n";
}

}  // namespace saddle::primal

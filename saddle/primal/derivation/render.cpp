// Text, Markdown and LaTeX from the document.
#include <fmt/format.h>

#include <algorithm>

#include "saddle/primal/derivation/document.hpp"
#include "saddle/primal/derivation/formula.hpp"

namespace saddle::primal {

namespace {

constexpr std::size_t page_width = 100;

std::string pad(const std::string& text, std::size_t width, bool right) {
  const std::size_t have = display_width(text);
  const std::string blanks(width > have ? width - have : 0, ' ');
  return right ? blanks + text : text + blanks;
}

// Words in lines of at most `width` columns; a longer word stands alone.
std::vector<std::string> wrap(const std::string& text, std::size_t width) {
  std::vector<std::string> lines{""};
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!lines.back().empty() && display_width(lines.back()) + 1 + display_width(word) > width) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
    at = end + 1;
  }
  return lines;
}

std::string without_marker(std::string line) {
  std::erase(line, '&');
  return line;
}

template <class Render>
std::string render_spans(std::string_view text, Render&& render) {
  std::string out;
  for (const Span& span : spans_of(text)) out += render(span);
  return out;
}

// Text

void add_indented(std::string& out, const std::vector<std::string>& lines, const std::string& first,
                  const std::string& rest) {
  for (std::size_t l = 0; l < lines.size(); ++l) out += (l == 0 ? first : rest) + lines[l] + "\n";
}

struct TextWriter {
  std::string& out;

  void operator()(const Paragraph& block) const {
    add_indented(out, wrap(to_plain_text(block.text), page_width), "", "");
  }
  void operator()(const Display& block) const { add_indented(out, to_plain_lines(block), "    ", "    "); }
  void operator()(const Bullets& block) const {
    for (const std::string& item : block.items)
      add_indented(out, wrap(to_plain_text(item), page_width - 4), "  - ", "    ");
  }
  void operator()(const Verdict& block) const {
    add_indented(out, wrap(to_plain_text(block.text), page_width - 4), block.holds ? "OK  " : "NO  ", "    ");
  }
  void operator()(const Table& block) const {
    std::vector<std::vector<std::string>> rows{{}};
    for (const Column& column : block.columns) rows[0].push_back(to_plain_text(column.title));
    for (const auto& row : block.rows) {
      rows.emplace_back();
      for (const std::string& cell : row) rows.back().push_back(to_plain_text(cell));
    }
    std::vector<std::size_t> widths(block.columns.size(), 0);
    for (const auto& row : rows)
      for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
    std::size_t others = 2 * block.columns.size();
    for (std::size_t c = 0; c < widths.size(); ++c)
      if (block.columns[c].align != Align::wrap) others += widths[c];
    const std::size_t room = std::max<std::size_t>(page_width - std::min(page_width, others), 30);
    for (std::size_t c = 0; c < widths.size(); ++c)
      if (block.columns[c].align == Align::wrap) widths[c] = std::min(widths[c], room);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      write_row(block, rows[r], widths);
      if (r > 0) continue;
      std::size_t total = 2 * (widths.size() - 1);
      for (std::size_t width : widths) total += width;
      out += "  " + std::string(total, '-') + "\n";
    }
  }
  void write_row(const Table& table, const std::vector<std::string>& row,
                 const std::vector<std::size_t>& widths) const {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (std::size_t c = 0; c < row.size(); ++c) {
      cells.push_back(table.columns[c].align == Align::wrap ? wrap(row[c], widths[c]) : std::vector{row[c]});
      height = std::max(height, cells.back().size());
    }
    for (std::size_t l = 0; l < height; ++l) {
      std::string line;
      for (std::size_t c = 0; c < cells.size(); ++c)
        line += "  " + pad(l < cells[c].size() ? cells[c][l] : "", widths[c], table.columns[c].align == Align::right);
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
  }
};

// Markdown: formulas stay LaTeX, which GitHub and most editors render.

std::string markdown_text(std::string_view text) {
  return render_spans(text, [](const Span& span) -> std::string {
    if (span.kind == Span::Kind::formula) return "$" + span.text + "$";
    if (span.kind == Span::Kind::code) return "`" + span.text + "`";
    std::string out;
    for (char c : span.text) {
      if (std::string_view("\\*_[]<>#|$").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
    return out;
  });
}

// A bar would end the cell, also inside a formula; none of our formulas needs one.
struct MarkdownWriter {
  std::string& out;

  void operator()(const Paragraph& block) const { out += markdown_text(block.text) + "\n"; }
  void operator()(const Display& block) const {
    out += "$$\n";
    if (block.lines.size() == 1) {
      out += without_marker(block.lines[0]) + "\n";
    } else {  // \cr, because some renderers read \\ as an escaped backslash
      out += "\\begin{aligned}\n";
      for (const std::string& line : block.lines) out += line + " \\cr\n";
      out += "\\end{aligned}\n";
    }
    out += "$$\n";
  }
  void operator()(const Bullets& block) const {
    for (const std::string& item : block.items) out += "- " + markdown_text(item) + "\n";
  }
  void operator()(const Verdict& block) const { out += "**" + markdown_text(block.text) + "**\n"; }
  void operator()(const Table& block) const {
    std::string rule;
    for (const Column& column : block.columns) {
      out += "| " + markdown_text(column.title) + " ";
      rule += column.align == Align::right ? "| ---: " : "| --- ";
    }
    out += "|\n" + rule + "|\n";
    for (const auto& row : block.rows) {
      for (const std::string& cell : row) out += "| " + markdown_text(cell) + " ";
      out += "|\n";
    }
  }
};

// LaTeX

std::string escape_latex(std::string_view text) {
  std::string out;
  for (char c : text) switch (c) {
      case '\\': out += "\\textbackslash{}"; break;
      case '~': out += "\\textasciitilde{}"; break;
      case '^': out += "\\textasciicircum{}"; break;
      case '<': out += "\\textless{}"; break;
      case '>': out += "\\textgreater{}"; break;
      case '|': out += "\\textbar{}"; break;
      case '&':
      case '%':
      case '$':
      case '#':
      case '_':
      case '{':
      case '}': out += '\\', out += c; break;
      default: out += c;
    }
  return out;
}

std::string latex_text(std::string_view text) {
  return render_spans(text, [](const Span& span) -> std::string {
    if (span.kind == Span::Kind::formula) return "$" + span.text + "$";
    if (span.kind == Span::Kind::code) return "\\texttt{" + escape_latex(span.text) + "}";
    return escape_latex(span.text);
  });
}

struct LatexWriter {
  std::string& out;

  void operator()(const Paragraph& block) const { out += latex_text(block.text) + "\n"; }
  void operator()(const Display& block) const {
    const bool single = block.lines.size() == 1;
    out += single ? "\\[\n" : "\\[\n\\begin{aligned}\n";
    for (std::size_t l = 0; l < block.lines.size(); ++l)
      out +=
          (single ? without_marker(block.lines[l]) : block.lines[l]) + (l + 1 < block.lines.size() ? " \\\\\n" : "\n");
    out += single ? "\\]\n" : "\\end{aligned}\n\\]\n";
  }
  void operator()(const Bullets& block) const {
    out += "\\begin{itemize}\n";
    for (const std::string& item : block.items) out += "\\item " + latex_text(item) + "\n";
    out += "\\end{itemize}\n";
  }
  void operator()(const Verdict& block) const { out += "\\textbf{" + latex_text(block.text) + "}\n"; }
  void operator()(const Table& block) const {
    std::string columns;
    for (const Column& column : block.columns)
      columns += column.align == Align::wrap ? 'X' : column.align == Align::right ? 'r' : 'l';
    const bool wide = columns.find('X') != std::string::npos;
    const std::string name = wide ? "tabularx" : "tabular";
    out += "\\begin{center}\n\\begin{" + name + "}" + (wide ? "{\\linewidth}" : "") + "{" + columns + "}\n\\toprule\n";
    std::vector<std::string> titles;
    for (const Column& column : block.columns) titles.push_back(column.title);
    write_row(titles);
    out += "\\midrule\n";
    for (const auto& row : block.rows) write_row(row);
    out += "\\bottomrule\n\\end{" + name + "}\n\\end{center}\n";
  }
  void write_row(const std::vector<std::string>& row) const {
    for (std::size_t c = 0; c < row.size(); ++c) out += (c == 0 ? "" : " & ") + latex_text(row[c]);
    out += " \\\\\n";
  }
};

}  // namespace

std::vector<Span> spans_of(std::string_view text) {
  std::vector<Span> spans;
  std::size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    const bool marked = c == '$' || c == '`';
    const std::size_t start = marked ? at + 1 : at;
    const std::size_t end = std::min(marked ? text.find(c, start) : text.find_first_of("$`", start), text.size());
    const auto kind = c == '$' ? Span::Kind::formula : c == '`' ? Span::Kind::code : Span::Kind::literal;
    spans.push_back({kind, std::string(text.substr(start, end - start))});
    at = marked ? end + 1 : end;
  }
  return spans;
}

std::string to_plain_text(std::string_view text) {
  return render_spans(
      text, [](const Span& span) { return span.kind == Span::Kind::formula ? to_plain(span.text) : span.text; });
}

std::vector<std::string> to_plain_lines(const Display& display) {
  std::vector<std::string> left, lines;
  std::size_t width = 0;
  for (const std::string& line : display.lines) {
    const std::size_t marker = line.find('&');
    left.push_back(marker == std::string::npos ? "" : to_plain(line.substr(0, marker)));
    width = std::max(width, display_width(left.back()));
  }
  for (std::size_t l = 0; l < left.size(); ++l) {
    const std::string& line = display.lines[l];
    const std::size_t marker = line.find('&');
    const std::string right = to_plain(line.substr(marker == std::string::npos ? 0 : marker + 1));
    lines.push_back(width == 0 ? right : pad(left[l], width, true) + " " + right);
  }
  return lines;
}

std::string render_text(const Document& document) {
  const std::string title = to_plain_text(document.title);
  std::string out = title + "\n" + std::string(display_width(title), '=') + "\n";
  for (std::size_t s = 0; s < document.steps.size(); ++s) {
    const std::string heading = fmt::format("{} {}", s, document.steps[s].title);
    out += "\n" + heading + "\n" + std::string(display_width(heading), '-') + "\n";
    for (const Block& block : document.steps[s].blocks) {
      out += "\n";
      std::visit(TextWriter{out}, block);
    }
  }
  return out;
}

std::string render_markdown(const Document& document) {
  std::string out = "# " + markdown_text(document.title) + "\n";
  for (std::size_t s = 0; s < document.steps.size(); ++s) {
    out += fmt::format("\n## {}. {}\n", s, markdown_text(document.steps[s].title));
    for (const Block& block : document.steps[s].blocks) {
      out += "\n";
      std::visit(MarkdownWriter{out}, block);
    }
  }
  return out;
}

std::string render_latex(const Document& document) {
  std::string out =
      "\\documentclass[11pt]{article}\n\\usepackage[T1]{fontenc}\n\\usepackage[utf8]{inputenc}\n"
      "\\usepackage[a4paper,margin=2.5cm]{geometry}\n\\usepackage{amsmath,amssymb,booktabs,tabularx}\n"
      "\\setlength{\\parindent}{0pt}\n\\setlength{\\parskip}{0.6em}\n\\setcounter{section}{-1}\n"
      "\\title{" +
      latex_text(document.title) + "}\n\\date{}\n\\begin{document}\n\\maketitle\n";
  for (const Step& step : document.steps) {
    out += "\n\\section{" + latex_text(step.title) + "}\n";
    for (const Block& block : step.blocks) {
      out += "\n";
      std::visit(LatexWriter{out}, block);
    }
  }
  return out + "\n\\end{document}\n";
}

}  // namespace saddle::primal

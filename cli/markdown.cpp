#include "markdown.hpp"

#include <vector>

#include "output.hpp"

namespace saddle::cli {

namespace {

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t") + 1 - first));
}

// A closing mark of emphasis follows a letter directly; a lone * is a product.
std::size_t emphasis_end(std::string_view text, std::size_t open, std::string_view mark) {
  const std::size_t start = open + mark.size();
  if (start >= text.size() || text[start] == ' ') return std::string_view::npos;
  const std::size_t end = text.find(mark, start + 1);
  return end != std::string_view::npos && text[end - 1] != ' ' ? end : std::string_view::npos;
}

// [label](target) -> label; `code`, *emphasis* and **strong** lose their marks.
std::string inline_text(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '\\' && i + 1 < text.size() &&
        std::string_view("|*_`[]").find(text[i + 1]) != std::string_view::npos) {
      out += text[i + 1];
      i += 2;
    } else if (const auto end = text[i] == '`' ? text.find('`', i + 1) : std::string_view::npos;
               end != std::string_view::npos) {
      out += text.substr(i + 1, end - i - 1);
      i = end + 1;
    } else if (const auto middle = text[i] == '[' ? text.find("](", i) : std::string_view::npos;
               middle != std::string_view::npos && text.find(')', middle) != std::string_view::npos) {
      out += inline_text(text.substr(i + 1, middle - i - 1));
      i = text.find(')', middle) + 1;
    } else if (text[i] == '*') {
      const std::string_view mark = text.substr(i).starts_with("**") ? "**" : "*";
      const std::size_t end_mark = emphasis_end(text, i, mark);
      if (end_mark != std::string_view::npos) {
        out += bold(inline_text(text.substr(i + mark.size(), end_mark - i - mark.size())));
        i = end_mark + mark.size();
      } else {
        out += mark;
        i += mark.size();
      }
    } else {
      out += text[i++];
    }
  }
  return out;
}

// | a | b \| c | -> cells
std::vector<std::string> cells(std::string_view line) {
  std::vector<std::string> row;
  std::string cell;
  for (std::size_t i = 1; i < line.size(); ++i) {
    const bool escaped = line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|';
    if (line[i] == '|') {
      row.push_back(inline_text(trimmed(cell)));
      cell.clear();
    } else {
      cell += line[i];
      if (escaped) cell += line[++i];
    }
  }
  return row;
}

bool is_rule(const std::vector<std::string>& row) {
  for (const std::string& cell : row)
    if (cell.empty() || cell.find_first_not_of(":-") != std::string::npos) return false;
  return true;
}

class Page {
 public:
  void line(std::string_view text) {
    if (text.starts_with("```")) {
      flush();
      fenced_ = !fenced_;
    } else if (fenced_) {
      out_ += "    " + std::string(text) + "\n";
    } else if (text.starts_with("|")) {
      flush_paragraph();
      if (auto row = cells(text); !is_rule(row)) table_.push_back(std::move(row));
    } else if (text.starts_with("    ") && paragraph_.empty()) {
      out_ += std::string(text) + "\n";
    } else if (text.starts_with("#")) {
      flush();
      out_ += bold(trimmed(text.substr(text.find_first_not_of('#')))) + "\n";
    } else if (trimmed(text).empty()) {
      flush();
      out_ += "\n";
    } else {
      const std::string trim = trimmed(text);
      const bool item = trim.starts_with("* ") || trim.starts_with("- ");
      if (item) flush();
      if (item) bullet_ = true;
      paragraph_ += (paragraph_.empty() ? "" : " ") + (item ? trim.substr(2) : trim);
    }
  }

  std::string finish() && {
    flush();
    return std::move(out_);
  }

 private:
  void flush_paragraph() {
    if (!paragraph_.empty()) {
      const std::size_t indent = bullet_ ? 2 : 0;
      std::string body = wrap(inline_text(paragraph_), indent);
      if (bullet_) body[0] = '-';
      out_ += body;
    }
    paragraph_.clear();
    bullet_ = false;
  }
  void flush() {
    flush_paragraph();
    if (table_.empty()) return;
    Table table(table_.front(), std::string(table_.front().size(), 'l'));
    for (std::size_t r = 1; r < table_.size(); ++r) {
      table_[r].resize(table_.front().size());
      table.add(table_[r]);
    }
    out_ += table.text(2);
    table_.clear();
  }

  std::string out_, paragraph_;
  std::vector<std::vector<std::string>> table_;
  bool fenced_ = false, bullet_ = false;
};

}  // namespace

std::string plain_text(std::string_view markdown) {
  Page page;
  while (!markdown.empty()) {
    const std::size_t end = std::min(markdown.find('\n'), markdown.size());
    page.line(markdown.substr(0, end));
    markdown.remove_prefix(std::min(end + 1, markdown.size()));
  }
  return std::move(page).finish();
}

}  // namespace saddle::cli

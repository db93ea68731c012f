// The derivation as a document that knows nothing of its output format, and its renderers.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "saddle/primal/call.hpp"
#include "saddle/primal/derivation.hpp"

namespace saddle::primal {

// Text may hold $formulas$ and `code`; neither nests, and everything else is literal.
struct Paragraph {
  std::string text;
};

// Lines of LaTeX in the subset of derivation/formula.hpp; one & per line marks where lines align.
struct Display {
  std::vector<std::string> lines;
};

enum class Align { left, right, wrap };

struct Column {
  std::string title;
  Align align = Align::left;
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
};

struct Bullets {
  std::vector<std::string> items;
};

// The last word of the certificate.
struct Verdict {
  bool holds = false;
  std::string text;
};

using Block = std::variant<Paragraph, Display, Table, Bullets, Verdict>;

struct Step {
  std::string title;
  std::vector<Block> blocks;
};

struct Document {
  std::string title;
  std::vector<Step> steps;
};

// Steps 0 and 1, value and primal problem, and steps 2 to 5, from the Lagrangian to the two forms. Dims give numbers
// such as F.
std::vector<Step> primal_steps(const Attention& attention, const Dims& dims);
std::vector<Step> dual_steps(const Attention& attention, const Dims& dims);

// Step 6.
struct CostRow {
  std::string scope, pass, form;  // "head 0" or "total"; forward or backward; dual or primal
  double multiply_adds = 0, additions = 0, exps = 0, bytes = 0, memory = 0;
};
std::vector<CostRow> cost_rows(const Attention& attention, const Dims& dims);
Step cost_step(const Attention& attention, const Dims& dims, const std::vector<CostRow>& rows);
// Why this attention has no primal form; empty when it has one.
std::vector<std::string> refusals_of(const Attention& attention);

// Step 7. The call owns seeded data of the given shapes.
class SeededCall {
 public:
  SeededCall(const Attention& attention, const Dims& dims, std::uint64_t seed);
  SeededCall(const SeededCall&) = delete;
  SeededCall& operator=(const SeededCall&) = delete;
  const Call& call() const { return call_; }

 private:
  TensorView keep(Tensor tensor);

  std::vector<Tensor> tensors_;
  Call call_;
};
struct Certificate;
Step certificate_step(const Certificate& certificate, const DerivationOptions& options);

// A piece of a text: literal, $formula$ or `code`.
struct Span {
  enum class Kind { literal, formula, code } kind = Kind::literal;
  std::string text;
};
std::vector<Span> spans_of(std::string_view text);
// Formulas in plain Unicode, code without its quotes.
std::string to_plain_text(std::string_view text);
// The lines of a display in plain Unicode, aligned at their &.
std::vector<std::string> to_plain_lines(const Display& display);

std::string render_text(const Document& document);
std::string render_markdown(const Document& document);
std::string render_latex(const Document& document);
std::string render_html(const Document& document);

}  // namespace saddle::primal

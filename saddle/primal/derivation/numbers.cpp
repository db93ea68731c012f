// Steps 6 and 7 of the derivation: what the attention costs, and the certificate on seeded data.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "saddle/base/random.hpp"
#include "saddle/primal/certificate.hpp"
#include "saddle/primal/cost.hpp"
#include "saddle/primal/derivation/document.hpp"

namespace saddle::primal {

namespace {

// Digits in groups of three: 1 048 576. Large counts are rounded to four digits.
std::string count(double value) {
  if (value >= 1e15) return fmt::format("{:.3e}", value);
  const std::string digits = fmt::format("{:.0f}", value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ' ';
    text += digits[i];
  }
  return text;
}

std::string small(double value) {
  return value == 0 ? "0" : std::isnan(value) ? "undefined" : fmt::format("{:.1e}", value);
}
std::string general(double value) { return fmt::format("{:.6g}", value); }

CostRow row_of(std::string scope, Pass pass, Form form, const Cost& cost) {
  return {std::move(scope),
          pass == Pass::forward ? "forward" : "backward",
          form == Form::dual ? "dual" : "primal",
          cost.multiply_adds,
          cost.additions,
          cost.exps,
          cost.bytes,
          cost.memory};
}

// Heads in runs of equal cost, as [first, last].
std::vector<std::pair<Index, Index>> runs_of_heads(const Attention& attention, const Dims& dims) {
  std::vector<std::pair<Index, Index>> runs;
  double previous_pairs = -1;
  for (Index h = 0; h < dims.H; ++h) {
    const double pairs = visible_pairs(attention, dims, h);
    const bool same =
        h > 0 && pairs == previous_pairs && keys_of(attention, dims, h) == keys_of(attention, dims, h - 1);
    if (same) {
      runs.back().second = h;
    } else {
      runs.emplace_back(h, h);
    }
    previous_pairs = pairs;
  }
  return runs;
}

std::string why_cheaper(const Attention& attention, const Dims& dims) {
  if (!refusals_of(attention).empty()) return "Only the dual form exists, so it is the one to use.";
  const Index F = *feature_count(attention.kernel, dims.D);
  double primal = 0, dual = 0;
  for (Index h = 0; h < dims.H; ++h) {
    primal += static_cast<double>(F * dims.E * (dims.N + keys_of(attention, dims, h)));
    dual += visible_pairs(attention, dims, h) * static_cast<double>(dims.D + dims.E);
  }
  const bool pooled = attention.pooling.has_value();
  std::string text = fmt::format(
      "The primal form grows with the sum of queries and keys, $F E (N + {0})$ = {1} summed over heads; the dual form "
      "with the "
      "number of visible pairs times $D + E$, {2}. Hence the {3} form is cheaper at these shapes.",
      pooled ? "N_s" : "M", count(primal), count(dual),
      cheaper_form(attention, dims) == Form::primal ? "primal" : "dual");
  if (attention.keys.empty() && !pooled) {
    const double break_even = 2.0 * static_cast<double>(F * dims.E) / static_cast<double>(dims.D + dims.E);
    text += fmt::format(" With $N = M$ they break even at $2 F E/(D + E) = {}$ tokens.", general(break_even));
  }
  return text;
}

}  // namespace

std::vector<CostRow> cost_rows(const Attention& attention, const Dims& dims) {
  std::vector<Form> forms{Form::dual};
  if (refusals_of(attention).empty()) forms.push_back(Form::primal);
  std::vector<CostRow> rows;
  for (const auto& [first, last] : runs_of_heads(attention, dims))
    for (Pass pass : {Pass::forward, Pass::backward})
      for (Form form : forms)
        rows.push_back(
            row_of(first == last ? fmt::format("head {}", first) : fmt::format("each of heads {} to {}", first, last),
                   pass, form, head_cost(attention, dims, first, form, pass)));
  for (Pass pass : {Pass::forward, Pass::backward})
    for (Form form : forms) rows.push_back(row_of("all", pass, form, attention_cost(attention, dims, form, pass)));
  return rows;
}

Step cost_step(const Attention& attention, const Dims& dims, const std::vector<CostRow>& rows) {
  Step step{"What it costs", {}};
  step.blocks.push_back(Paragraph{
      fmt::format("Counted from the formulas for $B = {}$, $H = {}$, $N = {}$, $M = {}$, $D = {}$, $E = {}$ in 32-bit "
                  "numbers. Bytes: inputs "
                  "read and outputs written once. Memory: what is needed beyond them if nothing is computed twice.",
                  dims.B, dims.H, dims.N, dims.M, dims.D, dims.E)});
  const bool pooled = attention.pooling.has_value();
  Table table{{{"scope"}, {"pass"}, {"form"}, {"multiply-adds", Align::right}}, {}};
  if (pooled) table.columns.push_back({"additions", Align::right});
  for (const char* title : {"exps", "bytes", "memory"}) table.columns.push_back({title, Align::right});
  for (const CostRow& row : rows) {
    std::vector<std::string> cells{row.scope, row.pass, row.form, count(row.multiply_adds)};
    if (pooled) cells.push_back(count(row.additions));
    for (double value : {row.exps, row.bytes, row.memory}) cells.push_back(count(value));
    table.rows.push_back(std::move(cells));
  }
  step.blocks.push_back(table);
  step.blocks.push_back(Paragraph{why_cheaper(attention, dims)});
  return step;
}

TensorView SeededCall::keep(Tensor tensor) {
  tensors_.push_back(std::move(tensor));
  return tensors_.back().view();
}

SeededCall::SeededCall(const Attention& attention, const Dims& dims, std::uint64_t seed) {
  Stream stream(seed, "derive");
  const auto normals = [&](const Shape& shape) {
    Tensor tensor(DType::f64, shape);
    for (Index i = 0; i < tensor.size(); ++i) tensor.set(i, stream.normal());
    return keep(std::move(tensor));
  };
  call_.attention = attention;
  call_.q = normals({dims.B, dims.H, dims.N, dims.D});
  call_.k = normals({dims.B, dims.H, dims.M, dims.D});
  call_.v = normals({dims.B, dims.H, dims.M, dims.E});
  if (attention.residual) call_.skip = normals({dims.B, dims.H, dims.N, dims.E});
  for (const KeySet& part : attention.keys) {
    if (std::holds_alternative<Padding>(part)) {  // the last quarter is padding
      Tensor keys(DType::u8, {dims.B, dims.M});
      for (Index i = 0; i < keys.size(); ++i) keys.set(i, 4 * (i % dims.M) < 3 * dims.M ? 1 : 0);
      call_.key_mask = keep(std::move(keys));
    }
    if (std::holds_alternative<Explicit>(part)) {  // three of four pairs are visible
      Tensor mask(DType::u8, {dims.B, dims.H, dims.N, dims.M});
      for (Index i = 0; i < mask.size(); ++i) mask.set(i, stream.uniform() < 0.75 ? 1 : 0);
      call_.mask = keep(std::move(mask));
    }
  }
  // Trained parameters leave their initial values, where a convolution or a bias would do nothing.
  for (const ParameterInfo& info : parameters(attention, dims)) {
    Tensor values(DType::f64, info.shape);
    for (Index i = 0; i < values.size(); ++i)
      values.set(i, info.initial[static_cast<std::size_t>(i)] + (info.learnable ? 0.25 * stream.normal() : 0.0));
    call_.parameters[info.name] = keep(std::move(values));
  }
}

Step certificate_step(const Certificate& certificate, const DerivationOptions& options) {
  Step step{"The certificate", {}};
  const auto& set = certificate.set;
  const Table columns{{{"quantity"}, {"value", Align::right}, {"meaning", Align::wrap}}, {}};
  step.blocks.push_back(Paragraph{fmt::format(
      "The claim is checked with numbers: standard normal data of the shapes above, seed {}; trained parameters are "
      "moved off "
      "their initial values. The regression is that of query {} of head {} in sample {}, with {} key{}.",
      options.seed, set.query, set.head, set.sample, set.indices.size(), set.indices.size() == 1 ? "" : "s")});

  step.blocks.push_back(
      Paragraph{"From the layer to its regression. The products $h(T k_j) v_j$ are taken as net multipliers $a_j - "
                "\\tilde a_j$, and "
                "targets are chosen for which the layer should be optimal. No gap between the objectives and no KKT "
                "residual prove that it is."});
  Table layer = columns;
  layer.rows = {
      {"$C$", general(certificate.C), "box, larger than every multiplier"},
      {"$\\varepsilon$", general(certificate.epsilon), "half-width of the tube"},
      {"primal objective", general(certificate.primal), "summed over channels"},
      {"dual objective", general(certificate.dual), "summed over channels"},
      {"duality gap", small(certificate.gap), "relative, worst channel"},
      {"KKT residual", small(certificate.kkt), "relative to $1 + C$ where $G$ and $f$ have size one, worst channel"},
      {"solved again", small(certificate.resolved), "layer against the solver's fit of the same targets, at the keys"}};
  step.blocks.push_back(layer);

  step.blocks.push_back(
      Paragraph{"From targets to a layer. The regression is solved for random targets, and its multipliers, divided "
                "by $h(T k_j)$, are put into the attention as values. It must return the fit."});
  Table fit = columns;
  fit.rows = {{"duality gap", small(certificate.solve_gap), "of the solver, relative"},
              {"KKT residual", small(certificate.solve_kkt), "of the solver, relative to $1 + C$"},
              {"support vectors", fmt::format("{} of {}", certificate.support_vectors, certificate.multipliers),
               "multipliers that are not zero, over keys and channels"},
              {"attention against fit", small(certificate.fit), "largest relative difference at the keys"}};
  step.blocks.push_back(fit);

  const bool truncated = certificate.taylor_order >= 0;
  step.blocks.push_back(
      Paragraph{"Primal against dual form at the query" +
                std::string(truncated ? ". $\\Phi$ is infinite, so its Taylor map is cut off where the error "
                                        "no longer shows, or where it grows too large."
                                      : ".")});
  Table forms = columns;
  forms.rows = {
      {"features", count(static_cast<double>(certificate.features)), truncated ? "used of infinitely many" : "$F$"}};
  if (truncated) {
    forms.rows.push_back({"Taylor degree", std::to_string(certificate.taylor_order), "highest degree used"});
    forms.rows.push_back({"truncation error", small(certificate.truncation), "relative, of the kernel on the data"});
  }
  forms.rows.push_back(
      {"primal against dual", small(certificate.primal_dual), "largest relative difference of the two outputs"});
  step.blocks.push_back(forms);
  if (certificate.truncation > 1e-8 && std::isfinite(certificate.truncation))
    step.blocks.push_back(Paragraph{fmt::format(
        "{} features reach degree {} at this width. The kernel is off by up to {} there, so the last line is no "
        "sharper "
        "than that; a smaller $D$ shows more.",
        count(static_cast<double>(certificate.features)), certificate.taylor_order, small(certificate.truncation))});

  if (!certificate.notes.empty()) {
    step.blocks.push_back(Paragraph{"Notes:"});
    Bullets notes;
    for (std::string note : certificate.notes) {
      std::replace_if(
          note.begin(), note.end(), [](char c) { return c == '$' || c == '`'; }, '\'');
      notes.items.push_back(std::move(note));
    }
    step.blocks.push_back(notes);
  }
  step.blocks.push_back(Verdict{
      certificate.holds(), certificate.holds()
                               ? "The certificate holds: on this data the attention is the optimum of its regression."
                               : "The certificate does not hold: a number above exceeds its tolerance, or a "
                                 "solver did not converge."});
  return step;
}

}  // namespace saddle::primal

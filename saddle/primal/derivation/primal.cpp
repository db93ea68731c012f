// Steps 0 and 1 of the derivation: the value and its primal problem.
#include <fmt/format.h>

#include <algorithm>

#include "saddle/base/text.hpp"
#include "saddle/primal/derivation/document.hpp"
#include "saddle/primal/derivation/symbols.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::primal {

namespace {

std::string math(const std::string& formula) { return "$" + formula + "$"; }

// The name in the literature of kernel, normaliser, transform and reduction together; empty if there is none.
std::string known_as(const Attention& attention) {
  if (const auto* linear = std::get_if<Linear>(&attention.kernel))
    return linear->map == FeatureMapKind::elu1 && std::holds_alternative<RowSum>(attention.normaliser) &&
                   attention.transforms.empty() && !attention.pooling
               ? "linear attention"
               : "";
  if (attention.kernel != Kernel(ExpDot{}) || !is_softmax(attention) || attention.transforms.size() > 1) return "";
  if (attention.transforms.empty()) return attention.pooling ? "Attention-SH" : "softmax attention";
  if (has_transform<BatchNorm>(attention)) return attention.pooling ? "Attention-BN+SH" : "Attention-BN";
  if (attention.pooling) return "";
  return has_transform<Conv1d>(attention)   ? "Attention-Conv1D"
         : has_transform<Conv2d>(attention) ? "Attention-Conv2D"
                                            : "";
}

// The written form of the parts of one role, "none" if nothing is written.
std::string written_parts(const Attention& attention, std::initializer_list<std::string_view> roles) {
  std::vector<std::string> found;
  for (const Term& term : parse_terms(to_text(attention)))
    for (const PartHelp& part : all_parts())
      if (part.name == term.name && std::find(roles.begin(), roles.end(), part.role) != roles.end()) {
        std::vector<std::string> arguments;
        for (const Argument& argument : term.arguments)
          arguments.push_back(argument.key.empty() ? argument.value : argument.key + "=" + argument.value);
        found.push_back("`" + term.name + (arguments.empty() ? "" : "(" + join(arguments, ",") + ")") + "`");
      }
  return found.empty() ? "none" : join(found, " ");
}

std::string key_set_formula(const Attention& attention) {
  std::vector<std::string> conditions;
  for (const KeySet& part : attention.keys) conditions.push_back(key_condition(part));
  return "M_i = \\lbrace j : " + join(conditions, " \\text{ and } ") + " \\rbrace";
}

std::string pooled_set_formula(const Attention& attention) {
  const bool any = visibility_of(attention, *attention.pooling) == Visibility::any;
  return std::string("\\bar M_i = \\lbrace J : P_J ") +
         (any ? "\\cap M_i \\ne \\emptyset \\rbrace" : "\\subseteq M_i \\rbrace");
}

// T applied to a single x, for tables and text.
std::string transform_formula(const Attention& attention) {
  if (attention.transforms.empty()) return "T x = x";
  const bool tokens = std::any_of(attention.transforms.begin(), attention.transforms.end(), mixes_tokens);
  return tokens ? "(T x)_i = " + transformed(attention, attention.transforms.size(), "x", "i").latex
                : "T x = " + transformed(attention, attention.transforms.size(), "x", "").latex;
}

std::string offset_meaning(const Attention& attention) {
  std::vector<std::string> parts;
  if (attention.bias) parts.emplace_back("a free bias $b$ per head and channel");
  if (attention.residual) parts.emplace_back("a skip $r(x)$ added to the output");
  return parts.empty() ? "$b = 0$" : join(parts, " and ");
}

std::string factor_list(const Attention& attention, const Dims& dims) {
  std::vector<std::string> factors;
  for (Index f : pooling_factors(*attention.pooling, dims.H)) factors.push_back(std::to_string(f));
  return join(factors, ", ");
}

Step value_step(const Attention& attention, const Dims& dims, const Symbols& symbols) {
  Step step{"The value", {}};
  const std::string name = known_as(attention);
  const std::string bare = attention.keys.empty() ? "It is " : "On all keys it would be ";
  step.blocks.push_back(Paragraph{"`" + to_text(attention) + "` declares this attention. " +
                                  (name.empty() ? "" : bare + name + ". ") +
                                  "Everything below follows from its parts."});
  Table parts{{{"part"}, {"written"}, {"meaning", Align::wrap}}, {}};
  parts.rows.push_back({"kernel", written_parts(attention, {"kernel"}),
                        math("\\kappa(x, x') = " + kappa(attention.kernel, {"x"}, {"x'"}))});
  const std::string normaliser_text = written_parts(attention, {"normaliser"});
  const std::string default_name =
      std::visit([](const auto& part) { return std::string(part.name); }, attention.normaliser);
  parts.rows.push_back({"normaliser", normaliser_text == "none" ? "`" + default_name + "` (default)" : normaliser_text,
                        math("h(x) = " + normaliser(attention, symbols))});
  parts.rows.push_back({"transform", written_parts(attention, {"transform"}), math(transform_formula(attention))});
  parts.rows.push_back({"reduction", written_parts(attention, {"reduction"}),
                        attention.pooling
                            ? "head $s$ is fitted on keys and values averaged over windows of $f_s$ tokens, $f$ = " +
                                  factor_list(attention, dims)
                            : "every key is a training input"});
  parts.rows.push_back({"key sets", written_parts(attention, {"keys"}),
                        attention.keys.empty() ? "every query sees all keys" : math(key_set_formula(attention))});
  parts.rows.push_back({"offset", written_parts(attention, {"offset"}), offset_meaning(attention)});
  step.blocks.push_back(parts);

  Table letters{{{"letter"}, {"here", Align::right}, {"meaning", Align::wrap}}, {}};
  const auto letter = [&](const std::string& symbol, const std::string& here, const std::string& meaning) {
    letters.rows.push_back({math(symbol), here, meaning});
  };
  letter("N", std::to_string(dims.N), "queries $q_i$, the points where the layer is evaluated");
  letter("M", std::to_string(dims.M), "keys $k_j$, the training inputs; values $v_j$");
  letter("D", std::to_string(dims.D), "width of queries and keys; $x(d)$ is coordinate $d$");
  letter("E", std::to_string(dims.E), "width of values and outputs; $e$ is an output channel");
  const auto F = feature_count(attention.kernel, dims.D);
  letter("F", F ? std::to_string(*F) : "infinite", "features, the width of $\\Phi$");
  letter("H", std::to_string(dims.H), "heads; each head $s$ is a regression of its own");
  step.blocks.push_back(letters);

  std::vector<std::string> owned;
  for (const ParameterInfo& info : parameters(attention, dims))
    owned.push_back("`" + info.name + "` of shape " + to_string(info.shape) +
                    (info.learnable ? ", trained" : ", constant"));
  step.blocks.push_back(Paragraph{"Positions and indices count from 0. " +
                                  (owned.empty() ? std::string("The attention has no parameters of its own.")
                                                 : "Parameters of the attention: " + join(owned, "; ") + ".")});
  return step;
}

// Why h is not zero, or what may go wrong.
std::string normaliser_reason(const Attention& attention) {
  if (!std::holds_alternative<RowSum>(attention.normaliser)) return "It does not depend on the data and is never zero.";
  switch (sign_of(attention.kernel)) {
    case Sign::positive: return "It is positive at every point, because $\\kappa > 0$.";
    case Sign::vanishing:
      return "It is positive at every point, because $\\kappa \\ge 0$ and $" + number(den_eps(attention)) + " > 0$.";
    case Sign::changing: break;
  }
  return "This kernel changes sign, so the sum can come close to zero; the derivation holds at every point where it is "
         "not.";
}

void describe_parts(const Attention& attention, const Dims& dims, const Symbols& symbols, Step& step) {
  const FeatureText features = feature_map(attention.kernel);
  step.blocks.push_back(Paragraph{"The kernel is the product of two feature vectors:"});
  step.blocks.push_back(
      Display{{"\\kappa(x, x') = \\Phi(x) \\cdot \\Phi(x')" +
               (score_form(attention.kernel, dims.D) ? " = " + kappa(attention.kernel, {"x"}, {"x'"}) : "")}});
  step.blocks.push_back(Paragraph{features.sentence});
  step.blocks.push_back(Display{features.lines});

  if (attention.pooling) {
    const Pooling& pooling = *attention.pooling;
    step.blocks.push_back(Paragraph{
        std::string("The training set of head $s$ is reduced first. Window $P_J$ holds ") +
        (pooling.pool == PoolShape::one_d ? "$f_s$ successive tokens" : "$f_s \\times f_s$ tokens of the grid") +
        (pooling.prefix > 0 ? "; the first " + std::to_string(pooling.prefix) + " tokens stay windows of their own"
                            : "") +
        (pooling.tail == Tail::partial ? "; a last short window averages the tokens it has"
                                       : "; a last short window is left out") +
        ". Queries are not pooled."});
    std::vector<std::string> lines;
    if (pooling.pool == PoolShape::one_d)
      lines.emplace_back("P_J &= \\lbrace J f_s, \\ldots, J f_s + f_s - 1 \\rbrace \\quad J < N_s = \\l" +
                         std::string(pooling.tail == Tail::partial ? "ceil M/f_s \\rceil" : "floor M/f_s \\rfloor"));
    lines.emplace_back("\\bar k_J &= \\frac{1}{\\lvert P_J \\rvert} \\sum_{t \\in P_J} k_t");
    lines.emplace_back("\\bar v_J &= \\frac{1}{\\lvert P_J \\rvert} \\sum_{t \\in P_J} v_t");
    step.blocks.push_back(Display{lines});
    Table heads{{{"head s", Align::right}, {"factor $f_s$", Align::right}, {"keys $N_s$", Align::right}}, {}};
    for (Index s = 0; s < dims.H; ++s)
      heads.rows.push_back({std::to_string(s), std::to_string(factor_of(attention, dims, s)),
                            std::to_string(keys_of(attention, dims, s))});
    step.blocks.push_back(heads);
  }
  if (!attention.transforms.empty()) {
    const std::string of = attention.pooling ? "pooled keys" : "keys";
    step.blocks.push_back(
        Paragraph{"The transform is the same map for queries and keys" +
                  std::string(has_transform<BatchNorm>(attention)
                                  ? "; its statistics are those of the " + of +
                                        (first_per_query_transform(attention) < attention.transforms.size()
                                             ? " that query $i$ sees, $n$ in number:"
                                             : ", $n$ in number:")
                                  : std::string(":"))});
    std::vector<std::string> lines{transform_formula(attention)};
    lines[0].insert(lines[0].find(" = ") + 1, "&");
    for (const std::string& line : transform_lines(attention, symbols)) lines.push_back(line);
    step.blocks.push_back(Display{lines});
    if (has_transform<BatchNorm>(attention) && has_keys<Padding>(attention))
      step.blocks.push_back(Paragraph{"Padded keys do not count in the statistics."});
    if (has_transform<Conv1d>(attention) || has_transform<Conv2d>(attention))
      step.blocks.push_back(
          Paragraph{"Positions outside the range count as 0. The kernel $c$ is trained and starts as the unit "
                    "impulse, where $c \\ast x = x$."});
  }
  if (!attention.keys.empty()) {
    step.blocks.push_back(Paragraph{"Query $i$ is answered by the regression on the keys it sees:"});
    std::vector<std::string> lines{key_set_formula(attention)};
    if (attention.pooling) lines.push_back(pooled_set_formula(attention));
    for (std::string& line : lines) line.insert(line.find(" = ") + 1, "&");
    step.blocks.push_back(Display{lines});
    if (has_keys<Fixed>(attention))
      step.blocks.push_back(Paragraph{"$V_s$ holds the summary columns of head $s$ within a stride."});
  }
  step.blocks.push_back(Paragraph{"The normaliser is a number for every point:"});
  step.blocks.push_back(Display{{"h(x) = " + normaliser(attention, symbols)}});
  step.blocks.push_back(Paragraph{normaliser_reason(attention)});
}

Step primal_step(const Attention& attention, const Dims& dims, const Symbols& symbols) {
  Step step{"The primal problem", {}};
  const Regression r(attention, symbols);
  step.blocks.push_back(Paragraph{"The layer is linear in the features of its input, divided by a scalar:"});
  step.blocks.push_back(Display{{"f(x) = \\frac{W \\Phi(" + r.tx + ")}{h(" + r.tx + ")}" +
                                 (attention.bias ? " + b" : "") + (attention.residual ? " + r(x)" : "")}});
  describe_parts(attention, dims, symbols, step);
  step.blocks.push_back(Paragraph{
      "The layer is fitted to pairs (" + math(symbols.k) + ", " + math("y_" + symbols.j) +
      ") by support vector regression: weights stay small, errors up to $\\varepsilon$ are free, larger ones cost $C$ "
      "each. "
      "Output channels are independent; $w_e$ is row $e$ of $W$." +
      (attention.residual
           ? " The skip is fixed, so the regression fits what it leaves over: $y$ stands for target minus $r$."
           : "") +
      (attention.bias ? " The bias $b$ is fitted too." : " There is no bias: $b = 0$.") + " With $u_" + r.j +
      " = \\Phi(" + r.tk + ")/h(" + r.tk + ")$, channel $e$ solves"});
  step.blocks.push_back(Display{
      {"\\text{minimise} &\\quad \\frac{1}{2} \\lVert w_e \\rVert^2 + C " + r.sum() + " (" + r.at("\\xi") + " + " +
           r.at("\\tilde \\xi") + ")",
       "\\text{subject to} &\\quad " + r.at("y") + " - " + r.minus_fitted() + " \\le \\varepsilon + " + r.at("\\xi"),
       "&\\quad " + r.fitted() + " - " + r.at("y") + " \\le \\varepsilon + " + r.at("\\tilde \\xi"),
       "&\\quad " + r.at("\\xi") + " \\ge 0, " + r.at("\\tilde \\xi") + " \\ge 0 \\quad \\text{for all } " + r.range}});
  return step;
}

}  // namespace

std::vector<Step> primal_steps(const Attention& attention, const Dims& dims) {
  const Symbols symbols(attention);
  return {value_step(attention, dims, symbols), primal_step(attention, dims, symbols)};
}

}  // namespace saddle::primal

// Steps 0 to 5 of the derivation: what follows from the value alone.
#include <fmt/format.h>

#include <algorithm>

#include "saddle/base/text.hpp"
#include "saddle/primal/derivation_document.hpp"
#include "saddle/primal/derivation_symbols.hpp"
#include "saddle/primal/primal_form.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::primal {

namespace {

std::string math(const std::string& formula) { return "$" + formula + "$"; }

template <class P>
bool has_transform(const Attention& attention) {
  return std::any_of(attention.transforms.begin(), attention.transforms.end(),
                     [](const Transform& part) { return std::holds_alternative<P>(part); });
}
template <class P>
bool has_keys(const Attention& attention) {
  return std::any_of(attention.keys.begin(), attention.keys.end(),
                     [](const KeySet& part) { return std::holds_alternative<P>(part); });
}

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
  return has_transform<Conv1d>(attention) ? "Attention-Conv1D" : has_transform<Conv2d>(attention) ? "Attention-Conv2D" : "";
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
  const std::string default_name = std::visit([](const auto& part) { return std::string(part.name); }, attention.normaliser);
  parts.rows.push_back({"normaliser", normaliser_text == "none" ? "`" + default_name + "` (default)" : normaliser_text,
                        math("h(x) = " + normaliser(attention, symbols))});
  parts.rows.push_back(
      {"transform", written_parts(attention, {"transform"}), math(transform_formula(attention))});
  parts.rows.push_back({"reduction", written_parts(attention, {"reduction"}),
                        attention.pooling ? "head $s$ is fitted on keys and values averaged over windows of $f_s$ tokens, $f$ = " +
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
    owned.push_back("`" + info.name + "` of shape " + to_string(info.shape) + (info.learnable ? ", trained" : ", constant"));
  step.blocks.push_back(Paragraph{
      "Positions and indices count from 0. " +
      (owned.empty() ? std::string("The attention has no parameters of its own.") : "Parameters of the attention: " + join(owned, "; ") + ".")});
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
  return "This kernel changes sign, so the sum can come close to zero; the derivation holds at every point where it is not.";
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
        (pooling.prefix > 0 ? "; the first " + std::to_string(pooling.prefix) + " tokens stay windows of their own" : "") +
        (pooling.tail == Tail::partial ? "; a last short window averages the tokens it has" : "; a last short window is left out") +
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
    step.blocks.push_back(Paragraph{"The transform is the same map for queries and keys" +
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
      step.blocks.push_back(Paragraph{"Positions outside the range count as 0. The kernel $c$ is trained and starts as the unit "
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

// The letters of the regression, with the indices of this value.
struct Regression {
  std::string j, tx, tk, range, b;

  Regression(const Attention& attention, const Symbols& symbols)
      : j(symbols.j),
        tx(attention.transforms.empty() ? "x" : "T x"),
        tk((attention.transforms.empty() ? "" : "T ") + symbols.k),
        range(symbols.range),
        b(attention.bias ? " + b_e" : "") {}

  std::string at(const std::string& symbol) const { return symbol + "_{" + j + "e}"; }
  std::string sum() const { return "\\sum_{" + range + "}"; }
  std::string fitted() const { return "w_e \\cdot u_" + j + b; }
  std::string minus_fitted() const { return "w_e \\cdot u_" + j + (b.empty() ? "" : " - b_e"); }
};

Step primal_step(const Attention& attention, const Dims& dims, const Symbols& symbols) {
  Step step{"The primal problem", {}};
  const Regression r(attention, symbols);
  step.blocks.push_back(Paragraph{"The layer is linear in the features of its input, divided by a scalar:"});
  step.blocks.push_back(Display{{"f(x) = \\frac{W \\Phi(" + r.tx + ")}{h(" + r.tx + ")}" +
                                 (attention.bias ? " + b" : "") + (attention.residual ? " + r(x)" : "")}});
  describe_parts(attention, dims, symbols, step);
  step.blocks.push_back(Paragraph{
      "The layer is fitted to pairs (" + math(symbols.k) + ", " + math("y_" + symbols.j) +
      ") by support vector regression: weights stay small, errors up to $\\varepsilon$ are free, larger ones cost $C$ each. "
      "Output channels are independent; $w_e$ is row $e$ of $W$." +
      (attention.residual ? " The skip is fixed, so the regression fits what it leaves over: $y$ stands for target minus $r$."
                          : "") +
      (attention.bias ? " The bias $b$ is fitted too." : " There is no bias: $b = 0$.") +
      " With $u_" + r.j + " = \\Phi(" + r.tk + ")/h(" + r.tk + ")$, channel $e$ solves"});
  step.blocks.push_back(Display{
      {"\\text{minimise} &\\quad \\frac{1}{2} \\lVert w_e \\rVert^2 + C " + r.sum() + " (" + r.at("\\xi") + " + " +
           r.at("\\tilde \\xi") + ")",
       "\\text{subject to} &\\quad " + r.at("y") + " - " + r.minus_fitted() + " \\le \\varepsilon + " + r.at("\\xi"),
       "&\\quad " + r.fitted() + " - " + r.at("y") + " \\le \\varepsilon + " + r.at("\\tilde \\xi"),
       "&\\quad " + r.at("\\xi") + " \\ge 0, " + r.at("\\tilde \\xi") + " \\ge 0 \\quad \\text{for all } " + r.range}});
  return step;
}

Step lagrangian_step(const Attention& attention, const Symbols& symbols) {
  const Regression r(attention, symbols);
  Step step{"The Lagrangian", {}};
  step.blocks.push_back(Paragraph{"Every constraint gets a multiplier: $" + r.at("a") + "$ and $" + r.at("\\tilde a") +
                                  "$ for the upper and the lower side of the tube, $" + r.at("\\eta") + "$ and $" +
                                  r.at("\\tilde \\eta") + "$ for the slacks. All are $\\ge 0$. For channel $e$:"});
  step.blocks.push_back(Display{
      {"L_e = &\\frac{1}{2} \\lVert w_e \\rVert^2 + C " + r.sum() + " (" + r.at("\\xi") + " + " + r.at("\\tilde \\xi") +
           ") - " + r.sum() + " (" + r.at("\\eta") + " " + r.at("\\xi") + " + " + r.at("\\tilde \\eta") + " " +
           r.at("\\tilde \\xi") + ")",
       "&- " + r.sum() + " " + r.at("a") + " (\\varepsilon + " + r.at("\\xi") + " - " + r.at("y") + " + " + r.fitted() + ")",
       "&- " + r.sum() + " " + r.at("\\tilde a") + " (\\varepsilon + " + r.at("\\tilde \\xi") + " + " + r.at("y") + " - " +
           r.minus_fitted() + ")"}});
  step.blocks.push_back(
      Paragraph{"The problem is convex, because $\\kappa$ is positive semi-definite and stays so when divided by $h h'$. "
                "Its solution is the saddle point of $L_e$: a minimum in $w_e$" +
                std::string(attention.bias ? ", $b_e$" : "") + " and the slacks, a maximum in the multipliers."});
  return step;
}

Step stationarity_step(const Attention& attention, const Symbols& symbols) {
  const Regression r(attention, symbols);
  Step step{"Stationarity", {}};
  step.blocks.push_back(Paragraph{"At the saddle point the derivatives vanish:"});
  const std::string net = "(" + r.at("a") + " - " + r.at("\\tilde a") + ")";
  std::vector<std::string> lines{"\\frac{\\partial L_e}{\\partial w_e} = 0 &\\Rightarrow w_e = " + r.sum() + " " + net +
                                 " \\frac{\\Phi(" + r.tk + ")}{h(" + r.tk + ")}"};
  if (attention.bias)
    lines.push_back("\\frac{\\partial L_e}{\\partial b_e} = 0 &\\Rightarrow " + r.sum() + " " + net + " = 0");
  lines.push_back("\\frac{\\partial L_e}{\\partial " + r.at("\\xi") + "} = 0 &\\Rightarrow " + r.at("\\eta") + " = C - " +
                  r.at("a") + ", 0 \\le " + r.at("a") + " \\le C");
  lines.push_back("\\frac{\\partial L_e}{\\partial " + r.at("\\tilde \\xi") + "} = 0 &\\Rightarrow " + r.at("\\tilde \\eta") +
                  " = C - " + r.at("\\tilde a") + ", 0 \\le " + r.at("\\tilde a") + " \\le C");
  step.blocks.push_back(Display{lines});
  if (!attention.bias)
    step.blocks.push_back(Paragraph{"Without a bias there is no derivative in $b$, so the multipliers need not sum to zero."});
  step.blocks.push_back(Paragraph{"A multiplier times the slack of its constraint is zero at the optimum:"});
  step.blocks.push_back(Display{
      {r.at("a") + " (\\varepsilon + " + r.at("\\xi") + " - " + r.at("y") + " + " + r.fitted() + ") &= 0",
       r.at("\\tilde a") + " (\\varepsilon + " + r.at("\\tilde \\xi") + " + " + r.at("y") + " - " + r.minus_fitted() + ") &= 0",
       "(C - " + r.at("a") + ") " + r.at("\\xi") + " &= 0", "(C - " + r.at("\\tilde a") + ") " + r.at("\\tilde \\xi") + " &= 0"}});
  step.blocks.push_back(Paragraph{"Hence a key strictly inside the tube has $a = \\tilde a = 0$: it is no support vector. "
                                  "For $\\varepsilon > 0$ at most one of the two is not zero."});
  return step;
}

// softmax over scores of batch-normalised tokens: terms that do not depend on the key cancel.
void simplify_batch_norm(const Attention& attention, const Symbols& symbols, Step& step) {
  if (attention.transforms.empty()) return;
  const auto* bn = std::get_if<BatchNorm>(&attention.transforms.back());
  if (bn == nullptr) return;
  const bool plain = bn->scale == ScaleMode::none;
  if (std::holds_alternative<Rbf>(attention.kernel) && plain) {
    step.blocks.push_back(Paragraph{"An RBF kernel depends on differences only, and bn without scaling shifts queries and keys "
                                    "by the same vector. So here bn changes nothing, whatever $\\beta$ is."});
    return;
  }
  if (!std::holds_alternative<ExpDot>(attention.kernel)) {
    if (std::holds_alternative<Linear>(attention.kernel))
      step.blocks.push_back(Paragraph{"The terms with $\\beta$ do not cancel here: unlike the exponential, this kernel does not "
                                      "turn a sum of scores into a product."});
    return;
  }
  if (!is_softmax(attention)) return;
  const std::size_t before = attention.transforms.size() - 1;
  const std::string mu = stats_of(attention, *bn) == Stats::subset ? "\\mu_i" : "\\mu";
  const std::string sigma = stats_of(attention, *bn) == Stats::subset ? "\\sigma_i" : "\\sigma";
  const Point q = transformed(attention, before, "q", "i");
  const Point k = transformed(attention, before, attention.pooling ? "\\bar k" : "k", symbols.j);
  const std::string shifted = q.latex + " - \\beta" + mu;
  step.blocks.push_back(
      Paragraph{"Softmax does not see terms that are the same for all keys. The shift of the key drops out, and the original "
                "keys remain, with modified queries:"});
  const std::string modified = plain ? shifted : "\\frac{" + shifted + "}{" + sigma + "^2}";
  step.blocks.push_back(Display{{"\\tilde q_i &= " + modified,
                                 "y_i &= " + expansion(attention, symbols, {"\\tilde q_i"}, k)}});
  step.blocks.push_back(Paragraph{
      "So any fused softmax kernel computes it. " +
      (plain ? "The logit is " + math(score(attention.kernel, q, k) + " - \\beta " + score(attention.kernel, {mu}, k)) +
                   ": each key pays for its similarity to the mean key. "
             : std::string()) +
      (plain ? "With $\\beta = 0$ bn has no effect." : "")});
}

Step expansion_step(const Attention& attention, const Symbols& symbols) {
  Step step{"The expansion", {}};
  const Regression r(attention, symbols);
  step.blocks.push_back(Paragraph{"Call the scaled net multipliers of a key, over all channels, its value, and put $w_e$ into the "
                                  "layer. The kernel appears by itself, and $W$ is gone:"});
  step.blocks.push_back(
      Display{{symbols.v + " &= \\frac{a_" + r.j + " - \\tilde a_" + r.j + "}{h(" + r.tk + ")}",
               "f(x) &= " + symbols.sum() + " \\frac{\\kappa(" + r.tx + ", " + r.tk + ")}{h(" + r.tx + ")} " + symbols.v +
                   (attention.bias ? " + b" : "") + (attention.residual ? " + r(x)" : "")}});
  const std::string base = attention.pooling ? "\\bar k" : "k";
  const auto count = attention.transforms.size();
  const Point q = transformed(attention, count, "q", "i"), k = transformed(attention, count, base, symbols.j);
  step.blocks.push_back(Paragraph{"The attention is $f$ at $x = q_i$, with the kernel" +
                                  std::string(count > 0 ? ", the transform" : "") + " and the normaliser of this value:"});
  if (count > 0) {
    step.blocks.push_back(Display{{symbols.query_point + " &= " + q.latex, symbols.key_point + " &= " + k.latex,
                                   "y_i &= " + expansion(attention, symbols, {symbols.query_point}, {symbols.key_point})}});
    step.blocks.push_back(Paragraph{"and with everything written out:"});
  }
  if (count > 0 && !is_softmax(attention) && std::holds_alternative<RowSum>(attention.normaliser)) {
    const std::string weight = "A_{i" + symbols.j + "}";
    const double eps = den_eps(attention);
    step.blocks.push_back(Display{{weight + " &= " + kappa(attention.kernel, q, k),
                                   "y_i &= \\frac{" + symbols.sum() + " " + weight + " " + symbols.v + "}{" + symbols.sum() +
                                       " " + weight + (eps > 0 ? " + " + number(eps) : "") + "}" + symbols.offset}});
  } else {
    step.blocks.push_back(Display{{"y_i = " + expansion(attention, symbols, q, k)}});
  }
  if (std::holds_alternative<Rbf>(attention.kernel) && is_softmax(attention))
    step.blocks.push_back(Paragraph{"The term with the norm of the query is the same for all keys and drops out of the softmax: "
                                    "what remains is a dot product with a penalty for long keys."});
  simplify_batch_norm(attention, symbols, step);
  if (attention.pooling)
    step.blocks.push_back(Paragraph{"Head $s$ sums over its $N_s$ pooled keys; every pooled key counts once. Averaging commutes "
                                    "with the projections, so pooling the tokens before projecting them gives the same numbers."});
  if (differs_between_queries(attention))
    step.blocks.push_back(Paragraph{"Strictly, every set $M_i$ has a regression and multipliers of its own. The layer shares one "
                                    "$v_j$ among all queries: a modelling step, not a consequence."});
  if (attention.residual)
    step.blocks.push_back(Paragraph{"The skip returns as $r_i$, its value at query $i$; it changed the targets to $y - r$, not the form of the dual."});
  if (!attention.keys.empty())
    step.blocks.push_back(Paragraph{"A query that sees nothing gets " +
                                    (symbols.offset.empty() ? std::string("0") : math(symbols.offset.substr(3))) + "."});
  step.blocks.push_back(
      Paragraph{"A trained layer does not solve for the values: $v_j = W_V x_j$ is learned. The only trace of the box is $\\lvert "
                "v \\rvert \\le C/\\lvert h \\rvert$, met by every large enough $C$. The certificate goes back from values to multipliers."});
  return step;
}

Step forms_step(const Attention& attention, const Dims& dims, const Symbols& symbols) {
  Step step{"Two ways to evaluate it", {}};
  step.blocks.push_back(Paragraph{"The dual form needs the kernel only, whatever the number of features. It visits every visible "
                                  "pair of query and key:"});
  step.blocks.push_back(
      Display{{"y_i = " + expansion(attention, symbols, {symbols.query_point}, {symbols.key_point})}});
  const auto refusals = refusals_of(attention);
  if (!refusals.empty()) {
    step.blocks.push_back(Paragraph{"There is no primal form:"});
    step.blocks.push_back(Bullets{refusals});
    return step;
  }
  const bool running = is_causal(attention.keys);
  const bool row_sum = std::holds_alternative<RowSum>(attention.normaliser);
  const Index F = *feature_count(attention.kernel, dims.D);
  step.blocks.push_back(Paragraph{fmt::format(
      "The primal form builds $W$ once. Since $v$ carries $1/h$, the normaliser of the keys cancels. $\\Phi$ has $F = {}$ "
      "features at $D = {}$, so $W$ is {} by {}{}.",
      F, dims.D, dims.E, F, row_sum ? fmt::format(" and $z$ has {} entries", F) : "")});
  const std::string w = running ? "W_i" : "W", z = running ? "z_i" : "z";
  const std::string phi_k = "\\Phi(" + symbols.key_point + ")", phi_q = "\\Phi(" + symbols.query_point + ")";
  std::vector<std::string> lines{w + " &= " + symbols.sum() + " " + symbols.v + " " + phi_k + "^\\top"};
  if (row_sum) lines.push_back(z + " &= " + symbols.sum() + " " + phi_k);
  const std::string fixed = fixed_normaliser(attention, symbols);
  const double eps = den_eps(attention);
  const std::string product = w + " " + phi_q;
  const std::string below = row_sum ? z + " \\cdot " + phi_q + (eps > 0 ? " + " + number(eps) : "") : fixed;
  lines.push_back("y_i &= " + (below == "1" ? product : "\\frac{" + product + "}{" + below + "}") + symbols.offset);
  step.blocks.push_back(Display{lines});
  if (running)
    step.blocks.push_back(Paragraph{"The key sets only grow with $i$, so $W_i$" + std::string(row_sum ? " and $z_i$ are" : " is") +
                                    " a running sum: each key is added once. It is also the state of a decoder."});
  step.blocks.push_back(Paragraph{"Both forms give the same numbers up to rounding."});
  return step;
}

}  // namespace

std::vector<std::string> refusals_of(const Attention& attention) {
  return primal_form_refusals(attention, has_keys<Explicit>(attention));
}

std::vector<Step> theory_steps(const Attention& attention, const Dims& dims) {
  const Symbols symbols(attention);
  return {value_step(attention, dims, symbols),     primal_step(attention, dims, symbols),
          lagrangian_step(attention, symbols),      stationarity_step(attention, symbols),
          expansion_step(attention, symbols),       forms_step(attention, dims, symbols)};
}

}  // namespace saddle::primal

// Steps 2 to 5 of the derivation: from the Lagrangian to the attention and its two forms.
#include <fmt/format.h>

#include "saddle/primal/derivation/document.hpp"
#include "saddle/primal/derivation/symbols.hpp"
#include "saddle/primal/primal_form.hpp"

namespace saddle::primal {

namespace {

std::string math(const std::string& formula) { return "$" + formula + "$"; }

Step lagrangian_step(const Attention& attention, const Symbols& symbols) {
  const Regression r(attention, symbols);
  Step step{"The Lagrangian", {}};
  step.blocks.push_back(Paragraph{"Every constraint gets a multiplier: $" + r.at("a") + "$ and $" + r.at("\\tilde a") +
                                  "$ for the upper and the lower side of the tube, $" + r.at("\\eta") + "$ and $" +
                                  r.at("\\tilde \\eta") + "$ for the slacks. All are $\\ge 0$. For channel $e$:"});
  step.blocks.push_back(Display{{"L_e = &\\frac{1}{2} \\lVert w_e \\rVert^2 + C " + r.sum() + " (" + r.at("\\xi") +
                                     " + " + r.at("\\tilde \\xi") + ") - " + r.sum() + " (" + r.at("\\eta") + " " +
                                     r.at("\\xi") + " + " + r.at("\\tilde \\eta") + " " + r.at("\\tilde \\xi") + ")",
                                 "&- " + r.sum() + " " + r.at("a") + " (\\varepsilon + " + r.at("\\xi") + " - " +
                                     r.at("y") + " + " + r.fitted() + ")",
                                 "&- " + r.sum() + " " + r.at("\\tilde a") + " (\\varepsilon + " +
                                     r.at("\\tilde \\xi") + " + " + r.at("y") + " - " + r.minus_fitted() + ")"}});
  step.blocks.push_back(Paragraph{
      "The problem is convex, because $\\kappa$ is positive semi-definite and stays so when divided by $h h'$. "
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
  lines.push_back("\\frac{\\partial L_e}{\\partial " + r.at("\\xi") + "} = 0 &\\Rightarrow " + r.at("\\eta") +
                  " = C - " + r.at("a") + ", 0 \\le " + r.at("a") + " \\le C");
  lines.push_back("\\frac{\\partial L_e}{\\partial " + r.at("\\tilde \\xi") + "} = 0 &\\Rightarrow " +
                  r.at("\\tilde \\eta") + " = C - " + r.at("\\tilde a") + ", 0 \\le " + r.at("\\tilde a") + " \\le C");
  step.blocks.push_back(Display{lines});
  if (!attention.bias)
    step.blocks.push_back(
        Paragraph{"Without a bias there is no derivative in $b$, so the multipliers need not sum to zero."});
  step.blocks.push_back(Paragraph{"A multiplier times the slack of its constraint is zero at the optimum:"});
  step.blocks.push_back(
      Display{{r.at("a") + " (\\varepsilon + " + r.at("\\xi") + " - " + r.at("y") + " + " + r.fitted() + ") &= 0",
               r.at("\\tilde a") + " (\\varepsilon + " + r.at("\\tilde \\xi") + " + " + r.at("y") + " - " +
                   r.minus_fitted() + ") &= 0",
               "(C - " + r.at("a") + ") " + r.at("\\xi") + " &= 0",
               "(C - " + r.at("\\tilde a") + ") " + r.at("\\tilde \\xi") + " &= 0"}});
  step.blocks.push_back(
      Paragraph{"Hence a key strictly inside the tube has $a = \\tilde a = 0$: it is no support vector. "
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
    step.blocks.push_back(
        Paragraph{"An RBF kernel depends on differences only, and bn without scaling shifts queries and keys "
                  "by the same vector. So here bn changes nothing, whatever $\\beta$ is."});
    return;
  }
  if (!std::holds_alternative<ExpDot>(attention.kernel)) {
    if (std::holds_alternative<Linear>(attention.kernel))
      step.blocks.push_back(
          Paragraph{"The terms with $\\beta$ do not cancel here: unlike the exponential, this kernel does not "
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
  step.blocks.push_back(Paragraph{
      "Softmax does not see terms that are the same for all keys. The shift of the key drops out, and the original "
      "keys remain, with modified queries:"});
  const std::string modified = plain ? shifted : "\\frac{" + shifted + "}{" + sigma + "^2}";
  step.blocks.push_back(
      Display{{"\\tilde q_i &= " + modified, "y_i &= " + expansion(attention, symbols, {"\\tilde q_i"}, k)}});
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
  step.blocks.push_back(
      Paragraph{"Call the scaled net multipliers of a key, over all channels, its value, and put $w_e$ into the "
                "layer. The kernel appears by itself, and $W$ is gone:"});
  step.blocks.push_back(
      Display{{symbols.v + " &= \\frac{a_" + r.j + " - \\tilde a_" + r.j + "}{h(" + r.tk + ")}",
               "f(x) &= " + symbols.sum() + " \\frac{\\kappa(" + r.tx + ", " + r.tk + ")}{h(" + r.tx + ")} " +
                   symbols.v + (attention.bias ? " + b" : "") + (attention.residual ? " + r(x)" : "")}});
  const std::string base = attention.pooling ? "\\bar k" : "k";
  const auto count = attention.transforms.size();
  const Point q = transformed(attention, count, "q", "i"), k = transformed(attention, count, base, symbols.j);
  step.blocks.push_back(Paragraph{"The attention is $f$ at $x = q_i$, with the kernel" +
                                  std::string(count > 0 ? ", the transform" : "") +
                                  " and the normaliser of this value:"});
  if (count > 0) {
    step.blocks.push_back(
        Display{{symbols.query_point + " &= " + q.latex, symbols.key_point + " &= " + k.latex,
                 "y_i &= " + expansion(attention, symbols, {symbols.query_point}, {symbols.key_point})}});
    step.blocks.push_back(Paragraph{"and with everything written out:"});
  }
  if (count > 0 && !is_softmax(attention) && std::holds_alternative<RowSum>(attention.normaliser)) {
    const std::string weight = "A_{i" + symbols.j + "}";
    const double eps = den_eps(attention);
    step.blocks.push_back(
        Display{{weight + " &= " + kappa(attention.kernel, q, k),
                 "y_i &= \\frac{" + symbols.sum() + " " + weight + " " + symbols.v + "}{" + symbols.sum() + " " +
                     weight + (eps > 0 ? " + " + number(eps) : "") + "}" + symbols.offset}});
  } else {
    step.blocks.push_back(Display{{"y_i = " + expansion(attention, symbols, q, k)}});
  }
  if (std::holds_alternative<Rbf>(attention.kernel) && is_softmax(attention))
    step.blocks.push_back(
        Paragraph{"The term with the norm of the query is the same for all keys and drops out of the softmax: "
                  "what remains is a dot product with a penalty for long keys."});
  simplify_batch_norm(attention, symbols, step);
  if (attention.pooling)
    step.blocks.push_back(
        Paragraph{"Head $s$ sums over its $N_s$ pooled keys; every pooled key counts once. Averaging commutes "
                  "with the projections, so pooling the tokens before projecting them gives the same numbers."});
  if (differs_between_queries(attention))
    step.blocks.push_back(
        Paragraph{"Strictly, every set $M_i$ has a regression and multipliers of its own. The layer shares one "
                  "$v_j$ among all queries: a modelling step, not a consequence."});
  if (attention.residual)
    step.blocks.push_back(
        Paragraph{"The skip returns as $r_i$, its value at query $i$; it changed the targets to $y - r$, not the form "
                  "of the dual."});
  if (!attention.keys.empty())
    step.blocks.push_back(Paragraph{"A query that sees nothing gets " +
                                    (symbols.offset.empty() ? std::string("0") : math(symbols.offset.substr(3))) +
                                    "."});
  step.blocks.push_back(
      Paragraph{"A trained layer does not solve for the values: $v_j = W_V x_j$ is learned. The only trace of the box "
                "is $\\lvert "
                "v \\rvert \\le C/\\lvert h \\rvert$, met by every large enough $C$. The certificate goes back from "
                "values to multipliers."});
  return step;
}

Step forms_step(const Attention& attention, const Dims& dims, const Symbols& symbols) {
  Step step{"Two ways to evaluate it", {}};
  step.blocks.push_back(
      Paragraph{"The dual form needs the kernel only, whatever the number of features. It visits every visible "
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
  step.blocks.push_back(
      Paragraph{fmt::format("The primal form builds $W$ once. Since $v$ carries $1/h$, the normaliser of the keys "
                            "cancels. $\\Phi$ has $F = {}$ "
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
    step.blocks.push_back(Paragraph{"The key sets only grow with $i$, so $W_i$" +
                                    std::string(row_sum ? " and $z_i$ are" : " is") +
                                    " a running sum: each key is added once. It is also the state of a decoder."});
  step.blocks.push_back(Paragraph{"Both forms give the same numbers up to rounding."});
  return step;
}

}  // namespace

std::vector<std::string> refusals_of(const Attention& attention) {
  return primal_form_refusals(attention, has_keys<Explicit>(attention));
}

std::vector<Step> dual_steps(const Attention& attention, const Dims& dims) {
  const Symbols symbols(attention);
  return {lagrangian_step(attention, symbols), stationarity_step(attention, symbols),
          expansion_step(attention, symbols), forms_step(attention, dims, symbols)};
}

}  // namespace saddle::primal

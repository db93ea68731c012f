#include "saddle/primal/derivation/symbols.hpp"

#include <algorithm>

#include "saddle/base/text.hpp"

namespace saddle::primal {

namespace {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;  // clang before 17 does not deduce it

std::string fraction(const std::string& above, const std::string& below) {
  return "\\frac{" + above + "}{" + below + "}";
}
// Parentheses that grow only where something inside is tall.
std::string fenced(const std::string& inside) {
  const bool tall = inside.find("\\frac") != std::string::npos || inside.find("\\sum") != std::string::npos;
  return tall ? "\\left(" + inside + "\\right)" : "(" + inside + ")";
}
std::string call(const std::string& function, const Point& x) { return function + fenced(x.latex); }
std::string dot(const Point& x, const Point& y) { return x.fenced() + " \\cdot " + y.fenced(); }
std::string squared_norm(const std::string& x) { return "\\lVert " + x + " \\rVert^2"; }
std::string power(const std::string& base, Index n) { return n == 1 ? base : base + "^{" + std::to_string(n) + "}"; }

// exp(scale x.x') = sum over exponent vectors n of prod_d (x_d x'_d scale)^n_d / n_d!.
std::string taylor_feature(const std::string& scaled) {
  return "\\prod_{d<D} " + fraction(fenced(scaled) + "^{n_d}", "\\sqrt{n_d!}");
}

// a + f - P for a convolution of this size; the centre is left out when it is 0.
std::string shifted(const std::string& a, const std::string& f, Index size) {
  return size == 1 ? a : a + " + " + f + " - " + std::to_string(size / 2);
}

struct Sequence {
  std::string token, sequence;  // T x_i, and the sequence T x it belongs to
  bool compound = false;
};

std::string statistics(const std::string& symbol, const Attention& attention, const BatchNorm& bn) {
  return stats_of(attention, bn) == Stats::subset ? symbol + "_i" : symbol;
}

void apply(const Attention& attention, const Transform& transform, Sequence& x, const std::string& index) {
  const auto in_fence = [&](const std::string& text) { return x.compound ? fenced(text) : text; };
  const auto convolve = [&](Axis axis) {
    if (axis == Axis::feature) {
      x.token = "c \\ast " + in_fence(x.token);
      x.sequence = "c \\ast " + in_fence(x.sequence);
      x.compound = true;
    } else {
      x.sequence = fenced("c \\ast " + in_fence(x.sequence));
      x.token = x.sequence + "_" + index;
      x.compound = false;
    }
  };
  std::visit(
      Overload{[&](const BatchNorm& bn) {
                 const auto mean = "\\beta" + statistics("\\mu", attention, bn);
                 const bool scaled = bn.scale == ScaleMode::std;
                 for (std::string* text : {&x.token, &x.sequence}) {
                   *text += " - " + mean;
                   if (scaled) *text = fraction(*text, statistics("\\sigma", attention, bn));
                 }
                 x.compound = true;
               },
               [&](const L2&) {
                 for (std::string* text : {&x.token, &x.sequence})
                   *text = fraction(*text, "\\lVert " + *text + " \\rVert");
                 x.compound = true;
               },
               [&](const Conv1d& conv) { convolve(conv.axis); }, [&](const Conv2d& conv) { convolve(conv.axis); }},
      transform);
}

std::string convolution_line(const Conv1d& conv) {
  const std::string f = "\\sum_{f<" + std::to_string(conv.size) + "} c_f ";
  if (conv.axis == Axis::token) return "(c \\ast x)_i &= " + f + "x_{" + shifted("i", "f", conv.size) + "}";
  return "(c \\ast x)(d) &= " + f + "x(" + shifted("d", "f", conv.size) + ")";
}

std::string convolution_line(const Conv2d& conv) {
  const std::string sums =
      "\\sum_{f<" + std::to_string(conv.size.rows) + "} \\sum_{g<" + std::to_string(conv.size.columns) + "} c_{fg} ";
  const std::string place = shifted("a", "f", conv.size.rows) + ", " + shifted("b", "g", conv.size.columns);
  if (conv.axis == Axis::token) return "(c \\ast x)_{(a, b)} &= " + sums + "x_{(" + place + ")}";
  return "(c \\ast x)(a, b) &= " + sums + "x(" + place + ")";
}

}  // namespace

std::string Point::fenced() const { return compound ? saddle::primal::fenced(latex) : latex; }

std::string number(double value) {
  const std::string text = format_number(value);
  const auto e = text.find('e');
  if (e == std::string::npos) return text;
  const std::string power_of_ten = "10^{" + std::to_string(std::stoi(text.substr(e + 1))) + "}";
  const std::string digits = text.substr(0, e);
  return digits == "1" ? power_of_ten : digits + " \\cdot " + power_of_ten;
}

Symbols::Symbols(const Attention& attention) {
  const bool pooled = attention.pooling.has_value(), masked = !attention.keys.empty();
  j = pooled ? "J" : "j";
  k = pooled ? "\\bar k_J" : "k_j";
  v = pooled ? "\\bar v_J" : "v_j";
  count = pooled ? "N_s" : "M";
  range = masked ? j + " \\in " + (pooled ? "\\bar M_i" : "M_i") : j + " < " + count;
  const bool per_query = first_per_query_transform(attention) < attention.transforms.size();
  query_point = attention.transforms.empty() ? "q_i" : "q'_i";
  key_point = attention.transforms.empty() ? k : pooled ? "\\bar k'_{J}" : "k'_{j}";
  if (per_query) key_point = pooled ? "\\bar k'_{iJ}" : "k'_{ij}";
  offset = std::string(attention.bias ? " + b" : "") + (attention.residual ? " + r_i" : "");
}

std::string score(const Kernel& kernel, const Point& x, const Point& y) {
  if (const auto* exp_dot = std::get_if<ExpDot>(&kernel); exp_dot != nullptr && exp_dot->scale)
    return *exp_dot->scale == 1 ? dot(x, y) : number(*exp_dot->scale) + " " + dot(x, y);
  if (const auto* rbf = std::get_if<Rbf>(&kernel)) {
    if (!rbf->gamma) return fraction(dot(x, y) + " - \\frac{1}{2} " + squared_norm(y.latex), "\\sqrt{D}");
    const double gamma = *rbf->gamma;
    const auto factor = [](double value) { return value == 1 ? "" : number(value) + " "; };
    return factor(2 * gamma) + dot(x, y) + " - " + factor(gamma) + squared_norm(y.latex);
  }
  return fraction(dot(x, y), "\\sqrt{D}");
}

std::string kappa(const Kernel& kernel, const Point& x, const Point& y) {
  return std::visit(
      Overload{[&](const ExpDot&) { return "\\exp" + fenced(score(kernel, x, y)); },
               [&](const Rbf& rbf) {
                 const std::string distance = squared_norm(x.fenced() + " - " + y.fenced());
                 if (!rbf.gamma) return "\\exp" + fenced("-" + fraction(distance, "2 \\sqrt{D}"));
                 return "\\exp" + fenced("-" + (*rbf.gamma == 1 ? "" : number(*rbf.gamma) + " ") + distance);
               },
               [&](const Dot&) { return dot(x, y); },
               [&](const Polynomial& poly) {
                 return power(fenced(dot(x, y) + (poly.coef0 == 0 ? "" : " + " + number(poly.coef0))), poly.degree);
               },
               [&](const Linear& linear) {
                 if (linear.map != FeatureMapKind::taylor) return call("\\Phi", x) + " \\cdot " + call("\\Phi", y);
                 return "\\sum_{t \\le " + std::to_string(linear.order) + "} \\frac{1}{t!} " +
                        fenced(score(kernel, x, y)) + "^t";
               }},
      kernel);
}

FeatureText feature_map(const Kernel& kernel) {
  const std::string all_degrees =
      "one feature for every exponent vector $n = (n_0, \\ldots, n_{D-1})$ of whole numbers";
  return std::visit(
      Overload{
          [&](const ExpDot& part) {
            const std::string scaled = part.scale ? "\\sqrt{" + number(*part.scale) + "} x(d)" : "x(d)/D^{1/4}";
            return FeatureText{
                "$\\Phi$ is the Taylor map of the exponential, " + all_degrees +
                    ". There are infinitely many; by the multinomial theorem their product is the kernel.",
                {"\\Phi_n(x) = " + taylor_feature(scaled)}};
          },
          [&](const Rbf& part) {
            const std::string gamma = part.gamma ? number(*part.gamma) : "\\gamma";
            const std::string twice = part.gamma ? number(2 * *part.gamma) : "2 \\gamma";
            const std::string where = part.gamma ? "" : ", with $\\gamma = 1/(2 \\sqrt{D})$";
            return FeatureText{
                "Since $\\lVert x - x' \\rVert^2 = \\lVert x \\rVert^2 - 2 x \\cdot x' + \\lVert x' \\rVert^2$, "
                "$\\Phi$ is "
                "the Taylor map of the exponential, damped by a Gaussian: " +
                    all_degrees + ", infinitely many" + where + ".",
                {"\\Phi_n(x) = \\exp(-" + gamma + " \\lVert x \\rVert^2) " +
                 taylor_feature(twice == "1" ? "x(d)" : "\\sqrt{" + twice + "} x(d)")}};
          },
          [&](const Dot&) {
            return FeatureText{"The features are the coordinates themselves.", {"\\Phi(x) = x"}};
          },
          [&](const Polynomial& part) {
            const std::string p = std::to_string(part.degree), rest = p + " - \\lvert n \\rvert";
            const std::string constant = part.coef0 == 1 ? "" : " " + number(part.coef0) + "^{" + rest + "}";
            if (part.coef0 == 0)
              return FeatureText{"$\\Phi$ holds the monomials of degree $" + p +
                                     "$: one feature for every exponent vector "
                                     "with $\\lvert n \\rvert = n_0 + \\ldots + n_{D-1} = " +
                                     p + "$.",
                                 {"\\Phi_n(x) = \\sqrt{" + p + "!} \\prod_{d<D} \\frac{x(d)^{n_d}}{\\sqrt{n_d!}}"}};
            return FeatureText{"$\\Phi$ holds the monomials up to degree $" + p +
                                   "$: one feature for every exponent vector "
                                   "with $\\lvert n \\rvert = n_0 + \\ldots + n_{D-1} \\le " +
                                   p + "$.",
                               {"\\Phi_n(x) = \\sqrt{\\frac{" + p + "!" + constant + "}{(" + rest +
                                ")!}} \\prod_{d<D} \\frac{x(d)^{n_d}}{\\sqrt{n_d!}}"}};
          },
          [&](const Linear& part) {
            switch (part.map) {
              case FeatureMapKind::elu1:
                return FeatureText{
                    "$\\Phi$ acts on every coordinate by elu + 1, which is positive.",
                    {"\\Phi(x)(d) &= x(d) + 1 \\quad \\text{if } x(d) > 0", "&= \\exp(x(d)) \\quad \\text{otherwise}"}};
              case FeatureMapKind::relu:
                return FeatureText{"$\\Phi$ cuts every coordinate off at zero.", {"\\Phi(x)(d) = \\max(0, x(d))"}};
              case FeatureMapKind::taylor:
                return FeatureText{"$\\Phi$ is the Taylor map of the exponential, cut off at degree $" +
                                       std::to_string(part.order) +
                                       "$: one feature for every exponent vector with $\\lvert n "
                                       "\\rvert = n_0 + \\ldots + n_{D-1} \\le " +
                                       std::to_string(part.order) + "$.",
                                   {"\\Phi_n(x) = " + taylor_feature("x(d)/D^{1/4}")}};
              case FeatureMapKind::random:
                return FeatureText{
                    "$\\Phi$ holds $" + std::to_string(part.count) +
                        "$ random positive features with directions $w_r$ drawn once from a standard normal "
                        "(seed " +
                        std::to_string(part.seed) + "). Their product is $\\exp(x \\cdot x'/\\sqrt{D})$ on average.",
                    {"\\Phi_r(x) &= \\frac{1}{\\sqrt{" + std::to_string(part.count) +
                         "}} \\exp\\left(w_r \\cdot \\hat x - \\frac{1}{2} \\lVert \\hat x \\rVert^2\\right)",
                     "\\hat x &= x/D^{1/4}"}};
            }
            return FeatureText{};
          }},
      kernel);
}

double den_eps(const Attention& attention) {
  const auto* sum = std::get_if<RowSum>(&attention.normaliser);
  return sum == nullptr ? 0 : den_eps_of(*sum, attention.kernel);
}

std::string fixed_normaliser(const Attention& attention, const Symbols& symbols) {
  return std::visit(Overload{[](const RowSum&) { return std::string(); }, [](const One&) { return std::string("1"); },
                             [](const Constant& part) { return number(part.constant); },
                             [&](const SqrtLength&) { return "(N " + symbols.count + ")^{1/4}"; }},
                    attention.normaliser);
}

std::string normaliser(const Attention& attention, const Symbols& symbols) {
  if (const std::string fixed = fixed_normaliser(attention, symbols); !fixed.empty()) return fixed;
  const double eps = den_eps(attention);
  return symbols.sum() + " \\kappa(x, " + symbols.key_point + ")" + (eps > 0 ? " + " + number(eps) : "");
}

Point transformed(const Attention& attention, std::size_t count, const std::string& base, const std::string& index) {
  Sequence x{index.empty() ? base : base + "_" + index, base};
  for (std::size_t t = 0; t < count; ++t) apply(attention, attention.transforms[t], x, index);
  return {x.token, x.compound};
}

std::vector<std::string> transform_lines(const Attention& attention, const Symbols& symbols) {
  std::vector<std::string> lines;
  const std::string base = attention.pooling ? "\\bar k" : "k";
  for (std::size_t t = 0; t < attention.transforms.size(); ++t) {
    std::visit(Overload{[&](const BatchNorm& bn) {
                          const std::string mu = statistics("\\mu", attention, bn);
                          const Point key = transformed(attention, t, base, symbols.j);
                          const bool subset = stats_of(attention, bn) == Stats::subset;
                          const std::string range = subset ? symbols.range : symbols.j + " < " + symbols.count;
                          const std::string mean = "\\frac{1}{n} \\sum_{" + range + "} ";
                          lines.push_back(mu + " &= " + mean + key.fenced());
                          if (bn.scale == ScaleMode::std)
                            lines.push_back(statistics("\\sigma", attention, bn) + "(d)^2 &= " + mean +
                                            fenced(key.fenced() + "(d) - " + mu + "(d)") + "^2 + " + number(bn.eps));
                          lines.push_back("\\beta &= " + number(bn.beta) +
                                          (bn.learnable() ? "\\text{ at first, then trained}" : ""));
                        },
                        [&](const L2&) {}, [&](const Conv1d& conv) { lines.push_back(convolution_line(conv)); },
                        [&](const Conv2d& conv) { lines.push_back(convolution_line(conv)); }},
               attention.transforms[t]);
  }
  return lines;
}

std::string key_condition(const KeySet& part) {
  const auto text = [](Index n) { return std::to_string(n); };
  return std::visit(
      Overload{[](const Causal&) { return std::string("j \\le i"); },
               [&](const Window& set) { return "\\lvert i - j \\rvert \\le " + text(set.radius); },
               [&](const Local& set) { return "i - " + text(set.ctx) + " < j \\le i"; },
               [&](const Strided& set) { return "j \\le i \\text{ and } (i - j) \\bmod " + text(set.ctx) + " = 0"; },
               [&](const Fixed& set) {
                 const std::string stride = text(set.ctx / set.blocksize);
                 const auto block = [&](const std::string& i) {
                   return set.blocksize == 1 ? i : "\\lfloor " + i + "/" + text(set.blocksize) + " \\rfloor";
                 };
                 return "j \\le i \\text{ and } \\left(\\lfloor " + block("j") + "/" + stride +
                        " \\rfloor = \\lfloor " + block("i") + "/" + stride + " \\rfloor \\text{ or } " + block("j") +
                        " \\bmod " + stride + " \\in V_s\\right)";
               },
               [&](const GlobalWindow& set) {
                 return "\\left(\\lvert i - j \\rvert \\le " + text(set.radius) + " \\text{ or } \\min(i, j) < " +
                        text(set.n_global) + "\\right)";
               },
               [](const Padding&) { return std::string("\\mathrm{keep}_j = 1"); },
               [](const Explicit&) { return std::string("\\mathrm{mask}_{ij} = 1"); }},
      part);
}

bool differs_between_queries(const Attention& attention) {
  return std::any_of(attention.keys.begin(), attention.keys.end(),
                     [](const KeySet& part) { return !std::holds_alternative<Padding>(part); });
}

bool is_softmax(const Attention& attention) {
  const bool exponential =
      std::holds_alternative<ExpDot>(attention.kernel) || std::holds_alternative<Rbf>(attention.kernel);
  return exponential && std::holds_alternative<RowSum>(attention.normaliser) && den_eps(attention) == 0;
}

std::string kernel_factor(const Kernel& kernel, const Point& x, const Point& y) {
  const auto* linear = std::get_if<Linear>(&kernel);
  const bool sum = std::holds_alternative<Dot>(kernel) || (linear != nullptr && linear->map == FeatureMapKind::taylor);
  return sum ? fenced(kappa(kernel, x, y)) : kappa(kernel, x, y);
}

std::string expansion(const Attention& attention, const Symbols& symbols, const Point& q, const Point& k) {
  const std::string values = symbols.v + symbols.offset;
  if (is_softmax(attention))
    return symbols.sum() + " \\mathrm{softmax}_{" + symbols.j + "}" + fenced(score(attention.kernel, q, k)) + " " +
           values;
  const std::string weight = kernel_factor(attention.kernel, q, k);
  const std::string fixed = fixed_normaliser(attention, symbols);
  if (fixed == "1") return symbols.sum() + " " + weight + " " + values;
  if (!fixed.empty()) return fraction("1", fixed) + " " + symbols.sum() + " " + weight + " " + values;
  const double eps = den_eps(attention);
  return fraction(symbols.sum() + " " + weight + " " + symbols.v,
                  symbols.sum() + " " + weight + (eps > 0 ? " + " + number(eps) : "")) +
         symbols.offset;
}

}  // namespace saddle::primal

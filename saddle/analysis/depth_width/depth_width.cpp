#include "saddle/analysis/depth_width/depth_width.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::analysis::depth_width {

namespace {

void require_positive(const char* what, double value) {
  if (!(value > 0) || !std::isfinite(value))
    throw InvalidArgument(fmt::format("depth_width: {} must be above 0, found {}", what, format_number(value)));
}

void require_line(const Fit& fit) {
  if (!(fit.b > 0) || !std::isfinite(fit.a) || !std::isfinite(fit.b))
    throw InvalidArgument(fmt::format("depth_width: the line needs a slope b above 0, found a = {}, b = {}",
                                      format_number(fit.a), format_number(fit.b)));
}

double log3(double x) { return std::log(x) / std::log(3.0); }

// 3^depth < width, in whole numbers: at width 729 and depth 6 rounding must not
// decide.
bool below_threshold(Index depth, Index width) {
  Index power = 1;
  for (Index l = 0; l < depth; ++l) {
    if (power > (width - 1) / 3) return false;
    power *= 3;
  }
  return power < width;
}

double standard_error(const Fit& fit, double depth) {
  const double variance =
      fit.sigma_a * fit.sigma_a + depth * depth * fit.sigma_b * fit.sigma_b + 2 * depth * fit.cov_ab;
  if (!(variance >= 0))
    throw InvalidArgument(
        fmt::format("depth_width: the covariance {} does not "
                    "belong to the errors {} and {}",
                    format_number(fit.cov_ab), format_number(fit.sigma_a), format_number(fit.sigma_b)));
  return std::sqrt(variance);
}

}  // namespace

double params_of(double depth, double width) { return 12 * depth * width * width; }

double exact_params_of(double depth, double width, double vocabulary, double positions) {
  return depth * (12 * width * width + 13 * width) + (vocabulary + positions + 2) * width;
}

double flops_of(double params, double tokens) { return 6 * params * tokens; }

double params_of_compute(double flops, double tokens) {
  require_positive("compute", flops);
  require_positive("the number of tokens", tokens);
  return flops / (6 * tokens);
}

double transition_width(const Fit& fit, double depth) { return std::exp(fit.a + fit.b * depth); }

double transition_depth(const Fit& fit, double width) {
  require_line(fit);
  require_positive("width", width);
  return (std::log(width) - fit.a) / fit.b;
}

double transition_params(const Fit& fit, double depth) { return params_of(depth, transition_width(fit, depth)); }

double best_depth(const Fit& fit, double params) {
  require_line(fit);
  require_positive("the number of parameters", params);
  // Newton's method for u = ln depth on u + 2 b e^u = c. The left side is
  // convex and rises, so after at most one step the iterates fall to the root.
  const double c = std::log(params / 12) - 2 * fit.a;
  double u = c < 1 ? c : std::log(c / (2 * fit.b));
  for (int step = 0; step < 100; ++step) {
    const double bend = 2 * fit.b * std::exp(u);
    const double move = (u + bend - c) / (1 + bend);
    u -= move;
    if (std::fabs(move) <= 1e-15 * std::max(1.0, std::fabs(u))) break;
  }
  return std::exp(u);
}

double best_width(const Fit& fit, double params) { return transition_width(fit, best_depth(fit, params)); }

std::string to_string(Regime regime) {
  switch (regime) {
    case Regime::too_deep: return "too deep for its width";
    case Regime::balanced: return "balanced";
    case Regime::could_be_deeper: return "could be deeper";
  }
  return "";
}

Standing standing(const Fit& fit, Index depth, Index width, double band) {
  require_line(fit);
  require_positive("depth", static_cast<double>(depth));
  require_positive("width", static_cast<double>(width));
  if (!(band >= 0)) throw InvalidArgument(fmt::format("depth_width: the band cannot be {}", format_number(band)));
  const auto L = static_cast<double>(depth), d = static_cast<double>(width);
  Standing s{};
  s.params = params_of(L, d);
  s.transition_width = transition_width(fit, L);
  s.transition_params = transition_params(fit, L);
  s.transition_depth = transition_depth(fit, d);
  s.log_width_gap = std::log(d) - (fit.a + fit.b * L);
  s.log_width_sigma = standard_error(fit, L);
  s.regime = std::fabs(s.log_width_gap) <= band * s.log_width_sigma ? Regime::balanced
             : s.log_width_gap > 0                                  ? Regime::could_be_deeper
                                                                    : Regime::too_deep;
  s.best_depth = best_depth(fit, s.params);
  s.best_width = best_width(fit, s.params);
  return s;
}

Recommendation recommend(const Fit& fit, double params, Index multiple) {
  require_positive("the multiple", static_cast<double>(multiple));
  Recommendation r{};
  r.depth_continuous = best_depth(fit, params);
  r.width_continuous = transition_width(fit, r.depth_continuous);
  const double depth = std::max(1.0, std::floor(r.depth_continuous + 0.5));
  r.depth = static_cast<Index>(depth);
  r.width = std::sqrt(params / (12 * depth));
  const auto m = static_cast<double>(multiple);
  const double rounded = std::max(m, m * std::floor(r.width / m + 0.5));
  if (!(rounded < 9e15))
    throw InvalidArgument(fmt::format("depth_width: no network has {} parameters", format_number(params)));
  r.width_rounded = static_cast<Index>(rounded);
  r.params_rounded = params_of(depth, rounded);
  return r;
}

Theory theory(Index depth, Index width, Index heads) {
  require_positive("depth", static_cast<double>(depth));
  require_positive("width", static_cast<double>(width));
  require_positive("the number of heads", static_cast<double>(heads));
  if (heads > width)
    throw InvalidArgument(fmt::format("depth_width: {} heads do not fit into width {}", heads, width),
                          "use at most as many heads as features");
  const auto L = static_cast<double>(depth), d = static_cast<double>(width), H = static_cast<double>(heads);
  Theory t{};
  t.threshold = log3(d);
  t.depth_efficient = below_threshold(depth, width);
  if (t.depth_efficient) {
    t.log3_lower = std::pow(3.0, L - 2) * (log3(d - H) - L + 2 - log3(2));
    t.log3_upper = std::numeric_limits<double>::quiet_NaN();
  } else {
    t.log3_lower = d * L / 2 - L * (H / 2 + 1) - d * (1 + 0.5 * log3((d - H) / 2));
    t.log3_upper = 2 * d * L + L - 2 * d * log3(d / (2 * std::sqrt(2 * std::numbers::e))) + log3(d);
  }
  return t;
}

const std::vector<Published>& published() {
  static const std::vector<Published> rows = [] {
    std::vector<Published> list{
        {"GPT-3 Small", 12, 768, 0, 23, 555},   {"GPT-3 Medium", 24, 1024, 0, 32, 886},
        {"GPT-3 Large", 24, 1536, 0, 38, 1220}, {"GPT-3 XL", 24, 2048, 0, 42, 1550},
        {"GPT-3 2.7B", 32, 2560, 0, 47, 2110},  {"GPT-3 6.7B", 32, 4096, 0, 54, 3150},
        {"GPT-3 13B", 40, 5140, 0, 60, 4200},   {"GPT-3 175B", 96, 12288, 0, 80, 13500},
        {"1 trillion", 0, 0, 1e12, 95, 30100},
    };
    for (Published& row : list)
      if (row.depth > 0) row.params = params_of(static_cast<double>(row.depth), static_cast<double>(row.width));
    return list;
  }();
  return rows;
}

const std::vector<Applied>& applied() {
  static const std::string bloomberg = "BloombergGPT paper, section on the shape of the model",
                           table = "a public re-implementation, from the paper's appendix";
  static const std::vector<Applied> rows{
      {"BloombergGPT 50B", 70, 7680, false, bloomberg},
      {"NeoBERT", 28, 768, false, "NeoBERT paper, paragraph on depth and width"},
      {"GatorTron-large", 56, 3500, true, "a GatorTron read-me"},
      {"small, 6 layers", 6, 192, false, table},
      {"small, 12 layers", 12, 256, false, table},
      {"small, 18 layers", 18, 384, false, table},
      {"small, 24 layers", 24, 512, false, table},
      {"small, 30 layers", 30, 768, false, table},
  };
  return rows;
}

const Analysis& analysis() {
  static const Analysis value = [] {
    Analysis own;
    own.name = "depth_width";
    own.title = "Depth and width";
    own.summary = "how deep and how wide a network of a given size should be, and where a given one stands";
    own.bibtex = R"(@inproceedings{levine2020limits,
  title     = {Limits to Depth Efficiencies of Self-Attention},
  author    = {Levine, Yoav and Wies, Noam and Sharir, Or and Bata, Hofit and Shashua, Amnon},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2020},
  note      = {arXiv:2006.12467}
})";
    own.golden = {{"depth-width", check}};
    own.on_file = on_file;
    own.on_model = on_model;
    own.takes_tables = false;
    return own;
  }();
  return value;
}

}  // namespace saddle::analysis::depth_width

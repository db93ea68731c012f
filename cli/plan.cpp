// saddle plan: how deep and how wide a model should be for its size, and where a given one stands.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "argument.hpp"
#include "command.hpp"
#include "output.hpp"
#include "saddle/analysis/depth_width/depth_width.hpp"
#include "saddle/analysis/depth_width/model_shape.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::cli {

namespace {

namespace rule = analysis::depth_width;
using rule::Fitted;

constexpr Index largest = Index{1} << 40;
constexpr Index head_width = 64;  // where nothing is said about heads

struct PlanOptions {
  std::string params, flops, tokens, config;
  Index depth = 0, width = 0, heads = 0, multiple = 64;
  double band = 1;
  bool published = false;
};

// "50M", "1.3B", "2e20"; nothing given is 0.
double read_amount(const std::string& option, const std::string& text) {
  if (text.empty()) return 0;
  static constexpr std::pair<char, double> units[] = {{'k', 1e3}, {'K', 1e3},  {'M', 1e6}, {'B', 1e9},
                                                      {'G', 1e9}, {'T', 1e12}, {'P', 1e15}};
  std::string_view digits = text;
  double unit = 1;
  for (const auto& [letter, factor] : units)
    if (digits.back() == letter) {
      unit = factor;
      digits.remove_suffix(1);
      break;
    }
  const auto number = parse_number(digits);
  if (!number || !(*number > 0) || !std::isfinite(*number * unit))
    throw InvalidArgument(fmt::format("{} takes a number above 0, found '{}'", option, text),
                          "write it as 50M, 1.3B or 2e20; k, M, B (or G), T and P are powers of 1000");
  return *number * unit;
}

void check_sizes(const PlanOptions& options) {
  const std::pair<const char*, Index> sizes[] = {
      {"--depth", options.depth}, {"--width", options.width}, {"--heads", options.heads}};
  for (const auto& [name, value] : sizes)
    if (value < 0 || value > largest)
      throw InvalidArgument(fmt::format("{} must be a whole number from 1 to {}, found {}", name, largest, value));
  if (options.multiple < 1 || options.multiple > largest)
    throw InvalidArgument(fmt::format("--multiple must be at least 1, found {}", options.multiple));
  if (!(options.band >= 0) || !std::isfinite(options.band))
    throw InvalidArgument(fmt::format("--band must be 0 or above, found {}", format_number(options.band)));
}

// A shape with what the rule says about it.
struct Row {
  std::string mark;
  Index depth, width;
  rule::Standing standing;
};

struct Plan {
  std::optional<rule::ModelShape> model;
  double params = 0, tokens = 0;
  std::optional<Row> given;
  rule::Recommendation recommended{};
  std::vector<Row> rows;  // given, recommended, others of the size
  rule::Theory theory{};
  Index theory_width = 0;
  std::vector<std::string> notes;
};

Row row_of(const std::string& mark, Index depth, Index width, double band) {
  return {mark, depth, width, rule::standing({}, depth, width, band)};
}

Index whole(double value) {
  if (!(value < static_cast<double>(largest)))
    throw InvalidArgument(fmt::format("a network of {} layers or features cannot be planned", number_text(value)));
  return std::max<Index>(1, std::llround(value));
}

// The width that spends `params` at this depth, as a multiple.
Index width_at(double params, Index depth, Index multiple) {
  const double width = std::sqrt(params / (12 * static_cast<double>(depth)));
  return multiple * whole(width / static_cast<double>(multiple));
}

// The shape that was asked about. What is missing of it follows from the number of parameters, or else from the rule.
std::optional<Row> given_row(const PlanOptions& options, const Plan& plan) {
  Index depth = plan.model ? plan.model->depth : options.depth, width = plan.model ? plan.model->width : options.width;
  if (depth == 0 && width == 0) return std::nullopt;
  const double d = static_cast<double>(width);
  if (width == 0)
    width = plan.params > 0 ? width_at(plan.params, depth, options.multiple)
                            : options.multiple * whole(rule::transition_width({}, static_cast<double>(depth)) /
                                                       static_cast<double>(options.multiple));
  if (depth == 0) depth = whole(plan.params > 0 ? plan.params / (12 * d * d) : rule::transition_depth({}, d));
  return row_of("given", depth, width, options.band);
}

double size_from(const PlanOptions& options, double tokens) {
  const double params = read_amount("--params", options.params), flops = read_amount("--flops", options.flops);
  if (params > 0 && flops > 0)
    throw InvalidArgument("--params and --flops both say how large the model is",
                          "give one of them, and --tokens with --flops");
  if (flops > 0 && tokens == 0)
    throw InvalidArgument("compute alone does not tell the size of a model: it is FLOPs / (6 tokens)",
                          "say how many tokens it trains on, as in --tokens 10B");
  return flops > 0 ? rule::params_of_compute(flops, tokens) : params;
}

std::vector<std::string> notes_on(const Plan& plan) {
  std::vector<std::string> notes;
  const auto depth = static_cast<double>(plan.recommended.depth);
  if (plan.model && !plan.model->decoder_only)
    notes.emplace_back("the rule was fitted to decoder-only language models, which this model is not");
  if (plan.model && std::fabs(plan.model->layer_params() / plan.given->standing.params - 1) > 0.01)
    notes.push_back(fmt::format("the layers of this model have {} weights; the rule counts 12 depth width^2 = {}",
                                count_text(plan.model->layer_params()), count_text(plan.given->standing.params)));
  if (plan.recommended.depth_continuous < 3) {
    notes.emplace_back("the rule says little about models this small: it was fitted above a million parameters");
  } else if (plan.params > Fitted::params_to || depth > Fitted::depth_to || plan.params < Fitted::params_from) {
    notes.emplace_back(
        "extrapolated: the rule was fitted to 6 to 48 layers and about a million to 600 million parameters");
  }
  return notes;
}

Plan make_plan(const PlanOptions& options) {
  check_sizes(options);
  Plan plan;
  plan.tokens = read_amount("--tokens", options.tokens);
  plan.params = size_from(options, plan.tokens);
  if (!options.config.empty()) {
    if (options.depth > 0 || options.width > 0)
      throw InvalidArgument("--config tells depth and width already", "leave out --depth and --width, or --config");
    plan.model = rule::parse_model_shape(read_text(options.config), options.config);
  }
  plan.given = given_row(options, plan);
  if (plan.params == 0 && !plan.given)
    throw InvalidArgument("nothing to plan from",
                          "give --params 50M, or --flops with --tokens, or --depth and --width, or --config FILE");
  if (plan.params == 0) plan.params = plan.given->standing.params;
  plan.recommended = rule::recommend({}, plan.params, options.multiple);

  const rule::Recommendation& best = plan.recommended;
  plan.rows.push_back(row_of("recommended", best.depth, best.width_rounded, options.band));
  for (const double share : {0.5, 0.75, 1.5, 2.0}) {
    const Index depth = whole(share * static_cast<double>(best.depth));
    if (depth != plan.rows.back().depth && depth != best.depth)
      plan.rows.push_back(row_of("", depth, width_at(plan.params, depth, options.multiple), options.band));
  }
  std::sort(plan.rows.begin(), plan.rows.end(), [](const Row& a, const Row& b) { return a.depth < b.depth; });
  if (plan.given) {
    std::erase_if(plan.rows, [&](const Row& row) {
      return row.mark.empty() && row.depth == plan.given->depth && row.width == plan.given->width;
    });
    plan.rows.insert(plan.rows.begin(), *plan.given);
  }

  plan.theory_width = plan.given ? plan.given->width : best.width_rounded;
  const Index depth = plan.given ? plan.given->depth : best.depth;
  Index heads = options.heads > 0 ? options.heads : plan.model ? plan.model->heads : 0;
  if (heads == 0) heads = std::max<Index>(1, plan.theory_width / head_width);
  plan.theory = rule::theory(depth, plan.theory_width, heads);
  plan.notes = notes_on(plan);
  return plan;
}

std::string title(const Plan& plan) {
  std::string text = bold(count_text(plan.params) + " parameters in layers");
  if (plan.model && !plan.model->model.empty()) text = plan.model->model + ", " + text;
  if (plan.tokens > 0)
    text += fmt::format(", {} tokens, {} FLOPs to train", count_text(plan.tokens),
                        number_text(rule::flops_of(plan.params, plan.tokens)));
  return text + "\n";
}

std::string verdict(const Plan& plan) {
  const rule::Recommendation& best = plan.recommended;
  std::string text;
  if (plan.given) {
    const Row& given = *plan.given;
    const std::string depths =
        given.standing.transition_depth < 1
            ? "no depth pays at width " + std::to_string(given.width)
            : fmt::format("width {} carries {:.1f} layers", given.width, given.standing.transition_depth);
    text +=
        fmt::format("{} x {} {}: depth {} pays from width {:.0f}, {}.\n", given.depth, given.width,
                    given.standing.regime == rule::Regime::could_be_deeper ? "could be deeper"
                                                                           : "is " + to_string(given.standing.regime),
                    given.depth, given.standing.transition_width, depths);
  }
  text += fmt::format("Best for this size: {} layer{} of width {} (on the line {:.1f} and {:.0f}).\n", best.depth,
                      best.depth == 1 ? "" : "s", best.width_rounded, best.depth_continuous, best.width_continuous);
  return text;
}

// Widths are rounded to multiples: a shape that the rounding alone took off the line is none to warn of.
std::string standing_text(const Row& row, const PlanOptions& options) {
  const rule::Standing& s = row.standing;
  const double slack = std::log1p(static_cast<double>(options.multiple) / (2 * static_cast<double>(row.width)));
  if (row.mark == "recommended" && s.regime != rule::Regime::balanced &&
      std::fabs(s.log_width_gap) <= options.band * s.log_width_sigma + slack)
    return "balanced up to rounding";
  return to_string(s.regime);
}

std::string text_of(const Plan& plan, const PlanOptions& options) {
  Table table({"", "depth", "width", "parameters", "pays from width", "gap", "standing"}, "lrrrrrl");
  for (const Row& row : plan.rows)
    table.add({row.mark, std::to_string(row.depth), std::to_string(row.width), count_text(row.standing.params),
               fmt::format("{:.0f}", row.standing.transition_width),
               fmt::format("{:+.2f} ± {:.2f}", row.standing.log_width_gap, row.standing.log_width_sigma),
               standing_text(row, options)});
  std::string text = title(plan) + "\n" + wrap(verdict(plan), 0) + "\n" + table.text() + "\n";
  text += wrap(fmt::format("theory: expressiveness grows double-exponentially with depth up to log_3 {} = {:.1f} "
                           "layers; beyond, depth and width are interchangeable",
                           plan.theory_width, plan.theory.threshold),
               0);
  for (const std::string& note : plan.notes) text += wrap("note: " + note, 0);
  return text;
}

Json json_of(const Row& row) {
  const rule::Standing& s = row.standing;
  return {{"depth", row.depth},
          {"width", row.width},
          {"params", s.params},
          {"transition_width", s.transition_width},
          {"transition_params", s.transition_params},
          {"transition_depth", s.transition_depth},
          {"log_width_gap", s.log_width_gap},
          {"log_width_sigma", s.log_width_sigma},
          {"regime", static_cast<int>(s.regime)},
          {"standing", to_string(s.regime)}};
}

// NaN, which says that no bound is stated, has no JSON.
Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json json_of(const Plan& plan) {
  const rule::Recommendation& best = plan.recommended;
  Json shapes = Json::array();
  for (const Row& row : plan.rows)
    if (row.mark != "given") shapes.push_back(json_of(row));
  Json model;
  if (plan.model)
    model = {{"model", plan.model->model},
             {"heads", plan.model->heads},
             {"vocabulary", plan.model->vocabulary},
             {"positions", plan.model->positions},
             {"layer_params", plan.model->layer_params()}};
  return {{"params", plan.params},
          {"tokens", plan.tokens > 0 ? Json(plan.tokens) : Json()},
          {"flops", plan.tokens > 0 ? Json(rule::flops_of(plan.params, plan.tokens)) : Json()},
          {"model", model},
          {"given", plan.given ? json_of(*plan.given) : Json()},
          {"recommended",
           {{"depth", best.depth},
            {"width", best.width_rounded},
            {"params", best.params_rounded},
            {"depth_continuous", best.depth_continuous},
            {"width_continuous", best.width_continuous}}},
          {"shapes", shapes},
          {"theory",
           {{"threshold", plan.theory.threshold},
            {"depth_efficient", plan.theory.depth_efficient},
            {"log3_separation_rank_lower", number_or_null(plan.theory.log3_lower)},
            {"log3_separation_rank_upper", number_or_null(plan.theory.log3_upper)}}},
          {"notes", plan.notes}};
}

// The paper's projections beside what the rule gives here.
void print_published(const PlanOptions& options, const Context& context) {
  Table table({"model", "trained", "standing", "paper", "here", "on the line"}, "lllllr");
  Json rows = Json::array();
  for (const rule::Published& row : rule::published()) {
    const rule::Recommendation ours = rule::recommend({}, row.params, 1);
    const bool trained = row.depth > 0;
    const std::string stands =
        trained ? to_string(rule::standing({}, row.depth, row.width, options.band).regime) : std::string();
    table.add({row.model, trained ? fmt::format("{} x {}", row.depth, row.width) : "", stands,
               fmt::format("{} x {}", row.best_depth, row.best_width),
               fmt::format("{} x {}", ours.depth, ours.width_rounded), fmt::format("{:.2f}", ours.depth_continuous)});
    rows.push_back({{"model", row.model},
                    {"params", row.params},
                    {"depth", trained ? Json(row.depth) : Json()},
                    {"width", trained ? Json(row.width) : Json()},
                    {"standing", stands},
                    {"paper", {{"depth", row.best_depth}, {"width", row.best_width}}},
                    {"here", {{"depth", ours.depth}, {"width", ours.width}, {"line", ours.depth_continuous}}}});
  }
  context.json ? print_json("saddle.plan.published/1", {{"rows", rows}}) : print(table.text());
}

int plan(const PlanOptions& options, const Context& context) {
  if (options.published) {
    check_sizes(options);
    print_published(options, context);
    return Exit::ok;
  }
  const Plan made = make_plan(options);
  context.json ? print_json("saddle.plan/1", json_of(made)) : print(text_of(made, options));
  return Exit::ok;
}

}  // namespace

Command plan_command() {
  const auto o = std::make_shared<PlanOptions>();
  return {
      "plan",
      "Say how deep and how wide a transformer of a given size should be, and whether a given one is too deep or "
      "could be deeper.",
      {{"a shape for 50 million parameters", "saddle plan --params 50M"},
       {"for a budget of compute", "saddle plan --flops 1e20 --tokens 10B"},
       {"where a model stands", "saddle plan --depth 96 --width 12288"},
       {"the same from a config.toml or a Hugging Face config.json", "saddle plan --config examples/gpt2/config.json"},
       {"the projections of the paper, recomputed", "saddle plan --published"}},
      {{"--params", "N", "parameters in layers, without embeddings: 50M, 1.3B", &o->params},
       {"--flops", "C", "compute for training; needs --tokens", &o->flops},
       {"--tokens", "T", "tokens of training", &o->tokens},
       {"--depth", "L", "number of layers", &o->depth},
       {"--width", "D", "embedding size", &o->width},
       {"--heads", "H", "heads of a layer, for the bounds of the theory; default: of width 64", &o->heads},
       {"--config", "FILE", "settings or a model's description by saddle, or a Hugging Face config.json", &o->config},
       {"--multiple", "M", "widths are multiples of it; default 64", &o->multiple},
       {"--band", "C", "standard errors of the fit that count as balanced; default 1", &o->band},
       {"--published", "", "print the paper's table and ours", &o->published}},
      [o](const Context& context) { return plan(*o, context); }};
}

}  // namespace saddle::cli

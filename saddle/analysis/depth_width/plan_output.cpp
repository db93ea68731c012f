// A plan as sentences, as JSON and as a page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "saddle/analysis/depth_width/plan.hpp"

namespace saddle::analysis::depth_width {

namespace {

using Json = nlohmann::ordered_json;

Json json_of(const PlanRow& row) {
  const Standing& s = row.standing;
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

}  // namespace

bool of_another_size(const Plan& plan) {
  return plan.model && plan.asked && std::fabs(plan.given->standing.params / plan.params - 1) > 0.01;
}

std::string verdict(const Plan& plan) {
  const Recommendation& best = plan.recommended;
  std::string text;
  if (plan.given) {
    const PlanRow& given = *plan.given;
    const std::string depths =
        given.standing.transition_depth < 1
            ? "no depth pays at width " + std::to_string(given.width)
            : fmt::format("width {} carries {:.1f} layers", given.width, given.standing.transition_depth);
    text += fmt::format(
        "{} x {} {}: depth {} pays from width {:.0f}, {}.\n", given.depth, given.width,
        given.standing.regime == Regime::could_be_deeper ? "could be deeper" : "is " + to_string(given.standing.regime),
        given.depth, given.standing.transition_width, depths);
  }
  const std::string size = of_another_size(plan) ? amount_text(plan.params) + " parameters" : "this size";
  text += fmt::format("Best for {}: {} layer{} of width {} (on the line {:.1f} and {:.0f}).\n", size, best.depth,
                      best.depth == 1 ? "" : "s", best.width_rounded, best.depth_continuous, best.width_continuous);
  return text;
}

// Widths are rounded to multiples: a shape that the rounding alone took off the line is none to warn of.
std::string standing_text(const PlanRow& row, const PlanRequest& request) {
  const Standing& s = row.standing;
  const double slack = std::log1p(static_cast<double>(request.multiple) / (2 * static_cast<double>(row.width)));
  if (row.mark == "recommended" && s.regime != Regime::balanced &&
      std::fabs(s.log_width_gap) <= request.band * s.log_width_sigma + slack)
    return "balanced up to rounding";
  return to_string(s.regime);
}

std::string to_json(const Plan& plan) {
  const Recommendation& best = plan.recommended;
  Json shapes = Json::array();
  for (const PlanRow& row : plan.rows)
    if (row.mark != "given") shapes.push_back(json_of(row));
  Json model;
  if (plan.model)
    model = {{"model", plan.model->model},
             {"heads", plan.model->heads},
             {"vocabulary", plan.model->vocabulary},
             {"positions", plan.model->positions},
             {"experts", plan.model->experts},
             {"layer_params", number_or_null(plan.model->layer_params())},
             {"active_params", number_or_null(plan.model->active_params())}};
  return Json{{"params", plan.params},
              {"tokens", plan.tokens > 0 ? Json(plan.tokens) : Json()},
              {"flops", plan.tokens > 0 ? Json(flops_of(plan.params, plan.tokens)) : Json()},
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
              {"notes", plan.notes}}
      .dump();
}

Result to_result(const Plan& plan, const PlanRequest& request) {
  Result result;
  const std::string errors = request.band == 1 ? "one standard error" : fmt::format("{} standard errors", request.band);
  result.about = fmt::format(
      "Depth and width of the shapes beside the line on which depth starts to pay, with {} dashed, and the shapes that "
      "have as many parameters. A good model stands on the line; above it more layers would pay, below it fewer and "
      "wider layers would do better.",
      errors);
  std::string sentences = verdict(plan);
  for (std::size_t end = sentences.find('\n'); end != std::string::npos; end = sentences.find('\n')) {
    result.findings.push_back(sentences.substr(0, end));
    sentences.erase(0, end + 1);
  }
  result.findings.push_back(fmt::format(
      "Theory: expressiveness grows double-exponentially with depth up to log_3 {} = {:.1f} layers; beyond, "
      "depth and width are interchangeable.",
      plan.theory_width, plan.theory.threshold));
  for (const std::string& note : plan.notes) result.findings.push_back("Note: " + note + ".");

  Table table{"Shapes", {"", "depth", "width", "parameters", "pays from width", "gap", "standing"}, {}};
  Index deepest = 24;
  for (const PlanRow& row : plan.rows) {
    deepest = std::max(deepest, std::min<Index>(row.depth, 1000));
    table.rows.push_back({row.mark, std::to_string(row.depth), std::to_string(row.width),
                          amount_text(row.standing.params), fmt::format("{:.0f}", row.standing.transition_width),
                          fmt::format("{:+.2f} ± {:.2f}", row.standing.log_width_gap, row.standing.log_width_sigma),
                          standing_text(row, request)});
  }
  result.tables.push_back(std::move(table));

  const Fit fit;
  Chart chart{"Width from which a depth pays", "depth", "width", {}, true};
  Curve line{"the line", {}}, above{errors + " above", {}, true}, below{errors + " below", {}, true},
      size{amount_text(plan.params) + " parameters", {}, true};
  const Index last = deepest + deepest / 8;
  const Index stride = std::max<Index>(1, last / 64);
  for (Index depth = 1; depth <= last; depth += stride) {
    const auto L = static_cast<double>(depth);
    const double width = transition_width(fit, L);
    const double sigma = standing(fit, depth, 1, request.band).log_width_sigma * std::max(request.band, 1e-12);
    line.points.emplace_back(L, width);
    above.points.emplace_back(L, width * std::exp(sigma));
    below.points.emplace_back(L, width * std::exp(-sigma));
    size.points.emplace_back(L, std::sqrt(plan.params / (12 * L)));
  }
  chart.curves = {std::move(line), std::move(above), std::move(below), std::move(size)};
  const double theory_depth = plan.theory.threshold;
  chart.curves.push_back({"log_3 width, of the theory", {{theory_depth, static_cast<double>(plan.theory_width)}}});
  for (const PlanRow& row : plan.rows)
    if (row.mark == "given" || row.mark == "recommended")
      chart.curves.push_back({row.mark == "given" ? "this model" : "recommended",
                              {{static_cast<double>(row.depth), static_cast<double>(row.width)}}});
  result.charts.push_back(std::move(chart));
  if (plan.given)
    result.figures = {{"gap to the line", plan.given->standing.log_width_gap},
                      {"width", static_cast<double>(plan.given->width)},
                      {"depth", static_cast<double>(plan.given->depth)}};
  result.json = to_json(plan);
  return result;
}

}  // namespace saddle::analysis::depth_width

// saddle plan: how deep and how wide a model should be for its size, and where a given one stands.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "analyze.hpp"
#include "command.hpp"
#include "output.hpp"
#include "saddle/analysis/depth_width/plan.hpp"
#include "saddle/base/error.hpp"
#include "saddle/io/atomic_file.hpp"

namespace saddle::cli {

namespace {

namespace rule = analysis::depth_width;

struct PlanOptions {
  rule::PlanRequest request;
  bool published = false;
  std::string html;
};

std::string title(const rule::Plan& plan) {
  std::string text = bold(count_text(plan.params) + " parameters in layers");
  const std::string model = plan.model ? plan.model->model : "";
  const bool other = rule::of_another_size(plan);
  if (!model.empty() && !other) text = model + ", " + text;
  if (plan.tokens > 0)
    text += fmt::format(", {} tokens, {} FLOPs to train", count_text(plan.tokens),
                        number_text(rule::flops_of(plan.params, plan.tokens)));
  if (other)
    text += fmt::format(", beside {} with {}", model.empty() ? "the given model" : model,
                        count_text(plan.given->standing.params));
  return text + "\n";
}

std::string text_of(const rule::Plan& plan, const rule::PlanRequest& request) {
  Table table({"", "depth", "width", "parameters", "pays from width", "gap", "standing"}, "lrrrrrl");
  for (const rule::PlanRow& row : plan.rows)
    table.add({row.mark, std::to_string(row.depth), std::to_string(row.width), count_text(row.standing.params),
               fmt::format("{:.0f}", row.standing.transition_width),
               fmt::format("{:+.2f} ± {:.2f}", row.standing.log_width_gap, row.standing.log_width_sigma),
               standing_text(row, request)});
  std::string text = title(plan) + "\n" + wrap(rule::verdict(plan), 0) + "\n" + table.text() + "\n";
  text += wrap(fmt::format("theory: expressiveness grows double-exponentially with depth up to log_3 {} = {:.1f} "
                           "layers; beyond, depth and width are interchangeable",
                           plan.theory_width, plan.theory.threshold),
               0);
  for (const std::string& note : plan.notes) text += wrap("note: " + note, 0);
  return text;
}

// Shapes of others, beside the width that the rule has for their depth.
Table applied_table(double band, Json& rows) {
  Table table({"model", "built", "standing", "pays from width", "source"}, "lllrl");
  for (const rule::Applied& row : rule::applied()) {
    const rule::Standing found = rule::standing({}, row.depth, row.width, band);
    table.add({row.model, fmt::format("{} x {}{}", row.depth, row.about ? "about " : "", row.width),
               to_string(found.regime), fmt::format("{:.0f}", found.transition_width), row.source});
    rows.push_back({{"model", row.model},
                    {"depth", row.depth},
                    {"width", row.width},
                    {"about", row.about},
                    {"standing", to_string(found.regime)},
                    {"transition_width", found.transition_width},
                    {"source", row.source}});
  }
  return table;
}

// The paper's projections beside what the rule gives here, and who else used it.
void print_published(const PlanOptions& options, const Context& context) {
  Table table({"model", "trained", "standing", "paper", "here", "on the line"}, "lllllr");
  Json rows = Json::array();
  for (const rule::Published& row : rule::published()) {
    const rule::Recommendation ours = rule::recommend({}, row.params, 1);
    const bool trained = row.depth > 0;
    const std::string stands =
        trained ? to_string(rule::standing({}, row.depth, row.width, options.request.band).regime) : std::string();
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
  Json others = Json::array();
  const Table built = applied_table(options.request.band, others);
  if (context.json) return print_json("saddle.plan.published/1", {{"rows", rows}, {"applied", others}});
  print(bold("Projections of the paper") + "\n" + table.text() + "\n" + bold("Shapes of those who used the rule") +
        "\n" + built.text());
}

int plan(const PlanOptions& options, const Context& context) {
  const rule::PlanRequest& request = options.request;
  if (options.published) {
    if (!options.html.empty()) throw InvalidArgument("--published has no page", "leave --html out");
    if (!(request.band >= 0)) throw InvalidArgument(fmt::format("--band must be 0 or above, found {}", request.band));
    print_published(options, context);
    return Exit::ok;
  }
  const rule::Plan made = rule::make_plan(request);
  if (!options.html.empty()) {
    const std::string input = !request.config.empty() ? request.config : count_text(made.params) + " parameters";
    io::write_atomically(options.html, analysis_page(rule::analysis(), input, rule::to_result(made, request)));
  }
  context.json ? print_json("saddle.plan/1", Json::parse(rule::to_json(made))) : print(text_of(made, request));
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
       {"where a model stands, with a picture", "saddle plan --depth 96 --width 12288 --html plan.html"},
       {"the same from a config.toml or a Hugging Face config.json", "saddle plan --config examples/gpt2/config.json"},
       {"the projections of the paper, recomputed, and shapes of others", "saddle plan --published"}},
      {{"--params", "N", "parameters in layers, without embeddings: 50M, 1.3B", &o->request.params},
       {"--flops", "C", "compute for training; needs --tokens", &o->request.flops},
       {"--tokens", "T", "tokens of training", &o->request.tokens},
       {"--depth", "L", "number of layers", &o->request.depth},
       {"--width", "D", "embedding size", &o->request.width},
       {"--heads", "H", "heads of a layer, for the bounds of the theory; default: of width 64", &o->request.heads},
       {"--config", "FILE",
        "the folder of a run, settings or a model's description by saddle, or a Hugging Face config.json",
        &o->request.config},
       {"--multiple", "M", "widths are multiples of it; default 64", &o->request.multiple},
       {"--band", "C", "standard errors of the fit that count as balanced; default 1", &o->request.band},
       {"--html", "FILE", "write a page with a picture of where it stands", &o->html},
       {"--published", "", "print the paper's table and ours, and shapes of others who used the rule", &o->published}},
      [o](const Context& context) { return plan(*o, context); }};
}

}  // namespace saddle::cli

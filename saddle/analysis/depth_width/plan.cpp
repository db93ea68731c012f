// What a plan is made of: amounts, shapes, notes.
#include "saddle/analysis/depth_width/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::analysis::depth_width {

namespace {

constexpr Index largest = Index{1} << 40;
constexpr Index head_width = 64;  // where nothing is said about heads

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

// An option of the planner where both the command and the analysis have it.
std::string option_name(const PlanRequest& request, const char* name) {
  return request.analyze ? fmt::format("--set {}=", name) : fmt::format("--{}", name);
}

void check_sizes(const PlanRequest& request) {
  const std::pair<const char*, Index> sizes[] = {
      {"--depth", request.depth}, {"--width", request.width}, {"--heads", request.heads}};
  for (const auto& [name, value] : sizes)
    if (value != PlanRequest::not_given && (value < 1 || value > largest))
      throw InvalidArgument(fmt::format("{} must be a whole number from 1 to {}, found {}", name, largest, value));
  if (request.multiple < 1 || request.multiple > largest)
    throw InvalidArgument(
        fmt::format("{} must be at least 1, found {}", option_name(request, "multiple"), request.multiple));
  if (!(request.band >= 0) || !std::isfinite(request.band))
    throw InvalidArgument(
        fmt::format("{} must be 0 or above, found {}", option_name(request, "band"), format_number(request.band)));
}

PlanRow row_of(const std::string& mark, Index depth, Index width, double band) {
  return {mark, depth, width, standing({}, depth, width, band)};
}

Index whole(double value) {
  if (!(value < static_cast<double>(largest)))
    throw InvalidArgument(
        fmt::format("a network of {} layers or features cannot be planned", fmt::format("{:.6g}", value)));
  return std::max<Index>(1, std::llround(value));
}

// The width that spends `params` at this depth, as a multiple.
Index width_at(double params, Index depth, Index multiple) {
  const double width = std::sqrt(params / (12 * static_cast<double>(depth)));
  return multiple * whole(width / static_cast<double>(multiple));
}

// The shape that was asked about. What is missing of it follows from the number of parameters, or else from the rule.
std::optional<PlanRow> given_row(const PlanRequest& request, const Plan& plan) {
  const auto given = [](Index value) { return value == PlanRequest::not_given ? Index{0} : value; };
  Index depth = plan.model ? plan.model->depth : given(request.depth),
        width = plan.model ? plan.model->width : given(request.width);
  if (depth == 0 && width == 0) return std::nullopt;
  const double d = static_cast<double>(width);
  if (width == 0)
    width = plan.params > 0 ? width_at(plan.params, depth, request.multiple)
                            : request.multiple * whole(transition_width({}, static_cast<double>(depth)) /
                                                       static_cast<double>(request.multiple));
  if (depth == 0) depth = whole(plan.params > 0 ? plan.params / (12 * d * d) : transition_depth({}, d));
  return row_of("given", depth, width, request.band);
}

double size_from(const PlanRequest& request, double tokens) {
  const double params = read_amount("--params", request.params), flops = read_amount("--flops", request.flops);
  if (params > 0 && flops > 0)
    throw InvalidArgument("--params and --flops both say how large the model is",
                          "give one of them, and --tokens with --flops");
  if (flops > 0 && tokens == 0)
    throw InvalidArgument("compute alone does not tell the size of a model: it is FLOPs / (6 tokens)",
                          "say how many tokens it trains on, as in --tokens 10B");
  return flops > 0 ? params_of_compute(flops, tokens) : params;
}

// What the weights of a model are, where they are not those that the rule counts.
std::string note_on_weights(const ModelShape& model, double counted) {
  const std::string rule = fmt::format("the rule counts 12 depth width^2 = {}", amount_text(counted));
  if (!model.uncounted.empty())
    return fmt::format("the file does not tell how many weights its layers have: {}; {}", model.uncounted, rule);
  const double all = model.layer_params(), active = model.active_params();
  if (!(std::fabs(all / counted - 1) > 0.01)) return "";
  return fmt::format("the layers of this model have {} weights{}; {}", amount_text(all),
                     active < all ? fmt::format(", of which a token meets {}", amount_text(active)) : "", rule);
}

// Where no shape is as small as the size that it is for.
std::string note_on_budget(const Plan& plan, const PlanRequest& request) {
  const double least = params_of(1, static_cast<double>(request.multiple));
  if (!(least > plan.params)) return "";
  std::string note = fmt::format("the smallest shape, one layer of width {}, has {} parameters, ", request.multiple,
                                 amount_text(least));
  note = plan.asked ? fmt::format("over the budget: {}and {} were asked for", note, amount_text(plan.params))
                    : fmt::format("{}more than the {} of the given one", note, amount_text(plan.params));
  return request.multiple > 1
             ? note + fmt::format("; a smaller {} makes narrower ones", option_name(request, "multiple"))
             : note;
}

std::vector<std::string> notes_on(const Plan& plan, const PlanRequest& request) {
  std::vector<std::string> notes;
  const auto depth = static_cast<double>(plan.recommended.depth);
  if (plan.model && !plan.model->other_stack.empty())
    notes.push_back(fmt::format("rule and theory are about a decoder alone or an encoder alone, which {} is not: {}",
                                plan.model->model.empty() ? "this" : plan.model->model, plan.model->other_stack));
  else if (plan.model && !plan.model->decoder_only)
    notes.emplace_back("the rule was fitted to decoder-only language models, which this model is not");
  if (plan.model && !plan.model->part.empty())
    notes.push_back(fmt::format("this is {}; what stands beside it in the file is not counted", plan.model->part));
  if (plan.model && plan.model->experts > 0)
    notes.push_back(
        fmt::format("the rule was fitted to models whose weights all meet every token, and this one chooses among {} "
                    "experts",
                    plan.model->experts));
  if (plan.model)
    if (const std::string note = note_on_weights(*plan.model, plan.given->standing.params); !note.empty())
      notes.push_back(note);
  if (std::string note = note_on_budget(plan, request); !note.empty()) notes.push_back(std::move(note));
  if (plan.recommended.depth_continuous < 3) {
    notes.emplace_back("the rule says little about models this small: it was fitted above a million parameters");
  } else if (plan.params > Fitted::params_to || depth > Fitted::depth_to || plan.params < Fitted::params_from) {
    notes.emplace_back(
        "extrapolated: the rule was fitted to 6 to 48 layers and about a million to 600 million parameters");
  }
  return notes;
}

// Of the folder of a run: its settings.
std::string config_file(const std::string& given) {
  const std::filesystem::path path(given);
  return std::filesystem::is_directory(path) ? (path / "config.toml").string() : given;
}

std::string text_of_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw IoError("cannot read " + file, "is the file there, and readable?");
  return text;
}

}  // namespace

std::string amount_text(double value) {
  static constexpr const char* prefixes[] = {"", " k", " M", " G", " T", " P", " E"};
  std::size_t p = 0;
  while (std::fabs(value) >= 999.5 && p + 1 < std::size(prefixes)) value /= 1000, ++p;
  return fmt::format("{:.3g}{}", value, prefixes[p]);
}

Plan make_plan(const PlanRequest& request) {
  check_sizes(request);
  Plan plan;
  plan.tokens = read_amount("--tokens", request.tokens);
  plan.params = size_from(request, plan.tokens);
  plan.asked = plan.params > 0;
  if (!request.config.empty()) {
    if (request.depth != PlanRequest::not_given || request.width != PlanRequest::not_given)
      throw InvalidArgument("--config tells depth and width already", "leave out --depth and --width, or --config");
    const std::string file = config_file(request.config);
    if (file.ends_with(".safetensors"))
      throw InvalidArgument(fmt::format("{} holds tensors and no description of a model", file),
                            "give the folder of its run or its config.json; saddle analyze depth_width takes tensors "
                            "that tell what a model did");
    plan.model = parse_model_shape(text_of_file(file), file);
  }
  plan.given = given_row(request, plan);
  if (plan.params == 0 && !plan.given)
    throw InvalidArgument("nothing to plan from",
                          "give --params 50M, or --flops with --tokens, or --depth and --width, or --config FILE");
  if (plan.params == 0) plan.params = plan.given->standing.params;
  plan.recommended = recommend({}, plan.params, request.multiple);

  const Recommendation& best = plan.recommended;
  plan.rows.push_back(row_of("recommended", best.depth, best.width_rounded, request.band));
  for (const double share : {0.5, 0.75, 1.5, 2.0}) {
    const Index depth = whole(share * static_cast<double>(best.depth));
    if (depth != plan.rows.back().depth && depth != best.depth)
      plan.rows.push_back(row_of("", depth, width_at(plan.params, depth, request.multiple), request.band));
  }
  std::sort(plan.rows.begin(), plan.rows.end(), [](const PlanRow& a, const PlanRow& b) { return a.depth < b.depth; });
  if (plan.given) {
    std::erase_if(plan.rows, [&](const PlanRow& row) {
      return row.mark.empty() && row.depth == plan.given->depth && row.width == plan.given->width;
    });
    plan.rows.insert(plan.rows.begin(), *plan.given);
  }

  plan.theory_width = plan.given ? plan.given->width : best.width_rounded;
  const Index depth = plan.given ? plan.given->depth : best.depth;
  Index heads = request.heads != PlanRequest::not_given ? request.heads : plan.model ? plan.model->heads : 0;
  if (heads == 0) heads = std::max<Index>(1, plan.theory_width / head_width);
  plan.theory = theory(depth, plan.theory_width, heads);
  plan.notes = notes_on(plan, request);
  return plan;
}

}  // namespace saddle::analysis::depth_width

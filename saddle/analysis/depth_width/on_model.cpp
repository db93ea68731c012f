// The planner as an analysis of files and models.
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "saddle/analysis/depth_width/depth_width.hpp"
#include "saddle/analysis/depth_width/model_shape.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::depth_width {

namespace {

Result result_of(const std::string& name, Index depth, Index width, Options& options) {
  const double band = options.number("band", 1);
  options.check();
  const Fit fit;
  const Standing s = standing(fit, depth, width, band);
  const Recommendation best = recommend(fit, s.params);
  Result result;
  result.about =
      "Depth and width of the model beside the line on which depth starts to pay, and the shape on that line with as "
      "many parameters. A good model stands near the line; above it more layers would pay, below it fewer and wider "
      "layers would do better.";
  result.findings.push_back(fmt::format("{} layers of width {}: {}. Depth {} pays from width {:.0f}.", depth, width,
                                        to_string(s.regime), depth, s.transition_width));
  if (best.depth_continuous < 3)
    result.findings.emplace_back(
        "The rule says little about models this small: it was fitted above a million parameters.");
  Table table{"Shapes", {"", "depth", "width", "parameters", "pays from width"}, {}};
  const auto add = [&](const char* what, Index L, Index d) {
    const auto depth_of = static_cast<double>(L);
    table.rows.push_back({what, std::to_string(L), std::to_string(d),
                          fmt::format("{:.4g}", params_of(depth_of, static_cast<double>(d))),
                          fmt::format("{:.0f}", transition_width(fit, depth_of))});
  };
  add("this model", depth, width);
  add("on the line", best.depth, best.width_rounded);
  result.tables.push_back(std::move(table));
  Chart chart{"Width from which a depth pays", "depth", "width", {{"the line", {}}, {"this model", {}}}, true};
  const Index last = std::max<Index>(48, 2 * std::min<Index>(depth, 500));
  for (Index L = 1; L <= last; ++L) {
    const auto at = static_cast<double>(L);
    chart.curves[0].points.emplace_back(at, transition_width(fit, at));
  }
  chart.curves[1].points.emplace_back(static_cast<double>(depth), static_cast<double>(width));
  result.charts.push_back(std::move(chart));
  result.json = nlohmann::ordered_json{{"model", name},
                                       {"depth", depth},
                                       {"width", width},
                                       {"params", s.params},
                                       {"regime", static_cast<int>(s.regime)},
                                       {"log_width_gap", s.log_width_gap},
                                       {"log_width_sigma", s.log_width_sigma},
                                       {"transition_width", s.transition_width},
                                       {"transition_depth", s.transition_depth},
                                       {"recommended", {{"depth", best.depth}, {"width", best.width_rounded}}}}
                    .dump();
  return result;
}

}  // namespace

Result on_file(const std::string& file, Options& options) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw IoError("cannot read " + file, "is the file there, and readable?");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const ModelShape shape = parse_model_shape(text, file);
  return result_of(shape.model, shape.depth, shape.width, options);
}

Result on_model(const ProbedModel& model, Options& options) {
  if (model.probes.empty()) throw InvalidArgument("depth_width: the model was not probed");
  const Probe& probe = model.probes.front();
  return result_of(model.name, static_cast<Index>(probe.layers.size()), probe.tokens.shape()[2], options);
}

}  // namespace saddle::analysis::depth_width

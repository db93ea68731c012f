#include "saddle/primal/derivation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/primal/certificate.hpp"
#include "saddle/primal/cost.hpp"
#include "saddle/primal/derivation/document.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::primal {

namespace {

using Json = nlohmann::ordered_json;

struct Derivation {
  Document document;
  std::vector<CostRow> costs;
  std::optional<Certificate> certificate;
  std::string no_certificate;  // the reason, when certify refused
};

Derivation build(const Attention& attention, const DerivationOptions& options) {
  validate(attention, options.dims);
  Derivation result;
  Document& document = result.document;
  document.title = "Derivation of `" + to_text(attention) + "`";
  document.steps = primal_steps(attention, options.dims);
  for (Step& step : dual_steps(attention, options.dims)) document.steps.push_back(std::move(step));
  result.costs = cost_rows(attention, options.dims);
  document.steps.push_back(cost_step(attention, options.dims, result.costs));
  if (!options.certificate) return result;
  try {
    result.certificate = certify(SeededCall(attention, options.dims, options.seed).call(), options.seed);
    document.steps.push_back(certificate_step(*result.certificate, options));
  } catch (const InvalidArgument& error) {  // h is zero on this data, or no query sees a key
    result.no_certificate = error.what();
    document.steps.push_back(
        {"The certificate", {Verdict{false, "There is no certificate on this data: " + result.no_certificate}}});
  }
  return result;
}

struct JsonWriter {
  Json operator()(const Paragraph& block) const { return {{"type", "paragraph"}, {"text", to_plain_text(block.text)}}; }
  Json operator()(const Display& block) const {
    return {{"type", "formula"}, {"latex", block.lines}, {"text", to_plain_lines(block)}};
  }
  Json operator()(const Bullets& block) const {
    Json items = Json::array();
    for (const std::string& item : block.items) items.push_back(to_plain_text(item));
    return {{"type", "list"}, {"items", items}};
  }
  Json operator()(const Verdict& block) const {
    return {{"type", "verdict"}, {"holds", block.holds}, {"text", to_plain_text(block.text)}};
  }
  Json operator()(const Table& block) const {
    Json columns = Json::array(), rows = Json::array();
    for (const Column& column : block.columns) columns.push_back(to_plain_text(column.title));
    for (const auto& row : block.rows) {
      rows.push_back(Json::array());
      for (const std::string& cell : row) rows.back().push_back(to_plain_text(cell));
    }
    return {{"type", "table"}, {"columns", columns}, {"rows", rows}};
  }
};

Json to_json(const Certificate& c) {
  return {{"holds", c.holds()},
          {"sample", c.set.sample},
          {"head", c.set.head},
          {"query", c.set.query},
          {"keys", c.set.indices},
          {"C", c.C},
          {"epsilon", c.epsilon},
          {"primal", c.primal},
          {"dual", c.dual},
          {"gap", c.gap},
          {"kkt", c.kkt},
          {"resolved", c.resolved},
          {"fit", c.fit},
          {"solve_gap", c.solve_gap},
          {"solve_kkt", c.solve_kkt},
          {"converged", c.converged},
          {"support_vectors", c.support_vectors},
          {"multipliers", c.multipliers},
          {"features", c.features},
          {"taylor_order", c.taylor_order >= 0 ? Json(c.taylor_order) : Json(nullptr)},
          {"truncation", c.truncation},
          {"primal_dual", c.primal_dual},
          {"notes", c.notes}};
}

}  // namespace

Format parse_format(std::string_view word) {
  const auto& words = enum_words<Format>;
  for (std::size_t w = 0; w < words.size(); ++w)
    if (words[w] == word) return static_cast<Format>(w);
  const std::string close = nearest(word, words);
  throw InvalidArgument(fmt::format("format '{}': expected {}", word, join(words)),
                        close.empty() ? "" : fmt::format("did you mean '{}'?", close));
}

Dims fitting_dims(const Attention& attention, Dims dims) {
  const auto tokens = [&](Index count) { dims.N = dims.M = count; };
  if (attention.pooling) {
    if (!attention.pooling->factors.empty()) dims.H = static_cast<Index>(attention.pooling->factors.size());
    if (!attention.pooling->grid.empty()) tokens(attention.pooling->prefix + attention.pooling->grid.size());
    dims.M = std::max(dims.M, attention.pooling->prefix);
  }
  for (const Transform& transform : attention.transforms)
    if (const auto* conv = std::get_if<Conv2d>(&transform)) {
      if (conv->axis == Axis::token) tokens(conv->grid.empty() ? dims.M : conv->grid.size());
      if (conv->axis == Axis::feature && !conv->grid.empty()) dims.D = conv->grid.size();
    }
  return dims;
}

std::string derive(const Attention& attention, const DerivationOptions& options) {
  const Document document = build(attention, options).document;
  switch (options.format) {
    case Format::text: return render_text(document);
    case Format::markdown: return render_markdown(document);
    case Format::latex: return render_latex(document);
    case Format::html: return render_html(document);
  }
  throw InvalidArgument("unknown format of a derivation");
}

std::string derive_json(const Attention& attention, const DerivationOptions& options) {
  const Derivation result = build(attention, options);
  const Dims& dims = options.dims;
  Json steps = Json::array(), costs = Json::array();
  for (std::size_t s = 0; s < result.document.steps.size(); ++s) {
    const Step& step = result.document.steps[s];
    Json blocks = Json::array();
    for (const Block& block : step.blocks) blocks.push_back(std::visit(JsonWriter{}, block));
    steps.push_back({{"number", s}, {"title", step.title}, {"blocks", blocks}});
  }
  for (const CostRow& row : result.costs)
    costs.push_back({{"scope", row.scope},
                     {"pass", row.pass},
                     {"form", row.form},
                     {"multiply_adds", row.multiply_adds},
                     {"additions", row.additions},
                     {"exps", row.exps},
                     {"bytes", row.bytes},
                     {"memory", row.memory}});
  const Json document{
      {"written", to_text(attention)},
      {"attention", Json::parse(saddle::primal::to_json(attention))},
      {"dims", {{"B", dims.B}, {"H", dims.H}, {"N", dims.N}, {"M", dims.M}, {"D", dims.D}, {"E", dims.E}}},
      {"seed", options.seed},
      {"steps", steps},
      {"cost", {{"rows", costs}, {"cheaper", cheaper_form(attention, dims) == Form::primal ? "primal" : "dual"}}},
      {"certificate", result.certificate              ? to_json(*result.certificate)
                      : result.no_certificate.empty() ? Json(nullptr)
                                                      : Json{{"holds", false}, {"reason", result.no_certificate}}}};
  return document.dump(2);
}

}  // namespace saddle::primal

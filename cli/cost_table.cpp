#include "cost_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>

#include "saddle/base/text.hpp"
#include "saddle/primal/primal_form.hpp"

namespace saddle::cli {

namespace {

using primal::Form;
using primal::Pass;

// Neighbouring heads that cost the same: pooling factors and key sets may differ between heads.
struct Group {
  std::vector<Index> heads;
  Index keys = 0;
  double multiply_adds = 0;
};

// What may tell heads apart: the pooling factor, and the groups of columns that fixed key sets give to the head.
std::vector<Index> kind_of(const primal::Attention& attention, const Dims& dims, Index head) {
  std::vector<Index> kind{primal::factor_of(attention, dims, head)};
  for (const primal::KeySet& part : attention.keys)
    if (const auto* fixed = std::get_if<primal::Fixed>(&part)) kind.push_back(head % fixed->num_verts);
  return kind;
}

std::vector<Group> groups_of(const primal::Attention& attention, const Dims& dims) {
  std::vector<Group> groups;
  std::map<std::vector<Index>, Group> known;  // counted once per kind
  for (Index h = 0; h < dims.H; ++h) {
    const auto [kind, fresh] = known.try_emplace(kind_of(attention, dims, h));
    Group& group = kind->second;
    if (fresh)
      group = {{},
               primal::keys_of(attention, dims, h),
               primal::head_cost(attention, dims, h, Form::dual, Pass::forward).multiply_adds};
    if (groups.empty() || groups.back().keys != group.keys || groups.back().multiply_adds != group.multiply_adds)
      groups.push_back(group);
    groups.back().heads.push_back(h);
  }
  return groups;
}

std::string label(const CostRow& row, Index width) {
  if (row.scope == "attention") return "all heads and samples";
  if (row.scope == "layer") return fmt::format("layer of width {}", width);
  const Index first = row.heads.front(), last = row.heads.back();
  return first == last ? fmt::format("head {}, {} keys", first, row.keys)
                       : fmt::format("each of heads {}-{}, {} keys", first, last, row.keys);
}

const char* to_string(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }
const char* to_string(Form form) { return form == Form::primal ? "primal" : "dual"; }

}  // namespace

CostTable cost_table(const kernels::Request& request, Index width) {
  const primal::Attention& attention = request.attention;
  const Dims& dims = request.dims;
  CostTable table;
  table.width = width;
  table.no_primal = primal::primal_form_refusals(attention, request.mask);
  table.cheaper = table.no_primal.empty() ? primal::cheaper_form(attention, dims) : Form::dual;

  const auto add = [&](CostRow row, const auto& cost) {
    row.dual = cost(Form::dual);
    if (table.no_primal.empty()) row.primal = cost(Form::primal);
    table.rows.push_back(std::move(row));
  };
  const auto groups = groups_of(attention, dims);
  for (Pass pass : {Pass::forward, Pass::backward}) {
    for (const Group& group : groups)
      add({"head", group.heads, group.keys, pass, {}, {}}, [&](Form form) {
        return primal::head_cost(attention, dims, group.heads.front(), form, pass, request.dtype);
      });
    add({"attention", {}, 0, pass, {}, {}},
        [&](Form form) { return primal::attention_cost(attention, dims, form, pass, request.dtype); });
    add({"layer", {}, 0, pass, {}, {}},
        [&](Form form) { return primal::layer_cost(attention, dims, width, form, pass, request.dtype); });
  }
  return table;
}

std::string to_text(const CostTable& table) {
  Table text({"pass", "scope", "form", "multiply-adds", "additions", "exps", "bytes", "memory"}, "lllrrrrr");
  for (const CostRow& row : table.rows) {
    const auto add = [&](const std::string& pass, const std::string& scope, const char* form,
                         const primal::Cost& cost) {
      text.add({pass, scope, form, count_text(cost.multiply_adds), count_text(cost.additions), count_text(cost.exps),
                bytes_text(cost.bytes), bytes_text(cost.memory)});
    };
    add(to_string(row.pass), label(row, table.width), "dual", row.dual);
    if (row.primal) add("", "", "primal", *row.primal);
  }
  std::string notes;
  if (table.no_primal.empty()) {
    notes = wrap(fmt::format("cheaper form: {}", to_string(table.cheaper)), 0);
  } else {
    notes = wrap("no primal form: " + join(table.no_primal, "; "), 0);
  }
  return bold("Cost, counted from the formulas") + "\n" + text.text() + notes;
}

Json cost_json(const primal::Cost& cost) {
  return {{"multiply_adds", cost.multiply_adds},
          {"additions", cost.additions},
          {"exps", cost.exps},
          {"bytes", cost.bytes},
          {"memory", cost.memory}};
}

Json to_json(const CostTable& table) {
  Json rows = Json::array();
  for (const CostRow& row : table.rows) {
    Json entry{{"pass", to_string(row.pass)}, {"scope", row.scope}};
    if (!row.heads.empty()) {
      entry["heads"] = row.heads;
      entry["keys"] = row.keys;
    }
    entry["dual"] = cost_json(row.dual);
    entry["primal"] = row.primal ? cost_json(*row.primal) : Json();
    rows.push_back(std::move(entry));
  }
  return {{"rows", rows}, {"no_primal_form", table.no_primal}, {"cheaper", to_string(table.cheaper)}};
}

}  // namespace saddle::cli

#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "saddle/base/cpu.hpp"
#include "saddle/version.hpp"

namespace saddle::bench {

namespace {

Json to_json(const Row& row) {
  const Dims& d = row.dims;
  return {{"attention", row.attention},
          {"dims", {{"B", d.B}, {"H", d.H}, {"N", d.N}, {"M", d.M}, {"D", d.D}, {"E", d.E}}},
          {"dtype", saddle::to_string(row.dtype)},
          {"pass", to_string(row.pass)},
          {"layout", to_string(row.layout)},
          {"threads", row.threads}};
}

Json to_json(const std::optional<Timing>& timing) {
  if (!timing) return nullptr;
  return {{"best", timing->best}, {"median", timing->median}, {"rounds", timing->rounds}};
}

Json to_json(const Check& check) {
  return {{"passed", check.passed},
          {"error", std::isfinite(check.error) ? Json(check.error) : Json()},
          {"tolerance", check.tolerance},
          {"what", check.what}};
}

Json memory_json(double bytes) { return bytes >= 0 ? Json(bytes) : Json(); }

Json to_json(const OwnResult& own) {
  Json json = to_json(own.row);
  json["implementation"] = own.implementation;
  json["isa"] = own.isa;
  json["check"] = to_json(own.check);
  if (!own.refused.empty()) json["refused"] = own.refused;
  json["seconds"] = to_json(own.timing);
  json["memory"] = memory_json(own.memory);
  return json;
}

Json to_json(const BarResult& judged, const Row& row = {}) {
  Json json{{"bar", bar_text(judged.bar, row)}, {"value", judged.value ? Json(*judged.value) : Json()}};
  if (judged.as_installed) json["as_installed"] = *judged.as_installed;
  if (!judged.value) json["reason"] = judged.reason;
  json["verdict"] = to_string(judged.verdict);
  return json;
}

Json to_json(const Result& result) {
  Json json{{"kind", "attention"}};
  json.update(to_json(result.own));
  if (!result.entry.work.empty()) json["work"] = result.entry.work;
  if (result.own.timing) {
    json["gflops"] = result.gflops;
    json["equivalent"] = counts_equivalent(result.own.row);
    json["flops"] = flops(result.own.row);
    json["bytes"] = bytes(result.own.row);
    json["limit"] = result.limit.empty() ? Json() : Json(result.limit);
    json["share"] = result.share;
  }
  json["others"] = Json::array();
  for (const OwnResult& other : result.others) json["others"].push_back(to_json(other));
  json["peers"] = Json::array();
  for (const PeerResult& peer : result.peers) {
    Json one{{"name", peer.name}, {"tuned", !peer.as_installed}, {"seconds", to_json(peer.timing)}};
    if (peer.timing && result.own.timing) one["ratio"] = peer.timing->best / result.own.timing->best;
    if (!peer.timing) one["reason"] = peer.reason;
    json["peers"].push_back(std::move(one));
  }
  json["bars"] = Json::array();
  for (const BarResult& judged : result.bars) json["bars"].push_back(to_json(judged, result.entry.row));
  json["passed"] = result.passed();
  return json;
}

Json to_json(const ModelResult& result) {
  const ModelRow& row = result.entry.row;
  Json json{{"kind", "model"},
            {"work", result.entry.work},
            {"dims", {{"B", row.B}, {"N", row.N}, {"width", row.width}, {"heads", row.heads}, {"layers", row.layers}}},
            {"dtype", saddle::to_string(row.dtype)},
            {"threads", row.threads},
            {"check", to_json(result.check)},
            {"seconds", to_json(result.own.timing)},
            {"memory", memory_json(result.own.memory)}};
  if (!result.own.timing) json["reason"] = result.unmeasured.empty() ? result.own.reason : result.unmeasured;
  json["peers"] = Json::array();
  for (const SideResult* side : {&result.torch, &result.spinning, &result.as_installed}) {
    if (side == &result.spinning && result.entry.row.dtype != DType::bf16) continue;
    const bool is_tuned = side != &result.as_installed;
    Json one{{"name", side == &result.spinning ? "torch spinning" : "torch"},
             {"tuned", is_tuned},
             {"seconds", to_json(side->timing)},
             {"memory", memory_json(side->memory)}};
    if (const auto ratio = result.ratio(*side)) one["ratio"] = *ratio;
    if (!side->timing) one["reason"] = side->reason;
    json["peers"].push_back(std::move(one));
  }
  json["bars"] = Json::array();
  for (const BarResult& judged : result.bars) json["bars"].push_back(to_json(judged));
  json["passed"] = result.passed();
  return json;
}

Json to_json(const GraphResult& result) {
  const GraphRow& row = result.entry.row;
  Json json{{"kind", "graph"},
            {"work", result.entry.work},
            {"variables", row.variables},
            {"neighbours", row.neighbours},
            {"samples", row.samples},
            {"alpha", row.alpha},
            {"threads", row.threads},
            {"edges", result.edges},
            {"tests", result.tests},
            {"check",
             {{"passed", result.same || result.red ? Json(result.same) : Json()},
              {"what", "edges, their directions and the number of tests, against numpy"}}},
            {"seconds", to_json(result.own)}};
  Json peer{{"name", "numpy"}, {"seconds", to_json(result.numpy)}};
  if (const auto ratio = result.ratio()) peer["ratio"] = *ratio;
  if (!result.unmeasured.empty()) peer["reason"] = result.unmeasured;
  json["peers"] = Json::array({peer});
  json["bars"] = Json::array();
  for (const BarResult& judged : result.bars) json["bars"].push_back(to_json(judged));
  json["passed"] = result.passed();
  return json;
}

}  // namespace

bool Report::passed() const {
  return std::all_of(results.begin(), results.end(), [](const Result& result) { return result.passed(); }) &&
         std::all_of(models.begin(), models.end(), [](const ModelResult& result) { return result.passed(); }) &&
         std::all_of(graphs.begin(), graphs.end(), [](const GraphResult& result) { return result.passed(); });
}

Json to_json(const Report& report) {
  Json limits = Json::array(), rows = Json::array();
  for (const Limits& l : report.limits)
    limits.push_back({{"threads", l.threads},
                      {"fma_f32", l.fma_f32},
                      {"fma_f64", l.fma_f64},
                      {"fma_f32_avx2", l.fma_avx2},
                      {"amx_bf16", l.amx_bf16},
                      {"exp_f32", l.exp_f32},
                      {"exp_f64", l.exp_f64},
                      {"triad", l.triad},
                      {"read", l.read}});
  for (const Result& result : report.results) rows.push_back(to_json(result));
  for (const ModelResult& result : report.models) rows.push_back(to_json(result));
  for (const GraphResult& result : report.graphs) rows.push_back(to_json(result));
  Json json{{"version", version()},
            {"suite", report.suite},
            {"cpu", cpu().brand},
            {"cores", cpu().cores},
            {"isa", saddle::to_string(best_isa())},
            {"units", "limits in 1e9 per second (operations, exponentials, bytes), times in seconds, memory in bytes"},
            {"limits", limits}};
  if (!report.base.empty()) json["base"] = report.base;
  json["rows"] = rows;
  json["passed"] = report.passed();
  return json;
}

}  // namespace saddle::bench

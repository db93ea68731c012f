// inspect.json: single samples with their predictions and attention maps, and how pooled heads group the tokens.
#include <fmt/format.h>

#include <algorithm>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/registry.hpp"
#include "saddle/primal/pooling.hpp"
#include "saddle/report/checked_json_internal.hpp"
#include "saddle/report/run_files_internal.hpp"

namespace saddle::report {

namespace {

// Base64 of exactly as many bytes.
const std::string& bytes(const Field& field, Index count) {
  const std::string& text = field.text();
  const auto in_alphabet = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
  };
  const std::size_t padding = text.size() - std::min(text.size(), text.find_last_not_of('=') + 1);
  const bool base64 = text.size() % 4 == 0 && padding <= 2 &&
                      std::all_of(text.begin(), text.end() - static_cast<std::ptrdiff_t>(padding), in_alphabet);
  if (!base64) field.fail("expected base64");
  const Index found = static_cast<Index>(text.size() / 4 * 3 - padding);
  if (found != count) field.fail(fmt::format("expected {} bytes, found {}", count, found));
  return text;
}

Index positive(const Field& field, Index most) {
  const Index value = field.whole();
  if (value < 1 || value > most) field.fail(fmt::format("expected a number from 1 to {}, found {}", most, value));
  return value;
}

Json input(const Field& field) {
  const std::string& kind = field.at("kind").text();
  if (kind == "image") {
    const Index channels = positive(field.at("channels"), 4), rows = positive(field.at("rows"), 4096),
                columns = positive(field.at("columns"), 4096);
    Json out{{"kind", kind},
             {"channels", channels},
             {"rows", rows},
             {"columns", columns},
             {"values", bytes(field.at("values"), channels * rows * columns)}};
    if (const auto words = field.find("words")) out["words"] = words->texts();  // of the text beside it
    return out;
  }
  if (kind == "series") {
    const Index length = field.at("length").whole();
    Json out{{"kind", kind}, {"length", length}, {"values", Json::array()}};
    if (const auto names = field.find("channel_names")) out["channel_names"] = names->texts();
    for (const Field& channel : field.at("values").items()) {
      const auto steps = channel.items();
      if (static_cast<Index>(steps.size()) != length)
        channel.fail(fmt::format("expected {} values, found {}", length, steps.size()));
      Json& values = out["values"].emplace_back(Json::array());
      for (const Field& step : steps) values.push_back(step.json().is_null() ? Json() : rounded(step.number()));
    }
    return out;
  }
  if (kind == "tokens") return {{"kind", kind}, {"text", field.at("text").texts()}};
  field.at("kind").fail("expected image, series or tokens, found " + field.at("kind").json().dump());
}

Json head(const Field& field) {
  constexpr Index most = 4096;
  const Index rows = positive(field.at("rows"), most), columns = positive(field.at("columns"), most);
  Json out{{"rows", rows},
           {"columns", columns},
           {"max", field.at("max").number()},
           {"data", bytes(field.at("data"), rows * columns)}};
  if (const auto scale = field.find("scale")) {
    if (scale->items().size() != 2) scale->fail("expected two numbers: queries and keys per cell");
    for (const Field& side : scale->items()) {
      if (!(side.number() >= 1)) side.fail("expected at least 1");
      out["scale"].push_back(side.number());
    }
  }
  return out;
}

Json sample(const Field& field, std::size_t classes) {
  const auto in_classes = [&](const Field& label) {
    if (label.whole() >= static_cast<Index>(classes))
      label.fail(fmt::format("there are {} classes, found {}", classes, label.whole()));
    return label.whole();
  };
  Json out{{"index", field.at("index").whole()}, {"predicted", in_classes(field.at("predicted"))}};
  if (const auto label = field.find("label")) out["label"] = in_classes(*label);
  const auto probabilities = field.at("probabilities").items();
  if (probabilities.size() != classes)
    field.at("probabilities").fail(fmt::format("expected {} numbers, found {}", classes, probabilities.size()));
  for (const Field& probability : probabilities) out["probabilities"].push_back(rounded(probability.number()));
  out["input"] = input(field.at("input"));
  out["layers"] = Json::array();
  for (const Field& layer : field.at("layers").items()) {
    Json& heads = out["layers"].emplace_back(Json{{"heads", Json::array()}})["heads"];
    for (const Field& map : layer.at("heads").items()) heads.push_back(head(map));
  }
  return out;
}

// Tokens that a map stands for on the side of the queries, which are never pooled.
Index token_count(const Json& inspect) {
  if (!inspect["grid"].is_null())
    return inspect["grid"]["prefix"].get<Index>() +
           inspect["grid"]["rows"].get<Index>() * inspect["grid"]["columns"].get<Index>();
  for (const Json& sample : inspect["samples"])
    for (const Json& layer : sample["layers"])
      for (const Json& map : layer["heads"])
        return static_cast<Index>(map["rows"].get<double>() *
                                  (map.contains("scale") ? map["scale"][0].get<double>() : 1));
  return 0;
}

// {"factor":[pooled key of every token, -1 for a token that is left out]}; nothing when the attention is not known
// here.
Json groups(const Run& run, Index layer, const std::vector<Index>& factors, Index tokens) {
  Json out = Json::object();
  try {
    const std::string& written = run.attention.at(std::min<std::size_t>(layer, run.attention.size() - 1));
    const auto pooling = mechanisms::parse(written).pooling;
    if (!pooling) return out;
    for (const Index factor : factors) {
      const std::string key = std::to_string(factor);
      if (out.contains(key)) continue;
      std::vector<Index> group(static_cast<std::size_t>(tokens), -1);
      const primal::Windows windows = primal::pooling_windows(*pooling, factor, tokens);
      for (std::size_t w = 0; w < windows.size(); ++w)
        for (const Index token : windows[w])
          if (token < tokens) group[static_cast<std::size_t>(token)] = static_cast<Index>(w);
      out[key] = group;
    }
  } catch (const Error&) {
    return Json::object();
  }
  return out;
}

}  // namespace

std::string read_inspect(const std::filesystem::path& file, const Run& run) {
  const Json document = parse_json(read_text(file), file.string());
  const Field root(document, file.string());
  if (root.object().at("schema").text() != "saddle.inspect/1")
    root.at("schema").fail("expected saddle.inspect/1, found " + root.at("schema").json().dump());
  Json out{{"samples", Json::array()}, {"grid", nullptr}, {"pooling", Json::array()}};
  for (const Field& entry : root.at("samples").items()) out["samples"].push_back(sample(entry, run.classes.size()));
  if (const auto grid = root.find("grid"))
    out["grid"] = {{"prefix", grid->at("prefix").whole()},
                   {"rows", positive(grid->at("rows"), 4096)},
                   {"columns", positive(grid->at("columns"), 4096)}};
  const Index tokens = token_count(out);
  if (const auto pooling = root.find("pooling"))
    for (const Field& layer : pooling->items()) {
      std::vector<Index> factors;
      for (const Field& factor : layer.at("factors").items()) factors.push_back(positive(factor, Index{1} << 30));
      const Index number = layer.at("layer").whole();
      out["pooling"].push_back(
          {{"layer", number}, {"factors", factors}, {"groups", groups(run, number, factors, tokens)}});
    }
  return out.dump();
}

}  // namespace saddle::report

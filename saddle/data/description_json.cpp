#include "saddle/data/description_json.hpp"

#include <nlohmann/json.hpp>

namespace saddle::data {

using Json = nlohmann::ordered_json;

Json to_json(const Description& d) {
  Json table = Json::array();
  for (const Column& column : d.table)
    table.push_back({{"name", column.name}, {"categories", column.categories}, {"offset", column.offset}});
  return {{"name", d.name},
          {"kind", to_string(d.kind)},
          {"channels", d.channels},
          {"rows", d.rows},
          {"columns", d.columns},
          {"vocabulary", d.vocabulary},
          {"min_length", d.min_length},
          {"max_length", d.max_length},
          {"classes", d.classes},
          {"channel_names", d.channel_names},
          {"token_names", d.token_names},
          {"usual_length", d.usual_length},
          {"table", table},
          {"target", d.target},
          {"flagged", d.flagged},
          {"checksum", d.checksum}};
}

Json to_json(const Scaling& scaling) {
  return {
      {"mean", scaling.mean}, {"deviation", scaling.deviation}, {"steps", scaling.steps}, {"flagged", scaling.flagged}};
}

Description description_from_json(const Json& json) {
  Description d;
  d.name = json.at("name");
  const std::string kind = json.at("kind");
  for (const Kind each : {Kind::series, Kind::image, Kind::tokens, Kind::pair, Kind::events, Kind::image_text})
    if (to_string(each) == kind) d.kind = each;
  d.channels = json.at("channels");
  d.rows = json.at("rows");
  d.columns = json.at("columns");
  d.vocabulary = json.at("vocabulary");
  d.min_length = json.at("min_length");
  d.max_length = json.at("max_length");
  d.classes = json.at("classes").get<std::vector<std::string>>();
  d.channel_names = json.at("channel_names").get<std::vector<std::string>>();
  d.token_names = json.at("token_names").get<std::vector<std::string>>();
  d.usual_length = json.at("usual_length");
  for (const Json& column : json.at("table"))
    d.table.push_back(
        {column.at("name"), column.at("categories").get<std::vector<std::string>>(), column.at("offset")});
  d.target = json.at("target");
  d.flagged = json.at("flagged");
  d.checksum = json.at("checksum");
  return d;
}

Scaling scaling_from_json(const Json& json) {
  Scaling scaling;
  scaling.mean = json.at("mean").get<std::vector<double>>();
  scaling.deviation = json.at("deviation").get<std::vector<double>>();
  scaling.steps = json.at("steps");
  scaling.flagged = json.at("flagged");
  return scaling;
}

}  // namespace saddle::data

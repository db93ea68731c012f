// What a trained model must remember of its data, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "saddle/data/split.hpp"

namespace saddle::data {

nlohmann::ordered_json to_json(const Description& description);
nlohmann::ordered_json to_json(const Scaling& scaling);
// These throw nlohmann's exceptions where something is missing.
Description description_from_json(const nlohmann::ordered_json& json);
Scaling scaling_from_json(const nlohmann::ordered_json& json);

}  // namespace saddle::data

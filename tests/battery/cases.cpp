#include "cases.hpp"

#define TOML_HEADER_ONLY 0
#include <toml++/toml.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/registry.hpp"

namespace saddle::battery {

namespace {

Dims dims_from(const toml::array& shape) {
  const auto at = [&](std::size_t i) { return shape.at(i).value<Index>().value(); };
  return {at(0), at(1), at(2), at(3), at(4), at(5)};
}

bool allows(const std::string& attention, const Dims& dims) {
  try {
    validate(mechanisms::parse(attention), dims);
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

Index size(const Dims& d) { return d.B * d.H * (d.N * d.M + (d.N + d.M) * (d.D + d.E)); }

}  // namespace

std::vector<BatteryCase> all_cases() {
  std::vector<BatteryCase> cases;
  for (const mechanisms::Mechanism* mechanism : mechanisms::all_declared()) {
    const toml::table table = toml::parse(mechanisms::text_of(*mechanism).cases);
    const toml::array& shapes = *table["battery"]["shapes"].as_array();
    for (const toml::node& text : *table["attentions"].as_array()) {
      const std::string attention = text.value<std::string>().value();
      const std::size_t before = cases.size();
      for (const toml::node& shape : shapes)
        if (const Dims dims = dims_from(*shape.as_array()); allows(attention, dims))
          cases.push_back({mechanism->name, attention, dims});
      if (cases.size() == before) throw std::runtime_error(mechanism->name + "/cases.toml: no shape fits " + attention);
    }
  }
  return cases;
}

std::vector<BatteryCase> small_cases() {
  std::map<std::pair<std::string, std::string>, BatteryCase> smallest;
  for (const BatteryCase& c : all_cases()) {
    if (c.dims.N < 3 || c.dims.M < 3) continue;  // too small to show anything
    const auto [slot, fresh] = smallest.try_emplace({c.mechanism, c.attention}, c);
    if (!fresh && size(c.dims) < size(slot->second.dims)) slot->second = c;
  }
  std::vector<BatteryCase> cases;
  for (const auto& [attention, c] : smallest) cases.push_back(c);
  return cases;
}

std::string test_name(const BatteryCase& c) {
  std::string name = c.mechanism + "__" + c.attention;
  for (Index extent : {c.dims.B, c.dims.H, c.dims.N, c.dims.M, c.dims.D, c.dims.E})
    name += "_" + std::to_string(extent);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char character) { return std::isalnum(character) == 0; }, '_');
  return name;
}

}  // namespace saddle::battery

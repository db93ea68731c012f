#include "parts.hpp"

#include "saddle/primal/written/part_text.hpp"

namespace saddle::cli {

std::vector<PartValue> parts_of(const primal::Attention& attention) {
  std::vector<PartValue> parts;
  const auto add = [&]<primal::Part P>(const std::string& role, const P& part) {
    parts.push_back({role, std::string(P::name), std::string(P::help), primal::options_of(part)});
  };
  const auto add_one_of = [&](const std::string& role, const auto& variant) {
    std::visit([&](const auto& part) { add(role, part); }, variant);
  };
  add_one_of("kernel", attention.kernel);
  add_one_of("normaliser", attention.normaliser);
  for (const auto& transform : attention.transforms) add_one_of("transform", transform);
  if (attention.pooling) add("reduction", *attention.pooling);
  for (const auto& keys : attention.keys) add_one_of("keys", keys);
  if (attention.bias) add("offset", *attention.bias);
  if (attention.residual) add("offset", *attention.residual);
  return parts;
}

std::string default_text(const primal::OptionHelp& option) {
  return option.default_value.empty() ? "auto" : option.default_value;
}

}  // namespace saddle::cli

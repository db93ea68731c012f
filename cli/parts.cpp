#include "parts.hpp"

#include "saddle/primal/written/option_text.hpp"

namespace saddle::cli {

std::vector<PartValue> parts_of(const primal::Attention& attention) {
  std::vector<PartValue> parts;
  const auto add = [&]<primal::Part P>(const std::string& role, const P& part) {
    PartValue& value = parts.emplace_back(PartValue{role, std::string(P::name), std::string(P::help), {}});
    P::options(part, [&](const primal::OptionInfo& info, const auto& field) {
      value.options.push_back(
          {std::string(info.name), primal::kind_of(field), primal::encode(field), std::string(info.help)});
    });
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

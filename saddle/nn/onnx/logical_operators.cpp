#include "saddle/nn/onnx/operators.hpp"

namespace saddle::nn::onnx {

namespace {

// The type in which two arguments are compared: a number, or a tensor without dimensions, does not widen the other.
torch::ScalarType common_type(const Step& s) {
  const auto a = s.type(0), b = s.type(1);
  const auto weak = [&](std::size_t i) { return !s.is_tensor(i) || s.rank(i) == 0; };
  if (weak(0) == weak(1) || c10::isFloatingType(a) != c10::isFloatingType(b) || a == torch::kBool || b == torch::kBool)
    return c10::promoteTypes(a, b) == torch::kFloat64 ? torch::kFloat32 : c10::promoteTypes(a, b);
  return weak(1) ? a : b;
}

Operator comparison(const char* op, bool negated = false) {
  return [op, negated](Step& s) {
    const auto type = common_type(s);
    const std::string outcome = s.node(op, {s.x(0, type), s.x(1, type)});
    return Names{negated ? s.node("Not", {outcome}) : outcome};
  };
}

// Of truth values; of bits there is nothing. A constant that changes nothing is left out.
Operator connective(const char* op, bool neutral) {
  return [op, neutral](Step& s) {
    if (s.type() != torch::kBool) s.refuse("bits are not written, only true and false");
    for (const std::size_t i : {0, 1})
      if (s.is_all(1 - i, neutral) && s.sizes(i) == s.sizes()) return Names{s.x(i, torch::kBool)};
    return Names{s.node(op, {s.x(0, torch::kBool), s.x(1, torch::kBool)})};
  };
}

Names negation(Step& s) {
  if (s.type() != torch::kBool) s.refuse("bits are not written, only true and false");
  return {s.node("Not", {s.x(0, torch::kBool)})};
}

Names where(Step& s) { return {s.node("Where", {s.x(0, torch::kBool), s.x(1, s.type()), s.x(2, s.type())})}; }

Names masked_fill(Step& s) {
  if (s.is_all(1, false) && s.sizes(0) == s.sizes()) return {s.x(0)};
  return {s.node("Where", {s.x(1, torch::kBool), s.x(2, s.type()), s.x(0)})};
}

}  // namespace

void add_logical_operators(Table& table) {
  table["aten::eq"] = comparison("Equal");
  table["aten::ne"] = comparison("Equal", true);
  table["aten::lt"] = comparison("Less");
  table["aten::le"] = comparison("LessOrEqual");
  table["aten::gt"] = comparison("Greater");
  table["aten::ge"] = comparison("GreaterOrEqual");
  for (const char* name : {"bitwise_and", "logical_and", "__and__"})
    table[std::string("aten::") + name] = connective("And", true);
  for (const char* name : {"bitwise_or", "logical_or", "__or__"})
    table[std::string("aten::") + name] = connective("Or", false);
  for (const char* name : {"bitwise_xor", "logical_xor", "__xor__"})
    table[std::string("aten::") + name] = connective("Xor", false);
  for (const char* name : {"bitwise_not", "logical_not"}) table[std::string("aten::") + name] = negation;
  table["aten::isnan"] = [](Step& s) { return Names{s.node("IsNaN", {s.x(0)})}; };
  table["aten::where"] = where;
  table["aten::masked_fill"] = masked_fill;
}

}  // namespace saddle::nn::onnx

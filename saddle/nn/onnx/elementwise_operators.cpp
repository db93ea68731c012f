#include <numbers>

#include "saddle/nn/onnx/operators.hpp"

namespace saddle::nn::onnx {

namespace {

Operator unary(const char* op) {
  return [op](Step& s) { return Names{s.node(op, {s.x(0, s.type())})}; };
}

Operator binary(const char* op) {
  return [op](Step& s) { return Names{s.node(op, {s.x(0, s.type()), s.x(1, s.type())})}; };
}

// x + alpha y or x - alpha y; with `first` = 1 the two change places.
Operator sum(const char* op, std::size_t first = 0) {
  return [op, first](Step& s) {
    Names terms{s.x(0, s.type()), s.x(1, s.type())};
    if (s.has(2) && s.number(2) != 1) {
      std::string& scaled = terms[1 - first];
      scaled = s.node("Mul", {scaled, s.x(2, s.type())});
    }
    return Names{s.node(op, {terms[first], terms[1 - first]})};
  };
}

Names divide(Step& s) {
  const std::string quotient = s.node("Div", {s.x(0, s.type()), s.x(1, s.type())});
  if (!s.has(2)) return {quotient};
  if (s.text(2) != "floor" || !c10::isFloatingType(s.type()))
    s.refuse("only quotients of floating numbers are written, plain or rounded down");
  return {s.node("Floor", {quotient})};
}

Names square(Step& s) {
  const std::string x = s.x(0);
  return {s.node("Mul", {x, x})};
}

Names inverse_root(Step& s) { return {s.node("Reciprocal", {s.node("Sqrt", {s.x(0, s.type())})})}; }

// At least argument 1, at most argument 2.
Names clamp(Step& s) {
  std::string x = s.x(0, s.type());
  if (s.has(1)) x = s.node("Max", {x, s.x(1, s.type())});
  if (s.has(2)) x = s.node("Min", {x, s.x(2, s.type())});
  return {x};
}

// x Phi(x), or its approximation by tanh.
Names gelu(Step& s) {
  const auto number = [&](double value) { return s.write().scalar(value, s.type()); };
  const std::string x = s.x(0);
  std::string bent;
  if (s.has(1) && s.text(1) == "tanh") {
    const std::string cube = s.node("Mul", {s.node("Mul", {x, x}), x});
    const std::string inner = s.node("Add", {x, s.node("Mul", {cube, number(0.044715)})});
    bent = s.node("Tanh", {s.node("Mul", {inner, number(std::numbers::sqrt2 * std::numbers::inv_sqrtpi)})});
  } else {
    bent = s.node("Erf", {s.node("Mul", {x, number(1 / std::numbers::sqrt2)})});
  }
  return {s.node("Mul", {s.node("Mul", {x, number(0.5)}), s.node("Add", {bent, number(1)})})};
}

Names silu(Step& s) { return {s.node("Mul", {s.x(0), s.node("Sigmoid", {s.x(0)})})}; }

Names elu(Step& s) {
  if (s.number(2) != 1 || s.number(3) != 1) s.refuse("scales other than 1 are not written");
  return {s.node("Elu", {s.x(0)}, {{"alpha", s.number(1)}})};
}

}  // namespace

void add_elementwise_operators(Table& table) {
  for (const auto& [name, op] : {std::pair{"exp", "Exp"},
                                 {"log", "Log"},
                                 {"sqrt", "Sqrt"},
                                 {"abs", "Abs"},
                                 {"neg", "Neg"},
                                 {"reciprocal", "Reciprocal"},
                                 {"relu", "Relu"},
                                 {"tanh", "Tanh"},
                                 {"sigmoid", "Sigmoid"},
                                 {"erf", "Erf"},
                                 {"sin", "Sin"},
                                 {"cos", "Cos"},
                                 {"floor", "Floor"},
                                 {"ceil", "Ceil"},
                                 {"round", "Round"}})
    table[std::string("aten::") + name] = unary(op);
  table["aten::mul"] = binary("Mul");
  table["aten::pow"] = binary("Pow");
  table["aten::maximum"] = binary("Max");
  table["aten::minimum"] = binary("Min");
  table["aten::add"] = sum("Add");
  table["aten::add_"] = sum("Add");
  table["aten::sub"] = sum("Sub");
  table["aten::rsub"] = sum("Sub", 1);
  table["aten::div"] = divide;
  table["aten::square"] = square;
  table["aten::rsqrt"] = inverse_root;
  table["aten::clamp"] = clamp;
  table["aten::clamp_min"] = clamp;
  table["aten::clamp_max"] = binary("Min");
  table["aten::gelu"] = gelu;
  table["aten::silu"] = silu;
  table["aten::elu"] = elu;
  // Elements stay what they are, or change their type.
  for (const char* name : {"to", "type_as", "contiguous", "clone", "detach", "alias", "lift_fresh", "_to_copy"})
    table[std::string("aten::") + name] = [](Step& s) { return Names{s.x(0, s.type())}; };
}

}  // namespace saddle::nn::onnx

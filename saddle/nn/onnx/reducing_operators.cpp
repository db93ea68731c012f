#include <numeric>

#include "saddle/nn/onnx/operators.hpp"

namespace saddle::nn::onnx {

namespace {

struct Reduction {
  std::vector<Index> dimensions;
  bool keep = false;
  bool over_nothing = false;  // a dimension without entries is among them
};

// Arguments 1 and 2, where they are dimensions and whether to keep them; all dimensions otherwise.
Reduction reduction_of(const Step& s) {
  Reduction r;
  if (s.argument_count() > 2) {
    if (s.has(1)) r.dimensions = s.dimensions(1, s.rank(0));
    r.keep = s.flag(2);
  }
  if (r.dimensions.empty()) {
    r.dimensions.resize(s.sizes(0).size());
    std::iota(r.dimensions.begin(), r.dimensions.end(), Index{0});
  }
  for (const Index d : r.dimensions) r.over_nothing |= s.sizes(0)[d] == Size{0, false};
  return r;
}

// Axes of a ReduceSum are an input, those of the others an attribute in this opset.
std::string reduced(Step& s, const char* op, const std::string& x, const Reduction& r) {
  if (std::string(op) == "ReduceSum")
    return s.node(op, {x, s.write().indices(r.dimensions)}, {{"keepdims", Index{r.keep}}});
  return s.node(op, {x}, {{"axes", r.dimensions}, {"keepdims", Index{r.keep}}});
}

Names sum(Step& s) {
  const Reduction r = reduction_of(s);
  if (r.over_nothing) return {s.write().filled(0, s.type(), s.sizes())};
  return {reduced(s, "ReduceSum", s.x(0, s.type()), r)};
}

Operator extreme(const char* op) {
  return [op](Step& s) { return Names{reduced(s, op, s.x(0), reduction_of(s))}; };
}

// |x| along some dimensions; argument 1 is the power, which must be 2.
Names length(Step& s) {
  if (s.has(1) && s.number(1) != 2) s.refuse("only Euclidean norms are written");
  if (s.argument_count() < 4) s.refuse("found no dimension: give one");
  return {
      s.node("ReduceL2", {s.x(0, s.type())}, {{"axes", s.dimensions(2, s.rank(0))}, {"keepdims", Index{s.flag(3)}}})};
}

Names mean(Step& s) { return {reduced(s, "ReduceMean", s.x(0, s.type()), reduction_of(s))}; }

// Whether any (ReduceMax) or all (ReduceMin) are true.
Operator quantifier(const char* op, bool of_none) {
  return [op, of_none](Step& s) {
    const Reduction r = reduction_of(s);
    if (r.over_nothing) return Names{s.write().filled(of_none, torch::kBool, s.sizes())};
    const std::string as_numbers = s.write().cast(s.x(0, torch::kBool), torch::kBool, torch::kInt32);
    return Names{s.write().cast(reduced(s, op, as_numbers, r), torch::kInt32, torch::kBool)};
  };
}

Operator softmax(const char* op) {
  return [op](Step& s) { return Names{s.node(op, {s.x(0, s.type())}, {{"axis", s.dimension(1, s.rank())}})}; };
}

Names argmax(Step& s) {
  if (!s.has(1)) s.refuse("found no dimension: give one");
  return {s.node("ArgMax", {s.x(0)}, {{"axis", s.dimension(1, s.rank(0))}, {"keepdims", Index{s.flag(2)}}})};
}

Names cumulative_sum(Step& s) {
  return {s.node("CumSum",
                 {s.x(0, s.type()), s.write().scalar(static_cast<double>(s.dimension(1, s.rank())), torch::kInt64)})};
}

}  // namespace

void add_reducing_operators(Table& table) {
  table["aten::sum"] = sum;
  table["aten::mean"] = mean;
  table["aten::norm"] = length;
  table["aten::linalg_vector_norm"] = length;
  table["aten::amax"] = extreme("ReduceMax");
  table["aten::amin"] = extreme("ReduceMin");
  table["aten::logsumexp"] = extreme("ReduceLogSumExp");
  table["aten::any"] = quantifier("ReduceMax", false);
  table["aten::all"] = quantifier("ReduceMin", true);
  table["aten::softmax"] = softmax("Softmax");
  table["aten::log_softmax"] = softmax("LogSoftmax");
  table["aten::argmax"] = argmax;
  table["aten::cumsum"] = cumulative_sum;
}

}  // namespace saddle::nn::onnx

#include <algorithm>
#include <numeric>

#include "saddle/nn/onnx/operators.hpp"

namespace saddle::nn::onnx {

namespace {

Names reshape(Step& s) {
  if (s.sizes() == s.sizes(0)) return {s.x(0)};
  return {s.write().reshaped(s.x(0), s.sizes())};
}

Names permute(Step& s) { return {s.node("Transpose", {s.x(0)}, {{"perm", s.dimensions(1, s.rank())}})}; }

std::vector<Index> in_order(Index rank) {
  std::vector<Index> order(rank);
  std::iota(order.begin(), order.end(), Index{0});
  return order;
}

Names transpose(Step& s) {
  std::vector<Index> order = in_order(s.rank());
  std::swap(order[s.dimension(1, s.rank())], order[s.dimension(2, s.rank())]);
  return {s.node("Transpose", {s.x(0)}, {{"perm", order}})};
}

Names transpose_matrix(Step& s) {
  std::vector<Index> order = in_order(s.rank());
  std::reverse(order.begin(), order.end());
  return {s.node("Transpose", {s.x(0)}, {{"perm", order}})};
}

// Sizes that stay are asked for as 1, which Expand leaves alone.
Names expand(Step& s) {
  const Sizes &from = s.sizes(0), &to = s.sizes();
  Sizes wanted = to;
  for (std::size_t d = 0; d < from.size(); ++d) {
    Size& size = wanted[to.size() - from.size() + d];
    if (size == from[d]) size = {1, false};
  }
  const bool same = from.size() == to.size() && std::all_of(wanted.begin(), wanted.end(), [](const Size& size) {
                      return size == Size{1, false};
                    });
  return {same ? s.x(0) : s.node("Expand", {s.x(0), s.write().sizes(wanted)})};
}

// One repetition count for each dimension of the result.
Names repeat(Step& s) {
  const Sizes counts = s.size_list(1);
  std::string x = s.x(0);
  if (counts.size() > s.sizes(0).size()) {
    Sizes padded(counts.size() - s.sizes(0).size(), Size{1, false});
    padded.insert(padded.end(), s.sizes(0).begin(), s.sizes(0).end());
    x = s.write().reshaped(x, padded);
  }
  return {s.node("Tile", {x, s.write().sizes(counts)})};
}

Names concatenate(Step& s) {
  Names parts;
  for (const Written& part : s.list(0)) parts.push_back(s.write().cast(part.name, part.type, s.type()));
  return {s.node("Concat", parts, {{"axis", s.dimension(1, s.rank())}})};
}

Names stack(Step& s) {
  Names parts;
  const Index d = s.dimension(1, s.rank());
  for (const Written& part : s.list(0))
    parts.push_back(s.node("Unsqueeze", {s.write().cast(part.name, part.type, s.type()), s.write().indices({d})}));
  return {s.node("Concat", parts, {{"axis", d}})};
}

// Argument 1: how much to add before and after each dimension, from the last one on.
Names pad(Step& s) {
  const std::vector<Index> given = s.integers(1);
  if (std::all_of(given.begin(), given.end(), [](Index n) { return n == 0; })) return {s.x(0)};
  const Index rank = s.rank();
  std::vector<Index> pads(2 * rank, 0);
  for (std::size_t i = 0; i < given.size() / 2; ++i) {
    const Index d = rank - 1 - static_cast<Index>(i);
    pads[d] = given[2 * i];
    pads[rank + d] = given[2 * i + 1];
  }
  const double value = s.has(2) ? s.number(2) : 0;
  return {s.node("Pad", {s.x(0), s.write().indices(pads), s.write().scalar(value, s.type())})};
}

Operator filled(double value) {
  return [value](Step& s) { return Names{s.write().filled(value, s.type(), s.sizes())}; };
}

// The number is argument i.
Operator filled_with(std::size_t i) {
  return [i](Step& s) { return Names{s.write().filled(s.number(i), s.type(), s.sizes())}; };
}

}  // namespace

void add_shape_operators(Table& table) {
  for (const char* name :
       {"view", "reshape", "_unsafe_view", "view_as", "reshape_as", "flatten", "unflatten", "squeeze", "unsqueeze"})
    table[std::string("aten::") + name] = reshape;
  table["aten::permute"] = permute;
  table["aten::transpose"] = transpose;
  table["aten::t"] = transpose_matrix;
  table["aten::numpy_T"] = transpose_matrix;
  for (const char* name : {"expand", "expand_as", "broadcast_to"}) table[std::string("aten::") + name] = expand;
  table["aten::repeat"] = repeat;
  table["aten::cat"] = concatenate;
  table["aten::stack"] = stack;
  table["aten::constant_pad_nd"] = pad;
  for (const char* name : {"zeros", "zeros_like", "new_zeros"}) table[std::string("aten::") + name] = filled(0);
  for (const char* name : {"ones", "ones_like", "new_ones"}) table[std::string("aten::") + name] = filled(1);
  for (const char* name : {"full", "full_like"}) table[std::string("aten::") + name] = filled_with(1);
  table["aten::new_full"] = filled_with(2);
}

}  // namespace saddle::nn::onnx

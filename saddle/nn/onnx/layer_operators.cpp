#include "saddle/nn/onnx/operators.hpp"

namespace saddle::nn::onnx {

namespace {

Names multiply(Step& s) {
  if (s.sizes(0).back() == Size{0, false}) return {s.write().filled(0, s.type(), s.sizes())};
  return {s.node("MatMul", {s.x(0), s.x(1)})};
}

// x [..,I], weight [O,I], bias [O] or none.
Names linear(Step& s) {
  const std::string transposed = s.node("Transpose", {s.x(1)}, {{"perm", std::vector<Index>{1, 0}}});
  const std::string product = s.node("MatMul", {s.x(0), transposed});
  return {s.has(2) ? s.node("Add", {product, s.x(2)}) : product};
}

// beta x + alpha y z
Names add_product(Step& s) {
  if (s.number(3) != 1 || s.number(4) != 1) s.refuse("scales other than 1 are not written");
  return {s.node("Add", {s.node("MatMul", {s.x(1), s.x(2)}), s.x(0)})};
}

// Arguments: x, normalised sizes, scale, shift, eps.
Names layer_norm(Step& s) {
  Sizes normalised;
  for (const Index size : s.integers(1)) normalised.push_back({size, false});
  Names inputs{s.x(0), s.has(2) ? s.x(2) : s.write().filled(1, s.type(), normalised)};
  if (s.has(3)) inputs.push_back(s.x(3));
  return {s.node("LayerNormalization", inputs,
                 {{"axis", s.rank() - static_cast<Index>(normalised.size())}, {"epsilon", s.number(4)}})};
}

// Arguments: x [B,C,..], scale, shift, mean, variance, whether training, momentum, eps.
Names batch_norm(Step& s) {
  if (s.flag(5) || !s.has(3))
    s.refuse("it takes the statistics of the batch, as in training: name the module to be put into evaluation");
  const Sizes channels{s.sizes().at(1)};
  return {s.node("BatchNormalization",
                 {s.x(0), s.has(1) ? s.x(1) : s.write().filled(1, s.type(), channels),
                  s.has(2) ? s.x(2) : s.write().filled(0, s.type(), channels), s.x(3), s.x(4)},
                 {{"epsilon", s.number(7)}})};
}

// The same number for each dimension of the window, or one for each.
std::vector<Index> per_dimension(const Step& s, std::size_t i, Index dimensions) {
  std::vector<Index> all = s.integers(i);
  if (all.size() == 1) all.assign(dimensions, all[0]);
  return all;
}

// Arguments: x [B,C,..], weight, bias, stride, padding, dilation; then groups at `groups`.
std::string convolve(Step& s, std::size_t groups) {
  const Index dimensions = s.rank() - 2;
  const std::vector<Index> before = per_dimension(s, 4, dimensions);
  std::vector<Index> pads = before;
  pads.insert(pads.end(), before.begin(), before.end());
  Names inputs{s.x(0), s.x(1)};
  if (s.has(2)) inputs.push_back(s.x(2));
  return s.node("Conv", inputs,
                {{"strides", per_dimension(s, 3, dimensions)},
                 {"pads", pads},
                 {"dilations", per_dimension(s, 5, dimensions)},
                 {"group", s.integer(groups)}});
}

Names convolution(Step& s) { return {convolve(s, 6)}; }

// With arguments 6 and 7: whether transposed, and the padding of what that gives.
Names general_convolution(Step& s) {
  if (s.flag(6)) s.refuse("transposed convolutions are not written");
  return {convolve(s, 8)};
}

Names embedding(Step& s) { return {s.node("Gather", {s.x(0), s.x(1)}, {{"axis", Index{0}}})}; }

Names dropout(Step& s) {
  if (s.flag(2)) s.refuse("it draws random numbers, as in training: name the module to be put into evaluation");
  return {s.x(0)};
}

}  // namespace

void add_layer_operators(Table& table) {
  for (const char* name : {"matmul", "bmm", "mm", "mv", "dot"}) table[std::string("aten::") + name] = multiply;
  table["aten::linear"] = linear;
  table["aten::addmm"] = add_product;
  table["aten::baddbmm"] = add_product;
  table["aten::layer_norm"] = layer_norm;
  table["aten::batch_norm"] = batch_norm;
  for (const char* name : {"conv1d", "conv2d", "conv3d"}) table[std::string("aten::") + name] = convolution;
  table["aten::_convolution"] = general_convolution;
  table["aten::convolution"] = general_convolution;
  table["aten::embedding"] = embedding;
  for (const char* name : {"dropout", "feature_dropout"}) table[std::string("aten::") + name] = dropout;
}

}  // namespace saddle::nn::onnx

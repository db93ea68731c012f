#include <limits>

#include "saddle/nn/onnx/operators.hpp"

namespace saddle::nn::onnx {

namespace {

// x[.., first : last : step, ..] along dimension d.
std::string slice(Step& s, Index d, const Size& first, const Size& last, Index step = 1) {
  Writer& write = s.write();
  return s.node("Slice",
                {s.x(0), write.sizes({first}), write.sizes({last}), write.indices({d}), write.indices({step})});
}

Names narrow(Step& s) {
  const Index d = s.dimension(1, s.rank());
  if (s.sizes() == s.sizes(0)) return {s.x(0)};
  const Size first = s.size(2), length = s.size(3);
  if (first.count < 0 || (first.count != 0 && first.per_sample != length.per_sample))
    s.refuse("found a start that cannot be told from the end: count it from 0, in samples or not");
  return {slice(s, d, first, {first.count + length.count, length.per_sample})};
}

// Arguments: dimension, start, end, step.
Names slice_operator(Step& s) {
  const Index d = s.dimension(1, s.rank()), step = s.integer(4);
  if (s.sizes() == s.sizes(0) && step == 1) return {s.x(0)};
  const Size end{std::numeric_limits<Index>::max(), false};
  return {slice(s, d, s.has(2) ? s.size(2) : Size{}, s.has(3) ? s.size(3) : end, step)};
}

Names select(Step& s) {
  const Attributes along{{"axis", s.dimension(1, s.rank(0))}};
  if (s.size(2).per_sample) s.refuse("the index grows with the batch");
  return {s.node("Gather", {s.x(0), s.write().scalar(static_cast<double>(s.integer(2)), torch::kInt64)}, along)};
}

Names index_select(Step& s) { return {s.node("Gather", {s.x(0), s.x(2)}, {{"axis", s.dimension(1, s.rank())}})}; }

Names gather(Step& s) { return {s.node("GatherElements", {s.x(0), s.x(2)}, {{"axis", s.dimension(1, s.rank())}})}; }

// Arguments: how far, along which dimensions.
Names roll(Step& s) {
  const std::vector<Index> far = s.integers(1), along = s.dimensions(2, s.rank());
  if (far.size() != along.size()) s.refuse("found no dimension: give one for each shift");
  std::string x = s.x(0);
  for (std::size_t i = 0; i < far.size(); ++i) {
    const Size whole = s.sizes()[along[i]];
    if (whole.per_sample) s.refuse("samples would change their places");
    std::vector<Index> from(whole.count);
    for (Index to = 0; to < whole.count; ++to) from[to] = ((to - far[i]) % whole.count + whole.count) % whole.count;
    x = s.node("Gather", {x, s.write().indices(from)}, {{"axis", along[i]}});
  }
  return {x};
}

// Pieces of these sizes along dimension d.
Names split(Step& s, Index d, const Sizes& pieces) {
  return s.write().nodes("Split", {s.x(0), s.write().sizes(pieces)}, pieces.size(), {{"axis", d}});
}

// Pieces of one size; the last one may be smaller.
Names split_evenly(Step& s, Index d, const Size& piece) {
  const Size whole = s.sizes(0)[d];
  if (piece.per_sample != whole.per_sample || piece.count < 1 || (whole.per_sample && whole.count % piece.count != 0))
    s.refuse("how many pieces there are depends on the batch size");
  Sizes pieces(whole.count / piece.count, piece);
  if (whole.count % piece.count != 0) pieces.push_back({whole.count % piece.count, false});
  return split(s, d, pieces);
}

Names split_operator(Step& s) {
  const Index d = s.dimension(2, s.rank(0));
  return split_evenly(s, d, s.size(1));
}

Names split_with_sizes(Step& s) {
  const Index d = s.dimension(2, s.rank(0));
  return split(s, d, s.size_list(1));
}

Names chunk(Step& s) {
  const Index d = s.dimension(2, s.rank(0)), count = s.integer(1);
  const Size whole = s.sizes(0)[d];
  if (whole.per_sample && whole.count % count != 0) s.refuse("the size of a piece is no multiple of the batch size");
  return split_evenly(s, d, {(whole.count + count - 1) / count, whole.per_sample});
}

Names unbind(Step& s) {
  const Index d = s.dimension(1, s.rank(0));
  const Size whole = s.sizes(0)[d];
  if (whole.per_sample) s.refuse("how many pieces there are depends on the batch size");
  Names pieces;
  for (Index i = 0; i < whole.count; ++i)
    pieces.push_back(
        s.node("Gather", {s.x(0), s.write().scalar(static_cast<double>(i), torch::kInt64)}, {{"axis", d}}));
  return pieces;
}

// x with source [..,n,..] added at the places index [n] along dimension d, scaled by argument 4.
Names index_add(Step& s) {
  const Index d = s.dimension(1, s.rank());
  if (s.has(4) && s.number(4) != 1) s.refuse("scales other than 1 are not written");
  Sizes column(s.sizes().size(), Size{1, false});
  column[d] = s.sizes(2).at(0);
  const std::string places =
      s.node("Expand", {s.write().reshaped(s.x(2, torch::kInt64), column), s.write().sizes(s.sizes(3))});
  return {s.node("ScatterElements", {s.x(0), places, s.x(3)}, {{"axis", d}, {"reduction", std::string("add")}})};
}

}  // namespace

void add_selecting_operators(Table& table) {
  table["aten::narrow"] = narrow;
  table["aten::slice"] = slice_operator;
  table["aten::select"] = select;
  table["aten::index_select"] = index_select;
  table["aten::gather"] = gather;
  table["aten::roll"] = roll;
  table["aten::split"] = split_operator;
  table["aten::split_with_sizes"] = split_with_sizes;
  table["aten::chunk"] = chunk;
  table["aten::unbind"] = unbind;
  table["aten::index_add"] = index_add;
}

}  // namespace saddle::nn::onnx

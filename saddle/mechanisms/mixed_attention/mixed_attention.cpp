#include "saddle/mechanisms/mixed_attention/mixed_attention.hpp"

#include "saddle/mechanisms/golden_tape.hpp"
#include "saddle/mechanisms/layer_internal.hpp"
#include "saddle/mechanisms/layer_weights_internal.hpp"

namespace saddle::mechanisms::mixed_attention {

namespace {

using tape::Value;

// x [B,rows,columns,..] moved by (down, right), zeros coming in.
Value moved(const Value& x, Index down, Index right) {
  const Index B = x.size(0), R = x.size(1), C = x.size(2);
  const Index inner = static_cast<Index>(x.data().size()) / (B * R * C);
  std::vector<Index> from(x.data().size(), -1);
  for (Index b = 0; b < B; ++b)
    for (Index r = std::max<Index>(0, down); r < std::min(R, R + down); ++r)
      for (Index c = std::max<Index>(0, right); c < std::min(C, C + right); ++c)
        for (Index i = 0; i < inner; ++i)
          from[((b * R + r) * C + c) * inner + i] = ((b * R + r - down) * C + c - right) * inner + i;
  return tape::rearranged(x, x.shape(), from);
}

// Images have their channels last in here: [B,rows,columns,C].
struct Computation {
  const TapeValues& weights;
  Index H, window;
  bool shifted;
  Index B, rows, columns;

  Index windows() const { return (rows / window) * (columns / window); }
  Index pixels() const { return window * window; }

  Value weight(const std::string& name) const { return weight_or_none(weights, name); }
  Value needed(const std::string& name) const { return weight_of(weights, name, MixedAttention::name); }
  // A convolution of size 1x1, on any leading axes.
  Value conv(const Value& x, const std::string& name) const {
    const Value w = needed(name + ".weight");
    return tape::linear(x, tape::reshape(w, {w.size(0), w.size(1)}), weight(name + ".bias"));
  }
  Value rolled(const Value& x, Index shift) const {
    return shifted ? tape::roll(tape::roll(x, 1, shift), 2, shift) : x;
  }
  // [B,rows,columns,hd] -> [B,H,n,p,ch] and back from [B,H,n,p,c].
  Value cut(const Value& x) const {
    const Index k = window;
    const Value split = tape::reshape(rolled(x, -(k / 2)), {B, rows / k, k, columns / k, k, H, x.size(3) / H});
    return tape::reshape(tape::permute(split, {0, 5, 1, 3, 2, 4, 6}), {B, H, windows(), pixels(), x.size(3) / H});
  }
  Value put_back(const Value& o) const {
    const Index k = window, c = o.size(4);
    const Value split = tape::reshape(o, {B, H, rows / k, columns / k, k, k, c});
    return tape::reshape(tape::permute(split, {0, 2, 4, 3, 5, 1, 6}), {B, rows, columns, H * c});
  }
  // Maps [B,H,n,a,b] of all windows, convolved over the grid of windows.
  Value mixed_over_windows(const Value& maps, const std::string& name) const {
    const Index R = rows / window, C = columns / window, a = maps.size(3), b = maps.size(4);
    const Value last = tape::permute(tape::reshape(maps, {B, H, R, C, a * b}), {0, 2, 3, 4, 1});
    const Value kernel = tape::reshape(needed(name + ".weight"), {H, H, 3, 3});
    Value sum = tape::zeros({B, R, C, a * b, H});
    for (Index i = 0; i < 3; ++i)
      for (Index j = 0; j < 3; ++j)
        sum = sum + tape::linear(moved(last, 1 - i, 1 - j), tape::at(tape::at(kernel, 3, j), 2, i));
    if (const Value bias = weight(name + ".bias")) sum = sum + bias;
    return tape::reshape(tape::permute(sum, {0, 4, 1, 2, 3}), {B, H, windows(), a, b});
  }
  // Maps [B,H,s,a,b] mixed over heads and s by a tensor [H,s,s',H'].
  Value mixed_over_shared(const Value& maps, const std::string& name) const {
    const Index s = maps.size(2), a = maps.size(3), b = maps.size(4);
    const Value matrix = tape::reshape(tape::permute(needed(name), {3, 2, 0, 1}), {H * s, H * s});
    return tape::reshape(tape::matmul(matrix, tape::reshape(maps, {B, H * s, a * b})), maps.shape());
  }
  // [n,p,p], 1 where two pixels of a window must not see each other.
  Value shift_mask() const {
    const auto labels = regions({rows, columns}, window);
    const Index n = windows(), p = pixels();
    std::vector<double> mask(static_cast<std::size_t>(n * p * p));
    for (Index w = 0; w < n; ++w)
      for (Index i = 0; i < p; ++i)
        for (Index j = 0; j < p; ++j) mask[(w * p + i) * p + j] = labels[w * p + i] != labels[w * p + j] ? 1.0 : 0.0;
    return {{n, p, p}, std::move(mask)};
  }
  Value depthwise(const Value& u) const {
    const Value kernel = needed("dw_u.weight");  // [hd,1,3,3]
    Value sum = tape::zeros(u.shape());
    for (Index i = 0; i < 3; ++i)
      for (Index j = 0; j < 3; ++j)
        sum = sum + moved(u, 1 - i, 1 - j) * tape::at(tape::at(tape::at(kernel, 3, j), 2, i), 1, 0);
    const Value bias = weight("dw_u.bias");
    return bias ? sum + bias : sum;
  }

  // Quarters of q, k, v [B,H,n,p,ch] -> outputs of the four attentions [B,H,n,p,c4].
  std::vector<Value> attended(const Value& q, const Value& k, const Value& v) const;
  LayerOutputs run(const Value& x, const Value& y) const;
};

std::vector<Value> Computation::attended(const Value& q, const Value& k, const Value& v) const {
  const Index c4 = q.size(4) / 4;
  const auto quarter = [&](const Value& x, Index i) { return tape::slice(x, 4, i * c4, c4); };
  const auto score = [&](Index i, const Value& a, const Value& b) {
    const Value temperature = tape::reshape(tape::at(needed("temperature"), 0, i), {H, 1, 1, 1});
    return temperature * tape::matmul(a, b);
  };
  const auto unit = [&](const Value& x, Index i, int axis) { return tape::normalised(quarter(x, i), axis); };
  const auto order = [](const Value& x, const std::vector<int>& axes) { return tape::permute(x, axes); };

  Value b = mixed_over_windows(score(0, unit(q, 0, 4), tape::transpose(unit(k, 0, 4), 3, 4)), "b_talking");
  if (shifted) b = b + Value(-100.0) * shift_mask();
  const Value l = mixed_over_windows(score(1, tape::transpose(unit(q, 1, 3), 3, 4), unit(k, 1, 3)), "l_talking");
  // [B,H,p,c,n] and [B,H,p,n,c]; [B,H,c,p,n] and [B,H,c,n,p]
  const Value g = mixed_over_shared(
      score(2, order(unit(q, 2, 2), {0, 1, 3, 4, 2}), order(unit(k, 2, 2), {0, 1, 3, 2, 4})), "g_talking");
  const Value r = mixed_over_shared(
      score(3, order(unit(q, 3, 2), {0, 1, 4, 3, 2}), order(unit(k, 3, 2), {0, 1, 4, 2, 3})), "r_talking");
  const auto transposed = [](const Value& x) { return tape::transpose(x, 3, 4); };
  return {tape::matmul(tape::softmax(b), quarter(v, 0)),
          transposed(tape::matmul(tape::softmax(l), transposed(quarter(v, 1)))),
          order(tape::matmul(tape::softmax(g), order(quarter(v, 2), {0, 1, 3, 4, 2})), {0, 1, 4, 2, 3}),
          order(tape::matmul(tape::softmax(r), order(quarter(v, 3), {0, 1, 4, 3, 2})), {0, 1, 4, 3, 2})};
}

// x and y [B,rows,columns,X] -> y, mixed [B,hd,rows,columns], sca [B,hd,1,1], shift_mask.
LayerOutputs Computation::run(const Value& x, const Value& y) const {
  const Value quz = conv(x, "to_quz"), kv = conv(y, "to_kv");
  const Index hd = kv.size(3) / 2;
  const auto part = [&](const Value& all, Index i) { return tape::slice(all, 3, i * hd, hd); };
  std::vector<Value> quarters;
  for (const Value& o : attended(cut(part(quz, 0)), cut(part(kv, 0)), cut(part(kv, 1))))
    quarters.push_back(put_back(o));
  const Value mixed = rolled(tape::concat(quarters, 3), window / 2);
  const Value gate = conv(tape::mean(tape::mean(mixed, 2, true), 1, true), "sca.1");  // [B,1,1,hd]
  const Value out = conv((conv(mixed * gate, "project") + depthwise(part(quz, 1))) * part(quz, 2), "project_out");
  LayerOutputs outputs{
      {"y", out}, {"mixed", tape::permute(mixed, {0, 3, 1, 2})}, {"sca", tape::permute(gate, {0, 3, 1, 2})}};
  if (shifted) outputs.emplace("shift_mask", shift_mask());
  return outputs;
}

Value channels_last(const Value& image) { return tape::permute(image, {0, 2, 3, 1}); }

Value normed(const Value& x, const TapeValues& weights, const std::string& name, double eps) {
  const auto weight = [&](const char* kind) { return weight_of(weights, name + kind, MixedAttention::name); };
  return tape::layer_norm(x, weight(".weight"), weight(".bias"), eps);
}

std::optional<LayerCase> read_golden_case(const TensorFile& golden) {
  const GoldenMetadata metadata(golden);
  golden_tensor(golden, "in.x");
  LayerCase read;
  read.recorded = tape_inputs(golden);
  read.tolerance = 1e-9;
  LayerInputs& given = read.inputs;
  given.weights = without_prefix(read.recorded, "param.");
  const std::string variant = metadata.text("variant", "attention");
  if (variant != "attention" && variant != "block")
    throw DataError("", 0, 0, fmt::format("the variant is attention or block, found '{}'", variant));
  const bool block = variant == "block", cross = metadata.flag("cross", false);
  const double eps = metadata.number("norm_eps", 1e-6);

  Value x = channels_last(read.recorded.at("in.x")), y, stream = x;
  if (block && cross) {
    const Index X = x.size(3) / 2;
    stream = tape::slice(x, 3, 0, X);
    y = normed(tape::slice(x, 3, X, X), given.weights, "norm2", eps);
    x = normed(stream, given.weights, "norm1", eps);
  } else if (block) {
    x = normed(stream, given.weights, "norm", eps);
  } else if (cross) {
    golden_tensor(golden, "in.y");
    y = channels_last(read.recorded.at("in.y"));
  }
  if (block) given.weights = without_prefix(given.weights, "m.");

  MixedAttention mixed;
  mixed.window = metadata.integer("window", mixed.window);
  mixed.expansion = metadata.integer("ffn_expansion_factor", mixed.expansion);
  mixed.bias = metadata.flag("bias", false);
  read.layer = std::make_shared<const LayerOf<MixedAttention>>(mixed);
  const Index B = x.size(0), rows = x.size(1), columns = x.size(2), X = x.size(3);
  given.place.X = X;
  given.place.H = metadata.integer("num_heads", 1);
  given.place.N = rows * columns;
  given.place.grid = {rows, columns};
  given.place.index = metadata.flag("shift", false) ? 1 : 0;
  mixed.check(given.place);
  given.x = tape::reshape(x, {B, rows * columns, X});
  if (y) given.context = tape::reshape(y, {B, rows * columns, X});
  read.as_recorded = [=](LayerOutputs& outputs) {
    const Value out = tape::reshape(outputs.at("y"), {B, rows, columns, X});
    outputs.at("y") = tape::permute(block ? stream + out : out, {0, 3, 1, 2});
  };
  return read;
}

std::string divisors(Index a, Index b) {
  std::vector<Index> common;
  for (Index k = 2; k <= std::min(a, b); ++k)
    if (a % k == 0 && b % k == 0) common.push_back(k);
  return common.empty() ? "choose another size of patches" : fmt::format("window can be {}", fmt::join(common, ", "));
}

}  // namespace

std::vector<Index> regions(primal::Grid image, Index window) {
  const Index k = window, C = image.columns / k, p = k * k;
  const auto part = [k](Index i, Index side) { return i < side - k ? 0 : i < side - k / 2 ? 1 : 2; };
  std::vector<Index> labels;
  for (Index w = 0; w < image.size() / p; ++w)
    for (Index i = 0; i < p; ++i)
      labels.push_back(3 * part(w / C * k + i / k, image.rows) + part(w % C * k + i % k, image.columns));
  return labels;
}

void MixedAttention::check(const LayerPlace& place) const {
  if (window < 1 || expansion < 1)
    throw InvalidArgument(
        fmt::format("[mixed_attention] window is {} and expansion {}: both must be at least 1", window, expansion));
  if (place.X < 1 || place.H < 1 || expansion * place.X % (4 * place.H) != 0)
    throw InvalidArgument(fmt::format("[mixed_attention] {} inner channels cannot be cut into quarters of {} heads",
                                      expansion * place.X, place.H),
                          "expansion times width must be a multiple of 4 heads");
  if (place.grid.empty())
    throw InvalidArgument("[mixed_attention] the tokens are not known to be an image, which is cut into windows",
                          "use a vision transformer");
  if (place.prefix != 0)
    throw InvalidArgument(fmt::format("[mixed_attention] {} before the image {} in no window",
                                      place.prefix == 1 ? "a token" : fmt::format("{} tokens", place.prefix),
                                      place.prefix == 1 ? "stands" : "stand"),
                          "give the model pooling=average and class_token=false: --set model.pooling=average --set "
                          "model.class_token=false");
  if (place.grid.rows % window != 0 || place.grid.columns % window != 0)
    throw InvalidArgument(fmt::format("[mixed_attention] windows of {0} x {0} do not divide a grid of {1} x {2}",
                                      window, place.grid.rows, place.grid.columns),
                          divisors(place.grid.rows, place.grid.columns));
}

primal::Cost MixedAttention::cost(const LayerPlace& place, Index B, primal::Pass pass, DType dtype) const {
  const auto of = [](Index i) { return static_cast<double>(i); };
  const Index N = place.grid.empty() ? place.N : place.grid.size(), X = place.X, hd = expansion * X;
  const double H = of(place.H), p = of(window * window), c4 = of(hd) / (4 * H), n = std::max(1.0, of(N) / p);
  const bool backward = pass == primal::Pass::backward;
  const double maps = n * (p * p + c4 * c4) + p * c4 * c4 + c4 * p * p;  // of a head
  primal::Cost cost;
  cost.multiply_adds =
      product_cost(N, X, 6 * hd, pass) + product_cost(N, hd, hd + 9, pass) + product_cost(1, hd, hd, pass);
  const double attention = 4 * of(N) * H * c4 * (p + c4);
  const double mixing = H * H * (9 * n * (p * p + c4 * c4) + 2 * p * p * c4 * c4);
  cost.multiply_adds += (backward ? 2 : 1) * (attention + mixing);
  cost.exps = backward ? 0.0 : H * maps;
  const double element = of(static_cast<Index>(size_of(dtype)));
  cost.bytes = (backward ? 3 : 2) * element * (of(N * hd) * 6 + H * maps);
  // Counted in copies of the inner channels and of all maps, which are cut, mixed and put back.
  cost.memory = element * (backward ? 22 * of(N * hd) + 3 * H * maps : 14 * of(N * hd) + 2 * H * maps);
  cost = of(B) * cost;
  const double talking = H * H * (p * p + c4 * c4);
  cost.memory += element * talking;  // transposed
  const double weights = of(hd) * of(6 * X + 2 * hd + 16) + of(X) + 18 * H * H + 6 * H + talking;
  return with_weights(cost, static_cast<Index>(weights), pass, dtype);
}

LayerOutputs MixedAttention::reference(const LayerInputs& inputs) const {
  check(inputs.place);
  if (inputs.key_mask) throw InvalidArgument("[mixed_attention] all tokens of an image exist", "leave the mask out");
  const primal::Grid grid = inputs.place.grid;
  const Index B = inputs.x.size(0), N = inputs.x.size(1), X = inputs.x.size(2);
  const auto image = [&](const Value& tokens) { return tape::reshape(tokens, {B, grid.rows, grid.columns, X}); };
  const Computation computation{inputs.weights, inputs.place.H, window, inputs.place.index % 2 == 1, B,
                                grid.rows,      grid.columns};
  LayerOutputs outputs = computation.run(image(inputs.x), image(inputs.context ? inputs.context : inputs.x));
  outputs.at("y") = tape::reshape(outputs.at("y"), {B, N, X});
  return outputs;
}

const Mechanism& mechanism() {
  static const Mechanism value = [] {
    Mechanism mixed =
        layer_mechanism<MixedAttention>("Mixed attention for images", R"(@inproceedings{kuo2025concertormer,
  title     = {Efficient Concertormer for Image Deblurring and Beyond},
  author    = {Kuo, Pin-Hung and Pan, Jinshan and Chien, Shao-Yi and Yang, Ming-Hsuan},
  booktitle = {IEEE/CVF International Conference on Computer Vision},
  year      = {2025},
  note      = {arXiv:2404.06135}
})");
    mixed.answer_for({"mixed-attention", read_golden_case});
    return mixed;
  }();
  return value;
}

}  // namespace saddle::mechanisms::mixed_attention

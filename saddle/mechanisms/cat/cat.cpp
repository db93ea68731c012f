#include "saddle/mechanisms/cat/cat.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "saddle/mechanisms/golden_tape.hpp"
#include "saddle/mechanisms/layer_internal.hpp"
#include "saddle/mechanisms/layer_weights_internal.hpp"

namespace saddle::mechanisms::cat {

namespace {

using tape::Value;

// w [B,K,N] -> [B,K,N,N], row i holding w shifted round by i within the length of the sequence.
Value circulant(const Value& w, Direction direction, const std::vector<Index>& lengths) {
  const Index B = w.size(0), K = w.size(1), N = w.size(2);
  std::vector<Index> from(static_cast<std::size_t>(B * K * N * N), -1);
  for (Index row = 0; row < B * K; ++row) {
    const Index n = lengths[row / K];
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; ++j)
        from[(row * N + i) * N + j] = row * N + ((direction == Direction::convolution ? i - j : j - i) + n) % n;
  }
  return tape::rearranged(w, {B, K, N, N}, from);
}

std::optional<LayerCase> read_golden_case(const TensorFile& golden) {
  const GoldenMetadata metadata(golden);
  const primal::Term term{
      "cat",
      {{"variant", metadata.text("variant", "qv")}, {"direction", metadata.text("direction", "convolution")}},
      0};
  LayerCase read = layer_case(golden, layer_of(mechanism(), term), "heads");
  if (read.recorded.contains("in.lengths"))
    read.inputs.key_mask = mask_of(read.recorded.at("in.lengths"), read.inputs.x.size(1));
  read.inputs.place.bias = metadata.flag("bias", read.recorded.contains("param.v.bias"));
  // Tables have rows for the longest sequence.
  for (const char* table : {"v_static", "z_static"})
    if (const auto found = read.inputs.weights.find(table); found != read.inputs.weights.end())
      read.inputs.place.N = found->second.size(0);
  return read;
}

}  // namespace

tape::Value mask_of(const tape::Value& lengths, Index N) {
  const Index B = lengths.size(0);
  std::vector<double> mask(static_cast<std::size_t>(B * N));
  for (Index b = 0; b < B; ++b)
    for (Index n = 0; n < N; ++n) mask[b * N + n] = static_cast<double>(n) < lengths.data()[b] ? 1.0 : 0.0;
  return {{B, N}, std::move(mask)};
}

std::vector<Index> lengths_of(const tape::Value& key_mask, Index B, Index N) {
  std::vector<Index> lengths(static_cast<std::size_t>(B), N);
  if (!key_mask) return lengths;
  for (Index b = 0; b < B; ++b) {
    Index n = 0;
    while (n < N && key_mask.data()[b * N + n] != 0) ++n;
    lengths[b] = n;
    for (Index i = n; i < N; ++i)
      if (key_mask.data()[b * N + i] != 0)
        throw InvalidArgument(
            fmt::format("[cat] token {} of sequence {} exists behind one that does not", i, b),
            "circular attention turns round at the length of a sequence: padding must stand at its end");
  }
  return lengths;
}

double transform_cost(Index N, Index C, Index kernels) {
  const double n = static_cast<double>(N), stages = std::log2(std::max(2.0, n));
  // A real transform of n numbers takes about 2.5 n log2 n operations, half of them multiply-adds.
  return (2 * static_cast<double>(C) + static_cast<double>(kernels)) * 1.25 * n * stages +
         2 * n * static_cast<double>(C);
}

void Cat::check(const LayerPlace& place) const {
  check_heads(place, name);
  if ((variant == Variant::q || variant == Variant::v) && place.N < 1)
    throw InvalidArgument(fmt::format("[cat] variant {} learns one row for each token, but the number of tokens is not "
                                      "known here",
                                      primal::encode(variant)),
                          "use variant=qv, or a model with a fixed length");
}

primal::Cost Cat::cost(const LayerPlace& place, Index B, primal::Pass pass, DType dtype) const {
  const Index N = place.N, X = place.X, H = place.H;
  const bool backward = pass == primal::Pass::backward;
  primal::Cost cost;
  const Index scores = variant == Variant::qkv ? 2 * X : variant == Variant::v ? 0 : H;
  const Index values = variant == Variant::q ? 0 : X;
  cost.multiply_adds = product_cost(N, X, scores + values + X, pass);
  if (variant == Variant::qkv) cost.multiply_adds += product_cost(N, X, 1, pass);
  const Index kernels = variant == Variant::v ? X : H;
  cost.multiply_adds += (backward ? 2 : 1) * transform_cost(N, X, kernels);
  cost.exps = backward ? 0.0 : static_cast<double>(kernels * N);
  const double element = static_cast<double>(size_of(dtype));
  cost.bytes = (backward ? 3 : 2) * element * static_cast<double>(N * X);
  // Values, what becomes of them and the kernels, made twice; the way back has queries and keys, a gradient of the sums
  // and one of the kernels beside them.
  const Index kept = values + X + 2 * kernels, more = X + kernels + (variant == Variant::qkv ? 2 * X : 0);
  cost.memory = element * static_cast<double>(N * (backward ? kept + more : kept));
  const Index table = variant == Variant::q || variant == Variant::v ? N * X : 0;
  return with_weights(static_cast<double>(B) * cost, (X + 1) * (scores + values + X) + table, pass, dtype);
}

LayerOutputs Cat::reference(const LayerInputs& inputs) const {
  const Index B = inputs.x.size(0), N = inputs.x.size(1), X = inputs.x.size(2), H = inputs.place.H, D = X / H;
  const auto lengths = lengths_of(inputs.key_mask, B, N);
  const auto projected = [&](const Value& x, const char* map) {
    return mechanisms::projected(x, inputs.weights, map, name);
  };
  const auto first_rows = [&](const char* table) {
    return tape::slice(weight_of(inputs.weights, table, name), 0, 0, N);
  };

  Value z;  // [B,H,N], for variant v [B,X,N]
  if (variant == Variant::v) {
    z = tape::transpose(first_rows("z_static"), 0, 1) + tape::zeros({B, 1, 1});
  } else if (variant == Variant::qkv) {
    Value k = projected(inputs.x, "k"), count = Value(static_cast<double>(N));
    if (inputs.key_mask) {
      k = k * tape::reshape(inputs.key_mask, {B, N, 1});
      // A sequence without tokens has a mean of 0.
      count = tape::at_least(tape::sum(tape::reshape(inputs.key_mask, {B, N, 1, 1}), 1, true), 1);
    }
    const Value q = tape::split_heads(projected(inputs.x, "q"), H);
    const Value mean = tape::sum(tape::split_heads(k, H), 2, true) / count;
    z = tape::sum(q * mean, 3) * Value(1 / std::sqrt(static_cast<double>(D)));
  } else {
    z = tape::transpose(projected(inputs.x, "a"), 1, 2);
  }
  if (inputs.key_mask)
    z = tape::where(tape::reshape(inputs.key_mask, {B, 1, N}), z, -std::numeric_limits<double>::infinity());
  const Value kernel = tape::softmax(z, 2);

  const Value values =
      variant == Variant::q ? first_rows("v_static") + tape::zeros({B, 1, 1}) : projected(inputs.x, "v");
  const Index kernels = kernel.size(1);
  const Value core =
      tape::join_heads(tape::matmul(circulant(kernel, direction, lengths), tape::split_heads(values, kernels)));
  Value y = projected(core, "out");
  if (inputs.key_mask) y = y * tape::reshape(inputs.key_mask, {B, N, 1});
  return {{"y", y}, {"core", core}, {"kernel", kernel}};
}

const Mechanism& mechanism() {
  static const Mechanism value = [] {
    Mechanism cat = layer_mechanism<Cat>("Circular-convolutional attention", R"(@inproceedings{yamada2025cat,
  title     = {{CAT}: Circular-Convolutional Attention for Sub-Quadratic Transformers},
  author    = {Yamada, Yoshihiro},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2025},
  note      = {arXiv:2504.06704}
})");
    cat.answer_for({"cat", read_golden_case});
    return cat;
  }();
  return value;
}

}  // namespace saddle::mechanisms::cat

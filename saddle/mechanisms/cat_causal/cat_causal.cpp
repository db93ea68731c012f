#include "saddle/mechanisms/cat_causal/cat_causal.hpp"

#include <limits>

#include "saddle/mechanisms/cat/cat.hpp"
#include "saddle/mechanisms/golden_tape.hpp"
#include "saddle/mechanisms/layer_internal.hpp"
#include "saddle/mechanisms/layer_weights_internal.hpp"

namespace saddle::mechanisms::cat_causal {

namespace {

using tape::Value;

std::optional<LayerCase> read_golden_case(const TensorFile& golden) {
  const GoldenMetadata metadata(golden);
  for (const auto& [key, word] : {std::pair{"variant", "qv"}, std::pair{"direction", "convolution"}})
    if (metadata.text(key, word) != word)
      throw DataError("", 0, 0,
                      fmt::format("cat-causal has the {} {} alone, found '{}'", key, word, metadata.text(key, "")));
  LayerCase read = layer_case(golden, find_layer(CatCausal::name), "heads");
  if (read.recorded.contains("in.lengths"))
    read.inputs.key_mask = cat::mask_of(read.recorded.at("in.lengths"), read.inputs.x.size(1));
  read.inputs.place.bias = metadata.flag("bias", read.recorded.contains("param.v.bias"));
  return read;
}

}  // namespace

void CatCausal::check(const LayerPlace& place) const { check_heads(place, name); }

primal::Cost CatCausal::cost(const LayerPlace& place, Index B, primal::Pass pass, DType dtype) const {
  const Index N = place.N, X = place.X, H = place.H;
  const bool backward = pass == primal::Pass::backward;
  primal::Cost cost;
  // Linear convolutions are circular ones of twice the length.
  cost.multiply_adds = product_cost(N, X, H + 2 * X, pass) + (backward ? 2 : 1) * cat::transform_cost(2 * N, X, H);
  cost.exps = backward ? 0.0 : static_cast<double>(H * N);
  const double element = static_cast<double>(size_of(dtype));
  cost.bytes = (backward ? 3 : 2) * element * static_cast<double>(N * X);
  // Values and scores, what becomes of them, and on the way back their gradients.
  cost.memory = element * static_cast<double>(N * (backward ? 4 * X + 3 * H : 2 * X + H));
  return with_weights(static_cast<double>(B) * cost, (X + 1) * (H + 2 * X), pass, dtype);
}

LayerOutputs CatCausal::reference(const LayerInputs& inputs) const {
  const Index B = inputs.x.size(0), N = inputs.x.size(1), H = inputs.place.H;
  const auto lengths = cat::lengths_of(inputs.key_mask, B, N);
  const auto projected = [&](const Value& x, const char* map) {
    return mechanisms::projected(x, inputs.weights, map, name);
  };
  const Value z = tape::transpose(projected(inputs.x, "a"), 1, 2);  // [B,H,N]
  std::vector<Index> from(static_cast<std::size_t>(B * H * N * N), -1);
  std::vector<double> seen(from.size(), 0.0);
  for (Index row = 0; row < B * H; ++row)
    for (Index i = 0; i < lengths[row / H]; ++i)
      for (Index j = 0; j <= i; ++j) {
        from[(row * N + i) * N + j] = row * N + i - j;
        seen[(row * N + i) * N + j] = 1;
      }
  const Value scores = tape::where(Value({B, H, N, N}, seen), tape::rearranged(z, {B, H, N, N}, from),
                                   -std::numeric_limits<double>::infinity());
  const Value v = tape::split_heads(projected(inputs.x, "v"), H);
  const Value core = tape::join_heads(tape::matmul(tape::softmax(scores), v));
  Value y = projected(core, "out");
  if (inputs.key_mask) y = y * tape::reshape(inputs.key_mask, {B, N, 1});
  return {{"y", y}, {"core", core}};
}

const Mechanism& mechanism() {
  static const Mechanism value = [] {
    Mechanism causal = layer_mechanism<CatCausal>("Causal circular-convolutional attention", cat::mechanism().bibtex);
    causal.answer_for({"cat-causal", read_golden_case});
    return causal;
  }();
  return value;
}

}  // namespace saddle::mechanisms::cat_causal

#include "saddle/mechanisms/primal_attention/primal_attention.hpp"

#include <algorithm>
#include <cmath>

#include "saddle/mechanisms/golden_tape.hpp"
#include "saddle/mechanisms/layer_internal.hpp"
#include "saddle/mechanisms/layer_weights_internal.hpp"
#include "saddle/mechanisms/primal_attention/spectrum.hpp"

namespace saddle::mechanisms::primal_attention {

namespace {

using tape::Value;

// Ranks and samples beyond any use, which must not overflow.
constexpr Index most = Index{1} << 20;

Value weight(const LayerInputs& inputs, const std::string& name) {
  return weight_of(inputs.weights, name, PrimalAttention::name);
}

Value projected(const LayerInputs& inputs, const Value& x, const std::string& name) {
  return mechanisms::projected(x, inputs.weights, name, PrimalAttention::name);
}

// x [B,H,N,D] -> means over the tokens up to each.
Value running_mean(const Value& x) {
  const Index N = x.size(2);
  std::vector<double> count(static_cast<std::size_t>(N));
  for (Index i = 0; i < N; ++i) count[i] = static_cast<double>(i + 1);
  return tape::cumulative_sum(x, 2) / Value({N, 1}, std::move(count));
}

// The written form of a recorded case.
primal::Term term_of(const GoldenMetadata& metadata) {
  const std::string form = metadata.text("form", "uea");
  const bool causal = form == "causal";
  if (!causal && form != "uea" && form != "lra" && form != "cv")
    throw DataError("", 0, 0, "metadata 'form' must be uea, lra, cv or causal, found '" + form + "'");
  const std::string kind = causal ? "data-independent" : "data-dependent", variant = metadata.text("variant", kind);
  if (variant != kind)
    throw DataError("", 0, 0, "form '" + form + "' is " + kind + ", found variant '" + variant + "'");
  if (metadata.number("eps", shortest) != shortest)
    throw DataError("", 0, 0, "metadata 'eps' must be 1e-12, found " + metadata.text("eps", ""));
  const auto word = [&](const char* key, const char* fallback) {
    std::string text = metadata.text(key, fallback);
    std::replace(text.begin(), text.end(), '-', '_');
    return text;
  };
  const PrimalAttention defaults;
  return {"primal_attention",
          {{"form", causal ? "causal" : "dependent"},
           {"rank", std::to_string(metadata.integer("rank", defaults.rank))},
           {"multiple", std::to_string(metadata.integer("rank_multi", defaults.multiple))},
           {"eta", "0"},
           {"reduction", word("ksvd_reduction", "per-sample")},
           {"trace", word("trace", "no-x")}},
          0};
}

// Recorded indices are the grid, or the case was made on a machine that rounds it differently.
void require_grid(const TapeValues& inputs, Index N, Index n) {
  const auto recorded = inputs.find("in.indices");
  if (recorded == inputs.end()) return;
  const auto grid = sampled_tokens(N, n);
  if (!std::equal(grid.begin(), grid.end(), recorded->second.data().begin(), recorded->second.data().end(),
                  [](Index a, double b) { return static_cast<double>(a) == b; }))
    throw DataError("", 0, 0, fmt::format("in.indices are not floor({} i / {}) for i below {}", N - 1, n - 1, n));
}

std::optional<LayerCase> read_golden_case(const TensorFile& golden) {
  LayerCase read = layer_case(golden, layer_of(mechanism(), term_of(GoldenMetadata(golden))), "heads");
  LayerInputs& given = read.inputs;
  if (read.recorded.contains("in.mask")) given.key_mask = read.recorded.at("in.mask");
  for (const char* kind : {".weight", ".bias"})  // queries and keys in one projection
    if (const auto qk = given.weights.find(std::string("qk") + kind); qk != given.weights.end()) {
      given.weights["q" + std::string(kind)] = tape::slice(qk->second, 0, 0, given.place.X);
      given.weights["k" + std::string(kind)] = tape::slice(qk->second, 0, given.place.X, given.place.X);
      given.weights.erase(qk);
    }
  if (read.layer->causal()) return read;
  const Index samples = weight(given, "we").size(1);
  require_grid(read.recorded, given.x.size(1), samples);
  // Short sequences may be sampled as often as long ones.
  if (samples != read.layer->part<PrimalAttention>().samples(given.place)) given.place.N = 0;
  return read;
}

}  // namespace

std::vector<Index> sampled_tokens(Index N, Index n) {
  std::vector<Index> tokens(static_cast<std::size_t>(n), 0);
  for (Index i = 1; i < n; ++i) tokens[i] = (N - 1) * i / (n - 1);
  return tokens;
}

void PrimalAttention::check(const LayerPlace& place) const {
  check_heads(place, name);
  if (rank < 1 || rank > most || multiple < 1 || multiple > most || rank * multiple > most)
    throw InvalidArgument(
        fmt::format("[primal_attention] rank {} times multiple {} must be from 1 to {} samples", rank, multiple, most),
        "published settings have rank 20 to 96 and multiple 5 or 10");
  if (!std::isfinite(eta) || eta < 0)
    throw InvalidArgument(fmt::format("[primal_attention] eta is the weight of a loss and cannot be {}", eta),
                          "0 leaves the loss out; published settings have 0.05 to 0.5");
  if (form == Form::causal && trace == Trace::with_x)
    throw InvalidArgument("[primal_attention] the projections of the causal form do not depend on x",
                          "use trace=no_x, or form=dependent");
}

primal::Cost PrimalAttention::cost(const LayerPlace& place, Index B, primal::Pass pass, DType dtype) const {
  const Index N = place.N, X = place.X, H = place.H, s = rank;
  const bool backward = pass == primal::Pass::backward;
  primal::Cost cost;
  // q, k and out; both scores; concat.
  cost.multiply_adds = product_cost(N, X, 3 * X + 4 * s, pass);
  if (form == Form::dependent) cost.multiply_adds += product_cost(samples(place), X, 2 * s, pass);
  // Lengths of queries and keys, and the objective.
  cost.multiply_adds += product_cost(N, 2, X + (eta > 0 ? H * s : 0), pass);
  if (form == Form::causal) cost.additions = 2 * static_cast<double>(N * X);
  const double element = static_cast<double>(size_of(dtype));
  cost.bytes = (backward ? 3 : 2) * element * static_cast<double>(N * X);
  const Index n = form == Form::dependent ? samples(place) : 0, rows = form == Form::dependent ? n * H : X;
  // Queries or keys and heads; both scores, apart and side by side; the projections. The way back has gradients of
  // scores, of the objective's squares too, and of the sampled tokens.
  const Index scores = (backward ? 6 : 4) + (backward && eta > 0 ? 5 : 0);
  cost.memory = element * static_cast<double>(N * ((backward ? 4 : 2) * X + scores * H * s) +
                                              (backward ? 4 * X * s + n * X : 2 * X * s));
  const Index weights = 3 * (X + 1) * X + 2 * rows * s + H * s + (2 * s + 1) * (X / H);
  return with_weights(static_cast<double>(B) * cost, weights, pass, dtype);
}

LayerOutputs PrimalAttention::reference(const LayerInputs& inputs) const {
  const Index B = inputs.x.size(0), N = inputs.x.size(1), H = inputs.place.H;
  Value q = tape::split_heads(projected(inputs, inputs.x, "q"), H);
  Value k = tape::split_heads(projected(inputs, inputs.x, "k"), H);
  if (form == Form::causal) {
    q = running_mean(q);
    k = running_mean(k);
  }
  const Value phi_q = tape::normalised(q, 3, shortest), phi_k = tape::normalised(k, 3, shortest);
  const Value we = weight(inputs, "we"), wr = weight(inputs, "wr"), lambda = weight(inputs, "lambda");
  LayerOutputs outputs{{"phi_q", phi_q}, {"phi_k", phi_k}};
  Value we_x = we, wr_x = wr;  // [H,D,s], made of tokens [B,H,D,s]
  if (form == Form::dependent) {
    const Value sample = tape::select(tape::split_heads(inputs.x, H), 2, sampled_tokens(N, we.size(1)));
    we_x = tape::matmul(tape::transpose(sample, 2, 3), we);
    wr_x = tape::matmul(tape::transpose(sample, 2, 3), wr);
    outputs.emplace("sample", sample);
  }
  const Value escore = tape::matmul(phi_q, we_x), rscore = tape::matmul(phi_k, wr_x);
  Value heads = projected(inputs, tape::concat({escore, rscore}, 3), "concat");
  if (inputs.key_mask && form == Form::dependent) heads = heads * tape::reshape(inputs.key_mask, {B, 1, N, 1});

  const auto variance = [&](const Value& score) {
    const Value each = tape::sum(tape::square(score * tape::reshape(lambda, {H, 1, -1})), 3) * Value(0.5);
    return tape::mean(tape::reshape(each, {reduction == Reduction::batch ? 1 : B, -1}), 1);
  };
  const Value var_e = variance(escore), var_r = variance(rscore);
  const Value overlap = trace == Trace::no_x ? tape::sum(we * wr) * Value(1 / static_cast<double>(H))
                                             : tape::sum(we_x * wr_x) * Value(1 / static_cast<double>(B * H));
  Value ksvd = tape::square(var_e + var_r - overlap);
  if (reduction == Reduction::per_sample_mean) ksvd = tape::mean(ksvd, 0, true);

  outputs.emplace("y", projected(inputs, tape::join_heads(heads), "out"));
  outputs.emplace("escore", escore);
  outputs.emplace("rscore", rscore);
  outputs.emplace("var_e", var_e);
  outputs.emplace("var_r", var_r);
  outputs.emplace("trace", tape::reshape(overlap, {1}));
  outputs.emplace("ksvd", ksvd);
  if (eta > 0) outputs.emplace("loss", tape::mean(ksvd) * Value(eta));
  outputs.emplace("spectrum", learned_spectrum(escore, rscore, lambda));
  return outputs;
}

const Mechanism& mechanism() {
  static const Mechanism value = [] {
    Mechanism primal = layer_mechanism<PrimalAttention>("Primal-Attention", R"(@inproceedings{chen2023primal,
  title     = {Primal-Attention: Self-attention through Asymmetric Kernel {SVD} in Primal Representation},
  author    = {Chen, Yingyi and Tao, Qinghua and Tonin, Francesco and Suykens, Johan A. K.},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2023},
  note      = {arXiv:2305.19798}
})");
    primal.answer_for({"primal-attention", read_golden_case});
    return primal;
  }();
  return value;
}

}  // namespace saddle::mechanisms::primal_attention

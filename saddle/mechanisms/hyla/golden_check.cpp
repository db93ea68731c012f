#include <algorithm>

#include "saddle/mechanisms/golden_tape.hpp"
#include "saddle/mechanisms/hyla/fuzzy_logic.hpp"
#include "saddle/mechanisms/hyla/hyla.hpp"
#include "saddle/mechanisms/hyla/sraven.hpp"
#include "saddle/mechanisms/layer_internal.hpp"

namespace saddle::mechanisms::hyla {

namespace {

using tape::Value;

constexpr double tolerance = 1e-9;

// An input of a given shape, where 0 stands for any extent.
const Value& input(const TapeValues& inputs, const std::string& name, const Shape& shape) {
  const auto found = inputs.find(name);
  if (found == inputs.end()) throw DataError("", 0, 0, "the case has no tensor " + name);
  const Shape& own = found->second.shape();
  bool fits = own.size() == shape.size();
  for (std::size_t i = 0; fits && i < shape.size(); ++i) fits = shape[i] == 0 || shape[i] == own[i];
  if (!fits) throw DataError("", 0, 0, fmt::format("{} has the shape {}", name, saddle::to_string(own)));
  return found->second;
}

Index whole(const Value& value, Index i) { return static_cast<Index>(value.data()[static_cast<std::size_t>(i)]); }

template <class List>
Value listed(Shape shape, const List& list) {
  return {std::move(shape), std::vector<double>(list.begin(), list.end())};
}

struct AttentionCase {
  Hyla part;
  LayerInputs given;
  Value mask;  // [1 or B,1,N,N]
};

AttentionCase read_attention(const GoldenMetadata& metadata, const TapeValues& inputs) {
  const bool biased = metadata.flag("relative_bias", false);
  Hyla part =
      find_layer(fmt::format("hyla(attention_norm={},target_network={},qk_dim={},v_dim={},relative_bias={},"
                             "num_buckets={},normalize_qk={})",
                             metadata.text("attention_norm", "rms_head"), metadata.text("target_network", "mlp_relu"),
                             metadata.integer("qk_dim", 0), metadata.integer("v_dim", 0), biased,
                             biased ? metadata.integer("num_buckets", 0) : 0, metadata.flag("normalize_qk", false)))
          ->part<Hyla>();
  part.rms_eps = metadata.number("rms_eps", part.rms_eps);
  const Value& x = input(inputs, "in.x", {0, 0, 0});
  const Index B = x.size(0), N = x.size(1);
  LayerInputs given{x, {}, without_prefix(inputs, "param."), {}};
  given.place.X = x.size(2);
  given.place.H = metadata.integer("num_heads", 1);
  given.place.N = N;
  part.check(given.place);
  const Index H = given.place.H, X = given.place.X;
  for (const auto& [name, width] : {std::pair("query", part.key_width(given.place)),
                                    {"key", part.key_width(given.place)},
                                    {"value", part.value_width(given.place)}})
    input(inputs, std::string("param.") + name + ".kernel", {X, H, width});
  input(inputs, "param.out.kernel", {H, part.value_width(given.place), X});
  if (part.relative_bias) input(inputs, "param.rel_embedding", {H, part.buckets(given.place)});
  Value mask;
  if (inputs.contains("in.mask")) {
    mask = input(inputs, "in.mask", {0, 1, N, N});
    if (mask.size(0) != 1) input(inputs, "in.mask", {B, 1, N, N});
  }
  return {part, given, mask};
}

// The written form of a mask, none of which sees more or less than a causal layer and padding let it see.
void write_mask(AttentionCase& attention) {
  const Value& mask = attention.mask;
  if (!mask) return;
  const Index B = attention.given.x.size(0), N = attention.given.x.size(1);
  const auto sees = [&](Index b, Index i, Index j) {
    return mask.data()[static_cast<std::size_t>(((mask.size(0) == 1 ? 0 : b) * N + i) * N + j)] != 0;
  };
  std::vector<double> exists;
  for (Index b = 0; b < B; ++b)
    for (Index i = 0; i < N; ++i) exists.push_back(sees(b, i, i) ? 1 : 0);
  const auto written = [&](bool causal) {
    for (Index b = 0; b < B; ++b)
      for (Index i = 0; i < N; ++i)
        for (Index j = 0; j < N; ++j)
          if (sees(b, i, j) != (sees(b, i, i) && sees(b, j, j) && (!causal || j <= i))) return false;
    return true;
  };
  attention.part.sees_past_only = !written(false);
  if (attention.part.sees_past_only && !written(true))
    throw NotSupported("in.mask is neither causal nor padding nor both, which no written form says", {});
  if (std::find(exists.begin(), exists.end(), 0.0) != exists.end())
    attention.given.key_mask = Value({B, N}, std::move(exists));
}

TapeValues fuzzy_logic_outputs(const TapeValues& inputs) {
  const Value &latents = input(inputs, "in.latents", {0, 0, 0}), &given = input(inputs, "in.inputs", {0, 0, 0});
  const Index B = latents.size(0), V = latents.size(2), S = given.size(1), bits = latents.size(1) * V;
  input(inputs, "in.inputs", {B, S, V});
  std::vector<double> targets, products, sequence, asked, base;
  for (Index b = 0; b < B; ++b) {
    fuzzy_logic::Bits function;
    for (Index i = 0; i < bits; ++i) function.push_back(whole(latents, b * bits + i) != 0 ? 1 : 0);
    double mean = 0, variance = 0;
    for (Index s = 0; s < S; ++s) {
      const std::span<const double> x(&given.data()[static_cast<std::size_t>((b * S + s) * V)],
                                      static_cast<std::size_t>(V));
      targets.push_back(fuzzy_logic::value_of(function, x));
      products.push_back(fuzzy_logic::product_of(function, x));
      mean += targets.back() / static_cast<double>(S);
      sequence.insert(sequence.end(), x.begin(), x.end());
      sequence.push_back(s + 1 < S ? targets.back() : 0.0);
    }
    for (Index s = 0; s < S; ++s) {
      const double off = targets[static_cast<std::size_t>(b * S + s)] - mean;
      variance += off * off / static_cast<double>(S);
    }
    asked.push_back(targets.back());
    base.push_back(variance);
  }
  return {{"targets", listed({B, S}, targets)},
          {"targets_product", listed({B, S}, products)},
          {"sequence", listed({B, S, V + 1}, sequence)},
          {"query_target", listed({B}, asked)},
          {"base_mse", listed({B}, base)}};
}

TapeValues sraven_outputs(const GoldenMetadata& metadata, const TapeValues& inputs) {
  using namespace sraven;
  const Index modulus = metadata.integer("feature_maxval", rule_modulus);
  if (modulus < 1 || metadata.integer("grid_size", size) != size)
    throw DataError("", 0, 0, "S-RAVEN has grids of size 3 and a positive feature_maxval");
  constexpr Index S = size;
  const Value &constant = input(inputs, "in.constant", {S, 1}), &start = input(inputs, "in.start", {S, 1}),
              &operands = input(inputs, "in.operands", {S, 2}), &symbols = input(inputs, "in.symbols", {S}),
              &rows = input(inputs, "in.row_permutations", {S, S}),
              &columns = input(inputs, "in.column_permutations", {S, 0});
  Draws of_constant, of_start, of_operands, of_symbols;
  std::array<std::vector<Index>, size> permutations;
  for (Index r = 0; r < S; ++r) {
    const auto row = static_cast<std::size_t>(r);
    of_constant.first[row] = whole(constant, r);
    of_start.first[row] = whole(start, r);
    of_operands.first[row] = whole(operands, 2 * r);
    of_operands.second[row] = whole(operands, 2 * r + 1);
    of_symbols.symbols[row] = whole(symbols, r);
    for (Index c = 0; c < S; ++c) of_symbols.permutations[row][static_cast<std::size_t>(c)] = whole(rows, r * S + c);
    for (Index f = 0; f < columns.size(1); ++f) permutations[row].push_back(whole(columns, r * columns.size(1) + f));
  }
  constexpr const char* names[rule_count] = {"constant",       "progression_p1", "progression_p2", "progression_m1",
                                             "progression_m2", "addition",       "subtraction",    "distribute_three"};
  TapeValues outputs;
  std::vector<Square<Index>> grids;
  for (int rule = 0; rule < rule_count; ++rule) {
    const Draws& draws = rule == 0 ? of_constant : rule < 5 ? of_start : rule < 7 ? of_operands : of_symbols;
    grids.push_back(grid_of(rule, draws, modulus));
    std::vector<double> flat;
    for (const auto& row : grids.back()) flat.insert(flat.end(), row.begin(), row.end());
    outputs[names[rule]] = listed({S, S}, flat);
  }
  const auto panels = panels_of({grids[0], grids[3], grids[5], grids[7]}, permutations);
  std::vector<double> instance, tokens;
  for (const auto& row : panels)
    for (const auto& panel : row) instance.insert(instance.end(), panel.begin(), panel.end());
  const auto& answer = panels[size - 1][size - 1];
  const Index F = static_cast<Index>(answer.size());
  for (const Index value : context_of(panels))
    for (Index m = 0; m < modulus; ++m) tokens.push_back(m == value ? 1.0 : 0.0);
  tokens.resize(static_cast<std::size_t>(S * S * F * modulus), 0.0);
  outputs["instance"] = listed({S, S, F}, instance);
  outputs["tokens"] = listed({S * S * F, modulus}, tokens);
  outputs["labels"] = listed({F}, answer);
  return outputs;
}

}  // namespace

GoldenReport check_golden_case(const TensorFile& golden, DType dtype) {
  const GoldenMetadata metadata(golden);
  const auto inputs = tape_inputs(golden);
  const std::string variant = metadata.text("variant", "attention");
  GoldenReport report;
  TapeValues outputs;
  if (variant == "attention") {
    const AttentionCase attention = read_attention(metadata, inputs);
    report.attention = primal::print(attention.part);
    outputs = attention.part.masked_reference(attention.given, attention.mask);
  } else if (variant == "fuzzy_logic")
    outputs = fuzzy_logic_outputs(inputs);
  else if (variant == "sraven")
    outputs = sraven_outputs(metadata, inputs);
  else
    throw DataError("", 0, 0, "hyla has the variants attention, fuzzy_logic and sraven, found '" + variant + "'");
  report.results.push_back(compare_tape(golden, inputs, outputs, reference_run(dtype, tolerance)));
  return report;
}

std::optional<LayerCase> read_golden_layer(const TensorFile& golden) {
  const GoldenMetadata metadata(golden);
  if (metadata.text("variant", "attention") != "attention") return std::nullopt;
  LayerCase read;
  read.recorded = tape_inputs(golden);
  read.tolerance = tolerance;
  AttentionCase attention = read_attention(metadata, read.recorded);
  write_mask(attention);
  read.layer = std::make_shared<const LayerOf<Hyla>>(attention.part);
  read.inputs = attention.given;
  read.inputs.place.bias = read.recorded.contains("param.query.bias");
  if (!read.inputs.key_mask) return read;
  read.as_recorded = [attention](LayerOutputs& outputs) {
    // Rows of missing tokens are 0 in a layer. In cases they attend to nothing or, after a softmax, to all.
    const LayerOutputs rows = attention.part.masked_reference(attention.given, attention.mask);
    const Index B = attention.given.x.size(0), N = attention.given.x.size(1);
    const auto blend = [&](const char* name, const Shape& shape) {
      const Value exists = tape::reshape(attention.given.key_mask, shape);
      if (const auto found = outputs.find(name); found != outputs.end())
        found->second = found->second * exists + rows.at(name) * (Value(1.0) - exists);
    };
    blend("y", {B, N, 1});
    blend("core", {B, N, 1});
    blend("attn", {B, 1, N, 1});
  };
  return read;
}

}  // namespace saddle::mechanisms::hyla

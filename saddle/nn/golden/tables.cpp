// Golden cases of layers and models of tables.
#include <fmt/format.h>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/npt/npt.hpp"
#include "saddle/nn/golden/golden_internal.hpp"
#include "saddle/nn/models/npt.hpp"
#include "saddle/nn/tensor.hpp"

namespace saddle::nn {

namespace {

namespace npt = mechanisms::npt;
using tape::Value;

// Hidden layers of a network: linear maps have the even numbers.
Index network_depth(const npt::Weights& weights, const std::string& prefix, const npt::LayerOptions& options) {
  if (!options.network) return 0;
  Index maps = 0;
  while (weights.contains(fmt::format("{}rff.{}.weight", prefix, 2 * maps))) ++maps;
  return maps - 1;
}

std::string norm_of(const npt::LayerOptions& options) {
  return !options.norm ? "none" : options.norm_first ? "pre" : "post";
}

std::string attention_of(const npt::LayerOptions& options, Index width) {
  return options.softmax ? "softmax" : fmt::format("dot+constant({})", width / options.heads);
}

Value layer(const Value& h, npt::Axis axis, const npt::Weights& weights, const npt::LayerOptions& options,
            torch::ScalarType type) {
  const Index n = h.size(0), d = h.size(1), e = h.size(2), width = axis == npt::Axis::rows ? d * e : e;
  NptLayer module(NptLayerOptions(width, options.heads)
                      .attention(attention_of(options, width))
                      .norm(norm_of(options))
                      .norm_eps(options.norm_eps)
                      .mix_heads(options.mix_heads)
                      .separate_residual(options.separate_residual)
                      .network_depth(network_depth(weights, "", options)));
  module->to(type);
  Traced traced;
  traced.fill(*module, weights);
  const Tensor x = leaf_of(h, type);
  traced.from(h, x);
  const Tensor y = module(axis == npt::Axis::rows ? x.reshape({1, n, d * e}) : x);
  return traced.values({{"h", y.view({n, d, e})}}).at("h");
}

std::vector<Value> model(const std::vector<Value>& columns, const npt::Weights& weights,
                         const npt::ModelOptions& options, torch::ScalarType type) {
  std::vector<NptColumn> kinds;
  for (const npt::Column& column : options.columns) kinds.push_back({column.width, column.categorical});
  const auto first = weights.find("in_embedding.0.weight");
  if (first == weights.end()) throw DataError("", 0, 0, "the case has no tensor 'param.in_embedding.0.weight'");
  if (!options.layer.softmax) throw NotSupported("scores of a whole model are those of a softmax", {});
  Npt module(NptOptions(to_text(kinds))
                 .width(first->second.size(0))
                 .heads(options.layer.heads)
                 .depth(options.depth)
                 .norm(norm_of(options.layer))
                 .norm_eps(options.layer.norm_eps)
                 .mix_heads(options.layer.mix_heads)
                 .separate_residual(options.layer.separate_residual)
                 .network_depth(network_depth(weights, "enc.1.mab.", options.layer))
                 .type_embedding(weights.contains("feature_type_embedding.weight"))
                 .index_embedding(weights.contains("feature_index_embedding.weight"))
                 .embedding_norm(weights.contains("embedding_layer_norm.weight")));
  module->to(type);
  Traced traced;
  traced.fill(*module, weights);
  std::vector<Tensor> seen;
  for (const Value& column : columns) {
    seen.push_back(leaf_of(column, type));
    traced.from(column, seen.back());
  }
  const Value all = traced.values({{"all", module(torch::cat(seen, 1))}}).at("all");
  std::vector<Value> predictions;
  Index at = 0;
  for (const NptColumn& column : kinds) {
    predictions.push_back(tape::slice(all, 1, at, column.width));
    at += column.width;
  }
  return predictions;
}

GoldenReport check(const TensorFile& golden, DType dtype) {
  const std::string kind = mechanisms::GoldenMetadata(golden).text("kind", "");
  if (kind != "layer" && kind != "model") return {};
  const auto type = scalar_type(dtype);
  const npt::GoldenFunctions functions{
      [&](const Value& h, npt::Axis axis, const npt::Weights& weights, const npt::LayerOptions& options) {
        return layer(h, axis, weights, options, type);
      },
      [&](const std::vector<Value>& columns, const npt::Weights& weights, const npt::ModelOptions& options) {
        return model(columns, weights, options, type);
      }};
  return npt::check_golden_case(golden, functions, module_run(dtype, npt::golden_tolerance));
}

}  // namespace

std::vector<GoldenCheck> table_checks() { return {refusing("npt", check)}; }

}  // namespace saddle::nn

// Recorded cases of non-parametric transformers: layers, models, masks and the optimiser.
#include <fmt/format.h>

#include <cmath>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/golden_tape.hpp"
#include "saddle/mechanisms/npt/npt.hpp"
#include "saddle/mechanisms/npt/optimiser.hpp"

namespace saddle::mechanisms::npt {

namespace {

LayerOptions layer_options(const GoldenMetadata& metadata) {
  LayerOptions options;
  options.heads = metadata.integer("num_heads", 1);
  options.norm = metadata.flag("layer_norm", true);
  options.norm_first = metadata.flag("pre_layer_norm", true);
  options.norm_eps = metadata.number("layer_norm_eps", options.norm_eps);
  options.mix_heads = metadata.flag("mix_heads", true);
  options.separate_residual = metadata.flag("separate_residual", true);
  options.network = !metadata.flag("ablate_rff", false);
  const std::string scores = metadata.text("score_norm", "softmax");
  if (scores != "softmax" && scores != "constant")
    throw DataError("", 0, 0, "metadata 'score_norm' has the unknown value '" + scores + "'");
  options.softmax = scores == "softmax";
  return options;
}

const Value& in(const TapeValues& inputs, const std::string& name) {
  const auto found = inputs.find(name);
  if (found == inputs.end()) throw DataError("", 0, 0, "the case has no tensor '" + name + "'");
  return found->second;
}

GoldenResult check_layer(const TensorFile& golden, const GoldenMetadata& metadata, const GoldenFunctions& functions,
                         const GoldenRun& run) {
  const auto inputs = tape_inputs(golden);
  const std::string axis = metadata.text("layer", "abd");
  if (axis != "abd" && axis != "aba")
    throw DataError("", 0, 0, "metadata 'layer' has the unknown value '" + axis + "'");
  const Value h = functions.layer(in(inputs, "in.h"), axis == "abd" ? Axis::rows : Axis::attributes,
                                  without_prefix(inputs, "param."), layer_options(metadata));
  return compare_tape(golden, inputs, {{"h", h}}, run);
}

std::vector<Column> columns_of(const GoldenMetadata& metadata) {
  std::vector<Column> columns;
  for (const Index width : metadata.list("dims")) columns.push_back({width - 1, false});
  for (const Index j : metadata.list("cat")) {
    if (j < 0 || j >= static_cast<Index>(columns.size()))
      throw DataError("", 0, 0, fmt::format("metadata 'cat' names column {}, there are {}", j, columns.size()));
    columns[static_cast<std::size_t>(j)].categorical = true;
  }
  return columns;
}

// What a model gives on the tensors of a case.
TapeValues model_outputs(const TapeValues& inputs, const GoldenMetadata& metadata, const GoldenFunctions& functions) {
  ModelOptions options;
  options.columns = columns_of(metadata);
  options.depth = metadata.integer("depth", 2);
  options.layer = layer_options(metadata);
  std::vector<Value> seen, truth;
  for (std::size_t j = 0; j < options.columns.size(); ++j) {
    seen.push_back(in(inputs, fmt::format("in.masked.{}", j)));
    truth.push_back(in(inputs, fmt::format("in.data.{}", j)));
  }
  const auto predictions = functions.model(seen, without_prefix(inputs, "param."), options);
  const double share = metadata.number("tradeoff", 1) < 0 ? -1 : metadata.number("lambda_", 0);
  const Loss own = loss(predictions, truth, options.columns, in(inputs, "in.label_loss_mask"),
                        in(inputs, "in.feature_loss_mask"), share);
  TapeValues outputs{{"loss", tape::reshape(own.loss, {1})},
                     {"label_loss_sum", tape::reshape(own.targets, {1})},
                     {"feature_loss_sum", tape::reshape(own.features, {1})},
                     {"counts", Value({2}, {own.target_count, own.feature_count})}};
  for (std::size_t j = 0; j < predictions.size(); ++j) outputs.emplace(fmt::format("pred.{}", j), predictions[j]);
  return outputs;
}

void check_model(const TensorFile& golden, const GoldenMetadata& metadata, const GoldenFunctions& functions,
                 const GoldenRun& run, GoldenReport& report) {
  const auto inputs = tape_inputs(golden);
  report.results.push_back(compare_tape(golden, inputs, model_outputs(inputs, metadata, functions), run));
  // Once more for the gradients of the loss itself.
  TensorFile of_loss;
  of_loss.metadata = golden.metadata;
  Tensor one(DType::f64, {1});
  one.set(0, 1);
  of_loss.tensors.emplace("cot.loss", one);
  for (const auto& [name, tensor] : golden.tensors) {
    if (name.starts_with("in.") || name.starts_with("param.") || name == "out.loss")
      of_loss.tensors.emplace(name, tensor);
    if (name.starts_with("grad_loss.")) of_loss.tensors.emplace("grad." + name.substr(10), tensor);
  }
  const auto again = tape_inputs(of_loss);
  GoldenRun run_again = run;
  run_again.implementation += ", gradient of the loss";
  report.results.push_back(compare_tape(of_loss, again, model_outputs(again, metadata, functions), run_again));
}

GoldenResult check_mask(const TensorFile& golden, const GoldenMetadata& metadata, const GoldenRun& run) {
  const auto inputs = tape_inputs(golden);
  const auto columns = columns_of(metadata);
  const auto d = static_cast<Index>(columns.size()), n = in(inputs, "in.mask").size(0);
  TapeValues outputs;
  double selected = 0, replaced_total = 0;
  for (Index j = 0; j < d; ++j) {
    std::vector<bool> hidden, replaced;
    std::vector<double> values;
    for (Index i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i * d + j);
      hidden.push_back(in(inputs, "in.mask_token").data()[at] != 0);
      replaced.push_back(in(inputs, "in.randomise").data()[at] != 0);
      values.push_back(in(inputs, "in.random_value").data()[at]);
      selected += hidden.back() || replaced.back() ? 1 : 0;
      replaced_total += replaced.back() ? 1 : 0;
    }
    outputs.emplace(fmt::format("masked.{}", j),
                    masked(in(inputs, fmt::format("in.data.{}", j)), columns[static_cast<std::size_t>(j)], hidden,
                           replaced, values));
  }
  GoldenResult result = compare_tape(golden, inputs, outputs, run);
  GoldenComparison counts(run.implementation + ", counts");
  const auto expected = static_cast<double>(metadata.integer("selected", 0));
  const Index rule = metadata.number("mask_prob", 1) >= 1
                         ? 0
                         : randomised_count(metadata.integer("selected", 0), metadata.number("mask_percentage", 0.9));
  counts.require("selected entries", std::fabs(selected - expected), 0.5);
  counts.require("replaced entries", std::fabs(replaced_total - static_cast<double>(rule)), 0.5);
  counts.require("replaced by the rule", std::fabs(static_cast<double>(metadata.integer("randomised", 0) - rule)), 0.5);
  return counts.result().passed ? result : counts.result();
}

GoldenResult check_optimiser(const TensorFile& golden, const GoldenMetadata& metadata, const GoldenRun& run) {
  const auto inputs = tape_inputs(golden);
  LambOptions options;
  options.beta1 = metadata.number("beta1", options.beta1);
  options.beta2 = metadata.number("beta2", options.beta2);
  options.eps = metadata.number("eps", options.eps);
  options.weight_decay = metadata.number("weight_decay", 0);
  options.lookahead_every = metadata.integer("lookahead_k", options.lookahead_every);
  options.lookahead_share = metadata.number("lookahead_alpha", options.lookahead_share);
  const Index total = metadata.integer("total_steps", 1), steps = metadata.integer("steps", 1);
  TapeValues outputs;
  std::vector<double> rates, shares;
  for (Index t = 0; t < steps; ++t) {
    rates.push_back(flat_then_anneal(metadata.number("lr", 0), metadata.number("flat_proportion", 0.7), t, total));
    shares.push_back(feature_share(1, t, total));
  }
  for (const char* name : {"weight", "bias"}) {
    const Value& gradients = in(inputs, fmt::format("in.grad_{}", name));
    std::vector<double> weights = in(inputs, fmt::format("param.{}0", name)).data(), all;
    if (gradients.size(0) < steps ||
        gradients.data().size() / static_cast<std::size_t>(gradients.size(0)) != weights.size())
      throw DataError("", 0, 0, fmt::format("in.grad_{} does not fit the parameter and {} steps", name, steps));
    Lamb lamb(options);
    for (Index t = 0; t < steps; ++t) {
      const auto first = gradients.data().begin() + t * static_cast<Index>(weights.size());
      lamb.step(weights, {first, first + static_cast<Index>(weights.size())}, rates[static_cast<std::size_t>(t)]);
      all.insert(all.end(), weights.begin(), weights.end());
    }
    outputs.emplace(name, Value(gradients.shape(), all));
  }
  outputs.emplace("lr", Value({steps}, rates));
  outputs.emplace("tradeoff", Value({steps}, shares));
  return compare_tape(golden, inputs, outputs, run);
}

GoldenReport check(const TensorFile& golden, DType dtype) {
  const GoldenMetadata metadata(golden);
  const std::string kind = metadata.text("kind", "");
  const GoldenRun run = reference_run(dtype, golden_tolerance);
  GoldenReport report;
  if (kind == "mask")
    report.results.push_back(check_mask(golden, metadata, run));
  else if (kind == "optimizer")
    report.results.push_back(check_optimiser(golden, metadata, run));
  else
    return check_golden_case(golden, {layer, model}, run);
  return report;
}

}  // namespace

GoldenReport check_golden_case(const TensorFile& golden, const GoldenFunctions& functions, const GoldenRun& run) {
  const GoldenMetadata metadata(golden);
  const std::string kind = metadata.text("kind", "");
  GoldenReport report;
  if (kind == "layer")
    report.results.push_back(check_layer(golden, metadata, functions, run));
  else if (kind == "model")
    check_model(golden, metadata, functions, run, report);
  else
    throw DataError("", 0, 0, "metadata 'kind' has the unknown value '" + kind + "'");
  return report;
}

const Mechanism& mechanism() {
  static const Mechanism value = [] {
    Mechanism npt;
    npt.name = "npt";
    npt.title = "Attention between datapoints";
    npt.summary = "rows of a table attend to each other, attributes of a row to each other, in turn";
    npt.composition = "functions of a table's columns";
    npt.tier = Tier::composed;
    npt.bibtex = R"(@inproceedings{kossen2021self,
  title     = {Self-Attention Between Datapoints: Going Beyond Individual Input-Output Pairs in Deep Learning},
  author    = {Kossen, Jannik and Band, Neil and Lyle, Clare and Gomez, Aidan N. and Rainforth, Tom and Gal, Yarin},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2021},
  note      = {arXiv:2106.02584}
})";
    npt.golden.push_back({"npt", check});
    return npt;
  }();
  return value;
}

}  // namespace saddle::mechanisms::npt

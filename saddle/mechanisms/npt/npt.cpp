#include "saddle/mechanisms/npt/npt.hpp"

#include <fmt/format.h>

#include <cmath>

#include "saddle/base/error.hpp"

namespace saddle::mechanisms::npt {

namespace {

const Value& at(const Weights& weights, const std::string& name) {
  const auto found = weights.find(name);
  if (found == weights.end()) throw InvalidArgument("[npt] the weight '" + name + "' is missing");
  return found->second;
}

Value affine(const Value& x, const Weights& weights, const std::string& name) {
  return tape::linear(x, at(weights, name + ".weight"), at(weights, name + ".bias"));
}

Value normed(const Value& x, const Weights& weights, const std::string& name, double eps) {
  return tape::layer_norm(x, at(weights, name + ".weight"), at(weights, name + ".bias"), eps);
}

Weights below(const Weights& weights, const std::string& prefix) {
  Weights own;
  for (const auto& [name, value] : weights)
    if (name.starts_with(prefix)) own.emplace(name.substr(prefix.size()), value);
  return own;
}

// rff.0, gelu, rff.2, gelu, rff.4 ..
Value network(Value x, const Weights& weights) {
  for (Index number = 0; weights.contains(fmt::format("rff.{}.weight", number)); number += 2)
    x = affine(number == 0 ? x : tape::gelu(x), weights, fmt::format("rff.{}", number));
  return x;
}

// x [B,M,F]
Value attend(const Value& x, const Weights& weights, const LayerOptions& options) {
  const Index F = x.size(2), k = options.heads;
  if (k < 1 || F % k != 0) throw InvalidArgument(fmt::format("[npt] width {} cannot be cut into {} heads", F, k));
  const bool pre = options.norm && options.norm_first, post = options.norm && !options.norm_first;
  const Value queries = affine(pre ? normed(x, weights, "ln0", options.norm_eps) : x, weights, "fc_q");
  const Value scores = tape::matmul(tape::split_heads(queries, k),
                                    tape::transpose(tape::split_heads(affine(x, weights, "fc_k"), k), 2, 3));
  const Value p = options.softmax ? tape::softmax(scores * Value(1 / std::sqrt(static_cast<double>(F))))
                                  : scores * Value(static_cast<double>(k) / static_cast<double>(F));
  Value o = tape::join_heads(tape::matmul(p, tape::split_heads(affine(x, weights, "fc_v"), k)));
  if (options.mix_heads) o = affine(o, weights, "fc_mix_heads");
  Value h = o + (options.separate_residual ? affine(x, weights, "fc_res") : queries);
  if (post) h = normed(h, weights, "ln0", options.norm_eps);
  const Value seen = pre ? normed(h, weights, "ln1", options.norm_eps) : h;
  const Value out = h + (options.network ? network(seen, weights) : seen);
  return post ? normed(out, weights, "ln1", options.norm_eps) : out;
}

// log of the softmax over the last axis
Value log_softmax(const Value& x) {
  double most = 0;
  for (const double v : x.data()) most = std::max(most, v);
  const Value shifted = x - Value(most);
  return shifted - tape::log(tape::sum(tape::exp(shifted), -1, true));
}

double total(const Value& x) {
  double sum = 0;
  for (const double v : x.data()) sum += v;
  return sum;
}

}  // namespace

Value layer(const Value& h, Axis axis, const Weights& weights, const LayerOptions& options) {
  if (h.rank() != 3)
    throw InvalidArgument("[npt] rows have shape " + saddle::to_string(h.shape()) + ", (n,d,e) is expected");
  if (axis == Axis::attributes) return attend(h, weights, options);
  return tape::reshape(attend(tape::reshape(h, {1, h.size(0), -1}), weights, options), h.shape());
}

std::vector<Value> model(const std::vector<Value>& columns, const Weights& weights, const ModelOptions& options) {
  const std::size_t d = options.columns.size();
  if (columns.size() != d || d == 0)
    throw InvalidArgument(fmt::format("[npt] {} columns are given, the model has {}", columns.size(), d));
  if (options.depth < 2 || options.depth % 2 != 0)
    throw InvalidArgument(
        fmt::format("[npt] depth is {}: rows and attributes take turns, it must be even", options.depth));
  std::vector<Value> embedded;
  for (std::size_t j = 0; j < d; ++j) {
    Value h = affine(columns[j], weights, fmt::format("in_embedding.{}", j));
    if (weights.contains("feature_type_embedding.weight"))
      h = h + tape::at(at(weights, "feature_type_embedding.weight"), 0, options.columns[j].categorical ? 1 : 0);
    if (weights.contains("feature_index_embedding.weight"))
      h = h + tape::at(at(weights, "feature_index_embedding.weight"), 0, static_cast<Index>(j));
    embedded.push_back(h);
  }
  Value h = tape::stack(embedded, 1);
  if (weights.contains("embedding_layer_norm.weight"))
    h = normed(h, weights, "embedding_layer_norm", options.layer.norm_eps);
  for (Index number = 0; number < options.depth; ++number)
    h = layer(h, number % 2 == 0 ? Axis::rows : Axis::attributes,
              below(weights, fmt::format("enc.{}.mab.", 2 * number + 1)), options.layer);
  std::vector<Value> predictions;
  for (std::size_t j = 0; j < d; ++j)
    predictions.push_back(affine(tape::at(h, 1, static_cast<Index>(j)), weights, fmt::format("out_embedding.{}", j)));
  return predictions;
}

Loss loss(const std::vector<Value>& predictions, const std::vector<Value>& truth, const std::vector<Column>& columns,
          const Value& target_mask, const Value& feature_mask, double share) {
  Loss out;
  std::vector<Value> entries;  // [n] of each column
  for (std::size_t j = 0; j < columns.size(); ++j) {
    const Value own = tape::detach(tape::slice(truth[j], 1, 0, columns[j].width));
    entries.push_back(columns[j].categorical ? -tape::sum(own * log_softmax(predictions[j]), 1)
                                             : tape::sum(tape::square(predictions[j] - own), 1));
  }
  const Value each = tape::stack(entries, 1);
  out.targets = tape::sum(each * tape::detach(target_mask));
  out.features = tape::sum(each * tape::detach(feature_mask));
  out.target_count = total(target_mask);
  out.feature_count = total(feature_mask);
  const auto mean = [](const Value& sum, double count) { return sum * Value(count > 0 ? 1 / count : 0); };
  out.loss = share < 0 ? mean(out.targets + out.features, out.target_count + out.feature_count)
                       : Value(share) * mean(out.features, out.feature_count) +
                             Value(1 - share) * mean(out.targets, out.target_count);
  return out;
}

Index randomised_count(Index selected, double hidden_share, bool exact) {
  const auto hidden = static_cast<Index>(hidden_share * static_cast<double>(selected));
  if (exact) return selected - hidden;
  if (hidden == 0) return std::min<Index>(1, selected);
  return hidden == 1 ? 0 : selected - (hidden - 1);
}

Value masked(const Value& column, const Column& kind, const std::vector<bool>& hidden,
             const std::vector<bool>& replaced, const std::vector<double>& values) {
  std::vector<double> data = column.data();
  const Index n = column.size(0), width = kind.width + 1;
  if (column.size(1) != width || static_cast<Index>(std::min({hidden.size(), replaced.size(), values.size()})) < n)
    throw InvalidArgument(fmt::format("[npt] a column has shape {}, ({},{}) is expected with a mask for every row",
                                      saddle::to_string(column.shape()), n, width));
  for (Index i = 0; i < n; ++i) {
    const auto row = static_cast<std::size_t>(i);
    if (!hidden[row] && !replaced[row]) continue;
    double* const own = &data[row * static_cast<std::size_t>(width)];
    std::fill_n(own, width, 0.0);
    if (!replaced[row]) {
      own[kind.width] = 1;
    } else if (kind.categorical) {
      const auto chosen = static_cast<Index>(values[row]);
      if (chosen < 0 || chosen >= kind.width)
        throw InvalidArgument(fmt::format("[npt] class {} is drawn for row {}, there are {}", chosen, i, kind.width));
      own[chosen] = 1;
    } else {
      own[0] = values[row];
    }
  }
  return {column.shape(), data};
}

}  // namespace saddle::mechanisms::npt

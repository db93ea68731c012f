#include "saddle/nn/models/npt.hpp"

#include <fmt/format.h>

#include "saddle/nn/dense/dropout.hpp"
#include "saddle/nn/models/options_internal.hpp"
#include "saddle/nn/models/parts_internal.hpp"
#include "saddle/nn/taps.hpp"

namespace saddle::nn {

namespace {

constexpr const char* self_name = "npt";

int64_t total_width(const std::vector<NptColumn>& columns, int64_t more) {
  int64_t sum = 0;
  for (const NptColumn& column : columns) sum += column.width + more;
  return sum;
}

const torch::nn::LinearImpl& linear_at(const torch::nn::ModuleList& list, std::size_t j) {
  return *list->ptr(j)->as<torch::nn::Linear>();
}

}  // namespace

std::vector<NptColumn> npt_columns(const std::string& text) {
  std::vector<NptColumn> columns;
  for (std::size_t at = 0; at <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, end - at);
    NptColumn column{1, word != "x"};
    if (column.categorical && (!decode(word, column.width) || column.width < 1))
      throw InvalidArgument(fmt::format("[{}] found '{}' among the columns '{}'", self_name, word, text),
                            "x stands for a column of numbers, 3 for one of three classes");
    columns.push_back(column);
    at = end + 1;
  }
  return columns;
}

std::string to_text(const std::vector<NptColumn>& columns) {
  std::vector<std::string> words;
  for (const NptColumn& column : columns) words.push_back(column.categorical ? std::to_string(column.width) : "x");
  return join(words, ",");
}

NptImpl::NptImpl(const NptOptions& given) : Model("npt"), options(given), columns_(npt_columns(given.columns())) {
  require_positive(self_name, {{"width", options.width()}, {"heads", options.heads()}, {"depth", options.depth()}});
  require_probability(self_name, "dropout", options.dropout());
  require_probability(self_name, "attention_dropout", options.attention_dropout());
  if (columns_.empty())
    throw InvalidArgument(fmt::format("[{}] the table has no columns", self_name),
                          "give columns such as x,x,3: numbers, and classes by how many there are");
  if (options.depth() % 2 != 0)
    throw InvalidArgument(
        fmt::format("[{}] depth is {}: rows and attributes take turns, it must be even", self_name, options.depth()));
  const auto d = static_cast<int64_t>(columns_.size()), e = options.width();
  in_embedding = register_module("in_embedding", torch::nn::ModuleList());
  out_embedding = register_module("out_embedding", torch::nn::ModuleList());
  for (const NptColumn& column : columns_) {
    in_embedding->push_back(torch::nn::Linear(column.width + 1, e));
    out_embedding->push_back(torch::nn::Linear(e, column.width));
  }
  const auto numbers =
      std::count_if(columns_.begin(), columns_.end(), [](const NptColumn& c) { return !c.categorical; });
  if (options.type_embedding() && numbers > 0 && numbers < d)
    feature_type_embedding = register_module("feature_type_embedding", torch::nn::Embedding(2, e));
  if (options.index_embedding())
    feature_index_embedding = register_module("feature_index_embedding", torch::nn::Embedding(d, e));
  if (options.embedding_norm())
    embedding_layer_norm = register_module("embedding_layer_norm", Norm(NormOptions(e).eps(options.norm_eps())));
  const auto each = attention_of_layers(options.attention(), options.last_attention(), options.depth());
  torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>> children;
  for (int64_t number = 0; number < options.depth(); ++number) {
    const bool rows = number % 2 == 0;
    layers.emplace_back(NptLayerOptions(rows ? d * e : e, options.heads())
                            .attention(each[static_cast<std::size_t>(number)])
                            .dropout(options.dropout())
                            .attention_dropout(options.attention_dropout())
                            .norm(options.norm())
                            .norm_eps(options.norm_eps())
                            .mix_heads(options.mix_heads())
                            .separate_residual(options.separate_residual())
                            .network_depth(options.network_depth())
                            .tokens({.most = rows ? 0 : d, .layer = number}));
    torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>> own;
    own.insert("mab", layers.back().ptr());
    children.insert(std::to_string(2 * number + 1), torch::nn::ModuleDict(own).ptr());
  }
  enc = register_module("enc", torch::nn::ModuleDict(children));
}

Tensor NptImpl::forward(const Tensor& table) {
  const int64_t width = total_width(columns_, 1);
  if (table.dim() != 2 || table.size(1) != width || table.size(0) < 1)
    throw InvalidArgument(
        fmt::format("[{}] the table has shape {}: [rows,{}] is expected", self_name, shape_text(table), width));
  const auto n = table.size(0), e = options.width();
  const double p = is_training() ? options.dropout() : 0;
  const auto type = linear_at(in_embedding, 0).weight.scalar_type();
  LinearOptions plain;
  plain.dtype = type;
  std::vector<Tensor> embedded;
  std::vector<int64_t> kinds;
  int64_t at = 0;
  for (std::size_t j = 0; j < columns_.size(); ++j) {
    const torch::nn::LinearImpl& map = linear_at(in_embedding, j);
    embedded.push_back(nn::linear(table.narrow(1, at, columns_[j].width + 1), map.weight, map.bias, plain));
    kinds.push_back(columns_[j].categorical ? 1 : 0);
    at += columns_[j].width + 1;
  }
  Tensor h = torch::stack(embedded, 1);
  if (!feature_type_embedding.is_empty())
    h = h + torch::embedding(feature_type_embedding->weight, torch::tensor(kinds, torch::kInt64));
  if (!feature_index_embedding.is_empty()) h = h + feature_index_embedding->weight;
  if (!embedding_layer_norm.is_empty()) h = embedding_layer_norm(h, type);
  h = nn::dropout(h, p);
  tap_tokens(h);
  for (std::size_t number = 0; number < layers.size(); ++number) {
    h = number % 2 == 0 ? layers[number](h.reshape({1, n, -1})).view({n, -1, e}) : layers[number](h);
    tap_tokens(h);
  }
  h = nn::dropout(h, p);
  std::vector<Tensor> predictions;
  for (std::size_t j = 0; j < columns_.size(); ++j)
    predictions.push_back(classify(h.select(1, static_cast<int64_t>(j)), linear_at(out_embedding, j).weight,
                                   linear_at(out_embedding, j).bias));
  return torch::cat(predictions, 1);
}

Tensor NptImpl::logits(const Batch& batch) {
  refuse_second(self_name, batch);
  if (batch.mask.defined() || batch.times.defined())
    throw InvalidArgument(
        fmt::format("[{}] a table has neither a mask nor times: missing entries have a channel of "
                    "their own",
                    self_name));
  return forward(batch.inputs);
}

std::vector<OptionValue> NptImpl::option_values() const { return option_values_of(options); }

std::vector<AttentionOfLayer> NptImpl::attentions() const {
  std::vector<AttentionOfLayer> list;
  for (const NptLayer& layer : layers)
    list.push_back({layer->options.attention(), layer->value(), layer->options.heads()});
  return list;
}

double NptImpl::multiply_adds(int64_t n) const {
  const auto d = static_cast<int64_t>(columns_.size());
  double sum = static_cast<double>(n * options.width() * (total_width(columns_, 1) + total_width(columns_, 0)));
  for (std::size_t number = 0; number < layers.size(); ++number)
    sum +=
        number % 2 == 0 ? layers[number]->multiply_adds(n) : static_cast<double>(n) * layers[number]->multiply_adds(d);
  return sum;
}

std::shared_ptr<Model> NptImpl::fresh() const { return std::make_shared<NptImpl>(options); }

NptLoss npt_loss(const Tensor& predictions, const Tensor& truth, const std::vector<NptColumn>& columns,
                 const Tensor& target_mask, const Tensor& feature_mask, double share) {
  const int64_t n = predictions.size(0), d = static_cast<int64_t>(columns.size());
  if (predictions.size(1) != total_width(columns, 0) ||
      truth.sizes() != torch::IntArrayRef({n, total_width(columns, 1)}) ||
      target_mask.sizes() != torch::IntArrayRef({n, d}) || feature_mask.sizes() != target_mask.sizes())
    throw InvalidArgument(fmt::format("[npt_loss] predictions {}, truth {} and masks {} and {} do not fit {} columns",
                                      shape_text(predictions), shape_text(truth), shape_text(target_mask),
                                      shape_text(feature_mask), d));
  // All numbers at once; classes column by column.
  std::vector<int64_t> of_prediction, of_truth, numbers;
  std::vector<Tensor> each(columns.size());
  int64_t at = 0, at_truth = 0;
  for (std::size_t j = 0; j < columns.size(); ++j) {
    const int64_t width = columns[j].width;
    if (columns[j].categorical) {
      each[j] = -(truth.narrow(1, at_truth, width) * predictions.narrow(1, at, width).log_softmax(1)).sum(1);
    } else {
      of_prediction.push_back(at);
      of_truth.push_back(at_truth);
      numbers.push_back(static_cast<int64_t>(j));
    }
    at += width;
    at_truth += width + 1;
  }
  const auto indices = [](const std::vector<int64_t>& list) { return torch::tensor(list, torch::kInt64); };
  NptLoss out;
  out.targets = torch::zeros({}, predictions.options());
  out.features = torch::zeros({}, predictions.options());
  const auto add = [&](const Tensor& losses, const auto& of_mask) {
    out.targets = out.targets + (losses * of_mask(target_mask)).sum();
    out.features = out.features + (losses * of_mask(feature_mask)).sum();
  };
  if (!numbers.empty())
    add((predictions.index_select(1, indices(of_prediction)) - truth.index_select(1, indices(of_truth))).square(),
        [&](const Tensor& mask) { return mask.index_select(1, indices(numbers)); });
  for (std::size_t j = 0; j < columns.size(); ++j)
    if (each[j].defined()) add(each[j], [&](const Tensor& mask) { return mask.select(1, static_cast<int64_t>(j)); });
  out.target_count = target_mask.sum().to(predictions.scalar_type());
  out.feature_count = feature_mask.sum().to(predictions.scalar_type());
  const auto mean = [](const Tensor& sum, const Tensor& count) { return sum / count.clamp_min(1); };
  out.loss = share < 0
                 ? mean(out.targets + out.features, out.target_count + out.feature_count)
                 : share * mean(out.features, out.feature_count) + (1 - share) * mean(out.targets, out.target_count);
  return out;
}

}  // namespace saddle::nn

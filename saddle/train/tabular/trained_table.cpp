#include "saddle/train/tabular/trained_table.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/data/csv.hpp"
#include "saddle/io/safetensors_stream.hpp"
#include "saddle/nn/models/registry.hpp"

namespace saddle::train::tabular {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

constexpr const char* schema = "saddle.trained_table/1";

fs::path file_of(const fs::path& path) {
  return fs::is_directory(path) ? path / "checkpoints" / "best.safetensors" : path;
}

Json to_json(const Encoding& encoding) {
  Json list = Json::array();
  for (std::size_t c = 0; c < encoding.columns.size(); ++c)
    list.push_back({{"name", encoding.columns[c].name},
                    {"categories", encoding.columns[c].categories},
                    {"mean", encoding.mean[c]},
                    {"deviation", encoding.deviation[c]}});
  return list;
}

Encoding encoding_from_json(const Json& list) {
  Encoding encoding;
  for (const Json& column : list) {
    encoding.columns.push_back({column.at("name"), column.at("categories")});
    encoding.mean.push_back(column.at("mean"));
    encoding.deviation.push_back(column.at("deviation"));
  }
  return encoding;
}

// Is each value one that its column can have?
bool fits(const std::vector<double>& values, const Encoding& encoding) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    const std::size_t classes = encoding.columns[i % encoding.columns.size()].categories.size();
    if (std::isnan(value)) continue;
    if (!std::isfinite(value)) return false;
    if (classes > 0 && (value != std::floor(value) || value < 0 || value >= static_cast<double>(classes))) return false;
  }
  return true;
}

bool is_sound(const Encoding& encoding) {
  for (std::size_t c = 0; c < encoding.columns.size(); ++c)
    if (!std::isfinite(encoding.mean[c]) || !std::isfinite(encoding.deviation[c]) || encoding.deviation[c] <= 0)
      return false;
  return true;
}

// The rows that every batch gets: those of the context, or, if not all fit with the new ones, a drawn part of them that
// leaves a quarter free.
std::vector<double> context_of_batches(const TrainedTable& trained, Index new_rows) {
  const Index d = trained.encoding.width(), all = static_cast<Index>(trained.context.size()) / d;
  const Index most = trained.batch * 3 / 4;
  if (all <= most || all + new_rows <= trained.batch) return trained.context;
  std::vector<Index> rows(static_cast<std::size_t>(all));
  std::iota(rows.begin(), rows.end(), Index{0});
  Stream(static_cast<std::uint64_t>(trained.seed), "context").shuffle(rows);
  rows.resize(static_cast<std::size_t>(most));
  std::sort(rows.begin(), rows.end());
  std::vector<double> values;
  for (const Index row : rows) {
    const auto first = trained.context.begin() + row * d;
    values.insert(values.end(), first, first + d);
  }
  return values;
}

}  // namespace

void write_trained_table(const fs::path& path, const TrainedTable& trained, const NamedTensors& weights) {
  const Json state{{"schema", schema},
                   {"model", Json::parse(nn::describe(*trained.model))},
                   {"table", trained.name},
                   {"columns", to_json(trained.encoding)},
                   {"mask_targets", trained.settings.mask_targets},
                   {"mask_features", trained.settings.mask_features},
                   {"batch", trained.batch},
                   {"seed", trained.seed}};
  NamedTensors tensors;
  for (const auto& [name, tensor] : weights) tensors["model." + name] = tensor;
  tensors["table.values"] = torch::tensor(trained.context, torch::kFloat64).view({-1, trained.encoding.width()});
  write_checkpoint(path, tensors, state.dump());
}

bool holds_table(const fs::path& path) {
  const fs::path file = file_of(path);
  if (!fs::is_regular_file(file)) return false;
  const io::SafetensorsReader reader(file);
  const auto found = reader.metadata().find("saddle");
  if (found == reader.metadata().end()) return false;
  const Json state = Json::parse(found->second, nullptr, false);
  return state.is_object() && state.value("schema", "") == schema;
}

TrainedTable read_trained_table(const fs::path& path) {
  const Checkpoint checkpoint = read_checkpoint(file_of(path));
  TrainedTable trained;
  try {
    const Json state = Json::parse(checkpoint.state);
    trained.model = nn::model_from_json(state.at("model").dump());
    trained.name = state.at("table");
    trained.encoding = encoding_from_json(state.at("columns"));
    trained.settings.mask_targets = state.at("mask_targets");
    trained.settings.mask_features = state.at("mask_features");
    trained.batch = state.at("batch");
    trained.seed = state.at("seed");
  } catch (const Json::exception& error) {
    throw DataError(checkpoint.file, 0, 0, fmt::format("does not describe a model of a table: {}", error.what()));
  }
  const auto values = checkpoint.tensors.find("table.values");
  const auto* const npt = dynamic_cast<const nn::NptImpl*>(trained.model.get());
  if (npt == nullptr || values == checkpoint.tensors.end() || values->second.scalar_type() != torch::kFloat64 ||
      values->second.dim() != 2 || values->second.size(1) != trained.encoding.width() || trained.batch < 1 ||
      npt->columns() != trained.encoding.model_columns())
    throw DataError(checkpoint.file, 0, 0, "does not hold a model with rows of its table");
  const double* const first = values->second.data_ptr<double>();
  trained.context.assign(first, first + values->second.numel());
  if (!is_sound(trained.encoding) || !fits(trained.context, trained.encoding))
    throw DataError(checkpoint.file, 0, 0, "holds rows with values that their columns cannot have");
  restore(checkpoint, "model.", weights_of(*trained.model));
  trained.model->eval();
  return trained;
}

Tensor outputs_of(const TrainedTable& trained, const Pass& pass, const std::vector<std::vector<Index>>& batches) {
  const torch::NoGradGuard no_grad;
  const bool training = trained.model->is_training();
  trained.model->eval();
  int64_t width = 0;
  for (const nn::NptColumn& column : trained.encoding.model_columns()) width += column.width;
  Tensor outputs = torch::full({pass.seen.size(0), width}, std::numeric_limits<float>::quiet_NaN());
  for (const auto& rows : batches) {
    const Tensor index = torch::tensor(rows, torch::kInt64);
    outputs.index_copy_(0, index, trained.model->logits({pass.seen.index_select(0, index), {}, {}, {}}));
  }
  trained.model->train(training);
  return outputs;
}

Scores score_targets(const TrainedTable& trained, const Tensor& outputs, const std::vector<double>& values,
                     const std::vector<Index>& rows) {
  const Encoding& encoding = trained.encoding;
  const Index d = encoding.width();
  const auto classes = static_cast<int64_t>(trained.target().categories.size());
  const int64_t own = std::max<int64_t>(classes, 1);
  const Tensor target = outputs.narrow(1, outputs.size(1) - own, own).to(torch::kFloat64);
  const Tensor scores = classes > 0 ? target.log_softmax(1).contiguous() : target.contiguous();
  Scores result;
  result.rows = rows;
  double right = 0, loss = 0, losses = 0;
  for (const Index row : rows) {
    const double* const score = scores.data_ptr<double>() + row * own;
    const double truth = values[static_cast<std::size_t>(row * d + d - 1)];
    result.truth.push_back(truth);
    const bool known = !std::isnan(truth);
    result.count += known ? 1 : 0;
    const bool has_loss = known && (classes == 0 || truth != data::unknown_class);
    losses += has_loss ? 1 : 0;
    if (classes == 0) {
      result.predicted.push_back(encoding.number(score[0], d - 1));
      if (known) loss += std::pow((result.predicted.back() - truth) / encoding.deviation.back(), 2);
      continue;
    }
    const auto best = static_cast<double>(std::max_element(score, score + classes) - score);
    result.predicted.push_back(best);
    for (int64_t c = 0; c < classes; ++c) result.probabilities.push_back(std::exp(score[c]));
    if (has_loss) loss -= score[static_cast<std::size_t>(truth)];
    right += best == truth ? 1 : 0;
  }
  result.loss = loss / std::max(losses, 1.0);
  result.accuracy = right / std::max(static_cast<double>(result.count), 1.0);
  result.rmse = std::sqrt(result.loss) * encoding.deviation.back();
  return result;
}

double floor_of(const TrainedTable& trained, const Scores& scores) {
  double sum = 0, count = 0;
  const double guess = trained.encoding.mean.back();
  for (const double truth : scores.truth) {
    if (std::isnan(truth)) continue;
    ++count;
    sum += trained.predicts_classes() ? (truth == guess ? 1 : 0) : std::pow(truth - guess, 2);
  }
  sum /= std::max(count, 1.0);
  return trained.predicts_classes() ? sum : std::sqrt(sum);
}

Tensor meet(const TrainedTable& trained, const data::WholeTable& table, bool targets_are_known) {
  const Index d = trained.encoding.width();
  std::vector<double> values = context_of_batches(trained, table.rows);
  const Index before = static_cast<Index>(values.size()) / d;
  values.insert(values.end(), table.values.begin(), table.values.end());
  std::vector<Part> parts(static_cast<std::size_t>(before + table.rows), Part::train);
  for (Index row = 0; row < table.rows; ++row)
    if (!targets_are_known || table.missing(row, d - 1)) parts[static_cast<std::size_t>(before + row)] = Part::test;
  run::TableSettings settings = trained.settings;
  settings.rows = "all";
  const auto columns = trained.encoding.model_columns();
  const Pass pass = scoring_pass(values, parts, trained.encoding.encode(values), columns, settings, Part::test);
  std::vector<Index> rows(static_cast<std::size_t>(before + table.rows));
  std::iota(rows.begin(), rows.end(), Index{0});
  const auto first_new = rows.begin() + before;
  Stream stream(static_cast<std::uint64_t>(trained.seed), "batches to score");
  auto batches = batches_of({first_new, rows.end()}, parts, {}, trained.batch - before, stream);
  for (auto& batch : batches) batch.insert(batch.begin(), rows.begin(), first_new);
  return outputs_of(trained, pass, batches).narrow(0, before, table.rows).clone();
}

std::string target_text(const TrainedTable& trained, double value) {
  const auto& classes = trained.target().categories;
  if (std::isnan(value)) return "";
  if (classes.empty()) return format_number(value);
  return value == data::unknown_class ? "(unknown)" : classes[static_cast<std::size_t>(value)];
}

std::string predictions_csv(const TrainedTable& trained, const Scores& scores) {
  const auto& classes = trained.target().categories;
  const auto text = [&](double value) { return data::csv_field(target_text(trained, value)); };
  std::string out = "sample,label,predicted";
  for (const std::string& name : classes) out += "," + data::csv_field("p(" + name + ")");
  out += '\n';
  for (std::size_t i = 0; i < scores.rows.size(); ++i) {
    out += fmt::format("{},{},{}", scores.rows[i], text(scores.truth[i]),
                       classes.empty() ? fmt::format("{:.8g}", scores.predicted[i]) : text(scores.predicted[i]));
    for (std::size_t c = 0; c < classes.size(); ++c)
      out += fmt::format(",{:.6g}", scores.probabilities[i * classes.size() + c]);
    out += '\n';
  }
  return out;
}

}  // namespace saddle::train::tabular

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

// The class of each row as a group for batches.
std::vector<Index> classes_of(const std::vector<double>& values, Index width) {
  std::vector<Index> groups;
  for (std::size_t last = static_cast<std::size_t>(width) - 1; last < values.size();
       last += static_cast<std::size_t>(width))
    groups.push_back(std::isnan(values[last]) ? -1 : static_cast<Index>(values[last]));
  return groups;
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
  restore(checkpoint, "model.", weights_of(*trained.model));
  trained.model->eval();
  return trained;
}

Tensor outputs_of(const TrainedTable& trained, const Pass& pass, const std::vector<Part>& parts) {
  const torch::NoGradGuard no_grad;
  const bool training = trained.model->is_training();
  trained.model->eval();
  int64_t width = 0;
  for (const nn::NptColumn& column : trained.encoding.model_columns()) width += column.width;
  Tensor outputs = torch::full({pass.seen.size(0), width}, std::numeric_limits<float>::quiet_NaN());
  Stream stream(static_cast<std::uint64_t>(trained.seed), "batches to score");
  for (const auto& rows : batches_of(pass.rows, parts, {}, trained.batch, stream)) {
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
  double right = 0, loss = 0;
  for (const Index row : rows) {
    const double* const score = scores.data_ptr<double>() + row * own;
    const double truth = values[static_cast<std::size_t>(row * d + d - 1)];
    result.truth.push_back(truth);
    const bool known = !std::isnan(truth);
    result.count += known ? 1 : 0;
    if (classes == 0) {
      result.predicted.push_back(encoding.number(score[0], d - 1));
      if (known) loss += std::pow((result.predicted.back() - truth) / encoding.deviation.back(), 2);
      continue;
    }
    const auto best = static_cast<double>(std::max_element(score, score + classes) - score);
    result.predicted.push_back(best);
    for (int64_t c = 0; c < classes; ++c) result.probabilities.push_back(std::exp(score[c]));
    if (known) loss -= score[static_cast<std::size_t>(truth)];
    right += best == truth ? 1 : 0;
  }
  const double count = std::max(static_cast<double>(result.count), 1.0);
  result.loss = loss / count;
  result.accuracy = right / count;
  result.rmse = std::sqrt(result.loss) * encoding.deviation.back();
  return result;
}

double floor_of(const TrainedTable& trained, const Scores& scores) {
  double sum = 0, count = 0, commonest = 0;
  std::map<Index, double> counts;
  for (const Index each : classes_of(trained.context, trained.encoding.width())) {
    if (!trained.predicts_classes() || each < 0) continue;
    if (++counts[each] > counts[static_cast<Index>(commonest)]) commonest = static_cast<double>(each);
  }
  for (const double truth : scores.truth) {
    if (std::isnan(truth)) continue;
    ++count;
    sum +=
        trained.predicts_classes() ? (truth == commonest ? 1 : 0) : std::pow(truth - trained.encoding.mean.back(), 2);
  }
  sum /= std::max(count, 1.0);
  return trained.predicts_classes() ? sum : std::sqrt(sum);
}

Meeting meet(const TrainedTable& trained, const data::WholeTable& table, bool targets_are_known) {
  const Index d = trained.encoding.width();
  std::vector<double> values = trained.context;
  values.insert(values.end(), table.values.begin(), table.values.end());
  const Index before = static_cast<Index>(trained.context.size()) / d;
  std::vector<Part> parts(static_cast<std::size_t>(before + table.rows), Part::train);
  for (Index row = 0; row < table.rows; ++row)
    if (!targets_are_known || table.missing(row, d - 1)) parts[static_cast<std::size_t>(before + row)] = Part::test;
  run::TableSettings settings = trained.settings;
  settings.rows = "all";
  const auto columns = trained.encoding.model_columns();
  const Pass pass = scoring_pass(values, parts, trained.encoding.encode(values), columns, settings, Part::test);
  return {outputs_of(trained, pass, parts).narrow(0, before, table.rows).clone(), table.values};
}

std::string predictions_csv(const TrainedTable& trained, const Scores& scores) {
  const auto& classes = trained.target().categories;
  const auto text = [&](double value) {
    if (std::isnan(value)) return std::string();
    return classes.empty() ? format_number(value) : data::csv_field(classes[static_cast<std::size_t>(value)]);
  };
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

#include "saddle/train/tabular/probe.hpp"

#include <fmt/format.h>

#include <cmath>

#include "saddle/base/error.hpp"
#include "saddle/nn/taps.hpp"
#include "saddle/nn/tensor.hpp"

namespace saddle::train::tabular {

namespace {

constexpr Index most_rows = 1024;  // weights between rows grow with their square

template <int Rank>
Array<double, Rank> array_of(const Tensor& tensor) {
  return to_double<Rank>(nn::view_of(tensor.detach().to(torch::kFloat64).contiguous()));
}

std::vector<Index> evenly(Index count, Index total) {
  std::vector<Index> chosen;
  for (Index i = 0; i < count; ++i) chosen.push_back(i * total / count);
  return chosen;
}

// The number of the class; -1 where it is not known, or no class.
Index label_of(const TrainedTable& trained, double target) {
  return trained.predicts_classes() && !std::isnan(target) ? static_cast<Index>(target) : -1;
}

// Samples from `first` on of the attentions between rows, or between attributes.
analysis::Probe seen(const TrainedTable& trained, const nn::Taps& taps, bool rows, int64_t first, Index count) {
  const auto cut = [&](const Tensor& all) { return all.narrow(0, first, count); };
  const auto tokens = [&](std::size_t at) {
    const Tensor& all = taps.tokens.at(at);  // [rows, attributes, width]
    return array_of<3>(cut(rows ? all.flatten(1).unsqueeze(0) : all));
  };
  const std::vector<nn::AttentionOfLayer> attentions = trained.model->attentions();
  analysis::Probe probe;
  probe.tokens = tokens(0);
  for (std::size_t block = 0; block < attentions.size(); block += 2) {
    const std::size_t layer = rows ? block : block + 1;
    const nn::Tapped& tapped = taps.layers.at(layer);
    analysis::ProbedLayer& own = probe.layers.emplace_back();
    own.attention = attentions.at(layer).attention;
    if (const auto* kernel = std::get_if<primal::ExpDot>(&attentions.at(layer).value.kernel)) own.scale = kernel->scale;
    own.heads = array_of<4>(cut(tapped.heads));
    if (tapped.weights.defined()) own.weights = array_of<4>(cut(tapped.weights));
    // Some parts are the same for all samples.
    for (const auto& [name, part] : tapped.parts)
      own.parts.emplace(name, array_of<4>(part.size(0) == tapped.heads.size(0) ? cut(part) : part));
    own.tokens = tokens(block + 2);
  }
  probe.lengths.assign(static_cast<std::size_t>(count), probe.tokens.shape()[1]);
  return probe;
}

}  // namespace

TableProbes probe(const TrainedTable& trained, const data::WholeTable& table, Index samples, Index sample) {
  if (sample >= table.rows || table.rows < 1)
    throw InvalidArgument(
        fmt::format("row {} of {} was asked for, it has {}", std::max<Index>(sample, 0), table.name, table.rows),
        "rows count from 0");
  const Index d = trained.encoding.width(), learned = static_cast<Index>(trained.context.size()) / d;
  const Index most = std::min(most_rows, trained.batch);
  const std::vector<Index> context = evenly(std::min({samples, learned, std::max<Index>(1, most * 3 / 4)}), learned);
  const auto before = static_cast<Index>(context.size());
  const std::vector<Index> rows =
      sample >= 0 ? std::vector{sample}
                  : evenly(std::min({samples, table.rows, std::max<Index>(1, most - before)}), table.rows);
  const auto asked = static_cast<Index>(rows.size());

  std::vector<double> values;
  const auto append = [&](const std::vector<double>& all, const std::vector<Index>& which) {
    for (const Index row : which) values.insert(values.end(), all.begin() + row * d, all.begin() + (row + 1) * d);
  };
  append(trained.context, context);
  append(table.values, rows);
  std::vector<Part> parts(context.size(), Part::train);
  parts.resize(context.size() + rows.size(), Part::test);
  run::TableSettings settings = trained.settings;
  settings.rows = "all";
  const Pass pass = scoring_pass(values, parts, trained.encoding.encode(values), trained.encoding.model_columns(),
                                 settings, Part::test);

  const torch::NoGradGuard guard;
  trained.model->eval();
  nn::Taps taps(true, true, true);
  trained.model->logits({pass.seen, {}, {}, {}});
  if (taps.layers.size() != trained.model->attentions().size())
    throw NotSupported("a layer of the model does not show what its attention does", {},
                       "declared attentions such as softmax do");

  TableProbes probes;
  probes.rows = seen(trained, taps, true, 0, 1);
  probes.rows.split = "test";
  probes.rows.samples = {0};
  probes.rows.labels = {-1};
  std::vector<std::string>& names = probes.rows.names.emplace_back();
  std::vector<std::string> columns;
  for (const data::Column& column : trained.encoding.columns) columns.push_back(column.name);
  for (const bool test : {false, true}) {
    analysis::Probe own = seen(trained, taps, false, test ? before : 0, test ? asked : before);
    own.split = test ? "test" : "train";
    own.samples = test ? rows : context;
    own.names.assign(own.samples.size(), columns);
    for (const Index row : own.samples) {
      names.push_back(fmt::format("{} {}", own.split, row));
      own.labels.push_back(
          label_of(trained, (test ? table.values : trained.context)[static_cast<std::size_t>((row + 1) * d - 1)]));
    }
    probes.attributes.push_back(std::move(own));
  }
  return probes;
}

}  // namespace saddle::train::tabular

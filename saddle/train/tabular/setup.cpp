#include "saddle/train/tabular/setup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <sstream>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/data/number.hpp"
#include "saddle/data/split.hpp"
#include "saddle/nn/models/registry.hpp"
#include "saddle/train/setup.hpp"

namespace saddle::train::tabular {

namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();
constexpr double most_parameters = 5e8;

void check(const run::Settings& settings) {
  const run::TrainSettings& train = settings.train;
  const auto refuse = [](const char* what, const char* hint) {
    throw InvalidArgument(fmt::format("a table is not trained with {}", what), hint);
  };
  if (settings.model != "npt")
    throw InvalidArgument(fmt::format("the model '{}' does not see a table as a whole", settings.model),
                          "npt does, and predicts numbers too");
  if (settings.data.protocol == "paper")
    refuse("protocol paper", "the epoch is chosen by rows that validate: leave out --protocol");
  if (train.mixup > 0 || train.label_smoothing > 0 || train.ema > 0)
    refuse("mixup, label smoothing or averages of weights", "lookahead has slow weights of its own");
  if (train.accumulate > 1) refuse("batches in pieces: rows of a batch see each other", "choose a smaller --batch");
  if (train.precision != "float32") refuse("bfloat16", "leave out --precision");
  if (!settings.data.series_id.empty() || !settings.data.time.empty())
    refuse("a column of series or times", "rows of a table have no order");
  if (settings.table.mask_targets <= 0)
    throw InvalidArgument("table.mask_targets is 0: no target would be learned", "1 hides all of them");
  if (train.optimizer == "adam" && train.weight_decay > 0)
    throw InvalidArgument("adam has no weight decay here", "--optimizer adamw has");
}

// A share of the training rows with targets, of classes a share of each.
void take_validation(Setup& setup, double share, std::uint64_t seed) {
  const data::WholeTable& table = setup.table;
  std::map<double, std::vector<Index>> groups;
  for (const Index row : setup.rows_of(Part::train)) {
    const double target = table.at(row, table.width() - 1);
    if (!std::isnan(target)) groups[table.target().categories.empty() ? 0 : target].push_back(row);
  }
  Stream stream(seed, "split");
  for (auto& [value, rows] : groups) {
    stream.shuffle(rows);
    const auto most = static_cast<long>(rows.size()) - 1;
    const long count =
        share > 0 ? std::clamp(std::lround(share * static_cast<double>(rows.size())), std::min(1L, most), most) : 0;
    for (long i = 0; i < count; ++i)
      setup.parts[static_cast<std::size_t>(rows[static_cast<std::size_t>(i)])] = Part::validation;
  }
}

// At most `limit` rows that train; the others are gone.
void limit_rows(data::TableTask& task, Index limit) {
  if (limit == 0 || limit >= static_cast<Index>(task.train.size())) return;
  data::WholeTable& table = task.table;
  task.train = data::limited(std::move(task.train), limit, [&](Index row) {
    const double target = table.at(row, table.width() - 1);
    return table.target().categories.empty() || std::isnan(target) ? 0 : static_cast<Index>(target);
  });
  std::vector<Index> kept = task.train;
  kept.insert(kept.end(), task.test.begin(), task.test.end());
  std::sort(kept.begin(), kept.end());
  std::map<Index, Index> place;
  std::vector<double> values;
  for (const Index row : kept) {
    place[row] = static_cast<Index>(place.size());
    for (Index c = 0; c < table.width(); ++c) values.push_back(table.at(row, c));
  }
  table.values = std::move(values);
  table.rows = static_cast<Index>(kept.size());
  for (auto* rows : {&task.train, &task.test})
    for (Index& row : *rows) row = place.at(row);
}

void check_targets(const Setup& setup) {
  Index training = 0;
  for (const Index row : setup.rows_of(Part::train))
    training += setup.table.missing(row, setup.table.width() - 1) ? 0 : 1;
  if (training < 2)
    throw InvalidArgument(fmt::format("{} leaves {} {} with a target to train on, at least two are needed",
                                      setup.table.name, training, training == 1 ? "row" : "rows"),
                          "a table needs more rows, or a smaller --validation and --test-share");
  if (setup.table.target().categories.size() == 1)
    throw InvalidArgument(fmt::format("the target '{}' of {} has one class only, '{}'", setup.table.target().name,
                                      setup.table.name, setup.table.target().categories.front()),
                          "name another column as target");
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');)
    if (const auto name = data::trimmed(word); !name.empty()) words.emplace_back(name);
  return words;
}

// The maps of rows grow with the square of columns x width: before gigabytes of them are asked for.
void check_size(const run::Settings& settings, Index columns) {
  const auto option = [&](const char* name) { return parse_number(settings.model_options.at(name)).value_or(0); };
  const double width = static_cast<double>(columns) * option("width"), hidden = option("network_depth");
  const double count = option("depth") / 2 * width * width * (5 + (hidden > 0 ? 16 * hidden - 8 : 0));
  if (count > most_parameters)
    throw InvalidArgument(
        fmt::format("a model of {} columns with width {} would have about {:.1e} parameters, at most {:.0e} are taken",
                    columns, settings.model_options.at("width"), count, most_parameters),
        "leave columns out with --leave-out, or choose a smaller --set model.width");
}

void fill_model_options(run::Settings& settings, const Encoding& encoding) {
  run::put(settings, {"model.columns", nn::to_text(encoding.model_columns()), "the data"});
  if (settings.origins.count("model.attention") == 0) run::put(settings, {"model.attention", "softmax", "default"});
  for (const nn::OptionValue& option : nn::model_options(settings.model))
    if (settings.model_options.count(option.name) == 0) settings.model_options[option.name] = option.value;
}

}  // namespace

std::vector<Index> Setup::rows_of(Part part) const {
  std::vector<Index> rows;
  for (std::size_t row = 0; row < parts.size(); ++row)
    if (parts[row] == part) rows.push_back(static_cast<Index>(row));
  return rows;
}

data::TableChoice choice_of(const run::TableSettings& settings) {
  return {words_of(settings.categories),
          settings.predict == "classes"   ? data::Target::classes
          : settings.predict == "numbers" ? data::Target::numbers
                                          : data::Target::by_values,
          settings.split};
}

Setup set_up(run::Settings settings) {
  if (settings.model.empty()) run::put(settings, {"model.name", "npt", "recipe for tables"});
  run::apply_table_recipe(settings);
  check(settings);
  if (settings.table.mask_features == 0 && settings.origins.count("table.feature_share") == 0)
    run::put(settings, {"table.feature_share", "0", "no feature is hidden"});
  data::TableTask task = data::find_table(settings.data.name, where_of(settings.data), choice_of(settings.table));
  limit_rows(task, settings.data.limit);
  Setup setup;
  setup.split = task.split;
  setup.table = std::move(task.table);
  data::WholeTable& table = setup.table;
  const auto n = static_cast<std::size_t>(table.rows), d = static_cast<std::size_t>(table.width());
  setup.parts.assign(n, Part::train);
  setup.test_targets.assign(n, none);
  for (const Index row : task.test) {
    const std::size_t target = static_cast<std::size_t>(row) * d + d - 1;
    setup.parts[static_cast<std::size_t>(row)] = Part::test;
    setup.test_targets[static_cast<std::size_t>(row)] = std::exchange(table.values[target], none);
  }
  const auto seed = static_cast<std::uint64_t>(settings.train.seed);
  take_validation(setup, settings.data.validation, seed);
  check_targets(setup);
  std::vector<bool> features(n), targets(n);
  for (std::size_t row = 0; row < n; ++row) {
    targets[row] = setup.parts[row] == Part::train;
    features[row] = targets[row] || settings.table.rows == "all";
  }
  TrainedTable& trained = setup.trained;
  trained.encoding = Encoding::fit(table, features, targets);
  fill_model_options(settings, trained.encoding);
  check_size(settings, trained.encoding.width());
  torch::manual_seed(Stream(seed, "init").bits64_at(0));
  trained.model = nn::make_model(settings.model, {settings.model_options.begin(), settings.model_options.end()});
  trained.name = table.name;
  trained.settings = settings.table;
  trained.batch = settings.train.batch;
  trained.seed = settings.train.seed;
  for (std::size_t row = 0; row < n; ++row)
    if (setup.parts[row] != Part::test)
      trained.context.insert(trained.context.end(), table.values.begin() + static_cast<std::ptrdiff_t>(row * d),
                             table.values.begin() + static_cast<std::ptrdiff_t>((row + 1) * d));
  setup.settings = std::move(settings);
  return setup;
}

}  // namespace saddle::train::tabular

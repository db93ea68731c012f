#include "saddle/train/tabular/masks.hpp"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cmath>
#include <numeric>
#include <set>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/npt/npt.hpp"

namespace saddle::train::tabular {
namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

std::vector<Index> counted(Index n) {
  std::vector<Index> list(static_cast<std::size_t>(n));
  std::iota(list.begin(), list.end(), Index{0});
  return list;
}

// Two numbers, a class of three, a target of two classes; missing values in every column.
data::WholeTable small_table(Index rows = 60) {
  data::WholeTable table{"t", {{"a", {}}, {"b", {}}, {"c", {"r", "s", "t"}}, {"y", {"no", "yes"}}}, rows, {}};
  Stream stream(4, "table");
  for (Index row = 0; row < rows; ++row) {
    table.values.push_back(row % 7 == 0 ? none : 3 + 2 * stream.normal());
    table.values.push_back(stream.normal());
    table.values.push_back(row % 11 == 0 ? none : static_cast<double>(stream.below(3)));
    table.values.push_back(row % 13 == 0 ? none : static_cast<double>(stream.below(2)));
  }
  return table;
}

Encoding encoding_of(const data::WholeTable& table) {
  const std::vector<bool> all(static_cast<std::size_t>(table.rows), true);
  return Encoding::fit(table, all, all);
}

TEST(Encoding, IsOnOneScaleAndFlagsWhatIsMissing) {
  const data::WholeTable table = small_table();
  const Encoding encoding = encoding_of(table);
  const Tensor encoded = encoding.encode(table.values);
  EXPECT_EQ(encoded.sizes(), (std::vector<int64_t>{60, 2 + 2 + 4 + 3}));
  const Tensor a = encoded.select(1, 0), hidden = encoded.select(1, 1);
  EXPECT_EQ(hidden.sum().item<double>(), 9);
  EXPECT_EQ((a * hidden).abs().sum().item<double>(), 0);
  const double count = 60 - 9, mean = a.sum().item<double>() / count;
  EXPECT_NEAR(mean, 0, 1e-6);
  EXPECT_NEAR(a.square().sum().item<double>() / count, 1, 1e-5);  // the deviation of the population
  EXPECT_TRUE(encoded.narrow(1, 4, 4).sum(1).eq(1).all().item<bool>());
  EXPECT_NEAR(encoding.number(a[1].item<double>(), 0), table.at(1, 0), 1e-5);
}

TEST(Encoding, TargetsOfOtherRowsDoNotCount) {
  data::WholeTable table{"t", {{"x", {}}, {"y", {}}}, 4, {1, 10, 2, 20, 3, 1000, 4, 2000}};
  const Encoding encoding = Encoding::fit(table, {true, true, true, true}, {true, true, false, false});
  EXPECT_EQ(encoding.mean[0], 2.5);
  EXPECT_EQ(encoding.mean[1], 15);
  EXPECT_EQ(encoding.deviation[1], 5);
  table.values = {7, 1, 7, 2, 7, 3, 7, 4};
  EXPECT_EQ(Encoding::fit(table, {true, true, true, true}, {true, true, true, true}).deviation[0], 1);
  table.values[1] = table.values[3] = none;
  EXPECT_THROW(Encoding::fit(table, {true, true, true, true}, {true, true, false, false}), InvalidArgument);
}

TEST(Masks, ChooseAboutTheShareByThePublishedRule) {
  run::TableSettings settings;
  Stream stream(1, "masks");
  double sum = 0, squares = 0;
  const int draws = 400;
  for (int draw = 0; draw < draws; ++draw) {
    const Chosen chosen = choose_entries(counted(200), 0.15, settings, stream);
    const auto all = static_cast<Index>(chosen.hidden.size() + chosen.replaced.size());
    EXPECT_EQ(static_cast<Index>(chosen.replaced.size()), mechanisms::npt::randomised_count(all, 0.9));
    std::set<Index> different(chosen.hidden.begin(), chosen.hidden.end());
    different.insert(chosen.replaced.begin(), chosen.replaced.end());
    EXPECT_EQ(static_cast<Index>(different.size()), all);
    sum += static_cast<double>(all);
    squares += static_cast<double>(all * all);
  }
  const double mean = sum / draws;
  EXPECT_NEAR(mean, 29.5, 0.8);  // 30, cut to whole numbers
  EXPECT_NEAR(std::sqrt(squares / draws - mean * mean), std::sqrt(200 * 0.15 * 0.85), 0.6);
  EXPECT_EQ(choose_entries(counted(9), 1, settings, stream).hidden, counted(9));
  EXPECT_TRUE(choose_entries(counted(9), 0, settings, stream).hidden.empty());
  EXPECT_TRUE(choose_entries({}, 0.5, settings, stream).hidden.empty());
  settings.exact_share = true;
  const Chosen exact = choose_entries(counted(1000), 0.5, settings, stream);
  const double all = static_cast<double>(exact.hidden.size() + exact.replaced.size());
  EXPECT_EQ(exact.hidden.size(), static_cast<std::size_t>(0.9 * all));
}

TEST(Masks, HideAsTheReferenceDoes) {
  const data::WholeTable table = small_table(12);
  const Encoding encoding = encoding_of(table);
  const auto columns = encoding.model_columns();
  const Tensor before = encoding.encode(table.values);
  Tensor after = before.clone();
  const Chosen chosen{{1, 2, 7, 30}, {4, 6, 15}};
  Stream stream(2, "values");
  hide(after, columns, chosen, stream);
  int64_t offset = 0;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const int64_t width = columns[c].width + 1;
    const Tensor old = before.narrow(1, offset, width).to(torch::kFloat64).contiguous(),
                 now = after.narrow(1, offset, width).to(torch::kFloat64).contiguous();
    std::vector<bool> hidden(12), replaced(12);
    std::vector<double> values(12);
    for (const Index entry : chosen.hidden)
      if (entry % 4 == static_cast<Index>(c)) hidden[static_cast<std::size_t>(entry / 4)] = true;
    for (const Index entry : chosen.replaced) {
      if (entry % 4 != static_cast<Index>(c)) continue;
      replaced[static_cast<std::size_t>(entry / 4)] = true;
      values[static_cast<std::size_t>(entry / 4)] =
          columns[c].categorical ? now[entry / 4].argmax().item<double>() : now[entry / 4][0].item<double>();
    }
    const tape::Value expected = mechanisms::npt::masked(
        {{12, width}, std::vector<double>(old.data_ptr<double>(), old.data_ptr<double>() + old.numel())},
        {columns[c].width, columns[c].categorical}, hidden, replaced, values);
    EXPECT_EQ(std::vector<double>(now.data_ptr<double>(), now.data_ptr<double>() + now.numel()), expected.data()) << c;
    offset += width;
  }
}

struct Passes {
  data::WholeTable table = small_table();
  Encoding encoding = encoding_of(table);
  std::vector<nn::NptColumn> columns = encoding.model_columns();
  Tensor encoded = encoding.encode(table.values);
  std::vector<Part> parts;
  run::TableSettings settings;

  Passes() {
    for (Index row = 0; row < table.rows; ++row)
      parts.push_back(row < 40 ? Part::train : row < 50 ? Part::validation : Part::test);
  }
  Pass training(std::uint64_t seed = 1) const {
    Stream stream(seed, "masks");
    return training_pass(table.values, parts, encoded, columns, settings, stream);
  }
  Pass scoring(Part part) const { return scoring_pass(table.values, parts, encoded, columns, settings, part); }
  bool target_seen(const Pass& pass, Index row) const {
    return pass.seen[row].narrow(0, encoded.size(1) - 3, 2).sum().item<double>() > 0;
  }
  bool target_counts(const Pass& pass, Index row) const { return pass.targets[row][3].item<double>() > 0; }
};

TEST(Masks, NoTargetIsSeenWhereAllAreHidden) {
  const Passes passes;
  const Pass training = passes.training();
  EXPECT_EQ(training.rows.size(), 60U);
  for (Index row = 0; row < 60; ++row) {
    EXPECT_FALSE(passes.target_seen(training, row)) << row;
    EXPECT_EQ(passes.target_counts(training, row), row < 40 && !passes.table.missing(row, 3)) << row;
    EXPECT_FALSE(passes.target_seen(passes.scoring(Part::test), row)) << row;
  }
  EXPECT_EQ(training.features.select(1, 3).sum().item<double>(), 0);
  EXPECT_GT(training.features.sum().item<double>(), 5);
  for (Index row = 0; row < 60; ++row)
    for (Index c = 0; c < 3; ++c)
      if (passes.table.missing(row, c)) {
        EXPECT_EQ(training.features[row][c].item<double>(), 0);
      }
  EXPECT_EQ(passes.scoring(Part::validation).features.sum().item<double>(), 0);
}

TEST(Masks, OthersTargetsAreNeverSeenAndSomeOfTheTrainingRowsAre) {
  Passes passes;
  passes.settings.mask_targets = 0.5;
  passes.settings.mask_features = 0;
  Index seen = 0;
  const Pass training = passes.training();
  for (Index row = 0; row < 60; ++row) {
    if (row >= 40) {
      EXPECT_FALSE(passes.target_seen(training, row) || passes.target_counts(training, row)) << row;
    } else if (passes.target_seen(training, row) && !passes.target_counts(training, row)) {
      ++seen;
    }
  }
  EXPECT_GT(seen, 8);
  EXPECT_LT(seen, 30);
  const Pass validation = passes.scoring(Part::validation), test = passes.scoring(Part::test);
  for (Index row = 0; row < 60; ++row) {
    const bool known = !passes.table.missing(row, 3);
    EXPECT_EQ(passes.target_seen(validation, row), known && row < 40) << row;
    EXPECT_EQ(passes.target_seen(test, row), known && row < 50) << row;
    EXPECT_EQ(passes.target_counts(validation, row), known && row >= 40 && row < 50) << row;
    EXPECT_EQ(passes.target_counts(test, row), known && row >= 50) << row;
  }
}

TEST(Masks, ProductionSeesNoLaterRows) {
  Passes passes;
  passes.settings.rows = "train";
  EXPECT_EQ(passes.training().rows, counted(40));
  EXPECT_EQ(passes.scoring(Part::validation).rows, counted(50));
  EXPECT_EQ(passes.scoring(Part::test).rows, counted(60));
}

TEST(Masks, AreThoseOfTheSeed) {
  const Passes passes;
  EXPECT_TRUE(torch::equal(passes.training(7).seen, passes.training(7).seen));
  EXPECT_FALSE(torch::equal(passes.training(7).seen, passes.training(8).seen));
}

TEST(Masks, SharesFallAsAsked) {
  run::TableSettings settings;
  EXPECT_EQ(share_at(settings, 0, 10), 1);
  EXPECT_EQ(share_at(settings, 1, 10), 1);
  EXPECT_NEAR(share_at(settings, 6, 10), 0.5, 1e-12);
  settings.share_schedule = "linear";
  EXPECT_EQ(share_at(settings, 0, 10), 1);
  EXPECT_NEAR(share_at(settings, 6, 10), 0.5, 1e-12);
  EXPECT_EQ(share_at(settings, 20, 10), 0);
  settings.share_schedule = "constant";
  settings.feature_share = 0.3;
  EXPECT_EQ(share_at(settings, 9, 10), 0.3);
  settings.share_schedule = "cosine";
  settings.feature_share = -1;
  EXPECT_EQ(share_at(settings, 9, 10), -1);
}

TEST(Batches, HaveTheirShareOfEveryPartAndClass) {
  std::vector<Part> parts;
  std::vector<Index> groups;
  for (Index row = 0; row < 103; ++row) {
    parts.push_back(row % 10 == 0 ? Part::test : row % 10 == 1 ? Part::validation : Part::train);
    groups.push_back(row % 10 == 2 ? 1 : 0);
  }
  Stream stream(1, "batches");
  const auto batches = batches_of(counted(103), parts, groups, 30, stream);
  ASSERT_EQ(batches.size(), 4U);
  std::set<Index> all;
  for (const auto& batch : batches) {
    EXPECT_TRUE(batch.size() == 25 || batch.size() == 26);
    all.insert(batch.begin(), batch.end());
    Index tests = 0, rare = 0;
    for (const Index row : batch) {
      tests += parts[static_cast<std::size_t>(row)] == Part::test ? 1 : 0;
      rare += groups[static_cast<std::size_t>(row)];
    }
    EXPECT_TRUE(tests == 2 || tests == 3) << tests;
    EXPECT_TRUE(rare == 2 || rare == 3) << rare;
  }
  EXPECT_EQ(all.size(), 103U);
  EXPECT_EQ(batches_of(counted(5), parts, {}, 100, stream), (std::vector<std::vector<Index>>{counted(5)}));
}

}  // namespace
}  // namespace saddle::train::tabular

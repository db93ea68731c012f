#include "saddle/data/loader.hpp"

#include <map>
#include <numeric>
#include <set>

#include "saddle/data/records.hpp"
#include "saddle/data/scratch_test.hpp"

namespace saddle::data {
namespace {

using testing::Each;
using testing::ElementsAre;

std::vector<Index> everything(const Dataset& data) {
  std::vector<Index> all(static_cast<std::size_t>(data.size()));
  std::iota(all.begin(), all.end(), Index{0});
  return all;
}

// Sample i has 1 + i % 7 steps of two channels with the values i and -i.
DatasetPtr series(Index count) {
  std::vector<Record> list;
  std::vector<float> values;
  for (Index i = 0; i < count; ++i) {
    list.push_back({0, 0, 1 + i % 7, i % 3});
    for (Index t = 0; t < list.back().length; ++t) {
      values.push_back(static_cast<float>(i));
      values.push_back(static_cast<float>(-i));
    }
  }
  return series_in_memory({.channels = 2}, std::move(values), list);
}

std::vector<std::vector<Index>> epoch(Loader& loader) {
  std::vector<std::vector<Index>> batches;
  Batch batch;
  while (loader.next(batch)) batches.push_back(batch.samples);
  return batches;
}

TEST(Loader, PadsSeriesWithZerosAndMasksThem) {
  const DatasetPtr data = series(5);
  Loader loader(data, {1, 4, 2}, {.batch = 2});
  EXPECT_EQ(loader.samples(), 3);
  EXPECT_EQ(loader.batches(), 2);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(batch.size, 2);
  EXPECT_EQ(batch.length, 5);  // of the longest of all data, though none of this batch has it
  EXPECT_THAT(batch.samples, ElementsAre(1, 4));
  EXPECT_THAT(batch.labels, ElementsAre(1, 1));
  EXPECT_THAT(batch.mask, ElementsAre(1, 1, 0, 0, 0, 1, 1, 1, 1, 1));
  EXPECT_EQ(batch.values, (std::vector<float>{1, -1, 1, -1, 0, 0, 0, 0, 0, 0, 4, -4, 4, -4, 4, -4, 4, -4, 4, -4}));
  ASSERT_TRUE(loader.next(batch));
  EXPECT_THAT(batch.samples, ElementsAre(2));
  EXPECT_FALSE(loader.next(batch));
  EXPECT_FALSE(loader.next(batch));
}

TEST(Loader, CutsAndPadsAsAsked) {
  const DatasetPtr data = series(5);
  Batch batch;
  Loader cut(data, everything(*data), {.batch = 5, .max_length = 2});
  ASSERT_TRUE(cut.next(batch));
  EXPECT_EQ(batch.length, 2);
  EXPECT_THAT(batch.mask, ElementsAre(1, 0, 1, 1, 1, 1, 1, 1, 1, 1));
  Loader longer(data, everything(*data), {.batch = 5, .max_length = 9});
  ASSERT_TRUE(longer.next(batch));
  EXPECT_EQ(batch.length, 9);
  Loader tight(data, {0, 1}, {.batch = 5, .max_length = 9, .pad_to_max = false});
  ASSERT_TRUE(tight.next(batch));
  EXPECT_EQ(batch.length, 2);
  Loader both(data, {3, 4}, {.batch = 5, .max_length = 3, .pad_to_max = false});
  ASSERT_TRUE(both.next(batch));
  EXPECT_EQ(batch.length, 3);
}

TEST(Loader, ScalesBeforeItPads) {
  const DatasetPtr data = series(3);
  Scaling scaling;
  scaling.mean = {1, 0};
  scaling.deviation = {2, 1};
  Loader loader(data, {2, 0}, {.batch = 2}, scaling);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(batch.values, (std::vector<float>{0.5, -2, 0.5, -2, 0.5, -2, -0.5, 0, 0, 0, 0, 0}));
}

TEST(Loader, TheOrderDependsOnSeedAndEpochAlone) {
  const DatasetPtr data = series(100);
  const LoaderOptions options{.batch = 8, .shuffle = true, .seed = 5};
  Loader a(data, everything(*data), options), b(data, everything(*data), options);
  const auto first = epoch(a);
  EXPECT_EQ(first, epoch(b));
  a.start(1);
  const auto second = epoch(a);
  EXPECT_NE(first, second);
  b.start(3);
  Batch batch;
  ASSERT_TRUE(b.next(batch));
  b.start(1);
  EXPECT_EQ(epoch(b), second);
  LoaderOptions other = options;
  other.seed = 6;
  Loader c(data, everything(*data), other);
  EXPECT_NE(epoch(c), first);
  other = options;
  other.prefetch = false;
  Loader d(data, everything(*data), other);
  EXPECT_EQ(epoch(d), first);
}

TEST(Loader, GoesOnFromAnyBatch) {
  const DatasetPtr data = series(100);
  for (const bool by_length : {false, true}) {
    const LoaderOptions options{.batch = 8, .by_length = by_length, .shuffle = true};
    Loader whole(data, everything(*data), options), rest(data, everything(*data), options);
    whole.start(4);
    auto batches = epoch(whole);
    for (Index b = 0; b <= whole.batches(); ++b) {
      rest.start(4, b);
      EXPECT_EQ(epoch(rest), std::vector(batches.begin() + b, batches.end()));
    }
    EXPECT_THROW(rest.start(0, whole.batches() + 1), InvalidArgument);
    EXPECT_THROW(rest.start(-1), InvalidArgument);
  }
}

TEST(Loader, EverySampleIsSeenOnceHoweverTheyAreOrderedAndShared) {
  const DatasetPtr data = series(103);
  for (const bool shuffle : {false, true})
    for (const bool by_length : {false, true})
      for (const Index parts : {1, 2, 3, 16}) {
        std::multiset<Index> seen;
        std::map<Index, std::vector<Index>> global;  // by batch
        for (Index part = 0; part < parts; ++part) {
          Loader loader(data, everything(*data),
                        {.batch = 10, .by_length = by_length, .shuffle = shuffle, .part = part, .parts = parts});
          EXPECT_EQ(loader.batches(), 11);
          Batch batch;
          Index b = 0;
          for (; loader.next(batch); ++b) {
            seen.insert(batch.samples.begin(), batch.samples.end());
            EXPECT_EQ(static_cast<Index>(batch.samples.size()), batch.size);
            global[b].insert(global[b].end(), batch.samples.begin(), batch.samples.end());
          }
          EXPECT_EQ(b, 11);
        }
        const auto all = everything(*data);
        EXPECT_EQ(seen, std::multiset<Index>(all.begin(), all.end()));
        // The workers' shares, one behind the other, are the batches of one worker.
        Loader alone(data, all, {.batch = 10, .by_length = by_length, .shuffle = shuffle});
        const auto batches = epoch(alone);
        for (std::size_t b = 0; b < batches.size(); ++b) EXPECT_EQ(global[static_cast<Index>(b)], batches[b]);
      }
}

TEST(Loader, WorkersPadToTheSameLength) {
  const DatasetPtr data = series(14);
  for (Index part = 0; part < 2; ++part) {
    Loader loader(data, {0, 13, 7}, {.batch = 3, .pad_to_max = false, .part = part, .parts = 2});
    Batch batch;
    ASSERT_TRUE(loader.next(batch));
    EXPECT_EQ(batch.length, 7);
  }
}

TEST(Loader, BucketsCutPadding) {
  const DatasetPtr data = series(1000);
  const auto padding = [&](bool by_length) {
    Loader loader(data, everything(*data), {.batch = 10, .pad_to_max = false, .by_length = by_length, .shuffle = true});
    Index count = 0;
    Batch batch;
    while (loader.next(batch)) count += std::count(batch.mask.begin(), batch.mask.end(), 0);
    return count;
  };
  EXPECT_LT(padding(true) * 10, padding(false));
}

// Reads fine up to a sample.
class Failing final : public Dataset {
 public:
  explicit Failing(Index bad) : data_(series(20)), bad_(bad) {}
  const Description& description() const override { return data_->description(); }
  Index size() const override { return data_->size(); }
  Index label(Index i) const override { return data_->label(i); }
  Index length(Index i) const override { return data_->length(i); }
  void read(Index i, Sample& into) const override {
    if (i == bad_) throw DataError("f", 7, 0, "broken");
    data_->read(i, into);
  }

 private:
  DatasetPtr data_;
  Index bad_;
};

TEST(Loader, ErrorsOfTheThreadComeOutOfNext) {
  const auto data = std::make_shared<Failing>(9);
  for (const bool prefetch : {true, false}) {
    Loader loader(data, everything(*data), {.batch = 4, .prefetch = prefetch});
    Batch batch;
    EXPECT_TRUE(loader.next(batch));
    EXPECT_TRUE(loader.next(batch));
    EXPECT_THROW(loader.next(batch), DataError);
    EXPECT_THROW(loader.next(batch), DataError);
    loader.start(0);
    EXPECT_TRUE(loader.next(batch));
  }
}

TEST(Loader, MayGoAwayAtAnyMoment) {
  const DatasetPtr data = series(200);
  for (int taken = 0; taken < 30; ++taken) {
    Loader loader(data, everything(*data), {.batch = 2});
    Batch batch;
    for (int i = 0; i < taken; ++i) ASSERT_TRUE(loader.next(batch));
  }
}

TEST(Loader, ImagesTokensPairsAndEvents) {
  const auto with = [](Kind kind, Description description, const Decode& decode) {
    description.kind = kind;
    return records(std::move(description), contents_of("ab", "f"), {{0, 1, 3, 1}, {1, 1, 2, 0}}, decode);
  };
  Batch batch;
  {
    const DatasetPtr images = with(Kind::image, {.channels = 1, .rows = 1, .columns = 2},
                                   [](std::string_view bytes, const Record&, Sample& into) {
                                     into.values = {static_cast<float>(bytes[0] - 'a'), 0.5F};
                                   });
    Loader loader(images, {1, 0}, {.batch = 2});
    ASSERT_TRUE(loader.next(batch));
    EXPECT_THAT(batch.values, ElementsAre(1, 0.5F, 0, 0.5F));
    EXPECT_THAT(batch.labels, ElementsAre(0, 1));
    EXPECT_TRUE(batch.mask.empty());
  }
  const auto tokens_of = [](std::string_view bytes, const Record& record, Sample& into) {
    into.tokens.assign(static_cast<std::size_t>(record.length), bytes[0]);
    into.tokens[1] = 0;  // masked, wherever it stands
    into.second = {1, 2};
    into.times = {0.5, 1.5, 2.5};
    into.times.resize(into.tokens.size());
  };
  {
    Loader loader(with(Kind::tokens, {.vocabulary = 256}, tokens_of), {0, 1}, {.batch = 2});
    ASSERT_TRUE(loader.next(batch));
    EXPECT_THAT(batch.tokens, ElementsAre('a', 0, 'a', 'b', 0, 0));
    EXPECT_THAT(batch.mask, ElementsAre(1, 0, 1, 1, 0, 0));
    EXPECT_TRUE(batch.values.empty());
  }
  {
    Loader loader(with(Kind::pair, {.vocabulary = 256}, tokens_of), {0, 1}, {.batch = 2});
    ASSERT_TRUE(loader.next(batch));
    EXPECT_EQ(batch.second_length, 3);
    EXPECT_THAT(batch.second, ElementsAre(1, 2, 0, 1, 2, 0));
    EXPECT_THAT(batch.second_mask, ElementsAre(1, 1, 0, 1, 1, 0));
  }
  {
    Loader loader(with(Kind::events, {.vocabulary = 256}, tokens_of), {1, 0}, {.batch = 2, .max_length = 2});
    ASSERT_TRUE(loader.next(batch));
    EXPECT_THAT(batch.times, ElementsAre(0.5, 1.5, 0.5, 1.5));
    EXPECT_THAT(batch.tokens, ElementsAre('b', 0, 'a', 0));
  }
  {
    const DatasetPtr both = with(Kind::image_text, {.channels = 1, .rows = 1, .columns = 2, .vocabulary = 256},
                                 [&](std::string_view bytes, const Record& record, Sample& into) {
                                   tokens_of(bytes, record, into);
                                   into.values = {static_cast<float>(bytes[0] - 'a'), 0.5F};
                                 });
    Loader loader(both, {1, 0}, {.batch = 2});
    ASSERT_TRUE(loader.next(batch));
    EXPECT_THAT(batch.values, ElementsAre(1, 0.5F, 0, 0.5F));
    EXPECT_THAT(batch.tokens, ElementsAre('b', 0, 0, 'a', 0, 'a'));
    EXPECT_THAT(batch.mask, ElementsAre(1, 0, 0, 1, 0, 1));
    EXPECT_THAT(batch.labels, ElementsAre(0, 1));
  }
}

TEST(Loader, RefusesOptionsWithoutSense) {
  const DatasetPtr data = series(4);
  EXPECT_THROW(Loader(data, {0}, {.batch = 0}), InvalidArgument);
  EXPECT_THROW(Loader(data, {0}, {.max_length = -1}), InvalidArgument);
  EXPECT_THROW(Loader(data, {0}, {.part = 2, .parts = 2}), InvalidArgument);
  EXPECT_THROW(Loader(data, {0}, {.part = -1, .parts = 2}), InvalidArgument);
  EXPECT_THROW(Loader(data, {4}, {}), InvalidArgument);
  EXPECT_THROW(Loader(nullptr, {}, {}), InvalidArgument);
  Loader empty(data, {}, {});
  Batch batch;
  EXPECT_EQ(empty.batches(), 0);
  EXPECT_FALSE(empty.next(batch));
}

}  // namespace
}  // namespace saddle::data

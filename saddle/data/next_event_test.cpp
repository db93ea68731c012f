#include "saddle/data/next_event.hpp"

#include <set>

#include "saddle/data/events.hpp"
#include "saddle/data/scratch_test.hpp"

namespace saddle::data {
namespace {

using testing::ElementsAre;

DatasetPtr sequences(const std::string& types, const std::string& times) {
  return read_events(contents_of(types, "types"), contents_of(times, "times"), {.name = "e"}, {});
}

TEST(NextEvent, EveryEventButTheFirstIsASample) {
  const DatasetPtr data = next_events(sequences("4 1 2 3\n3\n2 2\n", "1 10 100 1000\n5\n7 8.5\n"), {0, 1, 2}, 2);
  const Description& about = data->description();
  EXPECT_EQ(data->size(), 4);
  EXPECT_EQ(about.kind, Kind::events);
  EXPECT_EQ(about.vocabulary, 5);
  EXPECT_THAT(about.classes, ElementsAre("1", "2", "3", "4"));
  EXPECT_EQ(about.min_length, 1);
  EXPECT_EQ(about.max_length, 2);
  EXPECT_EQ(about.usual_length, 2);
  const Sample first = sample_of(*data, 0), third = sample_of(*data, 2), last = sample_of(*data, 3);
  EXPECT_THAT(first.tokens, ElementsAre(4));
  EXPECT_THAT(first.times, ElementsAre(9));
  EXPECT_EQ(first.label, 0);
  EXPECT_THAT(third.tokens, ElementsAre(1, 2));
  EXPECT_THAT(third.times, ElementsAre(990, 900));
  EXPECT_EQ(third.label, 2);
  EXPECT_THAT(last.tokens, ElementsAre(2));
  EXPECT_THAT(last.times, ElementsAre(1.5));
  EXPECT_EQ(last.length, 1);
  for (Index i = 0; i < data->size(); ++i) {
    EXPECT_EQ(data->label(i), sample_of(*data, i).label) << i;
    EXPECT_EQ(data->length(i), sample_of(*data, i).length) << i;
  }
}

TEST(NextEvent, SequencesAreHeldOutAsAWhole) {
  std::string types, times;
  for (int i = 0; i < 20; ++i) {
    types += "1 2 3\n";
    times += std::to_string(i) + " " + std::to_string(i + 100) + " " + std::to_string(i + 300 + i) + "\n";
  }
  const Task all{"e", [=] { return sequences(types, times); }, nullptr, [=] { return sequences("1 2\n", "1 2\n"); }};
  const Task task = next_event_task(all, {.window = 9, .validation = 0.25, .seed = 3});
  const DatasetPtr train = task.train(), validation = task.validation(), test = task.test();
  EXPECT_EQ(train->size(), 30);
  EXPECT_EQ(validation->size(), 10);
  EXPECT_EQ(test->size(), 1);
  EXPECT_EQ(test->description().classes, train->description().classes);
  // The last gap tells the sequences apart.
  std::set<double> seen;
  for (Index i = 0; i < train->size(); ++i) seen.insert(sample_of(*train, i).times.back());
  for (Index i = 1; i < validation->size(); i += 2)
    EXPECT_EQ(seen.count(sample_of(*validation, i).times.back()), 0u) << i;
  EXPECT_FALSE(next_event_task(all, {}).validation);
  EXPECT_EQ(next_event_task(all, {}).train()->size(), 40);
}

TEST(NextEvent, WrongInputIsRefused) {
  const DatasetPtr data = sequences("1 2\n", "1 2\n");
  EXPECT_THROW(next_events(data, {0}, 0), InvalidArgument);
  expect_data_error(
      [&] {
        next_events(sequences("1\n1 3\n", "1\n1 2\n"), {0, 1}, 4, &data->description());
      },
      2, 0, "found the type 3, the training split has 1 to 2");
}

}  // namespace
}  // namespace saddle::data

#include "saddle/data/find.hpp"

#include <algorithm>

#include "places.hpp"
#include "saddle/data/scratch_test.hpp"

namespace saddle::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ts(const std::string& classes, int each) {
  std::string text = "@classLabel true " + classes + "\n@data\n";
  std::string labels = classes + " ";
  for (std::size_t at = 0; at < labels.size();) {
    const std::size_t end = labels.find(' ', at);
    for (int i = 0; i < each; ++i) text += std::to_string(i) + ",2:" + labels.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return text;
}

// What the error says, with its hint.
template <class E>
std::string refusal(const std::string& name, const Where& where) {
  try {
    const Task task = find_task(name, where);
    static_cast<void>(task.train());
    if (task.test) static_cast<void>(task.test());
  } catch (const E& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  ADD_FAILURE() << "accepted " << name;
  return {};
}

TEST(Find, ANameIsAFolderWithTrainingAndTestFile) {
  const Scratch scratch;
  scratch.write("Waves/Waves_TRAIN.ts", ts("b a", 5));
  scratch.write_packed("Waves/Waves_TEST.ts.gz", "@data\n1:b\n");
  Where where;
  where.folder = scratch.folder.string();
  for (const std::string& name :
       {std::string("Waves"), std::string("waves"), (scratch.folder / "Waves").string(),
        (scratch.folder / "Waves/Waves_TRAIN.ts").string(), std::string("Waves/Waves_TRAIN.ts")}) {
    const Task task = find_task(name, where);
    EXPECT_EQ(task.name, "Waves") << name;
    const DatasetPtr train = task.train();
    EXPECT_EQ(train->size(), 10);
    EXPECT_EQ(train->description().split, "train");
    EXPECT_FALSE(task.validation);
    ASSERT_TRUE(task.test);
    const DatasetPtr test = task.test();
    EXPECT_THAT(test->description().classes, ElementsAre("a", "b"));  // the training file's
    EXPECT_EQ(test->label(0), 1);
    EXPECT_EQ(test->description().name, "Waves");
  }
}

TEST(Find, TheTestSplitIsReadOnlyWhenAskedFor) {
  const Scratch scratch;
  scratch.write("X_TRAIN.ts", ts("a b", 3));
  scratch.write("X_TEST.ts", "no .ts file at all");
  const Task task = find_task((scratch.folder / "X_TRAIN.ts").string());
  EXPECT_EQ(task.train()->size(), 6);
  EXPECT_THROW(static_cast<void>(task.test()), DataError);
}

TEST(Find, TestLabelsAndChannelsMustBeTheTrainingFiles) {
  const Scratch scratch;
  scratch.write("X_TRAIN.ts", ts("a b", 3));
  scratch.write("X_TEST.ts", "@data\n1,2:a\n1,2:c\n");
  const Task task = find_task((scratch.folder / "X_TRAIN.ts").string());
  expect_data_error([&] { task.test(); }, 3, 5, "'c' is not one of the training file's: a, b");
}

TEST(Find, AFileAloneHoldsAPartOutForTheTest) {
  const Scratch scratch;
  const std::string file = scratch.write("mine.ts", ts("a b", 20));
  Where where;
  const Task task = find_task(file, where);
  EXPECT_EQ(task.name, "mine");
  const DatasetPtr train = task.train(), test = task.test();
  EXPECT_EQ(train->size(), 32);
  EXPECT_EQ(test->size(), 8);
  EXPECT_EQ(test->description().split, "test");
  EXPECT_THAT(train->description().notes, ElementsAre(HasSubstr("20 % of the samples")));
  Index b = 0;
  for (Index i = 0; i < test->size(); ++i) b += test->label(i);
  EXPECT_EQ(b, 4);
  expect_same(*test, *find_task(file, where).test());
  where.test_share = 0;
  EXPECT_FALSE(find_task(file, where).test);
  where.test = scratch.write("other.ts", "@data\n1:a\n");
  EXPECT_EQ(find_task(file, where).test()->size(), 1);
}

TEST(Find, TablesAndTheirTestFiles) {
  const Scratch scratch;
  const std::string file = scratch.write("train.csv", "x,colour,y\n1,red,a\n2,blue,b\n3,red,a\n");
  scratch.write("test.csv", "x,colour,y\n1,green,b\n");
  Where where;
  const Task task = find_task(file, where);
  EXPECT_EQ(task.name, scratch.folder.filename().string());
  EXPECT_EQ(task.train()->description().channels, 3);
  EXPECT_EQ(task.test()->description().channels, 3);
  where.target = "colour";
  EXPECT_THAT(find_task(file, where).train()->description().classes, ElementsAre("blue", "red"));
  where.series_id = "y";
  EXPECT_EQ(find_task(file, where).train()->size(), 2);
}

TEST(Find, EventsInAFolder) {
  const Scratch scratch;
  scratch.write("clicks/clicks_train_event.txt", "1 2 3\n2 1\n");
  scratch.write("clicks/clicks_train_time.txt", "0 1 1\n5 9.5\n");
  scratch.write("clicks/clicks_test_event.txt", "1 1\n");
  scratch.write_packed("clicks/clicks_test_time.txt.gz", "3 4\n");
  Where where;
  where.folder = scratch.folder.string();
  for (const std::string& name : {std::string("clicks"), (scratch.folder / "clicks/clicks_train_event.txt").string()}) {
    const Task task = find_task(name, where);
    EXPECT_EQ(task.name, "clicks");
    EXPECT_EQ(task.train()->size(), 2);
    EXPECT_EQ(task.train()->description().kind, Kind::events);
    EXPECT_EQ(task.train()->description().vocabulary, 4);
    ASSERT_TRUE(task.test);
    EXPECT_EQ(task.test()->length(0), 2);
  }
  scratch.write("alone_event.txt", "1 2\n2 1\n1 1\n2 2\n");
  scratch.write("alone_time.txt", "1 2\n2 3\n1 1\n2 2\n");
  const Task alone = find_task((scratch.folder / "alone_event.txt").string(), where);
  EXPECT_EQ(alone.train()->size() + alone.test()->size(), 4);
}

TEST(Find, SplitsOfTokens) {
  const Scratch scratch;
  scratch.write("ops/ops_train.tsv", "1\tm12]\n2\t2\n");
  scratch.write("ops/ops_val.tsv", "2\tM12]\n");
  scratch.write("ops/ops_test.tsv", "1\t1\n");
  const Task task = find_task((scratch.folder / "ops").string());
  EXPECT_EQ(task.train()->description().kind, Kind::tokens);
  EXPECT_EQ(task.validation()->label(0), 2);
  EXPECT_EQ(task.test()->label(0), 1);
  Where where;
  where.format = "bytes";
  EXPECT_EQ(find_task((scratch.folder / "ops").string(), where).train()->description().vocabulary, 257);
  where.format = "xml";
  EXPECT_THAT(refusal<InvalidArgument>((scratch.folder / "ops").string(), where), HasSubstr("no format 'xml'"));
}

TEST(Find, SaysWhatIsNotThereAndWhatIsNear) {
  const Scratch scratch;
  scratch.write("Waves/Waves_TRAIN.ts", ts("a b", 3));
  scratch.write("two/p.ts", ts("a b", 3));
  scratch.write("two/q.ts", ts("a b", 3));
  scratch.write("none/readme.txt", "");
  Where where;
  where.folder = scratch.folder.string();
  EXPECT_THAT(
      refusal<InvalidArgument>("Wavse", where),
      testing::AllOf(HasSubstr("no data set 'Wavse'"), HasSubstr(where.folder), HasSubstr("did you mean 'Waves'?")));
  EXPECT_THAT(refusal<InvalidArgument>("", where), HasSubstr("no data set was named"));
  EXPECT_THAT(refusal<InvalidArgument>("two", where), HasSubstr("several data files: p.ts, q.ts"));
  EXPECT_THAT(refusal<InvalidArgument>("none", where), HasSubstr("holds no data file"));
  scratch.write("run/metrics.jsonl", "");
  scratch.write("run/checkpoints/best.safetensors", "");
  scratch.write("run/predictions.csv", "a,b\n1,2\n");
  EXPECT_THAT(refusal<InvalidArgument>("run", where), HasSubstr("is the folder of a run"));
  scratch.write("ships/data.txt", "1 2\n3 4\n");
  scratch.write("ships/test_splits.txt", "0\n");
  EXPECT_THAT(refusal<InvalidArgument>("ships", where), HasSubstr("a table with fixed splits"));
  EXPECT_THAT(refusal<InvalidArgument>((scratch.folder / "two/r.ts").string(), where), HasSubstr("did you mean"));
  EXPECT_THAT(refusal<InvalidArgument>((scratch.folder / "none/readme.txt").string(), where),
              HasSubstr("cannot tell what"));
  where.folder = (scratch.folder / "gone").string();
  EXPECT_THAT(refusal<InvalidArgument>("Waves", where), HasSubstr("does not exist"));
}

TEST(Find, GeneratedTasks) {
  const Task task = find_task("listops(min=5,max=30,train=20,test=5)");
  EXPECT_EQ(task.train()->size(), 20);
  EXPECT_EQ(task.test()->size(), 5);
  EXPECT_THROW(find_task("listops(most=3)"), InvalidArgument);
}

TEST(Find, ListsWhatItFinds) {
  const Scratch scratch;
  scratch.write("Waves/Waves_TRAIN.ts", ts("a b", 3));
  scratch.write("flowers/flowers.csv", "x,y\n1,a\n");
  scratch.write("ships/data.txt", "1 2\n3 4\n");
  scratch.write("ships/test_splits.txt", "0\n");
  Where where;
  where.folder = scratch.folder.string();
  const std::vector<Entry> entries = list_tasks(where);
  EXPECT_TRUE(
      std::is_sorted(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; }));
  const auto entry = [&](const std::string& name) {
    const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.name == name; });
    return found == entries.end() ? Entry{"", "", Kind::series, false, ""} : *found;
  };
  EXPECT_TRUE(entry("Waves").found);
  EXPECT_EQ(entry("Waves").place, (scratch.folder / "Waves").string());
  EXPECT_EQ(entry("flowers").summary, "table");
  EXPECT_EQ(entry("ships").summary, "table with fixed splits, for npt");
  EXPECT_EQ(entry("multiscale").place, "generated");
  EXPECT_EQ(entry("lra-retrieval").kind, Kind::pair);
}

TEST(OpenSamples, AreReadLikeTheTrainingData) {
  const Scratch scratch;
  const std::string train = scratch.write("t.ts", ts("a b", 3));
  const Description like = find_task(train).train()->description();
  const DatasetPtr samples = open_samples(scratch.write("new.ts", "@classLabel false\n@data\n5,6,7\n"), like);
  EXPECT_EQ(samples->label(0), -1);
  EXPECT_THAT(samples->description().classes, ElementsAre("a", "b"));
  expect_data_error([&] { open_samples(scratch.write("wide.ts", "@classLabel false\n@data\n5:6\n"), like); }, 3, 1,
                    "found 2 channels, the training file has 1");
  Description two = like;
  two.channels = 2;
  expect_data_error([&] { open_samples(scratch.write("table.csv", "x,y\n1,a\n2,b\n"), two); }, 0, 0,
                    "expected series of 2 channels");
}

// The published data, where they are.
class PublishedData : public testing::Test {
 protected:
  void SetUp() override {
    const char* variable = std::getenv("SADDLE_DATA");
    where.folder = variable != nullptr ? variable : SADDLE_SOURCE_DIR "/../shared/data";
    if (!std::filesystem::is_directory(where.folder)) GTEST_SKIP() << "no data in " << where.folder;
  }
  Where where;
};

TEST_F(PublishedData, HasTheSizesThatItsPagesName) {
  struct Expected {
    const char* name;
    Index train, test, channels, shortest, longest;
    std::size_t classes;
  };
  const Expected all[] = {{"JapaneseVowels", 270, 370, 12, 7, 26, 9},
                          {"BasicMotions", 40, 40, 6, 100, 100, 4},
                          {"Epilepsy", 137, 138, 3, 206, 206, 4},
                          {"ERing", 30, 270, 4, 65, 65, 6},
                          {"Handwriting", 150, 850, 3, 152, 152, 26},
                          {"UWaveGestureLibrary", 120, 320, 3, 315, 315, 8},
                          {"ArrowHead", 36, 175, 1, 251, 251, 3},
                          {"GunPoint", 50, 150, 1, 150, 150, 2},
                          {"ItalyPowerDemand", 67, 1029, 1, 24, 24, 2},
                          {"OSULeaf", 200, 242, 1, 427, 427, 6},
                          {"ACSF1", 100, 100, 1, 1460, 1460, 10},
                          {"PLAID", 537, 537, 1, 100, 1344, 11},
                          {"listops", 10000, 2000, 0, 501, 1998, 10},
                          {"pathfinder32", 6000, 2000, 1, 1024, 1024, 2},
                          {"imdb", 25000, 25000, 0, 52, 13704, 2},
                          {"digits8x8", 1197, 600, 1, 64, 64, 10},
                          {"mnist", 60000, 10000, 1, 784, 784, 10},
                          {"adult", 32561, 16281, 101, 14, 14, 2},
                          {"stackoverflow-badges", 3142, 1326, 0, 41, 720, 0}};
  for (const Expected& expected : all) {
    if (!std::filesystem::is_directory(std::filesystem::path(where.folder) / expected.name)) continue;
    const Task task = find_task(expected.name, where);
    const DatasetPtr train = task.train();
    const Description& about = train->description();
    EXPECT_EQ(train->size(), expected.train) << expected.name;
    EXPECT_EQ(task.test()->size(), expected.test) << expected.name;
    EXPECT_EQ(about.channels, expected.channels) << expected.name;
    EXPECT_EQ(about.min_length, expected.shortest) << expected.name;
    EXPECT_EQ(about.max_length, expected.longest) << expected.name;
    EXPECT_EQ(about.classes.size(), expected.classes) << expected.name;
  }
}

TEST_F(PublishedData, StreamedItIsTheSame) {
  for (const char* name : {"JapaneseVowels", "breast-cancer-wdbc", "listops"}) {
    if (!std::filesystem::is_directory(std::filesystem::path(where.folder) / name)) continue;
    Where streamed = where;
    streamed.stream_above = 0;
    expect_same(*find_task(name, where).test(), *find_task(name, streamed).test());
  }
}

}  // namespace
}  // namespace saddle::data

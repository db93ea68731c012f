#include "saddle/data/whole_table.hpp"

#include <algorithm>
#include <cmath>

#include "saddle/data/find_table.hpp"
#include "saddle/data/scratch_test.hpp"

namespace saddle::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

WholeTable read(const std::string& text, const WholeTableOptions& options = {}) {
  return read_whole_table(contents_of(text, "t.csv"), "t", options);
}

template <class Exception, class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const Exception& error) {
    return error.what();
  }
  return "nothing of the expected type was thrown";
}

TEST(WholeTable, HasTypesMissingValuesAndTheTargetLast) {
  WholeTableOptions options;
  options.table.target = "price";
  options.table.leave_out = {"id"};
  const WholeTable table = read("id,price,colour,size\n7,1.5,red,3\n8,?,blue,\n9,2.25,NA,5\n", options);
  EXPECT_EQ(table.rows, 3);
  EXPECT_THAT(table.columns, ElementsAre(Column{"colour", {"blue", "red"}}, Column{"size", {}}, Column{"price", {}}));
  EXPECT_EQ(table.at(0, 0), 1);
  EXPECT_EQ(table.at(1, 0), 0);
  EXPECT_TRUE(table.missing(2, 0) && table.missing(1, 1) && table.missing(1, 2));
  EXPECT_EQ(table.at(2, 2), 2.25);
  EXPECT_THAT(table.notes, ElementsAre("2 values of its features are missing"));
}

TEST(WholeTable, TargetsAreClassesOrNumbers) {
  EXPECT_THAT(read("x,y\n1,0\n2,1\n3,0\n").target().categories, ElementsAre("0", "1"));
  EXPECT_TRUE(read("x,y\n1,0.5\n2,1\n").target().categories.empty());
  std::string many = "x,y\n";
  for (int i = 0; i < 11; ++i) many += "1," + std::to_string(i) + "\n";
  EXPECT_TRUE(read(many).target().categories.empty());
  WholeTableOptions options;
  options.target = Target::numbers;
  EXPECT_TRUE(read("x,y\n1,0\n2,1\n", options).target().categories.empty());
  EXPECT_THAT(message_of<DataError>([&] { read("x,y\n1,a\n2,b\n", options); }), HasSubstr("no numbers"));
  options.target = Target::classes;
  options.categories = {"x"};
  const WholeTable named = read("x,y\n1,0.5\n2,1\n", options);
  EXPECT_THAT(named.columns, ElementsAre(Column{"x", {"1", "2"}}, Column{"y", {"0.5", "1"}}));
}

// 1 and 1.0 are one class, in whichever file.
TEST(WholeTable, EqualNumbersAreOneClass) {
  WholeTableOptions options;
  options.categories = {"c"};
  const WholeTable train = read("c,y\n7,1\n8,2.0\n7.0,1.0\n8,+1\n", options);
  EXPECT_THAT(train.columns, ElementsAre(Column{"c", {"7", "8"}}, Column{"y", {"1", "2.0"}}));
  EXPECT_EQ(train.at(2, 0), 0);
  EXPECT_EQ(train.at(2, 1), 0);
  EXPECT_EQ(train.at(3, 1), 0);
  const WholeTable rows = read_whole_table_like(contents_of("c,y\n8.00,2\n", "new.csv"), "new", train.columns, {});
  EXPECT_EQ(rows.at(0, 0), 1);
  EXPECT_EQ(rows.at(0, 1), 1);
  EXPECT_TRUE(rows.notes.empty());
  // Ten classes are ten, however they are written.
  std::string many = "x,y\n";
  for (int i = 0; i < 10; ++i) many += "1," + std::to_string(i) + "\n2," + std::to_string(i) + ".0\n";
  EXPECT_EQ(read(many).target().categories.size(), 10U);
}

TEST(WholeTable, AnotherFileHasItsColumnsInAnyOrder) {
  const WholeTable train = read("x,c,y\n1,a,2.5\n3,b,4.5\n");
  const WholeTable rows =
      read_whole_table_like(contents_of("c,more,x\nb,9,5\nz,9,?\n", "new.csv"), "new", train.columns, {});
  EXPECT_EQ(rows.rows, 2);
  EXPECT_EQ(rows.at(0, 0), 5);
  EXPECT_EQ(rows.at(0, 1), 1);
  EXPECT_TRUE(rows.missing(0, 2) && rows.missing(1, 0) && rows.missing(1, 1));
  EXPECT_THAT(rows.notes, testing::Contains(HasSubstr("1 value is of no category of the training rows and counts as "
                                                      "missing: 'z' in column 'c'")));
  EXPECT_EQ(joined(train, rows).rows, 4);
  EXPECT_THAT(message_of<DataError>(
                  [&] { read_whole_table_like(contents_of("c,y\nb,1\n", "new.csv"), "new", train.columns, {}); }),
              HasSubstr("the column 'x' of the training rows is missing"));
  EXPECT_THAT(message_of<DataError>(
                  [&] { read_whole_table_like(contents_of("c,x\nb,tall\n", "new.csv"), "new", train.columns, {}); }),
              HasSubstr("column 'x': expected a number as in the training rows, found 'tall'"));
}

TEST(WholeTable, UnknownClassesAreNotMissing) {
  const WholeTable train = read("x,c,y\n1,a,no\n3,b,yes\n");
  const WholeTable rows =
      read_whole_table_like(contents_of("x,c,y\n1,z,maybe\n2,a,\n3,b,yes\n", "new.csv"), "new", train.columns, {});
  EXPECT_EQ(rows.at(0, 2), unknown_class);
  EXPECT_TRUE(rows.missing(0, 1) && !rows.missing(0, 2) && rows.missing(1, 2));
  EXPECT_EQ(rows.at(2, 2), 1);
  EXPECT_THAT(rows.notes, testing::Contains(HasSubstr("counts as missing: 'z' in column 'c'")));
  EXPECT_THAT(rows.notes, testing::Contains(HasSubstr("counts as missed: 'maybe' in column 'y'")));
}

TEST(WholeTable, RefusesWhatMakesNoTable) {
  WholeTableOptions options;
  options.table.target = "z";
  EXPECT_THAT(message_of<InvalidArgument>([&] { read("x,y\n1,2\n", options); }), HasSubstr("'z'"));
  options.table.target = "";
  options.categories = {"q"};
  EXPECT_THAT(message_of<InvalidArgument>([&] { read("x,y\n1,2\n", options); }), HasSubstr("'q'"));
  EXPECT_THAT(message_of<DataError>([] { read("x,w,y\n1,?,2\n2,,3\n"); }), HasSubstr("column 'w' has no value"));
  EXPECT_THAT(message_of<DataError>([] { read("x,y\n1,\n2,?\n"); }), HasSubstr("column 'y' has no value"));
  EXPECT_THAT(message_of<DataError>([] { read("x,y\n"); }), HasSubstr("a header but no records"));
  EXPECT_THAT(message_of<DataError>([] { read("x\n1\n"); }), HasSubstr("one column"));
  EXPECT_THAT(message_of<DataError>([] { read("x,y\n1,2,3\n"); }), HasSubstr("3"));
  std::string words = "x,y\n";
  for (int i = 0; i < 300; ++i) words += "name" + std::to_string(i) + ",1.5\n";
  EXPECT_THAT(message_of<DataError>([&] { read(words); }), HasSubstr("too many for categories"));
}

// Numbers beyond the range of float are numbers all the same, and no categories.
TEST(WholeTable, NumbersThatAreTooLargeAreNoNames) {
  std::string large = "x,y\n", one = large;
  for (int i = 0; i < 30; ++i) {
    large += std::to_string(i + 1) + "e39,0.5\n";
    one += (i == 20 ? "1e39" : std::to_string(i)) + ",0.5\n";
  }
  EXPECT_THAT(message_of<DataError>([&] { read(large); }),
              HasSubstr("t.csv:2:1: column 'x' has values too large for their squares: found '1e39'"));
  EXPECT_THAT(message_of<DataError>([&] { read(one); }), HasSubstr("t.csv:22:1: column 'x' has values too large"));
  EXPECT_THAT(message_of<DataError>([] { read("x,y\n1,2e50\n2,1.5\n"); }),
              HasSubstr("column 'y' has values too large"));
  EXPECT_THAT(message_of<DataError>([] { read("x,y\ninf,2\n2,1.5\n"); }), HasSubstr("found 'inf'"));
  // Beside words they are words, and so they are in columns that are named.
  EXPECT_EQ(read("x,y\n1e39,2\nb,1.5\n").columns[0].categories.size(), 2U);
  WholeTableOptions options;
  options.categories = {"x"};
  EXPECT_EQ(read(large, options).columns[0].categories.size(), 30U);
  const WholeTable train = read("x,y\n1,2.5\n3,4.5\n");
  EXPECT_THAT(message_of<DataError>(
                  [&] { read_whole_table_like(contents_of("x\n-1e40\n", "new.csv"), "new", train.columns, {}); }),
              HasSubstr("new.csv:2:1: column 'x' has values too large"));
}

class FindTable : public testing::Test, protected Scratch {
 protected:
  std::string path(const std::string& name) const { return (folder / name).string(); }
};

TEST_F(FindTable, ReadsFixedSplits) {
  write("set/data.txt", " 1  2.5 3\n4 5 6\t\n7 8 9\n\n");
  write("set/test_splits.txt", "0\n2 1\n");
  const TableTask task = find_table(path("set"), {}, {.split = 1});
  EXPECT_EQ(task.table.rows, 3);
  EXPECT_THAT(task.table.columns, ElementsAre(Column{"x1", {}}, Column{"x2", {}}, Column{"y", {}}));
  EXPECT_EQ(task.table.at(0, 1), 2.5);
  EXPECT_THAT(task.test, ElementsAre(1, 2));
  EXPECT_THAT(task.train, ElementsAre(0));
  EXPECT_TRUE(has_fixed_splits(path("set"), {}));
  EXPECT_THAT(message_of<InvalidArgument>([&] { find_table(path("set"), {}, {.split = 2}); }), HasSubstr("has 2"));
  EXPECT_EQ(find_table(path("set"), {}, {.categories = {"x1"}}).table.columns[0].categories.size(), 3U);
  write("set/test_splits.txt", "2 1 2\n");
  EXPECT_THAT(message_of<DataError>([&] { find_table(path("set"), {}, {}); }),
              HasSubstr(":1:5: row 2 stands here twice"));
  write("set/test_splits.txt", "0 3\n");
  EXPECT_THAT(message_of<DataError>([&] { find_table(path("set"), {}, {}); }), HasSubstr("from 0 to 2"));
  write("set/data.txt", "1 2 3\n4 5\n");
  EXPECT_THROW(find_table(path("set"), {}, {}), DataError);
}

TEST_F(FindTable, TakesTheTestFileOrHoldsRowsOut) {
  std::string text = "x,y\n";
  for (int i = 0; i < 40; ++i) text += std::to_string(i) + (i % 4 == 0 ? ",a\n" : ",b\n");
  write("t_train.csv", text + "99,\n");
  TableTask task = find_table(path("t_train.csv"), {}, {});
  EXPECT_EQ(task.test.size(), 8U);
  EXPECT_EQ(task.train.size(), 33U);  // with the row that has no target
  int first = 0;
  for (const Index row : task.test) first += task.table.at(row, 1) == 0 ? 1 : 0;
  EXPECT_EQ(first, 2);
  EXPECT_EQ(find_table(path("t_train.csv"), {}, {}).test, task.test);
  write("t_test.csv", "y,x\nb,1\n,2\n");
  task = find_table(path("t_train.csv"), {}, {});
  EXPECT_THAT(task.test, ElementsAre(41, 42));
  EXPECT_EQ(task.table.at(41, 1), 1);
  EXPECT_TRUE(task.table.missing(42, 1));
  EXPECT_THAT(message_of<InvalidArgument>([&] { find_table(path("t_train.csv"), {}, {.split = 1}); }),
              HasSubstr("test rows stand in t_test.csv"));
}

TEST_F(FindTable, EveryPartIsHeldOutInTurn) {
  std::string text = "x,y\n";
  for (int i = 0; i < 43; ++i) text += std::to_string(i) + (i % 4 == 0 ? ",a\n" : ",b\n");
  write("t.csv", text);
  Where where;
  where.test_share = 0.1;
  std::vector<Index> all;
  for (Index split = 0; split < 10; ++split) {
    const TableTask task = find_table(path("t.csv"), where, {.split = split});
    EXPECT_TRUE(task.test.size() >= 4 && task.test.size() <= 5) << task.test.size();
    EXPECT_EQ(task.train.size() + task.test.size(), 43U);
    int first = 0;
    for (const Index row : task.test) first += row % 4 == 0 ? 1 : 0;
    EXPECT_TRUE(first == 1 || first == 2) << first;
    all.insert(all.end(), task.test.begin(), task.test.end());
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), 43U);
  for (Index row = 0; row < 43; ++row) EXPECT_EQ(all[static_cast<std::size_t>(row)], row);
  EXPECT_THAT(message_of<InvalidArgument>([&] { find_table(path("t.csv"), where, {.split = 10}); }),
              HasSubstr("split 10 was asked, test_share 0.1 cuts t into 10"));
}

TEST_F(FindTable, SaysWhatIsNoTable) {
  EXPECT_THROW(find_table("", {}, {}), InvalidArgument);
  EXPECT_THROW(find_table(path("nothing.csv"), {}, {}), InvalidArgument);
  EXPECT_THAT(message_of<InvalidArgument>([] { find_table("copy_task_of_nobody", {}, {}); }), HasSubstr("no data set"));
}

}  // namespace
}  // namespace saddle::data

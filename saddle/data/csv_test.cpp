#include "saddle/data/csv.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saddle/base/error.hpp"

namespace saddle::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Csv, ReadsQuotedFieldsAndBothLineEnds) {
  const CsvTable table = parse_csv("\xef\xbb\xbf a ,\"b, \"\"c\"\"\"\r\n1,\"2\"\n\"3\",4", "t");
  EXPECT_THAT(table.header, ElementsAre("a", "b, \"c\""));
  const Matrix values = table.numbers({1, 0});
  EXPECT_EQ(values.shape(), (std::array<Index, 2>{2, 2}));
  EXPECT_EQ(values(0, 0), 2);
  EXPECT_EQ(values(1, 1), 3);
}

TEST(Csv, ColumnsByNameThenByNumber) {
  const CsvTable table = parse_csv("2,x\n7,8\n", "t");
  EXPECT_EQ(table.column("2"), 0u);  // a name wins over a position
  EXPECT_EQ(table.column("x"), 1u);
  EXPECT_EQ(table.column("1"), 0u);
  EXPECT_THROW(static_cast<void>(table.column("3")), InvalidArgument);
  EXPECT_THROW(static_cast<void>(table.column("1.5")), InvalidArgument);
}

TEST(Csv, AnEmptyLineAtTheEndIsNoRecord) { EXPECT_EQ(parse_csv("x\n1\n\n", "t").rows.size(), 1u); }

TEST(Csv, ErrorsNameTheirPlace) {
  const auto fails = [](const char* text, long line, long column, const char* message) {
    try {
      const CsvTable table = parse_csv(text, "t.csv");
      static_cast<void>(table.numbers({0, 1}));
      ADD_FAILURE() << "accepted " << text;
    } catch (const DataError& error) {
      EXPECT_EQ(error.line(), line) << text;
      EXPECT_EQ(error.column(), column) << text;
      EXPECT_THAT(error.what(), HasSubstr(message)) << text;
    }
  };
  fails("", 0, 0, "empty");
  fails("x,y\n", 0, 0, "no records");
  fails("x,\n1,2\n", 1, 3, "column 2 has no name");
  fails("x,y\n1,2,3\n", 2, 1, "found 3 fields, the header has 2");
  fails("x,y\n\n1,2\n", 2, 1, "found 1 fields");
  fails("x,y\n1,2a\n", 2, 3, "found '2a'");
  fails("x,y\n1,\n", 2, 3, "found ''");
  fails("x,y\n1,inf\n", 2, 3, "found 'inf'");
  fails("x,y\n1,2\"\n", 2, 4, "a quote inside a field");
  fails("x,y\n\"1\"2,3\n", 2, 4, "after a closing quote");
  fails("x,y\n1,\"2\n", 2, 3, "not closed");
  fails("x,y\n\"1\n\",q\n", 2, 1, "found '1\n'");
  fails("x,y\n\"1\",\"\n\",\n", 2, 1, "found 3 fields");
  fails("x,y\r1,2\r", 1, 4, "control character 0x0d");
}

TEST(Csv, FieldsAreQuotedWhereNeeded) {
  EXPECT_EQ(csv_field("plain"), "plain");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("a\"b"), "\"a\"\"b\"");
}

}  // namespace
}  // namespace saddle::data

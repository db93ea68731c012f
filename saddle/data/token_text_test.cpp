#include "saddle/data/token_text.hpp"

#include "saddle/data/scratch_test.hpp"

namespace saddle::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

DatasetPtr read(const std::string& text, TextForm form, TextOptions options = {}) {
  options.form = form;
  return read_token_text(contents_of(text, "t.tsv"), {}, options);
}

TEST(TokenText, ListOpsOneCharacterPerToken) {
  const DatasetPtr data = read("9\tM29m47]0]\n2\td312]\r\n", TextForm::listops);
  EXPECT_EQ(data->description().kind, Kind::tokens);
  EXPECT_EQ(data->description().vocabulary, 16);
  EXPECT_EQ(data->description().token_names[12], "[MAX");
  EXPECT_EQ(data->description().classes.size(), 10u);
  EXPECT_THAT(sample_of(*data, 0).tokens, ElementsAre(12, 3, 10, 11, 5, 8, 15, 1, 15));
  EXPECT_EQ(sample_of(*data, 0).length, 9);
  EXPECT_EQ(data->length(1), 5);
  EXPECT_EQ(data->label(1), 2);
}

TEST(TokenText, ListOpsAsItsMakersWriteIt) {
  const DatasetPtr data =
      read("Source\tTarget\n( ( ( ( [MAX 2 ) 9 ) ( ( ( [MIN 4 ) 7 ) ] ) ) ] )\t9\n5\t5\n", TextForm::reference);
  const DatasetPtr same = read("9\tM29m47]]\n5\t5\n", TextForm::listops);
  ASSERT_EQ(data->size(), 2);
  for (Index i = 0; i < 2; ++i) EXPECT_EQ(sample_of(*data, i).tokens, sample_of(*same, i).tokens);
  EXPECT_EQ(data->label(0), 9);
}

TEST(TokenText, BytesAreShiftedByOne) {
  TextOptions options;
  options.skip = 1;
  const DatasetPtr data = read("neg\t1\tAb\tc\xff\npos\t10\t!\n", TextForm::bytes, options);
  EXPECT_EQ(data->description().vocabulary, 257);
  EXPECT_THAT(sample_of(*data, 0).tokens, ElementsAre('A' + 1, 'b' + 1, '\t' + 1, 'c' + 1, 256));
  EXPECT_EQ(data->length(0), 5);
  EXPECT_EQ(data->label(1), 1);
  EXPECT_EQ(byte_names()[66], "A");
  EXPECT_EQ(byte_names()[256], "\\xff");
}

TEST(TokenText, Pairs) {
  const DatasetPtr data = read("1.0\tab\tcde\n0.0\tid1\tid2\tx\ty\n", TextForm::pairs);
  EXPECT_EQ(data->description().kind, Kind::pair);
  EXPECT_EQ(data->length(0), 3);
  const Sample sample = sample_of(*data, 0);
  EXPECT_THAT(sample.tokens, ElementsAre('a' + 1, 'b' + 1));
  EXPECT_THAT(sample.second, ElementsAre('c' + 1, 'd' + 1, 'e' + 1));
  EXPECT_EQ(sample.length, 2);
  EXPECT_THAT(sample_of(*data, 1).second, ElementsAre('y' + 1));
}

TEST(TokenText, ListsOfIdsWithAndWithoutNames) {
  const DatasetPtr data =
      read("# saddle tokens 4\n# names\t<pad>\ta\tb c\td\n# classes\tx\tw\ty\nx\t1 2 3\ny\t3\n", TextForm::tokens);
  EXPECT_THAT(data->description().classes, ElementsAre("w", "x", "y"));
  EXPECT_EQ(data->description().vocabulary, 4);
  EXPECT_THAT(data->description().token_names, ElementsAre("<pad>", "a", "b c", "d"));
  EXPECT_THAT(sample_of(*data, 0).tokens, ElementsAre(1, 2, 3));
  EXPECT_TRUE(read("# saddle tokens 4\nx\t1\n", TextForm::tokens)->description().token_names.empty());
}

TEST(TokenText, TheFirstLineTellsTheForm) {
  EXPECT_EQ(text_form_of("# saddle tokens 5"), TextForm::tokens);
  EXPECT_EQ(text_form_of("Source\tTarget"), TextForm::reference);
  EXPECT_EQ(text_form_of("3\tm12]"), TextForm::listops);
  EXPECT_EQ(text_form_of("3\tm12x"), std::nullopt);
  EXPECT_EQ(text_form_of("a\tb"), std::nullopt);
  EXPECT_EQ(text_form_of(""), std::nullopt);
}

TEST(TokenText, ErrorsNameTheirPlace) {
  const auto fails = [](const std::string& text, TextForm form, long line, long column, const std::string& message) {
    expect_data_error([&] { read(text, form); }, line, column, message);
  };
  fails("", TextForm::bytes, 0, 0, "no samples");
  fails("1\tm1]\n1\tm1x]\n", TextForm::listops, 2, 5, "'x', which is no token");
  fails("1 m1]\n", TextForm::listops, 1, 1, "expected a label and a text, found 1 fields");
  fails("1\t\n", TextForm::listops, 1, 3, "the text is empty");
  fails("\tm1]\n", TextForm::listops, 1, 1, "no class label");
  fails("Source\tTarget\n( [MAX 2 ) 12 ]\t9\n", TextForm::reference, 2, 12, "'12', which is no token");
  fails("Source\tTarget\n[MAX 2 ]\n", TextForm::reference, 2, 1, "found 1 fields");
  fails("1\ta\n", TextForm::pairs, 1, 1, "expected a label and two documents, found 2 fields");
  fails("1\ta\tb\tc\n", TextForm::pairs, 1, 1, "found 4 fields");
  fails("1\ta\t\n", TextForm::pairs, 1, 5, "the text is empty");
  fails("1\t2\n", TextForm::tokens, 1, 1, "expected '# saddle tokens'");
  fails("# saddle tokens x\n", TextForm::tokens, 1, 1, "the size of the vocabulary");
  fails("# saddle tokens 3\n# names\ta\tb\n", TextForm::tokens, 2, 1, "the names of 2 tokens, the vocabulary has 3");
  fails("# saddle tokens 3\nx\t1 3\n", TextForm::tokens, 2, 5, "expected an id from 0 to 2, found '3'");
  fails("# saddle tokens 3\nx\t1 -1\n", TextForm::tokens, 2, 5, "found '-1'");
  TextOptions options;
  options.classes = std::vector<std::string>{"0", "1"};
  expect_data_error([&] { read("2\tm1]\n", TextForm::listops, options); }, 1, 1, "'2' is not one of 0, 1");
}

TEST(TokenText, FromTheDiskItIsTheSameAsInMemory) {
  const Scratch scratch;
  std::string text;
  for (int i = 0; i < 300; ++i)
    text += (i % 2 == 0 ? "a\t" : "b\t") + std::string(static_cast<std::size_t>(1 + i), 'x') + "\n";
  TextOptions options;
  const ContentsPtr disk = read_contents(scratch.write_packed("t.tsv.gz", text), 0);
  ASSERT_TRUE(disk->on_disk());
  expect_same(*read(text, TextForm::bytes), *read_token_text(disk, {}, options));
}

}  // namespace
}  // namespace saddle::data

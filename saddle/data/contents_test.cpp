#include "saddle/data/contents.hpp"

#include <fmt/format.h>

#include "saddle/data/scratch_test.hpp"

namespace saddle::data {
namespace {

using testing::HasSubstr;

constexpr Index all_in_memory = Index{1} << 30;

std::string long_text() {
  std::string text;
  for (int i = 0; i < 200000; ++i) text += std::to_string(i * 7919 % 1000003) + ",";
  return text;
}

TEST(Contents, PlainAndPackedFilesHaveTheSameBytes) {
  const Scratch scratch;
  const std::string text = long_text(), plain = scratch.write("a.txt", text),
                    packed = scratch.write_packed("a.gz", text);
  for (const std::string& file : {plain, packed})
    for (const Index above : {all_in_memory, Index{0}, Index{100000}}) {
      const ContentsPtr contents = read_contents(file, above);
      EXPECT_EQ(contents->bytes(), text);
      EXPECT_EQ(contents->on_disk(), above < all_in_memory);
      EXPECT_EQ(contents->file(), file);
    }
}

TEST(Contents, AnEmptyFileIsEmptyText) {
  const Scratch scratch;
  for (const Index above : {all_in_memory, Index{0}}) {
    EXPECT_EQ(read_contents(scratch.write("empty", ""), above)->bytes(), "");
    EXPECT_EQ(read_contents(scratch.write_packed("empty.gz", ""), above)->bytes(), "");
  }
}

TEST(Contents, PackedFilesMayHaveSeveralMembersAndPadding) {
  const Scratch scratch;
  const std::string text = long_text();
  const std::string both = Scratch::packed(text) + Scratch::packed("and more") + std::string(700, '\0');
  EXPECT_EQ(read_contents(scratch.write("two.gz", both), all_in_memory)->bytes(), text + "and more");
}

TEST(Contents, ATemporaryFileLeavesNothingBehind) {
  const Scratch scratch;
  const std::string file = scratch.write_packed("a.gz", long_text());
  const char* before = std::getenv("TMPDIR");
  const std::string old = before != nullptr ? before : "";
  std::filesystem::create_directory(scratch.folder / "tmp");
  setenv("TMPDIR", (scratch.folder / "tmp").c_str(), 1);
  const ContentsPtr contents = read_contents(file, 10);
  EXPECT_TRUE(std::filesystem::is_empty(scratch.folder / "tmp"));
  setenv("TMPDIR", (scratch.folder / "gone").c_str(), 1);
  EXPECT_ANY_THROW(read_contents(file, 10));
  if (before != nullptr)
    setenv("TMPDIR", old.c_str(), 1);
  else
    unsetenv("TMPDIR");
  EXPECT_EQ(contents->bytes(), long_text());
}

TEST(Contents, DamagedPackedFilesAreRefusedWithTheirPlace) {
  const Scratch scratch;
  const std::string text = long_text(), packed = Scratch::packed(text);
  const auto fails = [&](const std::string& bytes, const std::string& message) {
    const std::string file = scratch.write("bad.gz", bytes);
    for (const Index above : {all_in_memory, Index{0}})
      expect_data_error([&] { read_contents(file, above); }, 0, 0, message);
  };
  fails(packed.substr(0, packed.size() / 2), "the gzip stream is cut");
  fails(packed.substr(0, packed.size() - 1), fmt::format("and {} unpacked bytes", text.size()));
  fails(packed.substr(0, 5), "after 5 packed and 0 unpacked bytes");
  fails(packed + "junk", fmt::format("packed byte {} and what follows is not gzip", packed.size() + 1));
  std::string wrong = packed;
  wrong[wrong.size() - 8] = static_cast<char>(wrong[wrong.size() - 8] ^ 1);
  fails(wrong, "incorrect data check");
  wrong = packed;
  wrong.replace(2000, 40, std::string(40, '\xff'));
  fails(wrong, "damaged at packed byte");
}

TEST(Contents, WhatCannotBeReadIsAnIoError) {
  const Scratch scratch;
  EXPECT_THROW(read_contents((scratch.folder / "none").string(), 0), IoError);
  try {
    read_contents(scratch.folder.string(), 0);
    ADD_FAILURE();
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr("it is a folder"));
  }
}

TEST(Checksum, IsFnv1a) {
  const auto sum = [](std::string_view text) {
    Checksum checksum;
    checksum.add(text);
    return checksum.text();
  };
  EXPECT_EQ(sum(""), "cbf29ce484222325");
  EXPECT_EQ(sum("a"), "af63dc4c8601ec8c");
  EXPECT_EQ(sum("foobar"), "85944171f73967e8");
}

TEST(Lines, EndInBothWaysAndKnowTheirPlace) {
  const std::string text =
      "\xef\xbb\xbf"
      "one\r\n\ntwo\rthree\nlast";
  Lines lines(text);
  Line line;
  std::vector<std::string> found;
  std::vector<std::size_t> offsets;
  while (lines.next(line)) {
    found.emplace_back(line.text);
    offsets.push_back(line.offset);
  }
  EXPECT_EQ(found, (std::vector<std::string>{"one", "", "two\rthree", "last"}));
  EXPECT_EQ(offsets, (std::vector<std::size_t>{3, 8, 9, 19}));
  EXPECT_EQ(line.number, 4);
}

}  // namespace
}  // namespace saddle::data

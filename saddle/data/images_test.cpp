#include "saddle/data/images.hpp"

#include "saddle/data/scratch_test.hpp"

namespace saddle::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string word(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

std::string images(std::uint32_t count, std::uint32_t rows, std::uint32_t columns) {
  std::string bytes = word(2051) + word(count) + word(rows) + word(columns);
  for (std::uint32_t i = 0; i < count * rows * columns; ++i) bytes += static_cast<char>(i);
  return bytes;
}

std::string labels(const std::string& values) {
  return word(2049) + word(static_cast<std::uint32_t>(values.size())) + values;
}

DatasetPtr read(const std::string& image_bytes, const std::string& label_bytes,
                const std::optional<std::vector<std::string>>& classes = std::nullopt) {
  return read_idx(contents_of(image_bytes, "images"), contents_of(label_bytes, "labels"), {}, classes);
}

TEST(Idx, PixelsBecomeNumbersUpToOne) {
  const DatasetPtr data = read(images(3, 2, 3), labels({2, 0, 1}));
  const Description& description = data->description();
  EXPECT_EQ(description.kind, Kind::image);
  EXPECT_EQ(description.channels, 1);
  EXPECT_EQ(description.rows, 2);
  EXPECT_EQ(description.columns, 3);
  EXPECT_THAT(description.classes, ElementsAre("0", "1", "2"));
  EXPECT_THAT(description.files, ElementsAre("images", "labels"));
  const Sample sample = sample_of(*data, 1);
  EXPECT_EQ(sample.label, 0);
  EXPECT_THAT(sample.values, ElementsAre(6.F / 255, 7.F / 255, 8.F / 255, 9.F / 255, 10.F / 255, 11.F / 255));
}

TEST(Idx, LabelsMayBeMissing) {
  const DatasetPtr data = read_idx(contents_of(images(2, 1, 1), "i"), nullptr, {}, std::vector<std::string>{"a", "b"});
  EXPECT_EQ(data->label(1), -1);
  EXPECT_THAT(data->description().classes, ElementsAre("a", "b"));
}

TEST(Idx, HeadersAndCountsAreChecked) {
  const auto fails = [](const std::string& image_bytes, const std::string& label_bytes, const std::string& message) {
    expect_data_error([&] { read(image_bytes, label_bytes, std::vector<std::string>{"x", "y"}); }, 0, 0, message);
  };
  const std::string good = images(2, 2, 2), two = labels({0, 1});
  fails("", two, "images: expected the magic number 2051 of IDX images in the first 4 bytes, found fewer");
  fails(two, two, "found 2049");
  fails(good, good, "labels: expected the magic number 2049");
  fails(good.substr(0, 10), two, "header of 16 bytes is cut, the file has 10");
  fails(good.substr(0, good.size() - 1), two, "announces 8 bytes of images, the file has 7");
  fails(good + "x", two, "announces 8 bytes of images, the file has 9");
  fails(word(2051) + word(0xffffffff) + word(0xffffffff) + word(0xffffffff), two, "far too many");
  fails(word(2051) + word(2) + word(0) + word(2), two, "byte 8: a dimension is 0");
  fails(good, labels({0}), "found 1 labels, images has 2 images");
  fails(good, labels({0, 2}), "byte 9: image 1 has the label 2, the classes are 0 to 1");
}

TEST(PixelRecords, BecomeImagesOrTokens) {
  // Two records: label, then 2 x 1 pixels of red, green, blue.
  const std::string bytes("\x01\xff\x00\xff\x00\xff\x00\x00\x0a\x14\x1e\x28\x32\x3c", 14);
  const std::vector<std::string> classes{"no", "yes"};
  PixelRecord format{3, 2, 1, 255, Pixels::image};
  DatasetPtr data = read_pixel_records(contents_of(bytes, "f"), {}, format, classes);
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(data->label(0), 1);
  EXPECT_THAT(sample_of(*data, 0).values, ElementsAre(1, 0, 1, 0, 1, 0));
  format.pixels = Pixels::published;
  data = read_pixel_records(contents_of(bytes, "f"), {}, format, classes);
  EXPECT_EQ(data->description().kind, Kind::tokens);
  EXPECT_EQ(data->description().vocabulary, 256);
  EXPECT_THAT(data->description().notes, ElementsAre(HasSubstr("black is padding")));
  EXPECT_THAT(sample_of(*data, 0).tokens, ElementsAre(255, 0));
  EXPECT_EQ(data->length(0), 2);
  format.pixels = Pixels::shifted;
  data = read_pixel_records(contents_of(bytes, "f"), {}, format, classes);
  EXPECT_EQ(data->description().vocabulary, 257);
  EXPECT_THAT(sample_of(*data, 0).tokens, ElementsAre(256, 1));
  EXPECT_THAT(sample_of(*data, 1).tokens, ElementsAre(grey_value(10, 30, 50) + 1, grey_value(20, 40, 60) + 1));
}

TEST(PixelRecords, ShrinkToMeansOfSquares) {
  // One record of 2 x 4 grey pixels: 0 10 20 30 over 1 10 21 33.
  const std::string bytes("\x00\x00\x0a\x14\x1e\x01\x0a\x15\x21", 9);
  PixelRecord format{1, 2, 4, 255, Pixels::published, 2};
  DatasetPtr data = read_pixel_records(contents_of(bytes, "f"), {}, format, {"only"});
  EXPECT_EQ(data->description().rows, 1);
  EXPECT_EQ(data->description().columns, 2);
  EXPECT_EQ(data->length(0), 2);
  EXPECT_THAT(sample_of(*data, 0).tokens, ElementsAre(5, 26));  // 21 / 4 and 104 / 4
  format.pixels = Pixels::shifted;
  data = read_pixel_records(contents_of(bytes, "f"), {}, format, {"only"});
  EXPECT_THAT(sample_of(*data, 0).tokens, ElementsAre(6, 27));
}

TEST(PixelRecords, MustBeWholeAndHaveAClass) {
  const auto fails = [](const std::string& bytes, const std::string& message) {
    expect_data_error(
        [&] {
          read_pixel_records(contents_of(bytes, "f"), {}, {1, 1, 2, 255, Pixels::image}, {"a"});
        },
        0, 0, message);
  };
  fails("", "expected records of 3 bytes");
  fails(std::string(7, '\0'), "found 7 bytes, 1 too many");
  fails(std::string("\0ab\1cd", 6), "byte 3: image 1 has the label 1, the classes are 0 to 0");
}

TEST(Grey, IsTruncatedAfterScalingBy255AndAHalf) {
  EXPECT_EQ(grey_value(0, 0, 0), 0);
  EXPECT_EQ(grey_value(255, 255, 255), 255);  // 0.9999 * 255.5 = 255.47
  EXPECT_EQ(grey_value(255, 0, 0), 76);       // 0.2989 * 255.5 = 76.37
  EXPECT_EQ(grey_value(0, 255, 0), 149);      // 0.5870 * 255.5 = 149.98
  EXPECT_EQ(grey_value(0, 0, 255), 29);       // 0.1140 * 255.5 = 29.13
  EXPECT_EQ(grey_value(100, 150, 200), 141);  // (29.89 + 88.05 + 22.8) / 255 * 255.5 = 141.02
}

}  // namespace
}  // namespace saddle::data

#include "saddle/data/image_text.hpp"

#include "saddle/data/find.hpp"
#include "saddle/data/generate/generate.hpp"
#include "saddle/data/scratch_test.hpp"
#include "saddle/data/write.hpp"
#include "saddle/io/safetensors.hpp"

namespace saddle::data {
namespace {

// Two images of one row and two columns with texts of two and one words.
TensorFile small() {
  TensorFile file;
  Tensor images(DType::u8, {2, 1, 1, 2}), tokens(DType::i64, {2, 3}), labels(DType::i64, {2});
  for (Index i = 0; i < 4; ++i) images.set(i, 51.0 * static_cast<double>(i));
  for (const auto& [at, token] : {std::pair{0, 4}, {1, 2}, {3, 1}}) tokens.set(at, token);
  labels.set(0, 1);
  file.tensors = {{"images", images}, {"tokens", tokens}, {"labels", labels}};
  file.metadata = {{"classes", "no\tyes, maybe"}, {"tokens", "\tan\tof\tto\tit\tis"}};
  return file;
}

class ImageText : public testing::Test {
 protected:
  std::string write(const TensorFile& contents, const std::string& name = "x_train.safetensors") const {
    io::write_safetensors(scratch_.folder / name, contents);
    return (scratch_.folder / name).string();
  }
  void expect_refusal(const TensorFile& contents, const std::string& message, bool labels_required = true) const {
    const std::string file = write(contents);
    expect_data_error([&] { static_cast<void>(read_image_text(file, {}, nullptr, labels_required)); }, 0, 0, message);
  }
  const Scratch scratch_;
};

TEST_F(ImageText, ReadsImagesWordsAndLabels) {
  const DatasetPtr data = read_image_text(write(small()), {.name = "x", .split = "train"}, nullptr, true);
  const Description& about = data->description();
  EXPECT_EQ(about.kind, Kind::image_text);
  EXPECT_EQ(about.channels, 1);
  EXPECT_EQ(about.rows, 1);
  EXPECT_EQ(about.columns, 2);
  EXPECT_EQ(about.vocabulary, 6);
  EXPECT_EQ(about.min_length, 1);
  EXPECT_EQ(about.max_length, 2);
  EXPECT_THAT(about.classes, testing::ElementsAre("no", "yes, maybe"));
  EXPECT_EQ(about.token_names.at(3), "to");
  const Sample first = sample_of(*data, 0), second = sample_of(*data, 1);
  EXPECT_THAT(first.values, testing::ElementsAre(0, 0.2F));
  EXPECT_THAT(second.values, testing::ElementsAre(0.4F, 0.6F));
  EXPECT_THAT(first.tokens, testing::ElementsAre(4, 2));
  EXPECT_THAT(second.tokens, testing::ElementsAre(1));
  EXPECT_EQ(first.label, 1);
  EXPECT_EQ(second.length, 1);
}

TEST_F(ImageText, NumbersStandForNamesThatAreNotGiven) {
  TensorFile plain = small();
  plain.metadata.clear();
  const DatasetPtr data = read_image_text(write(plain), {}, nullptr, true);
  EXPECT_THAT(data->description().classes, testing::ElementsAre("0", "1"));
  EXPECT_TRUE(data->description().token_names.empty());
  EXPECT_EQ(data->description().vocabulary, 5);
  plain.tensors.erase("labels");
  EXPECT_EQ(read_image_text(write(plain), {}, nullptr, false)->label(0), -1);
  expect_refusal(plain, "has no tensor 'labels'");
}

TEST_F(ImageText, PixelsMayBeNumbers) {
  TensorFile numbers = small();
  Tensor images(DType::f32, {2, 1, 1, 2});
  images.set(1, 0.75);
  numbers.tensors["images"] = images;
  EXPECT_THAT(sample_of(*read_image_text(write(numbers), {}, nullptr, true), 0).values, testing::ElementsAre(0, 0.75F));
  images.set(3, 1.5);
  numbers.tensors["images"] = images;
  expect_refusal(numbers, "image 1 has the value 1.5");
}

TEST_F(ImageText, RefusesOtherFiles) {
  const auto changed = [](const std::string& name, const Tensor& tensor) {
    TensorFile file = small();
    file.tensors[name] = tensor;
    return file;
  };
  expect_refusal({}, "has no tensor 'images'");
  expect_refusal(changed("images", Tensor(DType::u8, {2, 2})), "'images' is u8 of shape");
  expect_refusal(changed("images", Tensor(DType::f64, {2, 1, 1, 2})), "'images' is f64");
  expect_refusal(changed("tokens", Tensor(DType::i64, {3, 3})), "has 2 images and 3 texts");
  expect_refusal(changed("labels", Tensor(DType::i64, {1})), "has 2 images and 1 labels");
  expect_refusal(changed("images", Tensor(DType::u8, {2, 1, 0, 2})), "holds no samples");
  Tensor labels(DType::i64, {2});
  labels.set(1, 2);
  expect_refusal(changed("labels", labels), "image 1 has the label 2, the classes are 0 to 1");
  labels.set(1, -1);
  expect_refusal(changed("labels", labels), "image 1 has the label -1");
  EXPECT_EQ(read_image_text(write(changed("labels", labels)), {}, nullptr, false)->label(1), -1);
  Tensor tokens(DType::i64, {2, 3});
  tokens.set(4, -2);
  expect_refusal(changed("tokens", tokens), "text 1 has the token -2");
  tokens.set(4, 4294967301.0);  // 5 in 32 bits
  expect_refusal(changed("tokens", tokens), "text 1 has the token 4294967301");
  expect_data_error(
      [&] { static_cast<void>(read_image_text(scratch_.write("y.safetensors", "no"), {}, nullptr, true)); }, 0, 0, "");
}

TEST_F(ImageText, OtherSplitsAreLikeTheTrainingSplit) {
  const DatasetPtr train = read_image_text(write(small()), {}, nullptr, true);
  const auto refused = [&](const TensorFile& contents, const std::string& message) {
    const std::string file = write(contents, "x_test.safetensors");
    expect_data_error([&] { static_cast<void>(read_image_text(file, {}, &train->description(), true)); }, 0, 0,
                      message);
  };
  TensorFile other = small();
  other.metadata.clear();
  const std::string file = write(other, "x_test.safetensors");
  EXPECT_EQ(read_image_text(file, {}, &train->description(), true)->description().classes,
            train->description().classes);
  other.tensors["tokens"].set(0, 6);
  refused(other, "has the token 6, training knows 0 to 5");
  other = small();
  other.tensors["images"] = Tensor(DType::u8, {2, 1, 2, 2});
  refused(other, "images are 1 x 2 x 2, those of training 1 x 1 x 2");
}

TEST_F(ImageText, TheTestSplitStandsBeside) {
  const Task made = generated("shapes_text(train=6,validation=3,test=4)");
  write_dataset(*made.train(), scratch_.folder / "shapes_train.safetensors");
  write_dataset(*made.test(), scratch_.folder / "shapes_test.safetensors");
  const Task read = find_task((scratch_.folder / "shapes_train.safetensors").string());
  EXPECT_EQ(read.name, "shapes");
  EXPECT_EQ(read.test()->size(), 4);
  const DatasetPtr samples =
      open_samples((scratch_.folder / "shapes_test.safetensors").string(), made.train()->description());
  EXPECT_EQ(sample_of(*samples, 3).values, sample_of(*made.test(), 3).values);
  EXPECT_EQ(sample_of(*samples, 3).tokens, sample_of(*made.test(), 3).tokens);
}

TEST_F(ImageText, NamesWithTabsAreRefused) {
  TensorFile file = small();
  file.metadata.erase("classes");
  const DatasetPtr read = read_image_text(write(file), {}, nullptr, true);
  Description about = read->description();
  about.classes = {"a\tb", "c"};
  const DatasetPtr renamed = read_image_text(write(file), {}, &about, true);
  EXPECT_THROW(write_image_text(*renamed, scratch_.folder / "z.safetensors"), InvalidArgument);
}

}  // namespace
}  // namespace saddle::data

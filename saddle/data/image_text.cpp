#include "saddle/data/image_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/data/contents.hpp"
#include "saddle/data/images.hpp"
#include "saddle/data/records.hpp"
#include "saddle/io/safetensors.hpp"

namespace saddle::data {

namespace {

constexpr Index largest_vocabulary = 10'000'000;
constexpr const char* expected =
    "images (n,channels,rows,columns) of bytes or float32, tokens (n,T) and labels (n) of i64 or i32 are expected";

class ImageTexts final : public Dataset {
 public:
  ImageTexts(const std::filesystem::path& file, Description description, const Description* like, bool labels_required)
      : file_(file.string()), contents_(io::read_safetensors(file)), description_(std::move(description)) {
    images_ = &tensor("images", 4, {DType::u8, DType::f32});
    tokens_ = &tensor("tokens", 2, {DType::i64, DType::i32});
    const Index n = images_->shape()[0];
    if (tokens_->shape()[0] != n) refuse(fmt::format("has {} images and {} texts", n, tokens_->shape()[0]));
    if (images_->size() == 0 || tokens_->size() == 0) refuse("holds no samples");
    if (labels_required || contents_.tensors.contains("labels")) {
      const Tensor& labels = tensor("labels", 1, {DType::i64, DType::i32});
      if (labels.shape()[0] != n) refuse(fmt::format("has {} images and {} labels", n, labels.shape()[0]));
      for (Index i = 0; i < n; ++i) labels_.push_back(static_cast<Index>(labels.at(i)));
    }
    labels_.resize(static_cast<std::size_t>(n), -1);
    describe(like);
    check_pixels();
    check_labels(labels_required);
    measure_texts();
    Checksum checksum;
    for (const Tensor* each : {images_, tokens_})
      checksum.add({reinterpret_cast<const char*>(each->bytes().data()), each->bytes().size()});
    checksum.add({reinterpret_cast<const char*>(labels_.data()), labels_.size() * sizeof(Index)});
    description_.checksum = checksum.text();
    description_.files = {file_};
  }

  const Description& description() const override { return description_; }
  Index size() const override { return static_cast<Index>(labels_.size()); }
  Index label(Index sample) const override { return labels_[static_cast<std::size_t>(sample)]; }
  Index length(Index sample) const override { return lengths_[static_cast<std::size_t>(sample)]; }
  void read(Index sample, Sample& into) const override {
    into = Sample();
    const Index pixels = description_.channels * description_.rows * description_.columns, T = tokens_->shape()[1];
    into.values.resize(static_cast<std::size_t>(pixels));
    for (Index i = 0; i < pixels; ++i) into.values[static_cast<std::size_t>(i)] = pixel(sample * pixels + i);
    into.length = length(sample);
    for (Index t = 0; t < into.length; ++t)
      into.tokens.push_back(static_cast<std::int32_t>(tokens_->at(sample * T + t)));
    into.label = label(sample);
  }

 private:
  [[noreturn]] void refuse(const std::string& message, const std::string& hint = expected) const {
    throw DataError(file_, 0, 0, message, hint);
  }

  const Tensor& tensor(const std::string& name, std::size_t rank, std::initializer_list<DType> types) const {
    const auto found = contents_.tensors.find(name);
    if (found == contents_.tensors.end()) refuse(fmt::format("has no tensor '{}'", name));
    const Tensor& own = found->second;
    if (own.shape().size() != rank || std::find(types.begin(), types.end(), own.dtype()) == types.end())
      refuse(
          fmt::format("'{}' is {} of shape {}", name, saddle::to_string(own.dtype()), saddle::to_string(own.shape())));
    return own;
  }

  float pixel(Index at) const {
    if (images_->dtype() == DType::u8)
      return static_cast<float>(std::to_integer<unsigned char>(images_->bytes()[static_cast<std::size_t>(at)])) / 255;
    float value = 0;
    std::memcpy(&value, images_->bytes().data() + static_cast<std::size_t>(at) * sizeof value, sizeof value);
    return value;
  }

  // The names in the metadata, or those of the training split, or numbers.
  std::vector<std::string> names(const char* what, Index count) const {
    const auto found = contents_.metadata.find(what);
    if (found == contents_.metadata.end()) return numbered_classes(count);
    std::vector<std::string> list{std::string()};
    for (const char c : found->second) {
      if (c == '\t')
        list.emplace_back();
      else
        list.back() += c;
    }
    return list;
  }

  void describe(const Description* like) {
    const Shape& shape = images_->shape();
    description_.kind = Kind::image_text;
    description_.channels = shape[1];
    description_.rows = shape[2];
    description_.columns = shape[3];
    Index largest = 0;
    for (Index i = 0; i < tokens_->size(); ++i) {
      const auto token = static_cast<Index>(tokens_->at(i));
      if (token < 0)
        refuse(fmt::format("text {} has the token {}", i / tokens_->shape()[1], token), "tokens are 0 or more");
      if (token >= largest_vocabulary)
        refuse(fmt::format("text {} has the token {}, a vocabulary has at most {}", i / tokens_->shape()[1], token,
                           largest_vocabulary),
               "number the words from 1");
      largest = std::max(largest, token);
    }
    if (like == nullptr) {
      description_.classes = names("classes", 1 + *std::max_element(labels_.begin(), labels_.end()));
      if (contents_.metadata.contains("tokens")) description_.token_names = names("tokens", 0);
      description_.vocabulary = std::max<Index>(largest + 1, static_cast<Index>(description_.token_names.size()));
      return;
    }
    description_.classes = like->classes;
    description_.token_names = like->token_names;
    description_.vocabulary = like->vocabulary;
    if (largest >= like->vocabulary)
      refuse(fmt::format("has the token {}, training knows 0 to {}", largest, like->vocabulary - 1), "");
    if (shape[1] != like->channels || shape[2] != like->rows || shape[3] != like->columns)
      refuse(fmt::format("images are {} x {} x {}, those of training {} x {} x {}", shape[1], shape[2], shape[3],
                         like->channels, like->rows, like->columns),
             "");
  }

  void check_pixels() const {
    if (images_->dtype() == DType::u8) return;
    const Index each = images_->size() / size();
    for (Index i = 0; i < images_->size(); ++i)
      if (const float value = pixel(i); !(value >= 0 && value <= 1))
        refuse(fmt::format("image {} has the value {}", i / each, value), "pixels of float32 lie between 0 and 1");
  }

  void check_labels(bool required) const {
    const auto classes = static_cast<Index>(description_.classes.size());
    for (Index i = 0; i < size(); ++i)
      if (label(i) < -1 || label(i) >= classes || (required && label(i) < 0))
        refuse(fmt::format("image {} has the label {}, the classes are 0 to {}", i, label(i), classes - 1), "");
  }

  void measure_texts() {
    const Index T = tokens_->shape()[1];
    for (Index i = 0; i < size(); ++i) {
      Index length = T;
      while (length > 1 && tokens_->at(i * T + length - 1) == 0) --length;
      lengths_.push_back(length);
    }
    const auto [shortest, longest] = std::minmax_element(lengths_.begin(), lengths_.end());
    description_.min_length = *shortest;
    description_.max_length = *longest;
  }

  std::string file_;
  TensorFile contents_;
  const Tensor *images_ = nullptr, *tokens_ = nullptr;
  std::vector<Index> labels_, lengths_;
  Description description_;
};

std::string tabbed(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (name.find('\t') != std::string::npos)
      throw InvalidArgument(fmt::format("the name '{}' cannot stand in a file of images with texts", name),
                            "names have no tabs");
  return join(names, "\t");
}

}  // namespace

DatasetPtr read_image_text(const std::filesystem::path& file, Description description, const Description* like,
                           bool labels_required) {
  return std::make_shared<ImageTexts>(file, std::move(description), like, labels_required);
}

void write_image_text(const Dataset& data, const std::filesystem::path& file) {
  const Description& about = data.description();
  const Index n = data.size(), pixels = about.channels * about.rows * about.columns, T = about.max_length;
  Tensor images(DType::u8, {n, about.channels, about.rows, about.columns}), tokens(DType::i64, {n, T}),
      labels(DType::i64, {n});
  Sample sample;
  for (Index i = 0; i < n; ++i) {
    data.read(i, sample);
    for (Index p = 0; p < pixels; ++p)
      images.bytes()[static_cast<std::size_t>(i * pixels + p)] =
          static_cast<std::byte>(std::lround(std::clamp(sample.values[static_cast<std::size_t>(p)], 0.F, 1.F) * 255));
    for (Index t = 0; t < sample.length; ++t)
      tokens.set(i * T + t, static_cast<double>(sample.tokens[static_cast<std::size_t>(t)]));
    labels.set(i, static_cast<double>(sample.label));
  }
  TensorFile contents;
  contents.metadata = {{"classes", tabbed(about.classes)}};
  if (!about.token_names.empty()) contents.metadata["tokens"] = tabbed(about.token_names);
  contents.tensors = {{"images", std::move(images)}, {"tokens", std::move(tokens)}, {"labels", std::move(labels)}};
  io::write_safetensors(file, contents);
}

}  // namespace saddle::data

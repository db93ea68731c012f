#include "saddle/io/vit_names.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "saddle/base/error.hpp"
#include "saddle/io/safetensors.hpp"

namespace saddle::io {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

constexpr Index X = 4, F = 6, classes = 3;

// Every element differs from all others, so that nothing can change places unseen.
void add(TensorFile& file, const std::string& name, const Shape& shape, DType dtype = DType::f32) {
  Tensor tensor(dtype, shape);
  const double start = 1000.0 * static_cast<double>(file.tensors.size());
  for (Index i = 0; i < tensor.size(); ++i) tensor.set(i, start + static_cast<double>(i));
  file.tensors.emplace(name, tensor);
}

void add_layer(TensorFile& file, const std::string& name, const Shape& shape) {
  add(file, name + ".weight", shape);
  add(file, name + ".bias", {shape.front()});
}

TensorFile timm(bool distilled, int depth = 2) {
  TensorFile file;
  file.metadata = {{"format", "pt"}, {"model", "small"}};
  add(file, "cls_token", {1, 1, X});
  add(file, "pos_embed", {1, 5, X});
  add_layer(file, "patch_embed.proj", {X, 3, 2, 2});
  for (int i = 0; i < depth; ++i) {
    const std::string block = "blocks." + std::to_string(i) + ".";
    add_layer(file, block + "norm1", {X});
    add_layer(file, block + "attn.qkv", {3 * X, X});
    add_layer(file, block + "attn.proj", {X, X});
    add_layer(file, block + "norm2", {X});
    add_layer(file, block + "mlp.fc1", {F, X});
    add_layer(file, block + "mlp.fc2", {X, F});
  }
  add_layer(file, "norm", {X});
  add_layer(file, "head", {classes, X});
  if (distilled) {
    add(file, "dist_token", {1, 1, X});
    add_layer(file, "head_dist", {classes, X});
  }
  return file;
}

VitConversion to_hf(std::optional<std::string> prefix = {}) { return {VitNames::hugging_face, std::move(prefix)}; }
const VitConversion to_timm{VitNames::timm};

std::vector<std::string> names(const TensorFile& file) {
  std::vector<std::string> list;
  for (const auto& [name, tensor] : file.tensors) list.push_back(name);
  return list;
}

bool same(const TensorFile& a, const TensorFile& b) { return a.tensors == b.tensors && a.metadata == b.metadata; }

// The names of transformers' ViTForImageClassification.
TEST(VitNames, HuggingFacesNames) {
  const TensorFile hf = convert_vit(timm(false, 1), to_hf());
  EXPECT_THAT(
      names(hf),
      UnorderedElementsAre(
          "vit.embeddings.cls_token", "vit.embeddings.position_embeddings",
          "vit.embeddings.patch_embeddings.projection.weight", "vit.embeddings.patch_embeddings.projection.bias",
          "vit.encoder.layer.0.layernorm_before.weight", "vit.encoder.layer.0.layernorm_before.bias",
          "vit.encoder.layer.0.attention.attention.query.weight", "vit.encoder.layer.0.attention.attention.query.bias",
          "vit.encoder.layer.0.attention.attention.key.weight", "vit.encoder.layer.0.attention.attention.key.bias",
          "vit.encoder.layer.0.attention.attention.value.weight", "vit.encoder.layer.0.attention.attention.value.bias",
          "vit.encoder.layer.0.attention.output.dense.weight", "vit.encoder.layer.0.attention.output.dense.bias",
          "vit.encoder.layer.0.layernorm_after.weight", "vit.encoder.layer.0.layernorm_after.bias",
          "vit.encoder.layer.0.intermediate.dense.weight", "vit.encoder.layer.0.intermediate.dense.bias",
          "vit.encoder.layer.0.output.dense.weight", "vit.encoder.layer.0.output.dense.bias", "vit.layernorm.weight",
          "vit.layernorm.bias", "classifier.weight", "classifier.bias"));
}

// And of DeiTForImageClassificationWithTeacher.
TEST(VitNames, DistilledModels) {
  const TensorFile hf = convert_vit(timm(true), to_hf());
  for (const char* name : {"deit.embeddings.distillation_token", "deit.encoder.layer.1.output.dense.bias",
                           "cls_classifier.weight", "distillation_classifier.bias"})
    EXPECT_TRUE(hf.tensors.contains(name)) << name;
  EXPECT_FALSE(hf.tensors.contains("classifier.weight"));
  // Without the second head there is one classifier again.
  TensorFile headless = timm(true);
  headless.tensors.erase("head_dist.weight");
  headless.tensors.erase("head_dist.bias");
  EXPECT_TRUE(convert_vit(headless, to_hf()).tensors.contains("classifier.weight"));
}

TEST(VitNames, RowsOfQkvAreQueryKeyValue) {
  const TensorFile file = timm(false);
  const TensorFile hf = convert_vit(file, to_hf());
  const std::string layer = "vit.encoder.layer.1.attention.attention.";
  Index row = 0;
  for (const char* part : {"query", "key", "value"})
    for (Index i = 0; i < X; ++i, ++row) {
      const Tensor& weight = hf.tensors.at(layer + part + ".weight");
      EXPECT_EQ(weight.shape(), (Shape{X, X}));
      for (Index j = 0; j < X; ++j)
        EXPECT_EQ(weight.at(i * X + j), file.tensors.at("blocks.1.attn.qkv.weight").at(row * X + j));
      EXPECT_EQ(hf.tensors.at(layer + part + ".bias").at(i), file.tensors.at("blocks.1.attn.qkv.bias").at(row));
    }
}

TEST(VitNames, ThereAndBackIsTheSame) {
  for (const bool distilled : {false, true})
    for (const auto& prefix : std::vector<std::optional<std::string>>{{}, "", "vit.", "deit.", "model.vit."}) {
      const TensorFile file = timm(distilled);
      const TensorFile hf = convert_vit(file, to_hf(prefix));
      VitConversion back = to_timm;
      if (prefix == "model.vit.") back.prefix = prefix;  // the others are found
      EXPECT_TRUE(same(convert_vit(hf, back), file)) << distilled << prefix.value_or("none");
      EXPECT_TRUE(same(convert_vit(convert_vit(hf, back), to_hf(prefix)), hf)) << distilled << prefix.value_or("none");
    }
}

TEST(VitNames, EveryDtypeAndEmptyTensors) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::i64, DType::i32, DType::u8, DType::boolean}) {
    TensorFile file;
    file.metadata = {{"format", "pt"}};
    add(file, "blocks.0.attn.qkv.weight", {6, 5}, dtype);
    add(file, "blocks.0.attn.qkv.bias", {0}, dtype);
    add(file, "norm.weight", {0, 3}, dtype);
    EXPECT_TRUE(same(convert_vit(convert_vit(file, to_hf()), to_timm), file)) << to_string(dtype);
  }
}

TEST(VitNames, HuggingFacesLoaderWantsAFormat) {
  TensorFile file = timm(false);
  file.metadata = {};
  EXPECT_EQ(convert_vit(file, to_hf()).metadata.at("format"), "pt");
  file.metadata = {{"format", "np"}};
  EXPECT_EQ(convert_vit(file, to_hf()).metadata.at("format"), "np");
  TensorFile hf = convert_vit(file, to_hf());
  hf.metadata = {};
  EXPECT_THAT(convert_vit(hf, to_timm).metadata, IsEmpty());
}

TEST(VitNames, UnknownNamesAreNamed) {
  const auto with = [](TensorFile file, const std::string& name) {
    add(file, name, {2});
    return file;
  };
  const auto message = [](const TensorFile& file, const VitConversion& conversion) -> std::string {
    try {
      convert_vit(file, conversion, "w.safetensors");
    } catch (const DataError& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return "no error";
  };
  EXPECT_THAT(message(with(timm(false), "blocks.1.atn.qkv.weight"), to_hf()),
              AllOf(HasSubstr("w.safetensors: 1 of 33 names"), HasSubstr("\"blocks.1.atn.qkv.weight\""),
                    HasSubstr("--keep-unknown")));
  TensorFile typo = timm(false);
  auto node = typo.tensors.extract("blocks.1.mlp.fc1.bias");
  node.key() = "blocks.1.mlp.fc1.bais";
  typo.tensors.insert(std::move(node));
  EXPECT_THAT(message(typo, to_hf()), HasSubstr("\"blocks.1.mlp.fc1.bais\" (did you mean \"blocks.1.mlp.fc1.bias\"?)"));
  EXPECT_THAT(message(timm(false), to_timm), HasSubstr("look like timm's already"));
  const TensorFile hf = convert_vit(timm(false), to_hf());
  EXPECT_THAT(message(hf, to_hf()), HasSubstr("with timm's names?"));
  EXPECT_THAT(message(hf, {VitNames::timm, "deit."}), HasSubstr("\"vit.embeddings.cls_token\""));
  for (const char* name : {"blocks.x.norm1.weight", "blocks..norm1.weight", "blocks.1.norm1", "norm1.weight",
                           "head.weight.extra", "cls_token.weight", "cls_tokens", "xcls_token", "blocks.-1.norm1.bias"})
    EXPECT_THAT(message(with(timm(false), name), to_hf()), HasSubstr("1 of 33 names")) << name;
  for (const char* name : {"vit.embeddings.mask_token", "embeddings.cls_token", "vit.classifier.weight",
                           "cls_classifier.weight", "vit.encoder.layer.0.attention.attention.query"})
    EXPECT_THAT(message(with(hf, name), to_timm), HasSubstr("1 of 41 names")) << name;
}

TEST(VitNames, UnknownNamesCanBeKept) {
  TensorFile file = timm(false);
  add(file, "ema.decay", {});
  VitConversion keep = to_hf();
  keep.keep_unknown = true;
  const TensorFile hf = convert_vit(file, keep);
  EXPECT_EQ(hf.tensors.at("ema.decay"), file.tensors.at("ema.decay"));
  keep.to = VitNames::timm;
  EXPECT_TRUE(same(convert_vit(hf, keep), file));
  // A kept name may be one that is made.
  TensorFile both = convert_vit(timm(false), to_hf());
  add(both, "cls_token", {1});
  EXPECT_THAT([&] { convert_vit(both, keep); },
              ThrowsMessage<DataError>(HasSubstr("\"cls_token\" would be made of \"vit.embeddings.cls_token\"")));
}

TEST(VitNames, WhatCannotBeSplitOrJoined) {
  TensorFile file = timm(false);
  file.tensors["blocks.0.attn.qkv.bias"] = Tensor(DType::f32, {8});
  EXPECT_THAT([&] { convert_vit(file, to_hf()); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("blocks.0.attn.qkv.bias"), HasSubstr("(8)"))));
  file.tensors["blocks.0.attn.qkv.bias"] = Tensor(DType::f32, {});
  EXPECT_THROW(convert_vit(file, to_hf()), DataError);

  const std::string layer = "vit.encoder.layer.0.attention.attention.";
  const TensorFile hf = convert_vit(timm(false), to_hf());
  for (const char* part : {"query", "key", "value"}) {
    TensorFile cut = hf;
    cut.tensors.erase(layer + part + ".weight");
    EXPECT_THAT([&] { convert_vit(cut, to_timm); },
                ThrowsMessage<DataError>(HasSubstr("but not \"" + layer + part + ".weight\"")));
    TensorFile uneven = hf;
    uneven.tensors[layer + part + ".weight"] = Tensor(DType::f32, {X, X + 1});
    EXPECT_THAT([&] { convert_vit(uneven, to_timm); }, ThrowsMessage<DataError>(HasSubstr("joined by rows")));
    uneven.tensors[layer + part + ".weight"] = Tensor(DType::f64, {X, X});
    EXPECT_THROW(convert_vit(uneven, to_timm), DataError);
  }
  TensorFile huge;
  for (const char* part : {"query", "key", "value"})
    huge.tensors[layer + part + ".weight"] = Tensor(DType::u8, {Index{1} << 62, 0});
  EXPECT_THAT([&] { convert_vit(huge, to_timm); }, ThrowsMessage<DataError>(HasSubstr("too large")));
}

class VitFiles : public testing::Test {
 protected:
  VitFiles() {
    std::string name = (fs::path(testing::TempDir()) / "saddle-XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  ~VitFiles() override { fs::remove_all(folder); }
  static std::string bytes(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  fs::path folder;
};

TEST_F(VitFiles, FilesAreConvertedAsInMemory) {
  const fs::path file = folder / "timm.safetensors", hf = folder / "hf.safetensors", back = folder / "back.safetensors";
  write_safetensors(file, timm(true));
  const VitReport report = convert_vit(file, hf, to_hf());
  EXPECT_EQ(report.prefix, "deit.");
  EXPECT_EQ(report.tensors, names(convert_vit(timm(true), to_hf())).size());
  EXPECT_THAT(report.ignored, IsEmpty());
  EXPECT_TRUE(same(read_safetensors(hf), convert_vit(timm(true), to_hf())));
  convert_vit(hf, back, to_timm);
  EXPECT_EQ(bytes(back), bytes(file));
  convert_vit(hf, hf, to_timm);  // over itself
  EXPECT_EQ(bytes(hf), bytes(file));
}

TEST_F(VitFiles, ThePoolerIsLeftOutAndReported) {
  TensorFile hf = convert_vit(timm(false), to_hf(""));
  add_layer(hf, "pooler.dense", {X, X});
  const fs::path file = folder / "hf.safetensors", out = folder / "timm.safetensors";
  write_safetensors(file, hf);
  const VitReport report = convert_vit(file, out, to_timm);
  EXPECT_EQ(report.prefix, "");
  EXPECT_THAT(report.ignored, ElementsAre("pooler.dense.bias", "pooler.dense.weight"));
  EXPECT_TRUE(same(read_safetensors(out), timm(false)));
}

TEST_F(VitFiles, ARefusedFileWritesNothing) {
  TensorFile file = timm(false);
  add(file, "other", {2});
  write_safetensors(folder / "timm.safetensors", file);
  EXPECT_THROW(convert_vit(folder / "timm.safetensors", folder / "hf.safetensors", to_hf()), DataError);
  EXPECT_FALSE(fs::exists(folder / "hf.safetensors"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
}

}  // namespace
}  // namespace saddle::io

// saddle weights: what a file holds, whether it is sound, and its names elsewhere.
#include <gmock/gmock.h>

#include "process.hpp"
#include "saddle/io/safetensors.hpp"

namespace saddle::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string small = "tests/vit/small.safetensors";

class Weights : public CommandLine {
 protected:
  void write(const std::string& name, const TensorFile& file) const {
    io::write_safetensors(folder / "work" / name, file);
  }
  // A file of this header and as many bytes of data.
  void write_raw(const std::string& name, const std::string& header, std::size_t data) const {
    std::string length(8, '\0');
    length[0] = static_cast<char>(header.size() % 256);
    length[1] = static_cast<char>(header.size() / 256);
    write_file(folder / "work" / name, length + header + std::string(data, '\1'));
  }
};

TEST_F(Weights, ShowsTensorsMetadataAndTotals) {
  const Result result = sh("saddle weights show " + small);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("blocks.1.attn.qkv.weight   F32    (24,8)       768 B\n"));
  EXPECT_THAT(result.out, HasSubstr("format: pt"));
  EXPECT_THAT(result.out, HasSubstr("32 tensors, "));
  const auto document = json("saddle weights show " + small + " --json");
  EXPECT_EQ(document["schema"], "saddle.weights.show/1");
  EXPECT_EQ(document["metadata"]["format"], "pt");
  std::int64_t bytes = 0;
  for (const auto& tensor : document["tensors"]) {
    bytes += tensor["bytes"].get<std::int64_t>();
    if (tensor["name"] == "head.weight") {
      EXPECT_EQ(tensor["shape"], nlohmann::json({3, 8}));
      EXPECT_EQ(tensor["dtype"], "F32");
    }
  }
  EXPECT_EQ(document["bytes"], bytes);
  EXPECT_EQ(document["values"], bytes / 4);
}

// Names come from anywhere; the terminal must not obey them.
TEST_F(Weights, NamesAreEscaped) {
  TensorFile file;
  file.tensors["red\033[31m\nname"] = Tensor(DType::u8, {1});
  file.metadata = {{"key\xc2\x9b", std::string(500, 'v')}};
  write("odd.safetensors", file);
  const Result result = sh("saddle weights show odd.safetensors");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(Not(HasSubstr("\033")), Not(HasSubstr("\xc2\x9b")), HasSubstr("red\\u001b[31m\\nname")));
  EXPECT_THAT(result.out, Not(HasSubstr(std::string(100, 'v'))));
  EXPECT_THAT(sh("saddle weights show -v odd.safetensors").out, HasSubstr(std::string(500, 'v')));
}

TEST_F(Weights, ChecksWithExitCodes) {
  EXPECT_THAT(sh("saddle weights check " + small).out, HasSubstr("OK  "));
  EXPECT_EQ(json("saddle weights check --json " + small)["tensors"], 32);
  EXPECT_EQ(sh("saddle weights check missing.safetensors").code, 1);
  EXPECT_EQ(sh("saddle weights check").code, 2);

  const std::string w = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const struct {
    std::string header;
    std::size_t data;
    std::string message;
  } damaged[] = {
      {w + "}", 7, "only 7 bytes follow"},
      {w + "}", 9, "every byte must belong"},
      {w + R"(,"v":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})", 8, "overlaps"},
      {w + R"(,"v":{"dtype":"U8","shape":[1],"data_offsets":[9,10]}})", 10, "holes"},
      {w + R"(,"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8, "appears twice"},
      {R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8, "overflows"},
      {R"({"w":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8]}})", 8, "2^63"},
      {"{\"w\xff\":1}", 0, "UTF-8"},
      {"{\"w\":" + std::string(5000, '['), 0, "array"},
      {"not a header", 0, "begin with '{'"},
  };
  for (const auto& file : damaged) {
    write_raw("bad.safetensors", file.header, file.data);
    for (const char* command : {"check", "show"}) {
      const Result result = sh(std::string("saddle weights ") + command + " bad.safetensors");
      EXPECT_EQ(result.code, 3) << file.header;
      EXPECT_THAT(result.err,
                  AllOf(HasSubstr("saddle: bad.safetensors: "), HasSubstr(file.message), HasSubstr("hint: ")));
      EXPECT_EQ(result.out, "");
    }
  }
  write_raw("half.safetensors", R"({"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})", 4);
  EXPECT_EQ(sh("saddle weights check half.safetensors").code, 4);
  EXPECT_THAT(sh("saddle weights show half.safetensors").out, HasSubstr("h     F16    (2)     4 B"));
}

TEST_F(Weights, ConvertsThereAndBack) {
  ASSERT_EQ(sh("saddle weights convert " + small + " hf.safetensors --to hf").code, 0);
  EXPECT_THAT(sh("saddle weights show hf.safetensors").out,
              HasSubstr("vit.encoder.layer.1.attention.attention.query.weight  F32    (8,8)"));
  const auto report = json("saddle weights convert hf.safetensors back.safetensors --to timm --json");
  EXPECT_EQ(report["schema"], "saddle.weights.convert/1");
  EXPECT_EQ(report["prefix"], "vit.");
  EXPECT_EQ(report["tensors"], 32);
  const TensorFile before = io::read_safetensors(folder / "work" / small);
  const TensorFile after = io::read_safetensors(folder / "work/back.safetensors");
  EXPECT_EQ(after.tensors, before.tensors);
  EXPECT_EQ(after.metadata, before.metadata);

  ASSERT_EQ(sh("saddle weights convert " + small + " base.safetensors --to hf --prefix ''").code, 0);
  EXPECT_THAT(sh("saddle weights show base.safetensors").out,
              AllOf(HasSubstr("\nembeddings.cls_token "), Not(HasSubstr("vit."))));
  ASSERT_EQ(sh("saddle weights convert base.safetensors base.safetensors --to timm").code, 0);
  EXPECT_EQ(io::read_safetensors(folder / "work/base.safetensors").tensors, before.tensors);
}

TEST_F(Weights, ConversionNotesAndRefusals) {
  ASSERT_EQ(sh("saddle weights convert " + small + " hf.safetensors --to hf").code, 0);
  TensorFile file = io::read_safetensors(folder / "work/hf.safetensors");
  file.tensors["vit.pooler.dense.bias"] = Tensor(DType::f32, {8});
  write("pooler.safetensors", file);
  const Result noted = sh("saddle weights convert pooler.safetensors timm.safetensors --to timm");
  EXPECT_EQ(noted.code, 0);
  EXPECT_THAT(noted.err, HasSubstr("left out, timm has no such layer: \"vit.pooler.dense.bias\""));
  EXPECT_EQ(sh("saddle weights convert -q pooler.safetensors timm.safetensors --to timm").err, "");

  file.tensors["vit.embeddings.mask_token"] = Tensor(DType::f32, {1, 1, 8});
  write("mask.safetensors", file);
  const Result refused = sh("saddle weights convert mask.safetensors refused.safetensors --to timm");
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("\"vit.embeddings.mask_token\""), HasSubstr("hint: ")));
  EXPECT_FALSE(std::filesystem::exists(folder / "work/refused.safetensors"));
  const Result kept = sh("saddle weights convert mask.safetensors kept.safetensors --to timm --keep-unknown");
  EXPECT_EQ(kept.code, 0) << kept.err;
  EXPECT_THAT(kept.err, HasSubstr("kept under their own names: \"vit.embeddings.mask_token\""));

  EXPECT_EQ(sh("saddle weights convert " + small + " out.safetensors").code, 2);
  EXPECT_EQ(sh("saddle weights convert " + small + " out.safetensors --to keras").code, 2);
  EXPECT_EQ(sh("saddle weights convert " + small + " missing/out.safetensors --to hf").code, 1);
}

}  // namespace
}  // namespace saddle::e2e

#include "saddle/analysis/depth_width/model_shape.hpp"

#include <gmock/gmock.h>

#include "saddle/base/error.hpp"

namespace saddle::analysis::depth_width {
namespace {

using testing::HasSubstr;

TEST(ModelShape, SettingsOfSaddle) {
  const ModelShape shape = parse_model_shape(R"([data]
name = "waves"
[model]
name = "flowformer"
attention = "softmax+bn"
width = "64"
hidden = 256
heads = "8"
depth = 2
max_len = "144"
)",
                                             "config.toml");
  EXPECT_EQ(shape.model, "flowformer");
  EXPECT_EQ(shape.depth, 2);
  EXPECT_EQ(shape.width, 64);
  EXPECT_EQ(shape.heads, 8);
  EXPECT_EQ(shape.positions, 144);
  EXPECT_FALSE(shape.decoder_only);
  EXPECT_DOUBLE_EQ(shape.layer_params(), 2 * 12 * 64 * 64);
}

TEST(ModelShape, SizesOfNamedModels) {
  const auto named = [](const std::string& rest) { return parse_model_shape("[model]\n" + rest, "config.toml"); };
  EXPECT_EQ(named("name = 'deit_small_distilled_patch16_224'").width, 384);
  EXPECT_EQ(named("name = 'vit_large_patch16_384'").depth, 24);
  EXPECT_EQ(named("name = 'lra_text'").hidden, 128);
  EXPECT_EQ(named("name = 'spiking_vit'").width, 384);
  EXPECT_EQ(named("name = 'npt'").depth, 8);
  EXPECT_EQ(named("name = 'language_model'\ndepth = 7").depth, 7);
  EXPECT_TRUE(named("name = 'language_model'").decoder_only);
  EXPECT_DOUBLE_EQ(named("name = 'language_model'\nwidth = 100").layer_params(), 4 * 12 * 100 * 100);
}

TEST(ModelShape, JsonOfSaddle) {
  const ModelShape settings = parse_model_shape(R"({"schema": "saddle.settings/1",
    "model": {"name": {"value": "mvts", "origin": "flag"}, "width": {"value": "128", "origin": "--set"}}})",
                                                "settings.json");
  EXPECT_EQ(settings.width, 128);
  EXPECT_EQ(settings.depth, 3);
  const ModelShape described =
      parse_model_shape(R"({"model": "language_model", "vocab": 50257, "width": 256, "depth": 6})", "model.json");
  EXPECT_EQ(described.depth, 6);
  EXPECT_EQ(described.vocabulary, 50257);
  const ModelShape result =
      parse_model_shape(R"({"model": "flowformer", "options": {"width": 16, "depth": 1}, "width": 99})", "result.json");
  EXPECT_EQ(result.width, 16);
  EXPECT_EQ(result.depth, 1);
}

TEST(ModelShape, HuggingFace) {
  const ModelShape gpt2 = parse_model_shape(
      R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_inner": null, "vocab_size": 50257,
          "n_positions": 1024})",
      "config.json");
  EXPECT_EQ(gpt2.depth, 12);
  EXPECT_EQ(gpt2.width, 768);
  EXPECT_EQ(gpt2.positions, 1024);
  EXPECT_TRUE(gpt2.decoder_only);
  EXPECT_DOUBLE_EQ(gpt2.layer_params(), 12.0 * 12 * 768 * 768);

  const ModelShape llama = parse_model_shape(
      R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
          "num_key_value_heads": 8, "intermediate_size": 14336, "hidden_act": "silu"})",
      "config.json");
  EXPECT_TRUE(llama.gated);
  EXPECT_DOUBLE_EQ(llama.layer_params(), 32.0 * 4096 * (2.5 * 4096 + 3.0 * 14336));

  const ModelShape both = parse_model_shape(
      R"({"model_type": "t5", "num_layers": 6, "d_model": 512, "num_heads": 8, "d_ff": 2048,
          "feed_forward_proj": "gated-gelu", "is_encoder_decoder": true})",
      "config.json");
  EXPECT_FALSE(both.decoder_only);
  EXPECT_TRUE(both.gated);

  const ModelShape inner = parse_model_shape(
      R"({"model_type": "llava", "hidden_size": 1, "text_config": {"model_type": "qwen2", "num_hidden_layers": 28,
          "hidden_size": 3584}})",
      "config.json");
  EXPECT_EQ(inner.width, 3584);
  EXPECT_TRUE(inner.gated);
  EXPECT_FALSE(
      parse_model_shape(R"({"model_type": "xlm-roberta", "num_hidden_layers": 2, "hidden_size": 8})", "").decoder_only);
}

TEST(ModelShape, FilesThatTellNoShape) {
  const std::pair<std::string, std::string> faults[] = {
      {"", "empty"},
      {"  \n", "empty"},
      {"[model", ""},
      {"[data]\nname = 'waves'", "depth and width"},
      {"[model]\nname = 'own'\nwidth = 64", "the depth of the model"},
      {"[model]\nwidth = 'wide'\ndepth = 2", "'wide'"},
      {"[model]\nwidth = -4\ndepth = 2", "-4"},
      {"[[part]]\nname = 'd64'", "experiment"},
      {"{\"n_layer\": 12}", "the width of the model"},
      {"{\"n_layer\": 1.5, \"n_embd\": 768}", "1.5"},
      {"{\"n_layer\": \"12\", \"n_embd\": 768}", "'n_layer' must be a whole number"},
      {"{\"n_layer\": 12", "not valid JSON"},
      {"{\"model\": 3, \"width\": 4}", "depth and width"},
  };
  for (const auto& [text, message] : faults) {
    try {
      parse_model_shape(text, "some.file");
      ADD_FAILURE() << text;
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr(message)) << text;
      EXPECT_EQ(error.file(), "some.file");
    }
  }
  EXPECT_THROW(parse_model_shape("[1, 2]", "list.json"), DataError);
  EXPECT_THROW(parse_model_shape("{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}", ""), DataError);
}

}  // namespace
}  // namespace saddle::analysis::depth_width

#include "saddle/analysis/depth_width/model_shape.hpp"

#include <gmock/gmock.h>

#include <cmath>

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
  EXPECT_EQ(inner.part, "text_config of llava");
  EXPECT_TRUE(inner.gated);
  EXPECT_FALSE(
      parse_model_shape(R"({"model_type": "xlm-roberta", "num_hidden_layers": 2, "hidden_size": 8})", "").decoder_only);
}

// Weights in 10^9 to 3 digits, as their makers count them less embeddings.
TEST(ModelShape, MixturesOfExpertsAreCounted) {
  const ModelShape mixtral = parse_model_shape(
      R"({"model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
          "num_key_value_heads": 8, "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2})",
      "config.json");
  EXPECT_DOUBLE_EQ(mixtral.layer_params(), 32.0 * 4096 * (2.5 * 4096 + 8 * 3.0 * 14336 + 8));
  EXPECT_NEAR(mixtral.layer_params() / 1e9, 46.4, 0.05);
  EXPECT_NEAR(mixtral.active_params() / 1e9, 12.6, 0.05);

  // 671 with embeddings of 1.85; keys and values pass through 512 features.
  const ModelShape deepseek = parse_model_shape(
      R"({"model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128,
          "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048,
          "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
          "moe_layer_freq": 1, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
          "qk_rope_head_dim": 64, "v_head_dim": 128, "hidden_act": "silu"})",
      "config.json");
  EXPECT_EQ(deepseek.dense_layers, 3);
  EXPECT_NEAR(deepseek.layer_params() / 1e9, 669.2, 0.1);
  EXPECT_NEAR(deepseek.active_params() / 1e9, 35.7, 0.1);

  // 30.5 with embeddings of 0.62.
  const ModelShape qwen = parse_model_shape(
      R"({"model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32,
          "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768,
          "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": []})",
      "config.json");
  EXPECT_NEAR(qwen.layer_params() / 1e9, 29.9, 0.05);
  EXPECT_NEAR(qwen.active_params() / 1e9, 2.73, 0.05);
  const ModelShape mixed = parse_model_shape(
      R"({"model_type": "qwen2_moe", "num_hidden_layers": 6, "hidden_size": 10, "intermediate_size": 40,
          "moe_intermediate_size": 5, "shared_expert_intermediate_size": 20, "num_experts": 4, "decoder_sparse_step": 2,
          "mlp_only_layers": [3]})",
      "config.json");
  EXPECT_EQ(mixed.dense_layers, 4);
  EXPECT_DOUBLE_EQ(mixed.layer_params(), 6 * 400 + 4 * 3 * 10 * 40 + 2 * (4 * 3 * 10 * 5 + 3 * 10 * 20 + 10 * 4));

  const std::string maverick =
      R"("model_type": "llama4_text", "num_hidden_layers": 48, "hidden_size": 5120, "num_attention_heads": 40,
         "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
         "num_local_experts": 128, "num_experts_per_tok": 1, )";
  std::string listed = "{" + maverick + "\"moe_layers\": [1";
  for (int layer = 3; layer < 48; layer += 2) listed += "," + std::to_string(layer);
  for (const std::string& text : {"{" + maverick + "\"interleave_moe_layer_step\": 2}", listed + "]}"}) {
    const ModelShape shape = parse_model_shape(text, "config.json");
    EXPECT_EQ(shape.dense_layers, 24);
    EXPECT_NEAR(shape.layer_params() / 1e9, 398.6, 0.2);  // about 400 with embeddings of 2.1
    EXPECT_NEAR(shape.active_params() / 1e9, 15.1, 0.2);
  }

  const ModelShape dbrx = parse_model_shape(
      R"({"model_type": "dbrx", "d_model": 6144, "n_layers": 40, "n_heads": 48, "attn_config": {"kv_n_heads": 8},
          "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}})",
      "config.json");
  EXPECT_NEAR(dbrx.layer_params() / 1e9, 130.4, 0.1);  // 132 with embeddings of 1.2
}

// Where heads are not as wide as the width by their number.
TEST(ModelShape, HeadsHaveTheirOwnWidth) {
  const ModelShape gemma = parse_model_shape(
      R"({"model_type": "gemma2", "num_hidden_layers": 26, "hidden_size": 2304, "num_attention_heads": 8,
          "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 9216})",
      "config.json");
  EXPECT_DOUBLE_EQ(gemma.layer_params(), 26.0 * 2304 * (8 * 256 * 2 + 4 * 256 * 2 + 3 * 9216));
  const ModelShape wide = parse_model_shape(
      R"({"model_type": "t5", "num_layers": 24, "d_model": 1024, "num_heads": 128, "d_kv": 128, "d_ff": 65536,
          "is_encoder_decoder": true})",
      "config.json");
  EXPECT_NEAR(wide.layer_params() / 1e9, 11.3, 0.05);
  const ModelShape falcon = parse_model_shape(
      R"({"model_type": "falcon", "num_hidden_layers": 32, "hidden_size": 4544, "num_attention_heads": 71,
          "num_kv_heads": 71, "multi_query": true, "new_decoder_architecture": false})",
      "config.json");
  EXPECT_DOUBLE_EQ(falcon.layer_params(), 32.0 * 4544 * (2 * 4544 + 2 * 64 + 8 * 4544));
}

TEST(ModelShape, DecodersCountBesideEncoders) {
  const ModelShape bart = parse_model_shape(
      R"({"model_type": "bart", "d_model": 1024, "encoder_layers": 12, "decoder_layers": 12, "num_hidden_layers": 12,
          "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096, "encoder_attention_heads": 16, "is_encoder_decoder": true})",
      "config.json");
  EXPECT_EQ(bart.depth, 12);
  EXPECT_DOUBLE_EQ(bart.layer_params(), 12.0 * (12 + 16) * 1024 * 1024);
  EXPECT_THAT(bart.other_stack, HasSubstr("encoder with a decoder"));
  EXPECT_FALSE(bart.decoder_only);
  const ModelShape half = parse_model_shape(
      R"({"model_type": "whisper", "d_model": 8, "encoder_layers": 4, "decoder_layers": 2, "encoder_ffn_dim": 32,
          "decoder_ffn_dim": 16, "is_encoder_decoder": true})",
      "config.json");
  EXPECT_DOUBLE_EQ(half.layer_params(), 4 * 12 * 64 + 2 * (8 * 64 + 2 * 8 * 16));
  const ModelShape xlnet = parse_model_shape(
      R"({"model_type": "xlnet", "d_model": 768, "n_layer": 12, "n_head": 12, "d_head": 64, "d_inner": 3072})",
      "config.json");
  EXPECT_DOUBLE_EQ(xlnet.layer_params(), 12.0 * 13 * 768 * 768);
  EXPECT_THAT(xlnet.other_stack, HasSubstr("two streams"));
  const ModelShape albert = parse_model_shape(
      R"({"model_type": "albert", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
          "intermediate_size": 3072, "num_hidden_groups": 1})",
      "config.json");
  EXPECT_DOUBLE_EQ(albert.layer_params(), 12.0 * 768 * 768);
}

// Files that leave out what follows from the type.
TEST(ModelShape, TheTypeTellsWhatTheFileDoesNot) {
  const ModelShape t5 = parse_model_shape(
      R"({"model_type": "t5", "num_layers": 6, "d_model": 512, "num_heads": 8, "d_kv": 64, "d_ff": 2048})",
      "config.json");
  EXPECT_THAT(t5.other_stack, HasSubstr("encoder with a decoder"));
  EXPECT_EQ(t5.decoder_depth, 6);
  EXPECT_FALSE(t5.decoder_only);
  const ModelShape encoder = parse_model_shape(
      R"({"model_type": "t5", "num_layers": 6, "d_model": 512, "is_encoder_decoder": false})", "config.json");
  EXPECT_EQ(encoder.other_stack, "");
  for (const char* type : {"mamba", "mamba2", "falcon_mamba", "rwkv"}) {
    const ModelShape shape = parse_model_shape(
        R"({"num_hidden_layers": 24, "hidden_size": 768, "model_type": ")" + std::string(type) + "\"}", "config.json");
    EXPECT_THAT(shape.uncounted, HasSubstr("another kind than attention")) << type;
  }
  EXPECT_EQ(parse_model_shape(R"({"model_type": "falcon", "num_hidden_layers": 2, "hidden_size": 8})", "").uncounted,
            "");
}

TEST(ModelShape, NamesOfBloom) {
  const ModelShape bloom = parse_model_shape(
      R"({"model_type": "bloom", "n_embed": 14336, "n_layer": 70, "num_attention_heads": 112})", "config.json");
  EXPECT_EQ(bloom.width, 14336);
  EXPECT_DOUBLE_EQ(bloom.layer_params(), 12.0 * 70 * 14336 * 14336);
}

// No number is better than a wrong one.
TEST(ModelShape, WhatAFileDoesNotTellIsNotCounted) {
  const std::pair<const char*, const char*> files[] = {
      {R"("model_type": "gemma3_text", "intermediate_size": 10240)", "head_dim"},
      {R"("model_type": "llama")", "intermediate_size"},
      {R"("model_type": "jamba", "attn_layer_period": 8, "num_experts": 16, "intermediate_size": 9)", "another kind"},
      {R"("model_type": "arctic", "num_local_experts": 128, "moe_layer_frequency": 2, "intermediate_size": 9)",
       "moe_layer_frequency"},
      {R"("model_type": "own", "moe_experts_total": 8, "intermediate_size": 9)", "moe_experts_total"},
      {R"("model_type": "gemma3n", "intermediate_size": [8, 9], "head_dim": 8, "num_attention_heads": 1)", "differs"},
      {R"("model_type": "bart", "is_encoder_decoder": true)", "its decoder"},
      {R"("model_type": "qwen3_next", "layer_types": ["linear_attention", "full_attention"])", "another kind"},
  };
  for (const auto& [text, reason] : files) {
    const ModelShape shape =
        parse_model_shape(R"({"num_hidden_layers": 24, "hidden_size": 64, )" + std::string(text) + "}", "config.json");
    EXPECT_THAT(shape.uncounted, HasSubstr(reason)) << text;
    EXPECT_TRUE(std::isnan(shape.layer_params())) << text;
    EXPECT_EQ(shape.depth, 24);
  }
  EXPECT_THROW(parse_model_shape(R"({"num_hidden_layers": 1, "hidden_size": 1, "num_experts": 2,
      "moe_intermediate_size": 1099511627776, "n_shared_experts": 1099511627776})",
                                 ""),
               DataError);
}

TEST(ModelShape, LayersOfSeveralWidthsAreRefused) {
  const std::pair<const char*, const char*> files[] = {
      {R"({"model_type": "swin", "hidden_size": 768, "num_layers": 4, "num_heads": [3, 6, 12, 24]})", "in stages"},
      {R"({"model_type": "swin", "depths": [2, 2, 6, 2], "embed_dim": 96})", "in stages"},
      {"[model]\nname = 'npt'\nwidth = 16\ndepth = 4", "as wide as all columns"},
      {R"({"model": "npt", "width": 16, "depth": 4})", "as wide as all columns"},
  };
  for (const auto& [text, message] : files) try {
      parse_model_shape(text, "some.file");
      ADD_FAILURE() << text;
    } catch (const NotSupported& error) {
      EXPECT_THAT(error.what(), HasSubstr(message)) << text;
      EXPECT_THAT(error.what(), HasSubstr("some.file")) << text;
    }
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

#include "saddle/nn/models/registry.hpp"

#include "saddle/nn/models/testing_internal.hpp"
#include "saddle/nn/models/vision_transformer.hpp"

namespace saddle::nn {
namespace {

using testing::message_of;

OptionTexts options_of(const std::vector<OptionValue>& values) {
  OptionTexts texts;
  for (const OptionValue& value : values) {
    EXPECT_FALSE(value.help.empty() || value.kind.empty()) << value.name;
    EXPECT_TRUE(texts.emplace(value.name, value.value).second) << value.name;
  }
  return texts;
}

TEST(Models, ListTheirOptions) {
  for (const std::string& name : model_names()) {
    const OptionTexts options = options_of(model_options(name));
    EXPECT_TRUE(options.contains("attention") && options.contains("last_attention")) << name;
  }
  EXPECT_EQ(options_of(model_options("flowformer"))["width"], "512");
  EXPECT_EQ(options_of(model_options("lra_retrieval"))["pairs"], "true");
  EXPECT_EQ(options_of(model_options("deit_base_patch16_384"))["image"], "384x384");
}

TEST(Models, AreMadeFromText) {
  const auto model = make_model("deit_small_patch8_32", {{"image", "16x24"},
                                                         {"depth", "3"},
                                                         {"classes", "7"},
                                                         {"norm_eps", "1e-5"},
                                                         {"qkv_bias", "false"},
                                                         {"attention", "softmax,softmax+sh(1,1,1,2,2,2),linear(elu1)"},
                                                         {"last_attention", "softmax"}});
  const auto* vision = model->as<VisionTransformerImpl>();
  ASSERT_NE(vision, nullptr);
  EXPECT_EQ(vision->options.image(), PixelSize(16, 24));
  EXPECT_EQ(vision->options.patch(), PixelSize(8));
  EXPECT_EQ(vision->options.width(), 384);
  EXPECT_EQ(vision->options.norm_eps(), 1e-5);
  EXPECT_FALSE(vision->options.qkv_bias());
  EXPECT_EQ(model->blocks[1]->attn->options.attention(), "softmax+sh(1,1,1,2,2,2)");
  EXPECT_EQ(model->blocks[2]->attn->options.attention(), "softmax");
  EXPECT_EQ(model->name(), "vision_transformer");
  EXPECT_EQ(model->logits({torch::randn({2, 3, 16, 24}), {}, {}, {}}).sizes(), (std::vector<int64_t>{2, 7}));
}

TEST(Models, AreMadeFromJson) {
  const auto model = model_from_json(R"({"model": "mvts", "dims": 3, "max_len": 5, "classes": 2, "dropout": 0.25,
                                         "depth": 2, "mask_keys": false, "attention": ["softmax", "softmax+bn"]})");
  OptionTexts options = options_of(model->option_values());
  EXPECT_EQ(options["dropout"], "0.25");
  EXPECT_EQ(options["mask_keys"], "false");
  EXPECT_EQ(options["attention"], "softmax,softmax+bn");
  EXPECT_EQ(
      describe(*model, -1),
      R"({"model":"time_series","dims":3,"max_len":5,"classes":2,"width":64,"hidden":256,"heads":8,"depth":2,)"
      R"("dropout":0.25,"attention_dropout":0.1,"attention":"softmax,softmax+bn","last_attention":"",)"
      R"("layer_heads":"","norm":"batch","final_norm":false,"mask_keys":false,"positions":"learned","init":"copied"})");
}

TEST(Models, SayWhatWasProbablyMeant) {
  const auto ends_with = [](const std::string& text, std::string_view end) { return text.ends_with(end) ? "" : text; };
  EXPECT_EQ(ends_with(message_of([] { make_model("flowfomer"); }), "; did you mean 'flowformer'?"), "");
  EXPECT_EQ(ends_with(message_of([] {
                        make_model("mvts", {{"atention", "softmax"}});
                      }),
                      "; did you mean 'attention'?"),
            "");
  EXPECT_EQ(message_of([] {
              make_model("mvts", {{"dims", "three"}});
            }),
            "[mvts] option 'dims' takes a whole number, found 'three'");
  EXPECT_EQ(message_of([] {
              make_model("vision_transformer", {{"image", "224by224"}});
            }),
            "[vision_transformer] option 'image' takes rows x columns such as 224x160, or one number for both, found "
            "'224by224'");
  EXPECT_EQ(message_of([] { make_model("mvts"); }), "[TimeSeriesTransformer] dims is 0: it must be at least 1");
  EXPECT_EQ(message_of([] {
              make_model("language_model", {{"vocab", "4"}, {"max_len", "4"}, {"width", "10"}});
            }),
            "[SelfAttention] width 10 cannot be cut into 4 heads");
}

TEST(Models, RefuseOtherDocuments) {
  for (const char* text : {"", "{", "[1]", "{}", R"({"model": 3})", R"({"model": "mvts", "dims": null})",
                           R"({"model": "mvts", "dims": {"a": 1}})", R"({"model": "mvts", "attention": [1]})",
                           R"({"model": "mvts", "attention": [[[["softmax"]]]]})"})
    EXPECT_TRUE(message_of([&] { model_from_json(text); }).starts_with("[model] ")) << text;
}

}  // namespace
}  // namespace saddle::nn

#include "saddle/nn/models/time_series.hpp"

#include "saddle/nn/models/testing_internal.hpp"

namespace saddle::nn {
namespace {

using testing::difference;
using testing::hidden_keys;
using testing::mask_of;
using testing::message_of;
using testing::Plain;
using testing::plain_gelu;

constexpr int64_t B = 3, N = 7, dims = 3, classes = 4;

TimeSeriesOptions small(TimeSeriesOptions options) { return options.width(12).hidden(20).heads(3).depth(2); }

TimeSeriesTransformer in_double(const TimeSeriesOptions& options) {
  torch::manual_seed(1);
  TimeSeriesTransformer model(options);
  model->to(torch::kFloat64);
  testing::randomise(*model);
  return model;
}

Tensor series() {
  torch::manual_seed(2);
  return torch::randn({B, N, dims}, torch::kFloat64);
}

Tensor embedded(const Plain& plain, const Tensor& x) {
  return std::sqrt(12.0) * plain.linear("project_inp", x) + plain["pos_embed"];
}

Tensor classified(const Plain& plain, const Tensor& y, const Tensor& mask) {
  return plain.linear("head", (plain_gelu(y) * mask.unsqueeze(2)).flatten(1));
}

TEST(TimeSeriesTransformer, MvtsIsThePlainComposition) {
  const auto options = small(TimeSeriesOptions::mvts(dims, N, classes)).dropout(0).attention_dropout(0);
  for (const bool training : {false, true}) {
    TimeSeriesTransformer model = in_double(options);
    model->train(training);
    const Tensor x = series(), mask = mask_of({7, 4, 1}, N);
    const Plain plain(*model->clone());  // running statistics move
    const Tensor found = model(x, mask);
    Tensor y = embedded(plain, x);
    for (const char* layer : {"blocks.0", "blocks.1"}) {
      const Plain block = plain.under(layer);
      y = block.batch_norm("norm1", y + block.under("attn").attention(y, 3, hidden_keys(mask)), training);
      y = block.batch_norm("norm2", y + block.under("mlp").mlp(y), training);
    }
    EXPECT_LT(difference(found, classified(plain, y, mask)), 1e-10) << training;
  }
}

TEST(TimeSeriesTransformer, FlowformerIsThePlainComposition) {
  const auto options = small(TimeSeriesOptions::flowformer(dims, N, classes)).dropout(0).attention_dropout(0);
  TimeSeriesTransformer model = in_double(options);
  const Tensor x = series(), mask = mask_of({7, 4, 1}, N);
  const Plain plain(*model);
  Tensor y = embedded(plain, x);
  for (const char* layer : {"blocks.0", "blocks.1"}) {
    const Plain block = plain.under(layer);
    y = block.layer_norm("norm1", y + block.under("attn").attention(y, 3));
    y = block.layer_norm("norm2", y + block.under("mlp").mlp(y));
  }
  EXPECT_LT(difference(model(x, mask), classified(plain, plain.layer_norm("norm", y), mask)), 1e-10);
}

TEST(TimeSeriesTransformer, HasTheSizesOfTheHarnesses) {
  const auto a = TimeSeriesOptions::mvts(dims, N, classes), b = TimeSeriesOptions::flowformer(dims, N, classes);
  EXPECT_EQ(std::vector<int64_t>({a.width(), a.hidden(), a.heads(), a.depth()}), std::vector<int64_t>({64, 256, 8, 3}));
  EXPECT_EQ(std::vector<int64_t>({b.width(), b.hidden(), b.heads(), b.depth()}),
            std::vector<int64_t>({512, 2048, 8, 2}));
  EXPECT_EQ(a.dropout(), 0.1);
  EXPECT_EQ(b.attention_dropout(), 0.1);
}

// Padded steps hold other numbers: mvts does not see them, flowformer does, and neither does when they are cut off the
// head alone.
TEST(TimeSeriesTransformer, HidesPaddingAsItsHarnessDoes) {
  const Tensor x = series(), mask = mask_of({7, 4, 1}, N);
  const Tensor other = x + 5 * mask.logical_not().unsqueeze(2);
  TimeSeriesTransformer mvts = in_double(small(TimeSeriesOptions::mvts(dims, N, classes)));
  TimeSeriesTransformer flow = in_double(small(TimeSeriesOptions::flowformer(dims, N, classes)));
  mvts->eval();
  flow->eval();
  EXPECT_LT(difference(mvts(other, mask), mvts(x, mask)), 1e-14);
  EXPECT_GT(difference(flow(other, mask), flow(x, mask)), 1e-3);
  EXPECT_LT(difference(flow(x, mask_of({7, 7, 7}, N)), flow(x)), 1e-14);
  EXPECT_GT(difference(flow(x, mask), flow(x)), 1e-3);
  EXPECT_TRUE(torch::equal(mvts(x, mask.to(torch::kFloat32)), mvts(x, mask)));
}

TEST(TimeSeriesTransformer, StartsAsItsHarnessDoes) {
  torch::manual_seed(3);
  TimeSeriesTransformer mvts(
      small(TimeSeriesOptions::mvts(dims, N, classes)).attention({"softmax+bn(learn=head)", "softmax"}));
  TimeSeriesTransformer flow(small(TimeSeriesOptions::flowformer(dims, N, classes)));
  EXPECT_EQ(mvts->blocks[0]->attn->named_parameters().size(), 5);
  for (const auto& item : mvts->blocks[1]->named_parameters())
    EXPECT_TRUE(torch::equal(item.value(), mvts->blocks[0]->named_parameters()[item.key()])) << item.key();
  EXPECT_FALSE(torch::equal(flow->blocks[0]->mlp->fc1->weight, flow->blocks[1]->mlp->fc1->weight));

  const auto largest = [](const Tensor& tensor) { return tensor.abs().max().item<double>(); };
  const double xavier = std::sqrt(6.0 / (12 + 36)), usual = 1 / std::sqrt(12.0);
  EXPECT_LT(largest(mvts->blocks[0]->attn->qkv->weight), xavier);
  EXPECT_GT(largest(mvts->blocks[0]->attn->qkv->weight), usual);
  EXPECT_EQ(largest(mvts->blocks[0]->attn->qkv->bias), 0);
  EXPECT_EQ(largest(mvts->blocks[0]->attn->proj->bias), 0);
  EXPECT_LT(largest(flow->blocks[0]->attn->qkv->weight), usual);
  EXPECT_GT(largest(flow->blocks[0]->attn->qkv->bias), 0);
  EXPECT_LE(largest(mvts->pos_embed), 0.02);
  EXPECT_GT(largest(mvts->pos_embed), 0.018);
}

TEST(TimeSeriesTransformer, KnowsFixedPositions) {
  TimeSeriesTransformer model(small(TimeSeriesOptions::mvts(dims, N, classes)).positions("fixed"));
  EXPECT_FALSE(model->named_parameters().contains("pos_embed"));
  EXPECT_TRUE(model->named_buffers().contains("pos_embed"));
  EXPECT_NEAR(model->pos_embed[0][3][4].item<double>(), std::sin(3 / std::pow(10000, 4.0 / 12)), 1e-6);
  EXPECT_NEAR(model->pos_embed[0][5][7].item<double>(), std::cos(5 / std::pow(10000, 6.0 / 12)), 1e-6);
}

TEST(TimeSeriesTransformer, DropsOnlyWhileTraining) {
  TimeSeriesTransformer model = in_double(small(TimeSeriesOptions::flowformer(dims, N, classes)));
  const Tensor x = series();
  EXPECT_GT(difference(model(x), model(x)), 1e-3);
  model->eval();
  EXPECT_TRUE(torch::equal(model(x), model(x)));
}

TEST(TimeSeriesTransformer, SaysWhatDoesNotFit) {
  TimeSeriesTransformer model(small(TimeSeriesOptions::mvts(dims, N, classes)));
  EXPECT_EQ(message_of([&] {
              model(torch::randn({B, N + 2, dims}));
            }),
            "[TimeSeriesTransformer] x has shape (3,9,3): (B,7,3) is expected");
  EXPECT_EQ(message_of([&] {
              model(torch::randn({B, N, dims}), torch::ones({B, N + 1}));
            }),
            "[TimeSeriesTransformer] the mask has shape (3,8): (3,7) is expected, true where a step exists");
  EXPECT_EQ(message_of([&] { TimeSeriesTransformer none(TimeSeriesOptions(0, N, classes)); }),
            "[TimeSeriesTransformer] dims is 0: it must be at least 1");
  EXPECT_EQ(message_of([&] { TimeSeriesTransformer none(TimeSeriesOptions(dims, N, classes).positions("rotary")); }),
            "[TimeSeriesTransformer] positions is 'rotary': it must be learned or fixed");
  EXPECT_EQ(message_of([&] { TimeSeriesTransformer none(TimeSeriesOptions(dims, N, classes).dropout(1)); }),
            "[TimeSeriesTransformer] dropout is 1: it must lie in [0, 1)");
}

}  // namespace
}  // namespace saddle::nn

#include "saddle/nn/time_encoding.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/time_attention/time_encoder.hpp"
#include "saddle/nn/layer_reference.hpp"

namespace saddle::nn {
namespace {

namespace events = mechanisms::time_attention;

struct EncodingCase {
  const char* text;
  int64_t width;
};
constexpr EncodingCase all_cases[] = {{"mercer", 4},
                                      {"mercer(degree=1)", 3},
                                      {"mercer(degree=3,variant=flex)", 3},
                                      {"mercer(degree=2,variant=paper)", 10},
                                      {"bochner", 6},
                                      {"bochner(variant=normal)", 6},
                                      {"bochner(variant=invcdf-mlp)", 6},
                                      {"bochner(variant=log-normal)", 6},
                                      {"bochner(variant=uniform)", 6},
                                      {"bochner(variant=paper)", 6}};

double distance(const Tensor& found, const std::vector<double>& expected) {
  const Tensor other = torch::tensor(expected, torch::kFloat64);
  return ((found.detach().to(torch::kFloat64).flatten() - other).abs().max() / other.abs().max().clamp_min(1))
      .item<double>();
}

tape::Value reference(const std::string& text, const tape::Value& t, const tape::Value& sample,
                      const std::map<std::string, tape::Value>& weights) {
  const auto encoder = events::parse_time_encoder(text);
  if (const auto* mercer = std::get_if<mechanisms::time_mercer::Mercer>(&encoder)) return mercer->reference(t, weights);
  return std::get<mechanisms::time_bochner::Bochner>(encoder).reference(t, sample, weights);
}

// Random numbers as the variant takes them, undefined if it takes none.
Tensor sample_for(const std::string& text, int64_t width) {
  const auto encoder = events::parse_time_encoder(text);
  const auto* bochner = std::get_if<mechanisms::time_bochner::Bochner>(&encoder);
  if (bochner == nullptr || bochner->sample().empty()) return {};
  const Tensor u = torch::rand({width / 2}, torch::kFloat64);
  return bochner->sample() == "period" ? 1 + 100 * u : u;
}

TEST(TimeEncoding, FollowsTheReferences) {
  for (const auto& [text, width] : all_cases) {
    SCOPED_TRACE(text);
    torch::manual_seed(5);
    TimeEncoding encoding(width, text);
    encoding->to(torch::kFloat64);
    {
      const torch::NoGradGuard guard;
      for (Tensor& parameter : encoding->parameters()) parameter.add_(torch::rand_like(parameter), 0.2);
    }
    const Tensor t = (300 * torch::rand({2, 7}, torch::kFloat64)).requires_grad_(), sample = sample_for(text, width);
    const Tensor phi = encoding->forward(t, {}, sample), cotangent = torch::randn_like(phi);
    ASSERT_EQ(phi.sizes(), (std::vector<int64_t>{2, 7, width}));
    (phi * cotangent).sum().backward();

    const tape::Value times = on_tape(t);
    std::map<std::string, tape::Value> weights;
    for (const auto& item : encoding->named_parameters()) weights.emplace(item.key(), on_tape(item.value()));
    const tape::Value expected = reference(text, times, on_tape(sample), weights);
    EXPECT_LT(distance(phi, expected.data()), 1e-10);
    tape::backward({{expected, on_tape(cotangent).data()}});
    EXPECT_LT(distance(t.grad(), times.gradient()), 1e-9);
    for (const auto& item : encoding->named_parameters())
      EXPECT_LT(distance(item.value().grad(), weights.at(item.key()).gradient()), 1e-9) << item.key();
  }
}

// Years in seconds: a phase in float32 would be wrong by whole turns.
TEST(TimeEncoding, FloatParametersKeepLargePhases) {
  for (const char* text : {"mercer(degree=10)", "bochner", "bochner(variant=paper)"}) {
    SCOPED_TRACE(text);
    torch::manual_seed(6);
    TimeEncoding encoding(4, text);
    const Tensor t = 6e7 * torch::rand({3, 50}, torch::kFloat64);
    const Tensor rounded = encoding(t);
    EXPECT_EQ(rounded.scalar_type(), torch::kFloat32);
    encoding->to(torch::kFloat64);
    EXPECT_LT((rounded - encoding(t)).abs().max().item<double>(), 2e-5);
  }
}

TEST(TimeEncoding, DrawsAnewUnlessASampleIsGiven) {
  torch::manual_seed(7);
  TimeEncoding encoding(6, "bochner(variant=normal)");
  encoding->eval();
  const Tensor t = torch::rand({1, 4}), sample = torch::randn({3});
  EXPECT_FALSE(encoding(t).equal(encoding(t)));
  EXPECT_TRUE(encoding->forward(t, {}, sample).equal(encoding->forward(t, {}, sample)));
}

TEST(TimeEncoding, CopiesComputeTheSameWithNumbersOfTheirOwn) {
  TimeEncoding encoding(4, "mercer");
  const auto copy = std::dynamic_pointer_cast<TimeEncodingImpl>(encoding->clone());
  const Tensor t = torch::rand({1, 4}), before = encoding(t);
  EXPECT_TRUE(copy->forward(t).equal(before));
  const torch::NoGradGuard guard;
  copy->named_parameters()["bias"].add_(1);
  EXPECT_TRUE(encoding(t).equal(before));
  EXPECT_FALSE(copy->forward(t).equal(before));
}

// The last event has the same position wherever the padding stands.
TEST(TimeEncoding, PositionsAreCountedFromTheLastEvent) {
  TimeEncoding encoding(TimeEncodingOptions(2, "positions").positions(5));
  const Tensor t = torch::zeros({2, 3});
  const Tensor mask = torch::tensor({{true, true, false}, {false, true, true}});
  const Tensor phi = encoding(t, mask), table = encoding->named_parameters()["table"];
  EXPECT_TRUE(phi[0][1].equal(table[4]));
  EXPECT_TRUE(phi[0][0].equal(table[3]));
  EXPECT_TRUE(phi[1][2].equal(table[4]));
  EXPECT_TRUE(encoding(t)[0][0].equal(table[2]));
  EXPECT_THROW(encoding(torch::zeros({1, 6})), InvalidArgument);
}

TEST(TimeEncoding, WrongInputIsRefused) {
  EXPECT_THROW(TimeEncoding(3, "bochner"), InvalidArgument);
  EXPECT_THROW(TimeEncoding(4, "fourier"), InvalidArgument);
  EXPECT_THROW(TimeEncoding(4, "positions"), InvalidArgument);
  TimeEncoding encoding(4, "bochner(variant=normal)");
  EXPECT_THROW(encoding(torch::zeros({3})), InvalidArgument);
  EXPECT_THROW(encoding->forward(torch::zeros({1, 3}), {}, torch::zeros({3})), InvalidArgument);
}

}  // namespace
}  // namespace saddle::nn

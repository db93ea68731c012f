// Files that are exported, and what is refused. Whether they compute the same is for tests/onnx to say.
#include "saddle/nn/onnx/export_onnx.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "saddle/base/error.hpp"
#include "saddle/nn/models/registry.hpp"
#include "saddle/nn/multihead_attention.hpp"
#include "saddle/nn/onnx/export_model.hpp"
#include "saddle/version.hpp"

namespace saddle::nn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Onnx : public ::testing::Test {
 protected:
  Onnx() : folder_(std::filesystem::temp_directory_path() / ("saddle_onnx_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    torch::manual_seed(1);
  }
  ~Onnx() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path path() const { return folder_ / "model.onnx"; }
  std::string contents() const {
    std::ostringstream text;
    text << std::ifstream(path(), std::ios::binary).rdbuf();
    return text.str();
  }
  // The message of the error that exporting x [2,6] -> function(x) gives.
  template <class Error>
  std::string refusal(const std::function<Tensor(const Tensor&)>& function, const OnnxOptions& options = {}) const {
    try {
      export_onnx([&](const std::vector<Tensor>& x) { return std::vector<Tensor>{function(x[0])}; },
                  {{"x", torch::randn({2, 6})}}, options, path());
    } catch (const Error& error) {
      return error.what();
    }
    return "no refusal";
  }

  std::filesystem::path folder_;
};

std::string bytes_of(const Tensor& tensor) { return {static_cast<const char*>(tensor.data_ptr()), tensor.nbytes()}; }

TEST_F(Onnx, KeepsParametersWithTheirNames) {
  MultiheadAttention module(
      MultiheadAttentionOptions(12, 4).attention("softmax+bn(beta=0.6,learn=head)").batch_first(true));
  OnnxOptions options;
  options.module = module.ptr().get();
  options.attention = module->options.attention();
  options.outputs = {"attended"};
  export_onnx(
      [&](const std::vector<Tensor>& x) {
        return std::vector<Tensor>{std::get<0>(module->forward(x[0], x[0], x[0], {}, false))};
      },
      {{"tokens", torch::randn({1, 9, 12})}}, options, path());
  const std::string file = contents();
  for (const auto& parameter : module->named_parameters()) {
    EXPECT_THAT(file, HasSubstr(parameter.key()));
    EXPECT_NE(file.find(bytes_of(parameter.value())), std::string::npos) << parameter.key();
  }
  for (const char* text : {"tokens", "attended", "batch", "saddle", SADDLE_VERSION, "softmax+bn(beta=0.6,learn=head)"})
    EXPECT_THAT(file, HasSubstr(text));
}

// Heads that are pooled before their projections: neighbours, out of order, and over a grid.
TEST_F(Onnx, WritesScaledHeads) {
  for (const char* text : {"softmax+sh(1,1,2,4)", "softmax+bn+sh(2,1,3,1)", "softmax+sh(1,2,2,1,pool=2d,grid=3x3)"}) {
    MultiheadAttention module(MultiheadAttentionOptions(12, 4).attention(text).batch_first(true));
    OnnxOptions options;
    options.module = module.ptr().get();
    options.attention = text;
    const auto attend = [&](const std::vector<Tensor>& x) {
      return std::vector<Tensor>{std::get<0>(module->forward(x[0], x[0], x[0], {}, false))};
    };
    EXPECT_NO_THROW(export_onnx(attend, {{"tokens", torch::randn({1, 9, 12})}}, options, path())) << text;
    EXPECT_THAT(contents(), HasSubstr(text));
  }
}

TEST_F(Onnx, WritesModelsWithWhatTheyAre) {
  const auto model = make_model("mvts", {{"dims", "3"}, {"max_len", "20"}, {"classes", "4"}});
  Batch example;
  example.inputs = torch::randn({2, 20, 3});
  example.mask = torch::ones({2, 20}, torch::kBool);
  model->blocks[1]->eval();
  export_onnx(*model, example, path());
  for (const char* text : {"inputs", "mask", "logits", "blocks.0.attn.qkv.weight", "running_mean", "\"max_len\""})
    EXPECT_THAT(contents(), HasSubstr(text));
  EXPECT_THAT(contents(), Not(HasSubstr("num_batches_tracked")));
  EXPECT_TRUE(model->is_training() && model->blocks->is_training() && model->blocks[0]->is_training());
  EXPECT_FALSE(model->blocks[1]->is_training());
}

TEST_F(Onnx, NamesWhatHasNoCounterpart) {
  OnnxOptions options;
  options.attention = "softmax";
  EXPECT_THAT(refusal<NotSupported>([](const Tensor& x) { return x.erfinv(); }, options),
              AllOf(HasSubstr("aten::erfinv"), HasSubstr("softmax")));
  EXPECT_THAT(refusal<NotSupported>([](const Tensor& x) { return x.clone().add_(1); }, options),
              AllOf(HasSubstr("aten::add_"), HasSubstr("softmax")));
  EXPECT_THAT(refusal<NotSupported>([](const Tensor& x) { return x + torch::rand({6}); }), HasSubstr("random"));
  EXPECT_THAT(refusal<NotSupported>([](const Tensor& x) { return x + torch::empty({6}).fill_(1); }),
              HasSubstr("aten::fill_"));
}

TEST_F(Onnx, WritesFloat32Only) {
  EXPECT_THAT(refusal<NotSupported>([](const Tensor& x) { return x.to(torch::kFloat64) * 2; }), HasSubstr("Double"));
  torch::nn::Linear layer(6, 3);
  layer->to(torch::kBFloat16);
  OnnxOptions options;
  options.module = layer.ptr().get();
  EXPECT_THAT(refusal<NotSupported>([&](const Tensor& x) { return layer(x); }, options),
              AllOf(HasSubstr("weight"), HasSubstr("BFloat16")));
}

TEST_F(Onnx, RefusesDecisionsByValues) {
  const auto larger = [](const Tensor& x) { return x.sum().item<float>() > 0 ? x : -x; };
  EXPECT_THAT(refusal<NotSupported>(larger), HasSubstr("aten::item"));
  const Tensor constant = torch::ones({6});
  const auto decided = [&](const Tensor& x) { return constant.sum().item<float>() > 0 ? x * 2 : -x; };
  EXPECT_EQ(refusal<NotSupported>(decided), "no refusal");

  // A mask of numbers is read to see whether it hides or adds.
  MultiheadAttention module(MultiheadAttentionOptions(6, 2));
  OnnxOptions options;
  options.module = module.ptr().get();
  options.dynamic_batch = false;
  EXPECT_THAT(refusal<NotSupported>(
                  [&](const Tensor& x) { return std::get<0>(module->forward(x, x, x, {}, false, x.narrow(1, 0, 2))); },
                  options),
              HasSubstr("aten::item"));
}

TEST_F(Onnx, AsksForTheModule) {
  torch::nn::Linear layer(6, 3);
  EXPECT_THAT(refusal<InvalidArgument>([&](const Tensor& x) { return layer(x); }), HasSubstr("module"));
  torch::nn::Dropout dropout(0.5);
  EXPECT_THAT(refusal<NotSupported>([&](const Tensor& x) { return dropout(x); }), HasSubstr("aten::dropout"));
}

TEST_F(Onnx, RefusesSizesThatAreNoMultipleOfTheBatch) {
  const auto pairs = [](const Tensor& x) { return x.matmul(x.t()).flatten(); };
  EXPECT_THAT(refusal<NotSupported>(pairs), AllOf(HasSubstr("aten::flatten"), HasSubstr("no multiple")));
  const auto half = [](const Tensor& x) { return x.narrow(0, 0, x.size(0) / 2); };
  EXPECT_THAT(refusal<NotSupported>(half), AllOf(HasSubstr("aten::narrow"), HasSubstr("no multiple")));
  const auto other = [](const Tensor& x) { return x.size(0) == 5 ? x * 2 : x + 1; };
  EXPECT_THAT(refusal<NotSupported>(other), HasSubstr("other operations"));
  OnnxOptions fixed;
  fixed.dynamic_batch = false;
  EXPECT_EQ(refusal<NotSupported>(pairs, fixed), "no refusal");
  EXPECT_EQ(refusal<NotSupported>(other, fixed), "no refusal");
  EXPECT_THAT(contents(), Not(HasSubstr("batch")));
}

TEST_F(Onnx, ChecksNames) {
  const auto identity = [](const std::vector<Tensor>& x) { return x; };
  const OnnxInput x{"x", torch::randn({2, 6})}, scalar{"s", torch::randn({})};
  EXPECT_THROW(export_onnx(identity, {}, {}, path()), InvalidArgument);
  EXPECT_THROW(export_onnx(identity, {x, x}, {}, path()), InvalidArgument);
  EXPECT_THROW(export_onnx(identity, {scalar}, {}, path()), InvalidArgument);
  OnnxOptions options;
  options.outputs = {"a", "b"};
  EXPECT_THROW(export_onnx(identity, {x}, options, path()), InvalidArgument);
  options.outputs = {"x"};
  EXPECT_THROW(export_onnx(identity, {x}, options, path()), InvalidArgument);
  EXPECT_THAT(contents(), IsEmpty());
}

TEST_F(Onnx, LeavesTheOldFileWhereItFails) {
  std::ofstream(path()) << "old";
  EXPECT_THAT(refusal<NotSupported>([](const Tensor& x) { return x.erfinv(); }), HasSubstr("erfinv"));
  EXPECT_EQ(contents(), "old");
  EXPECT_EQ(refusal<Error>([](const Tensor& x) { return x.exp(); }), "no refusal");
  EXPECT_THAT(contents(), HasSubstr("Exp"));
  const auto identity = [](const std::vector<Tensor>& x) { return x; };
  EXPECT_THROW(export_onnx(identity, {{"x", torch::randn({2, 6})}}, {}, folder_ / "missing" / "model.onnx"), IoError);
}

}  // namespace
}  // namespace saddle::nn

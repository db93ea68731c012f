#include "saddle/nn/weights.hpp"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cstdlib>
#include <functional>
#include <limits>

#include "saddle/base/error.hpp"
#include "saddle/io/safetensors.hpp"
#include "saddle/nn/dense/linear.hpp"
#include "saddle/nn/multihead_attention.hpp"

namespace saddle::nn {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::ThrowsMessage;
using torch::Tensor;
using Options = LoadWeightsOptions;

// One of everything: a child, parameters that are dense, transposed and empty, buffers of other dtypes.
struct Mixed : torch::nn::Module {
  explicit Mixed(torch::ScalarType type = torch::kFloat32) {
    linear = register_module("linear", torch::nn::Linear(4, 3));
    plain = register_module("plain", torch::nn::Linear(torch::nn::LinearOptions(2, 2).bias(false)));
    transposed = register_parameter("transposed", torch::randn({5, 2}).t());
    empty = register_parameter("empty", torch::zeros({0, 3}));
    scalar = register_parameter("scalar", torch::randn({}));
    to(type);  // before the buffers: it would convert them as well
    steps = register_buffer("steps", torch::tensor({std::numeric_limits<int64_t>::max() - 1, int64_t{-5}}));
    mask = register_buffer("mask", torch::tensor({true, false, true}));
  }
  torch::nn::Linear linear{nullptr}, plain{nullptr};
  Tensor transposed, empty, scalar, steps, mask;
};

bool same(const torch::nn::Module& a, const torch::nn::Module& b) {
  const auto equal = [](const auto& first, const auto& second) {
    if (first.size() != second.size()) return false;
    for (const auto& item : first)
      if (item.value().scalar_type() != second[item.key()].scalar_type() || !item.value().equal(second[item.key()]))
        return false;
    return true;
  };
  return equal(a.named_parameters(), b.named_parameters()) && equal(a.named_buffers(), b.named_buffers());
}

// Two names for one layer, or two layers.
struct Pair : torch::nn::Module {
  explicit Pair(bool tied = true) {
    const auto layer = [] { return torch::nn::Linear(torch::nn::LinearOptions(4, 6).bias(false)); };
    head = register_module("head", layer());
    embed = register_module("embed", tied ? head : layer());
  }
  torch::nn::Linear head{nullptr}, embed{nullptr};
};

class Weights : public testing::Test {
 protected:
  Weights() {
    torch::manual_seed(3);
    std::string name = (fs::path(testing::TempDir()) / "saddle-XXXXXX").string();
    folder = ::mkdtemp(name.data());
    path = folder / "w.safetensors";
  }
  ~Weights() override { fs::remove_all(folder); }

  std::string refusal(torch::nn::Module& module, const Options& options = {}) const {
    try {
      load_weights(module, path, options);
    } catch (const DataError& error) {
      EXPECT_EQ(error.file(), path.string());
      return std::string(error.what()) + " | " + error.hint();
    }
    return "no error";
  }

  // The file with some changes.
  void edit(const std::function<void(TensorFile&)>& change) const {
    TensorFile file = io::read_safetensors(path);
    change(file);
    io::write_safetensors(path, file);
  }

  fs::path folder, path;
};

TEST_F(Weights, GoThereAndBack) {
  for (const auto type : {torch::kFloat32, torch::kFloat64, torch::kBFloat16}) {
    const Mixed from(type);
    Mixed to(type);
    EXPECT_FALSE(same(from, to));
    save_weights(from, path, {{"attention", "softmax"}});
    const LoadedWeights loaded = load_weights(to, path);
    EXPECT_TRUE(same(from, to));
    EXPECT_THAT(loaded.missing, IsEmpty());
    EXPECT_THAT(loaded.unexpected, IsEmpty());
    EXPECT_EQ(loaded.metadata.at("attention"), "softmax");
    EXPECT_EQ(loaded.metadata.at("format"), "pt");
  }
}

TEST_F(Weights, TheFileHoldsDottedNamesAndDenseValues) {
  const Mixed module;
  save_weights(module, path);
  const TensorFile file = io::read_safetensors(path);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : file.tensors) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("empty", "linear.bias", "linear.weight", "mask", "plain.weight", "scalar", "steps",
                                 "transposed"));
  const auto& transposed = file.tensors.at("transposed");
  EXPECT_EQ(transposed.shape(), (Shape{2, 5}));
  EXPECT_EQ(transposed.at(1), module.transposed[0][1].item<double>());
  EXPECT_EQ(file.tensors.at("mask").dtype(), DType::boolean);
  EXPECT_EQ(file.tensors.at("steps").dtype(), DType::i64);
  EXPECT_EQ(file.tensors.at("scalar").shape(), Shape{});
}

// The module keeps its tensors: their memory, strides and place in the graph.
TEST_F(Weights, ValuesAreCopiedInPlaceAndCounted) {
  save_weights(Mixed(), path);
  Mixed module;
  const auto before = module.named_parameters();
  const void* address = module.transposed.data_ptr();
  const auto version = module.linear->weight._version();
  load_weights(module, path);
  EXPECT_EQ(module.transposed.data_ptr(), address);
  EXPECT_EQ(module.transposed.stride(0), 1);
  EXPECT_GT(module.linear->weight._version(), version);
  for (const auto& item : before) {
    EXPECT_TRUE(item.value().is_leaf()) << item.key();
    EXPECT_TRUE(item.value().requires_grad()) << item.key();
  }
}

TEST_F(Weights, PackedWeightsNotice) {
  const torch::NoGradGuard guard;
  torch::nn::Linear from(64, 32), to(64, 32);
  save_weights(*from, path);
  const Tensor x = torch::randn({8, 64}).to(torch::kBFloat16);
  linear(x, to->weight, to->bias);
  load_weights(*to, path);
  EXPECT_TRUE(linear(x, to->weight, to->bias).equal(linear(x, from->weight, from->bias)));
}

TEST_F(Weights, TorchsAttentionLoadsIntoOurs) {
  torch::nn::MultiheadAttention theirs(torch::nn::MultiheadAttentionOptions(12, 3));
  MultiheadAttention ours(12, 3);
  save_weights(*theirs, path);
  load_weights(*ours, path);
  const Tensor x = torch::randn({7, 2, 12});
  const Tensor a = std::get<0>(ours->forward(x, x, x)), b = std::get<0>(theirs->forward(x, x, x));
  EXPECT_LT((a - b).abs().max().item<double>(), 1e-6);
}

TEST_F(Weights, OneErrorNamesEverythingAndNothingChanges) {
  save_weights(Mixed(), path);
  edit([](TensorFile& file) {
    auto node = file.tensors.extract("linear.bias");
    node.key() = "linear.bais";
    file.tensors.insert(std::move(node));
    file.tensors.erase("steps");
    file.tensors["transposed"] = saddle::Tensor(DType::f32, {5, 2});
    file.tensors["scalar"] = saddle::Tensor(DType::i32, {});
  });
  Mixed module;
  const auto copy = [](const Mixed& m) {
    std::vector<Tensor> values;
    for (const Tensor& tensor : m.parameters()) values.push_back(tensor.detach().clone());
    return values;
  };
  const auto before = copy(module);
  const std::string message = refusal(module);
  for (const char* part : {"missing in the file, 2 of 8: \"linear.bias\", \"steps\"",
                           "unexpected in the file, 1 of 7: \"linear.bais\" (did you mean \"linear.bias\"?)",
                           "\"transposed\" is F32 (5,2) in the file, f32 (2,5) in the module",
                           "\"scalar\" is I32 () in the file, f32 () in the module"})
    EXPECT_THAT(message, HasSubstr(part));
  // Wrong shapes are never loaded.
  EXPECT_THAT(refusal(module, Options().strict(false).cast(true)),
              AllOf(HasSubstr("transposed"), HasSubstr("scalar"), Not(HasSubstr("bais"))));
  const auto after = copy(module);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(before[i].equal(after[i]));
}

TEST_F(Weights, LongListsAreShortened) {
  save_weights(Mixed(), path);
  torch::nn::Sequential many;
  for (int i = 0; i < 200; ++i) many->push_back(torch::nn::Linear(1, 1));
  const std::string message = refusal(*many);
  EXPECT_THAT(message, AllOf(HasSubstr("missing in the file, 400 of 400"), HasSubstr("and 392 more")));
  EXPECT_LT(message.size(), 1500u);
}

TEST_F(Weights, LooseLoadingSaysWhatItDidNotDo) {
  save_weights(Mixed(), path);
  edit([](TensorFile& file) {
    file.tensors.erase("linear.bias");
    file.tensors["other"] = saddle::Tensor(DType::f32, {1});
  });
  Mixed module;
  const Tensor bias = module.linear->bias.detach().clone();
  const LoadedWeights loaded = load_weights(module, path, Options().strict(false));
  EXPECT_THAT(loaded.missing, ElementsAre("linear.bias"));
  EXPECT_THAT(loaded.unexpected, ElementsAre("other"));
  EXPECT_TRUE(module.linear->bias.equal(bias));
  EXPECT_EQ(module.linear->weight[0][0].item<float>(), io::read_safetensors(path).tensors.at("linear.weight").at(0));
}

TEST_F(Weights, APrefixLoadsAPart) {
  const Mixed whole;
  save_weights(whole, path);
  torch::nn::Linear part(4, 3);
  EXPECT_THAT(refusal(*part), HasSubstr("missing in the file, 2 of 2"));
  load_weights(*part, path, Options().prefix("linear."));
  EXPECT_TRUE(same(*part, *whole.linear));
  EXPECT_THAT(refusal(*part, Options().prefix("plain.")),
              AllOf(HasSubstr("\"bias\""), HasSubstr("\"weight\" is F32 (2,2)"), Not(HasSubstr("linear"))));
}

TEST_F(Weights, OtherDtypesNeedTheCast) {
  const Mixed from;
  save_weights(from, path);
  Mixed to(torch::kBFloat16);
  EXPECT_THAT(refusal(to), AllOf(HasSubstr("\"linear.weight\" is F32 (3,4) in the file, bf16 (3,4) in the module"),
                                 HasSubstr("cast")));
  load_weights(to, path, Options().cast(true));
  EXPECT_EQ(to.linear->weight.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(to.linear->weight.equal(from.linear->weight.to(torch::kBFloat16)));
  EXPECT_TRUE(to.steps.equal(from.steps));
  // Between whole numbers and others nothing is cast.
  edit([](TensorFile& file) { file.tensors["steps"] = saddle::Tensor(DType::f64, {2}); });
  EXPECT_THAT(refusal(to, Options().cast(true)), HasSubstr("\"steps\" is F64 (2) in the file, i64 (2) in the module"));
}

TEST_F(Weights, BytesOfBooleansBecomeBooleans) {
  save_weights(Mixed(), path);
  edit([](TensorFile& file) { file.tensors.at("mask").bytes() = {std::byte{0}, std::byte{2}, std::byte{255}}; });
  Mixed module;
  load_weights(module, path);
  EXPECT_EQ(module.mask.sum().item<int64_t>(), 2);
  EXPECT_TRUE(module.mask.equal(torch::tensor({false, true, true})));
}

TEST_F(Weights, TiedWeightsAreSavedOnce) {
  const Pair from;
  save_weights(from, path);
  const TensorFile file = io::read_safetensors(path);
  EXPECT_EQ(file.tensors.size(), 1u);
  EXPECT_TRUE(file.tensors.contains("embed.weight"));
  EXPECT_EQ(file.metadata.at("head.weight"), "embed.weight");
  Pair to;
  load_weights(to, path);
  EXPECT_TRUE(same(from, to));
  // A module that does not tie them gets the value twice.
  Pair untied(false);
  load_weights(untied, path);
  EXPECT_TRUE(same(from, untied));
  EXPECT_THAT(
      [&] {
        save_weights(from, path, {{"head.weight", "mine"}});
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("tied")));
}

TEST_F(Weights, TiedWeightsAreFoundUnderAnyName) {
  const Pair from(false);
  for (const char* other : {"head.weight", "embed.weight"}) {
    save_weights(from, path);
    edit([&](TensorFile& file) { file.tensors.erase(other); });
    Pair to;
    load_weights(to, path);
    EXPECT_TRUE(to.head->weight.equal(std::string(other) == "head.weight" ? from.embed->weight : from.head->weight));
  }
  // Both names with one value are fine, with two they are not.
  save_weights(from, path);
  Pair to;
  const Tensor before = to.head->weight.detach().clone();
  EXPECT_THAT(refusal(to), AllOf(HasSubstr("one tensor in the module"), HasSubstr("\"head.weight\"")));
  EXPECT_TRUE(to.head->weight.equal(before));
  edit([](TensorFile& file) { file.tensors["embed.weight"] = file.tensors["head.weight"]; });
  load_weights(to, path);
  EXPECT_TRUE(to.head->weight.equal(from.head->weight));
}

// Views of one memory that are not the same tensor are saved each for itself.
TEST_F(Weights, OverlappingViewsAreNotTied) {
  struct Views : torch::nn::Module {
    Views() {
      const Tensor all = torch::randn({4, 4});
      for (const auto& [name, view] : {std::pair{"all", all}, {"first", all[0]}, {"turned", all.t()}})
        register_buffer(name, view);
    }
  };
  const Views from;
  save_weights(from, path);
  EXPECT_EQ(io::read_safetensors(path).tensors.size(), 3u);
  Views to;
  load_weights(to, path);
  EXPECT_TRUE(same(from, to));
}

TEST_F(Weights, WhatCannotBeSaved) {
  save_weights(Mixed(), path);
  const auto time = fs::last_write_time(path);
  const Mixed module(torch::kFloat16);
  EXPECT_THAT([&] { save_weights(module, path); },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("\"empty\""), HasSubstr("Half"))));
  EXPECT_EQ(fs::last_write_time(path), time);
  EXPECT_THROW(save_weights(Mixed(), folder / "missing" / "w.safetensors"), IoError);
  EXPECT_THROW(save_weights(Mixed(), path, {{"k", "\xff"}}), InvalidArgument);
}

TEST_F(Weights, HuggingFacesNamesGiveAHint) {
  io::write_safetensors(path, {{{"vit.encoder.layer.0.output.dense.bias", saddle::Tensor(DType::f32, {1})}}, {}});
  Mixed module;
  EXPECT_THAT(refusal(module), HasSubstr("saddle weights convert"));
}

TEST_F(Weights, ADamagedFileChangesNothing) {
  save_weights(Mixed(), path);
  fs::resize_file(path, fs::file_size(path) - 1);
  Mixed module, copy;
  save_weights(module, folder / "before.safetensors");
  load_weights(copy, folder / "before.safetensors");
  EXPECT_THROW(load_weights(module, path), DataError);
  EXPECT_TRUE(same(module, copy));
}

}  // namespace
}  // namespace saddle::nn

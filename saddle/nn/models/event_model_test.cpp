#include "saddle/nn/models/event_model.hpp"

#include <ATen/autocast_mode.h>

#include "places.hpp"
#include "saddle/io/safetensors.hpp"
#include "saddle/nn/models/multiply_adds.hpp"
#include "saddle/nn/models/reading.hpp"
#include "saddle/nn/models/registry.hpp"
#include "saddle/nn/models/testing_internal.hpp"
#include "saddle/nn/taps.hpp"

namespace saddle::nn {
namespace {

using testing::difference;
using testing::message_of;

EventModelOptions small() {
  return EventModelOptions(6, 8, 5).width(6).time_width(6).heads(2).depth(2).dropout(0).attention_dropout(0);
}

struct Events {
  Tensor item = torch::tensor({{1, 2, 3, 4, 5, 1, 2}, {3, 3, 2, 0, 0, 0, 0}});
  Tensor times =
      torch::tensor({{9e6, 8e6, 5e5, 4e4, 3e3, 200.0, 10.0}, {7e3, 60.0, 5.0, 0.0, 0.0, 0.0, 0.0}}, torch::kFloat64);
};

Tensor to_torch(const saddle::Tensor& tensor) {
  std::vector<double> numbers(static_cast<std::size_t>(tensor.size()));
  for (Index i = 0; i < tensor.size(); ++i) numbers[static_cast<std::size_t>(i)] = tensor.at(i);
  const Tensor flat = torch::tensor(numbers, torch::kFloat64);
  return (is_floating(tensor.dtype()) ? flat : flat.to(torch::kInt64))
      .reshape(std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end()));
}

// The published model on its recorded cases, with the parameters of the files: what it computes, and every gradient.
TEST(EventModel, ComputesTheRecordedCases) {
  const struct {
    const char *file, *time;
    int64_t heads, depth, width, vocab;
  } cases[] = {{"mercer_next_item", "mercer(degree=3)", 1, 1, 8, 7},
               {"bochner_two_heads", "bochner", 2, 2, 8, 6},
               {"mercer_class_last", "mercer(degree=4)", 1, 1, 6, 6}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.file);
    const TensorFile golden =
        io::read_safetensors(std::string(SADDLE_SOURCE_DIR "/tests/golden/time-attention/") + c.file + ".safetensors");
    const auto recorded = [&](const std::string& name) { return to_torch(golden.tensors.at(name)); };
    EventModel model(EventModelOptions(c.vocab, 8, c.vocab)
                         .width(c.width)
                         .time_width(c.width)
                         .time(c.time)
                         .heads(c.heads)
                         .depth(c.depth));
    model->to(torch::kFloat64);
    model->eval();
    const bool classes = golden.tensors.contains("param.cls.weight");
    {
      const torch::NoGradGuard guard;
      for (auto& item : model->named_parameters())
        if (classes || !item.key().starts_with("cls.")) item.value().copy_(recorded("param." + item.key()));
    }
    const Tensor item = recorded("in.item"), t = recorded("in.t").requires_grad_();
    const Tensor sequence = model->sequence(item, t);
    EXPECT_LT(difference(sequence, recorded("out.seq")), 1e-10);
    if (classes) {
      const Tensor logits = model(item, t), label = recorded("in.label").select(1, item.size(1) - 1);
      EXPECT_TRUE(logits.argmax(1).equal(recorded("out.pred_label")));
      const Tensor loss = torch::nn::functional::cross_entropy(logits, label);
      EXPECT_LT(difference(loss.view({1}), recorded("out.loss")), 1e-10);
      (loss * recorded("cot.loss")[0] + (sequence * recorded("cot.seq")).sum()).backward();
      EXPECT_LT((t.grad() - recorded("grad.t")).abs().max().item<double>(), 1e-9);
      for (const auto& parameter : model->named_parameters())
        EXPECT_LT((parameter.value().grad() - recorded("grad." + parameter.key())).abs().max().item<double>(), 1e-9)
            << parameter.key();
    } else {
      const Tensor last = sequence.select(1, item.size(1) - 1);
      EXPECT_LT(difference(model->item_logits(last, recorded("in.test_item")), recorded("out.test_logits")), 1e-10);
    }
  }
}

TEST(EventModel, PaddingMayStandAtEitherEnd) {
  torch::manual_seed(1);
  EventModel model(small().time("positions"));
  model->eval();
  const Events e;
  const Tensor shifted_item = torch::tensor({{0, 0, 0, 0, 3, 3, 2}}),
               shifted_times = torch::tensor({{0.0, 0.0, 0.0, 0.0, 7e3, 60.0, 5.0}}, torch::kFloat64);
  EXPECT_LT(difference(model(shifted_item, shifted_times)[0], model(e.item, e.times)[1]), 1e-5);
  EXPECT_LT(difference(model(e.item.narrow(0, 1, 1).narrow(1, 0, 3), e.times.narrow(0, 1, 1).narrow(1, 0, 3))[0],
                       model(e.item, e.times)[1]),
            1e-5);
}

TEST(EventModel, TakesAnyAttention) {
  const Events e;
  for (const char* attention : {"softmax", "attention_bn", "linear(elu1)", "softmax+window(3)", "cat_causal", "cat"}) {
    SCOPED_TRACE(attention);
    torch::manual_seed(2);
    EventModel model(small().attention(attention));
    Taps taps(true);
    const Tensor logits = model->logits({e.item, e.item.ne(0), {}, {}, e.times});
    ASSERT_EQ(logits.sizes(), (std::vector<int64_t>{2, 5}));
    EXPECT_EQ(taps.layers.size(), 2u);
    logits.sum().backward();
    EXPECT_TRUE(model->item_emb.grad().isfinite().all().item<bool>());
    EXPECT_EQ(model->item_emb.grad()[0].abs().sum().item<double>(), 0);
    EXPECT_GT(model->item_emb.grad()[1].abs().sum().item<double>(), 0);
    EXPECT_EQ(model->attentions().size(), 2u);
    EXPECT_GT(multiply_adds(*model), 0);
    model->eval();
    const auto copy = std::dynamic_pointer_cast<EventModelImpl>(model->clone());
    EXPECT_TRUE(copy->forward(e.item, e.times).equal(model(e.item, e.times)));
  }
  EXPECT_EQ(EventModel(small())->attentions()[0].attention, "softmax+causal");
  EXPECT_EQ(EventModel(small().causal(false))->attentions()[1].attention, "softmax");
}

TEST(EventModel, ShowsItsTokensBetweenBlocks) {
  torch::manual_seed(6);
  EventModel model(small());
  model->eval();
  const torch::NoGradGuard guard;
  const Events e;
  Taps taps(true, true, true);
  const Tensor sequence = model->sequence(e.item, e.times);
  ASSERT_EQ(taps.tokens.size(), 3u);
  EXPECT_EQ(taps.tokens[0].sizes(), (std::vector<int64_t>{2, 7, 12}));
  EXPECT_TRUE(model->event_blocks[0](taps.tokens[0], e.item.ne(0)).equal(taps.tokens[1]));
  EXPECT_TRUE(model->final_ln(taps.tokens[2], torch::kFloat32).equal(sequence));
  EXPECT_EQ(taps.tokens[2][1].slice(0, 3).abs().sum().item<double>(), 0);
  // Keys and values are those of the tokens; weights times values are the outputs of heads.
  const Tapped& last = taps.layers.at(1);
  const Tensor keys = model->event_blocks[1]->k(taps.tokens[1]).unflatten(2, {last.head_count, -1}).transpose(1, 2);
  EXPECT_LT(difference(last.parts.at("keys"), keys), 1e-5);
  EXPECT_LT(difference(torch::matmul(last.weights, last.parts.at("values")), last.heads), 1e-5);
  EXPECT_TRUE(reads_last_token(*model));
  EXPECT_FALSE(reads_first_token(*model));
}

TEST(EventModel, RunsUnderAutocast) {
  torch::manual_seed(3);
  EventModel model(small());
  model->eval();
  const Events e;
  const Tensor exact = model(e.item, e.times);
  at::autocast::set_cpu_enabled(true);
  const Tensor rough = model(e.item, e.times);
  at::autocast::set_cpu_enabled(false);
  at::autocast::clear_cache();
  EXPECT_EQ(rough.scalar_type(), torch::kFloat32);
  EXPECT_LT(difference(rough, exact), 0.05);
}

// Times matter, and a change of the order of magnitude of seconds in a year does too.
TEST(EventModel, SeesTimes) {
  torch::manual_seed(4);
  EventModel model(small());
  model->eval();
  const Events e;
  EXPECT_GT(difference(model(e.item, e.times + 3), model(e.item, e.times)), 1e-4);
  EventModel blind(small().time("positions"));
  blind->eval();
  EXPECT_TRUE(blind(e.item, e.times + 3).equal(blind(e.item, e.times)));
}

TEST(EventModel, IsMadeFromText) {
  const auto model = make_model("event_model", {{"vocab", "4"},
                                                {"max_len", "5"},
                                                {"classes", "3"},
                                                {"time", "bochner(variant=paper)"},
                                                {"attention", "softmax+bn(beta=0.6)"}});
  const auto again = model_from_json(describe(*model));
  EXPECT_EQ(describe(*again), describe(*model));
  EXPECT_EQ(again->as<EventModelImpl>()->options.time(), "bochner(variant=paper)");
}

TEST(EventModel, SaysWhatIsWrong) {
  EventModel model(small());
  const Events e;
  EXPECT_NE(message_of([&] { model(e.item, Tensor()); }).find("one for each event"), std::string::npos);
  EXPECT_NE(message_of([&] { model(e.item + 5, e.times); }).find("must lie between 0 and 5"), std::string::npos);
  EXPECT_NE(message_of([&] {
              model(torch::ones({1, 9}, torch::kInt64), torch::zeros({1, 9}));
            }).find("8 positions"),
            std::string::npos);
  EXPECT_THROW(EventModel{small().heads(5)}, InvalidArgument);
  EXPECT_THROW(EventModel{small().time("nothing")}, InvalidArgument);
  EXPECT_THROW(EventModel{small().dropout(1)}, InvalidArgument);
}

}  // namespace
}  // namespace saddle::nn

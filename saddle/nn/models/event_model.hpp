// Which event comes next, from events and their times: attention over embeddings with an encoding of time beside them.
#pragma once

#include <torch/nn/modules/embedding.h>

#include "saddle/nn/models/model.hpp"
#include "saddle/nn/time_encoding.hpp"

namespace saddle::nn {

struct SADDLE_TORCH_API EventModelOptions {
  // vocab types of events, 0 among them, which means none; sequences of max_len events at most.
  EventModelOptions(int64_t vocab, int64_t max_len, int64_t classes)
      : vocab_(vocab), max_len_(max_len), classes_(classes) {}

  TORCH_ARG(int64_t, vocab);
  TORCH_ARG(int64_t, max_len);
  TORCH_ARG(int64_t, classes);
  TORCH_ARG(int64_t, width) = 32;
  TORCH_ARG(int64_t, time_width) = 32;
  TORCH_ARG(std::string, time) = "mercer(degree=10)";
  TORCH_ARG(int64_t, heads) = 1;
  TORCH_ARG(int64_t, depth) = 1;
  TORCH_ARG(double, dropout) = 0.5;
  TORCH_ARG(double, attention_dropout) = 0.5;
  TORCH_ARG(Attentions, attention) = "softmax";
  TORCH_ARG(std::string, last_attention) = "";
  TORCH_ARG(bool, causal) = true;

 public:
  static void options(auto& self, auto&& visit) {
    visit({"vocab", "types of events, 0 among them, which means none"}, self.vocab());
    visit({"max_len", "events of a sequence at most"}, self.max_len());
    visit({"classes", "number of classes"}, self.classes());
    visit({"width", "features of an event"}, self.width());
    visit({"time_width", "features of a time"}, self.time_width());
    visit({"time", "mercer(degree=10), bochner(variant=normal), ..; positions: no times"}, self.time());
    visit({"heads", "of each attention"}, self.heads());
    visit({"depth", "number of layers"}, self.depth());
    visit({"dropout", "of embeddings and hidden layers"}, self.dropout());
    visit({"attention_dropout", "of attention weights; linear attentions have none"}, self.attention_dropout());
    visit({"attention", "one written form for all layers, or one for each"}, self.attention());
    visit({"last_attention", "of the last layer, if it is another one"}, self.last_attention());
    visit({"causal", "no event sees a later one, where attentions are declared"}, self.causal());
  }
};

struct SADDLE_TORCH_API EventBlockOptions {
  EventBlockOptions(int64_t width, int64_t out) : width_(width), out_(out) {}

  TORCH_ARG(int64_t, width);
  TORCH_ARG(int64_t, out);  // width of what comes out
  TORCH_ARG(int64_t, heads) = 1;
  TORCH_ARG(std::string, attention) = "softmax+causal";
  TORCH_ARG(double, dropout) = 0;
  TORCH_ARG(double, attention_dropout) = 0;
  TORCH_ARG(Tokens, tokens) = {};
};

// x = attention(q of LN(x), k and v of x) + LN(x), then a two-layer network whose residual is its normalised input too.
// Children: ln1, q, k, v (or layer, of that level), ln2, ffn1, ffn2.
class SADDLE_TORCH_API EventBlockImpl : public torch::nn::Cloneable<EventBlockImpl> {
 public:
  explicit EventBlockImpl(const EventBlockOptions& options);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  // x [B,N,width] -> [B,N,out], 0 where mask [B,N] is false.
  Tensor forward(const Tensor& x, const Tensor& mask = {});

  // Multiply-adds of N events.
  double multiply_adds(int64_t N) const;
  const primal::Attention& value() const { return value_; }

  EventBlockOptions options;
  Norm ln1{nullptr}, ln2{nullptr};
  torch::nn::Linear q{nullptr}, k{nullptr}, v{nullptr}, ffn1{nullptr}, ffn2{nullptr};
  AttentionLayerPtr layer;  // null for a declared attention

 private:
  Tensor attended(const Tensor& normed, const Tensor& x, const Tensor& mask);
  mechanisms::LayerPlace place() const;

  primal::Attention value_;
  std::map<std::string, Tensor> attention_parameters_;
  mechanisms::LayerPtr declared_layer_;
};

TORCH_MODULE(EventBlock);

// After Xu et al. (2019): sqrt(width) item_emb[item] and the encoding of time side by side, dropout, blocks of which
// the last one goes back to width, final_ln; head `cls` of the last event. Parameters are named as in golden cases.
class SADDLE_TORCH_API EventModelImpl : public Model {
 public:
  explicit EventModelImpl(const EventModelOptions& options);

  // item [B,N], 0 where there is none, at either end; times [B,N] -> [B,N,width]
  Tensor sequence(const Tensor& item, const Tensor& times);
  // -> [B,classes], of the last event of each sequence.
  Tensor forward(const Tensor& item, const Tensor& times);
  // Products of what sequence() gave [..,width] with the rows of items [V'] -> [..,V'], for choosing among items.
  Tensor item_logits(const Tensor& sequence, const Tensor& items);
  // Inputs are the items; times must be there, a mask is not needed.
  Tensor logits(const Batch& batch) override;
  std::vector<OptionValue> option_values() const override;
  std::vector<AttentionOfLayer> attentions() const override;

  EventModelOptions options;
  Tensor item_emb;  // [vocab,width]; row 0 counts as zero
  TimeEncoding time{nullptr};
  std::vector<EventBlock> event_blocks;
  Norm final_ln{nullptr};

 protected:
  std::shared_ptr<Model> fresh() const override;

 private:
  Tensor table() const;
};

TORCH_MODULE(EventModel);

}  // namespace saddle::nn

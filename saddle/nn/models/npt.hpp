// Non-parametric transformers: a whole table is one input, and attention runs between its rows and between the
// attributes of each row, in turn.
#pragma once

#include <torch/nn/modules/container/moduledict.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>

#include "saddle/nn/models/model.hpp"

namespace saddle::nn {

// A column of the table: one standardised number, or one number for each of its classes.
struct NptColumn {
  int64_t width = 1;
  bool categorical = false;
  bool operator==(const NptColumn&) const = default;
};

struct SADDLE_TORCH_API NptLayerOptions {
  NptLayerOptions(int64_t width, int64_t heads) : width_(width), heads_(heads) {}

  TORCH_ARG(int64_t, width);
  TORCH_ARG(int64_t, heads);
  TORCH_ARG(std::string, attention) = "softmax";
  TORCH_ARG(double, dropout) = 0;
  TORCH_ARG(double, attention_dropout) = 0;
  TORCH_ARG(std::string, norm) = "pre";  // or "post", "none"
  TORCH_ARG(double, norm_eps) = 1e-12;
  TORCH_ARG(bool, mix_heads) = true;
  TORCH_ARG(bool, separate_residual) = true;  // a linear map of x, else the queries
  TORCH_ARG(int64_t, network_depth) = 1;      // hidden layers; 0: out = h + LN(h)
  TORCH_ARG(Tokens, tokens) = {};
};

// One layer of attention between tokens, whatever these are. Scores of the softmax are divided by the root of the whole
// width unless the written form has a scale, and only queries see the normalised x, both as published. A mechanism of
// the layer level stands under `layer` in place of fc_q, fc_k, fc_v and fc_mix_heads, and sees the normalised x.
class SADDLE_TORCH_API NptLayerImpl : public torch::nn::Cloneable<NptLayerImpl> {
 public:
  explicit NptLayerImpl(const NptLayerOptions& options);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  // x [B,M,F] -> [B,M,F]
  Tensor forward(const Tensor& x);

  // Of M tokens, forward.
  double multiply_adds(int64_t M) const;
  const primal::Attention& value() const { return value_; }

  NptLayerOptions options;
  Norm ln0{nullptr}, ln1{nullptr};
  torch::nn::Linear fc_q{nullptr}, fc_k{nullptr}, fc_v{nullptr}, fc_mix_heads{nullptr}, fc_res{nullptr};
  torch::nn::ModuleDict rff{nullptr};
  std::vector<torch::nn::Linear> network;  // those in rff: 0, 2, ..
  AttentionLayerPtr layer;                 // null for a declared attention

 private:
  // x and what of it the queries see -> the heads' outputs, mixed [B,M,F]
  Tensor attended(const Tensor& x, const Tensor& queries);
  // h + the network of `seen`
  Tensor added(const Tensor& h, const Tensor& seen);
  mechanisms::LayerPlace place() const;

  primal::Attention value_;
  std::map<std::string, Tensor> attention_parameters_;
  mechanisms::LayerPtr declared_layer_;
};

TORCH_MODULE(NptLayer);

struct SADDLE_TORCH_API NptOptions {
  explicit NptOptions(std::string columns = "") : columns_(std::move(columns)) {}

  TORCH_ARG(std::string, columns);  // "x,x,3": two of numbers, one of three classes
  TORCH_ARG(int64_t, width) = 64;
  TORCH_ARG(int64_t, heads) = 8;
  TORCH_ARG(int64_t, depth) = 8;
  TORCH_ARG(double, dropout) = 0.1;
  TORCH_ARG(double, attention_dropout) = 0.1;
  TORCH_ARG(Attentions, attention) = "softmax";
  TORCH_ARG(std::string, last_attention) = "";
  TORCH_ARG(std::string, norm) = "pre";
  TORCH_ARG(double, norm_eps) = 1e-12;
  TORCH_ARG(bool, mix_heads) = true;
  TORCH_ARG(bool, separate_residual) = true;
  TORCH_ARG(int64_t, network_depth) = 1;
  TORCH_ARG(bool, type_embedding) = true;
  TORCH_ARG(bool, index_embedding) = true;
  TORCH_ARG(bool, embedding_norm) = false;

 public:
  static void options(auto& self, auto&& visit) {
    visit({"columns", "of the table, the target too: x a number, else how many classes: x,x,3"}, self.columns());
    visit({"width", "features of an attribute; rows have as many for each column"}, self.width());
    visit({"heads", "of each attention"}, self.heads());
    visit({"depth", "layers, even: between rows, between attributes, between rows .."}, self.depth());
    visit({"dropout", "of embeddings, hidden layers and what layers add"}, self.dropout());
    visit({"attention_dropout", "of attention weights; linear attentions have none"}, self.attention_dropout());
    visit({"attention", "one written form for all layers, or one for each"}, self.attention());
    visit({"last_attention", "of the last layer, if it is another one"}, self.last_attention());
    visit({"norm", "pre, post or none"}, self.norm());
    visit({"norm_eps", "added to variances"}, self.norm_eps());
    visit({"mix_heads", "a linear map behind the heads"}, self.mix_heads());
    visit({"separate_residual", "the residual is a linear map of its own, else the queries"}, self.separate_residual());
    visit({"network_depth", "hidden layers of the networks, 0: none"}, self.network_depth());
    visit({"type_embedding", "of numbers and classes, where a table has both"}, self.type_embedding());
    visit({"index_embedding", "of every column"}, self.index_embedding());
    visit({"embedding_norm", "a norm behind the embedding"}, self.embedding_norm());
  }
};

// Column j with e_j numbers (1, or one for each class) enters with a further channel that says that it is hidden.
// Parameters are named as in golden cases: in_embedding.<j>, enc.<1|3|..>.mab, out_embedding.<j> ..
class SADDLE_TORCH_API NptImpl : public Model {
 public:
  explicit NptImpl(const NptOptions& options);

  // All columns side by side [n, sum of e_j + 1] -> [n, sum of e_j]
  Tensor forward(const Tensor& table);
  // Inputs are the table; there are no masks.
  Tensor logits(const Batch& batch) override;
  std::vector<OptionValue> option_values() const override;
  std::vector<AttentionOfLayer> attentions() const override;
  // Of a table of n rows, forward.
  double multiply_adds(int64_t n) const;
  const std::vector<NptColumn>& columns() const { return columns_; }

  NptOptions options;
  torch::nn::ModuleList in_embedding{nullptr}, out_embedding{nullptr};
  torch::nn::Embedding feature_type_embedding{nullptr}, feature_index_embedding{nullptr};
  Norm embedding_layer_norm{nullptr};
  torch::nn::ModuleDict enc{nullptr};
  std::vector<NptLayer> layers;

 protected:
  std::shared_ptr<Model> fresh() const override;

 private:
  std::vector<NptColumn> columns_;
};

TORCH_MODULE(Npt);

// "x,x,3" and back. Throws InvalidArgument.
SADDLE_TORCH_API std::vector<NptColumn> npt_columns(const std::string& text);
SADDLE_TORCH_API std::string to_text(const std::vector<NptColumn>& columns);

struct NptLoss {
  Tensor loss, targets, features;      // the sums of targets and features
  Tensor target_count, feature_count;  // numbers
};
// Predictions [n, sum of e_j], truth [n, sum of e_j + 1], masks [n,d] with 1 for entries that count. As
// mechanisms::npt::loss: `share` of the mean over features and 1 - share of that over targets; a negative share: the
// mean over both together.
SADDLE_TORCH_API NptLoss npt_loss(const Tensor& predictions, const Tensor& truth, const std::vector<NptColumn>& columns,
                                  const Tensor& target_mask, const Tensor& feature_mask, double share);

}  // namespace saddle::nn

#include "saddle/mechanisms/time_attention/time_attention.hpp"

#include <array>
#include <cmath>

#include "saddle/mechanisms/golden_tape.hpp"
#include "saddle/mechanisms/layer_internal.hpp"
#include "saddle/mechanisms/layer_weights_internal.hpp"

namespace saddle::mechanisms::time_attention {

namespace {

using tape::Value;

Value needed(const TapeValues& weights, const std::string& name) { return weight_of(weights, name, "time_attention"); }

Value encoded(const TimeEncoder& encoder, const Value& t, const Value& sample, const TapeValues& weights) {
  if (const auto* mercer = std::get_if<time_mercer::Mercer>(&encoder)) return mercer->reference(t, weights);
  if (const auto* bochner = std::get_if<time_bochner::Bochner>(&encoder)) return bochner->reference(t, sample, weights);
  // The last N rows, so that the last event always has the same one.
  const Value table = needed(weights, "table");
  const Index N = t.size(1);
  return tape::slice(table, 0, table.size(0) - N, N) + tape::zeros({t.size(0), 1, 1});
}

// 1 where item is not 0, in the shape [.., 1]
Value exists(const Value& item) {
  std::vector<double> mask(item.data().size());
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = item.data()[i] != 0 ? 1.0 : 0.0;
  Shape shape = item.shape();
  shape.push_back(1);
  return {std::move(shape), std::move(mask)};
}

// [B,1,N,N]: key j exists and does not come after query i.
Value seen(const Value& item) {
  const Index B = item.size(0), N = item.size(1);
  std::vector<double> mask(static_cast<std::size_t>(B * N * N), 0.0);
  for (Index b = 0; b < B; ++b)
    for (Index i = 0; i < N; ++i)
      for (Index j = 0; j <= i; ++j) mask[(b * N + i) * N + j] = item.data()[b * N + j] != 0 ? 1.0 : 0.0;
  return {{B, 1, N, N}, std::move(mask)};
}

struct Block {
  const TapeValues& weights;
  double eps;

  Value linear(const Value& x, const std::string& name) const {
    return tape::linear(x, needed(weights, name + ".weight"), needed(weights, name + ".bias"));
  }
  Value norm(const Value& x, const std::string& name) const {
    return tape::layer_norm(x, needed(weights, name + ".weight"), needed(weights, name + ".bias"), eps);
  }
};

// Mean of x [B,N] over the places where item [B,N] is not 0 -> [1]
Value mean_where(const Value& x, const Value& item) {
  const Value mask = tape::reshape(exists(item), item.shape());
  return tape::reshape(tape::sum(x * mask) / tape::sum(mask), {1});
}

Value last_of(const Value& sequence) { return tape::at(sequence, 1, sequence.size(1) - 1); }

TapeValues next_item(const TapeValues& inputs, const Value& sequence) {
  const Value table = inputs.at("param.item_emb");
  const auto logits = [&](const char* items) { return tape::sum(embedded(table, inputs.at(items)) * sequence, 2); };
  const Value positive = logits("in.pos"), negative = logits("in.neg"), tiny(1e-24), one(1.0);
  const Value loss = -tape::log(tape::sigmoid(positive) + tiny) - tape::log(one - tape::sigmoid(negative) + tiny);
  const auto sign = [](double x) { return x > 0 ? 1.0 : x < 0 ? 0.0 : 0.5; };
  const Value better = tape::map(positive - negative, sign, [](double) { return 0.0; });
  const Value candidates = embedded(table, inputs.at("in.test_item"));
  return {{"seq", sequence},
          {"loss", mean_where(loss, inputs.at("in.pos"))},
          {"auc", mean_where(better, inputs.at("in.pos"))},
          {"test_logits", tape::matmul(last_of(sequence), tape::transpose(candidates, 0, 1))}};
}

TapeValues next_class(const TapeValues& inputs, const Value& sequence, bool take_last) {
  const Value label = inputs.at("in.label");
  const Index B = label.size(0), N = label.size(1);
  const Value logits = tape::linear(sequence, inputs.at("param.cls.weight"), inputs.at("param.cls.bias"));
  const Index classes = logits.size(2);
  std::vector<double> chosen(static_cast<std::size_t>(B * N * classes), 0.0);
  for (Index i = 0; i < B * N; ++i) chosen[i * classes + static_cast<Index>(label.data()[i])] = 1;
  const Value entropy = -tape::log(tape::sum(tape::softmax(logits) * Value({B, N, classes}, chosen), 2));
  std::vector<double> predicted(static_cast<std::size_t>(B));
  for (Index b = 0; b < B; ++b) {
    const double* const row = logits.data().data() + ((b + 1) * N - 1) * classes;
    predicted[b] = static_cast<double>(std::max_element(row, row + classes) - row);
  }
  return {{"seq", sequence},
          {"loss", take_last ? tape::reshape(tape::mean(last_of(entropy)), {1}) : mean_where(entropy, label)},
          {"pred_label", Value({B}, std::move(predicted))}};
}

TimeEncoder golden_encoder(const GoldenMetadata& metadata) {
  const std::string name = metadata.text("encoder", "mercer");
  if (name == "mercer") return time_mercer::Mercer{.degree = metadata.integer("degree", 5)};
  if (name == "bochner-nonparametric") return time_bochner::Bochner{};
  throw DataError("", 0, 0, fmt::format("the encoder is mercer or bochner-nonparametric, found '{}'", name));
}

}  // namespace

Value embedded(const Value& table, const Value& item) {
  std::vector<double> keep(static_cast<std::size_t>(table.size(0)), 1.0);
  keep[0] = 0;
  std::vector<Index> rows;
  for (const double number : item.data()) {
    if (!(number >= 0 && number < static_cast<double>(table.size(0))))
      throw InvalidArgument(
          fmt::format("[time_attention] item {} is not among the {} of the table", number, table.size(0)));
    rows.push_back(static_cast<Index>(number));
  }
  Shape shape = item.shape();
  shape.push_back(table.size(1));
  return tape::reshape(tape::select(table * Value({table.size(0), 1}, std::move(keep)), 0, rows), std::move(shape));
}

Value Backbone::sequence(const Value& item, const Value& t, const Value& sample,
                         const std::map<std::string, Value>& weights) const {
  const Block all{weights, norm_eps};
  const Value mask = exists(item), table = needed(weights, "item_emb"), visible = seen(item);
  const double scale = std::sqrt(static_cast<double>(table.size(1)));
  const Value phi = encoded(encoder, t, sample, without_prefix(weights, "time."));
  Value x = tape::concat({embedded(table, item) * Value(scale), phi}, 2) * mask;
  for (Index b = 0; b < blocks; ++b) {
    const std::string name = "block" + std::to_string(b) + ".";
    // The residual adds what the queries are made of, keys and values come from x itself: as the published code.
    const Value normed = all.norm(x, name + "ln1");
    const Value q = tape::split_heads(all.linear(normed, name + "q"), heads),
                k = tape::split_heads(all.linear(x, name + "k"), heads),
                v = tape::split_heads(all.linear(x, name + "v"), heads);
    const Value root(1 / std::sqrt(static_cast<double>(q.size(3))));
    const Value scores = tape::where(visible, tape::matmul(q, tape::transpose(k, 2, 3)) * root, mask_value);
    x = tape::join_heads(tape::matmul(tape::softmax(scores), v)) + normed;
    const Value inner = all.norm(x, name + "ln2");
    Value out = all.linear(tape::relu(all.linear(inner, name + "ffn1")), name + "ffn2");
    if (out.size(2) == inner.size(2)) out = out + inner;
    x = out * mask;
  }
  return all.norm(x, "final_ln");
}

GoldenReport check_golden_case(const TensorFile& golden, const Sequence& sequence_of, const GoldenRun& run) {
  const GoldenMetadata metadata(golden);
  const auto inputs = tape_inputs(golden);
  const std::string task = metadata.text("task", "next-item");
  if (task != "next-item" && task != "class")
    throw DataError("", 0, 0, fmt::format("the task is next-item or class, found '{}'", task));
  Backbone backbone;
  backbone.encoder = golden_encoder(metadata);
  backbone.heads = metadata.integer("heads", 1);
  backbone.blocks = metadata.integer("blocks", 1);
  backbone.norm_eps = metadata.number("ln_eps", backbone.norm_eps);
  backbone.mask_value = metadata.number("mask_value", backbone.mask_value);
  for (const char* name : {"in.item", "in.t", "param.item_emb"}) golden_tensor(golden, name);
  for (const char* name : task == "class" ? std::array{"in.label", "param.cls.weight", "param.cls.bias"}
                                          : std::array{"in.pos", "in.neg", "in.test_item"})
    golden_tensor(golden, name);
  const Value sequence =
      sequence_of(backbone, inputs.at("in.item"), inputs.at("in.t"), {}, without_prefix(inputs, "param."));
  GoldenReport report;
  report.attention = fmt::format("softmax+causal, {}", to_text(backbone.encoder));
  report.results.push_back(compare_tape(
      golden, inputs,
      task == "class" ? next_class(inputs, sequence, metadata.flag("take_last", false)) : next_item(inputs, sequence),
      run));
  return report;
}

const Mechanism& mechanism() {
  static const Mechanism value = [] {
    Mechanism attention;
    attention.name = "time_attention";
    attention.title = "Self-attention with functional time";
    attention.summary = "attention over events, the encoding of each time beside the embedding of its event";
    attention.composition = "any causal attention over [event, time]";
    attention.bibtex = time_bochner::bibtex;
    attention.tier = Tier::composed;
    attention.golden.push_back({"time-attention", [](const TensorFile& golden, DType dtype) {
                                  const Sequence reference = [](const Backbone& own, const Value& item, const Value& t,
                                                                const Value& sample, const TapeValues& weights) {
                                    return own.sequence(item, t, sample, weights);
                                  };
                                  return check_golden_case(golden, reference, reference_run(dtype, golden_tolerance));
                                }});
    return attention;
  }();
  return value;
}

}  // namespace saddle::mechanisms::time_attention

// Golden cases of encodings of time and of models of events.
#include "saddle/base/error.hpp"
#include "saddle/mechanisms/time_attention/time_attention.hpp"
#include "saddle/nn/golden/golden_internal.hpp"
#include "saddle/nn/models/event_model.hpp"
#include "saddle/nn/tensor.hpp"
#include "saddle/nn/time_encoding.hpp"

namespace saddle::nn {

namespace {

namespace bochner = mechanisms::time_bochner;
namespace mercer = mechanisms::time_mercer;
namespace events = mechanisms::time_attention;
using tape::Value;

// t [B,N] -> [B,N,T]
Value encoded(const events::TimeEncoder& encoder, Index T, const Value& t, const Value& sample,
              const TapeValues& weights, torch::ScalarType type) {
  TimeEncoding module(T, events::to_text(encoder));
  module->to(type);
  Traced traced;
  traced.fill(*module, weights);
  // Times are large: they stay in double.
  const Tensor times = leaf_of(t, torch::kFloat64);
  traced.from(t, times);
  const Tensor numbers = sample ? leaf_of(sample, type).detach() : Tensor();
  return traced.values({{"phi", module(times, Tensor(), numbers)}}).at("phi");
}

GoldenReport check_bochner(const TensorFile& golden, DType dtype) {
  const auto encode = [&](const bochner::Bochner& own, Index T, const Value& t, const Value& sample,
                          const TapeValues& weights) {
    return encoded(own, T, t, sample, weights, scalar_type(dtype));
  };
  return bochner::check_golden_case(golden, encode, module_run(dtype, bochner::golden_tolerance));
}

GoldenReport check_mercer(const TensorFile& golden, DType dtype) {
  const auto encode = [&](const mercer::Mercer& own, Index T, const Value& t, const TapeValues& weights) {
    return encoded(own, T, t, {}, weights, scalar_type(dtype));
  };
  return mercer::check_golden_case(golden, encode, module_run(dtype, mercer::golden_tolerance));
}

Tensor whole(const Value& value) { return leaf_of(value, torch::kFloat64).detach().to(torch::kInt64); }

GoldenReport check_events(const TensorFile& golden, DType dtype) {
  const auto sequence = [&](const events::Backbone& own, const Value& item, const Value& t, const Value&,
                            const TapeValues& given) {
    const events::Backbone published;
    if (own.norm_eps != published.norm_eps || own.mask_value != published.mask_value)
      throw NotSupported("the model has norms with eps 1e-8 and masks as published, the case others", {});
    TapeValues weights = given;
    const Value table = weights.at("item_emb"), bias = weights.at("final_ln.bias");
    const Index C = weights.at("block0.ln1.bias").size(0), d = bias.size(0), vocab = table.size(0);
    const auto head = weights.find("cls.bias");
    EventModel model(EventModelOptions(vocab, item.size(1), head == weights.end() ? 1 : head->second.size(0))
                         .width(d)
                         .time_width(C - d)
                         .time(events::to_text(own.encoder))
                         .heads(own.heads)
                         .depth(own.blocks));
    model->to(scalar_type(dtype));
    if (head == weights.end()) weights.emplace("cls.weight", tape::zeros({1, d}));
    Traced traced;
    traced.fill(*model, weights);
    const Tensor times = leaf_of(t, torch::kFloat64);
    traced.from(t, times);
    return traced.values({{"sequence", model->sequence(whole(item), times)}}).at("sequence");
  };
  return events::check_golden_case(golden, sequence, module_run(dtype, events::golden_tolerance));
}

}  // namespace

std::vector<GoldenCheck> time_checks() {
  return {refusing("time-bochner", check_bochner), refusing("time-mercer", check_mercer),
          refusing("time-attention", check_events)};
}

}  // namespace saddle::nn

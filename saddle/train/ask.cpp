#include "saddle/train/ask.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "saddle/base/error.hpp"
#include "saddle/nn/tensor.hpp"

namespace saddle::train {

namespace {

using torch::Tensor;

constexpr Index together = 64;  // inputs in one batch

// The inputs [1,N,..] and their mask [1,N] without the steps `removed`.
struct Step {
  Tensor inputs, mask;
};

Step without(const Step& whole, const std::vector<Index>& removed, analysis::Removal removal) {
  const Index N = whole.inputs.size(1);
  Step rest{whole.inputs.clone(), whole.mask.clone()};
  for (const Index step : removed) {
    if (step < 0 || step >= N)
      throw InvalidArgument(fmt::format("step {} cannot be taken out: the sample does not have it", step));
    rest.inputs[0][step].zero_();
    rest.mask[0][step].fill_(false);
  }
  if (removal == analysis::Removal::pad) return rest;
  // Steps that exist keep their order and come first.
  const Tensor order = std::get<1>(rest.mask[0].logical_not().to(torch::kInt64).sort(true, 0, false));
  return {rest.inputs.index_select(1, order), rest.mask.index_select(1, order)};
}

}  // namespace

std::function<Matrix(Index, const std::vector<std::vector<Index>>&, analysis::Removal)> asker(const Trained& trained,
                                                                                              const nn::Batch& inputs) {
  if (trained.data.kind != data::Kind::series && trained.data.kind != data::Kind::tokens) return {};
  const Tensor all = inputs.inputs.clone();
  const Tensor mask =
      inputs.mask.defined() ? inputs.mask.clone() : torch::ones({all.size(0), all.size(1)}, torch::kBool);
  return [model = trained.model, all, mask](Index sample, const std::vector<std::vector<Index>>& removed,
                                            analysis::Removal removal) {
    const torch::NoGradGuard guard;
    if (sample < 0 || sample >= all.size(0))
      throw InvalidArgument(fmt::format("sample {} was not shown, there are 0 to {}", sample, all.size(0) - 1));
    const Step whole{all.narrow(0, sample, 1), mask.narrow(0, sample, 1)};
    std::vector<Tensor> answers;
    for (std::size_t first = 0; first < removed.size(); first += together) {
      std::vector<Tensor> values, masks;
      for (std::size_t s = first; s < std::min(removed.size(), first + together); ++s) {
        const Step rest = without(whole, removed[s], removal);
        values.push_back(rest.inputs);
        masks.push_back(rest.mask);
      }
      nn::Batch batch;
      batch.inputs = torch::cat(values);
      batch.mask = torch::cat(masks);
      answers.push_back(model->logits(batch).to(torch::kFloat64).softmax(-1));
    }
    if (answers.empty()) return Matrix();
    return to_double<2>(nn::view_of(torch::cat(answers).contiguous()));
  };
}

}  // namespace saddle::train

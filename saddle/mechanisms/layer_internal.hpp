// From a struct of options to a mechanism of the layer level. The struct is a Part (name, help, options) that also has
//   bool causal() const;
//   void check(const LayerPlace&) const;
//   primal::Cost cost(const LayerPlace&, Index B, primal::Pass, DType) const;
//   LayerOutputs reference(const LayerInputs&) const;
#pragma once

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/layer.hpp"
#include "saddle/mechanisms/registry.hpp"
#include "saddle/primal/written/part_text.hpp"

namespace saddle::mechanisms {

template <primal::Part P>
class LayerOf final : public Layer {
 public:
  explicit LayerOf(P part) : part_(std::move(part)) {}

  std::string_view name() const override { return P::name; }
  std::string text() const override { return primal::print(part_); }
  std::vector<primal::OptionHelp> options() const override { return primal::options_of(part_); }
  bool causal() const override { return part_.causal(); }
  void check(const LayerPlace& place) const override { part_.check(place); }
  primal::Cost cost(const LayerPlace& place, Index B, primal::Pass pass, DType dtype) const override {
    return part_.cost(place, B, pass, dtype);
  }
  LayerOutputs reference(const LayerInputs& inputs) const override { return part_.reference(inputs); }

 private:
  const void* part_of(std::string_view mechanism) const override {
    if (mechanism != P::name) throw InvalidArgument(fmt::format("'{}' is not a value of {}", text(), mechanism));
    return &part_;
  }

  P part_;
};

// What a term stands for, when it does not come from text that find_layer() reads. Throws InvalidArgument.
inline LayerPtr layer_of(const Mechanism& mechanism, const primal::Term& term) {
  try {
    return mechanism.layer(term);
  } catch (const primal::Mistake& mistake) {
    primal::report(mistake, "");
  }
}

// The mechanism called P::name; its golden cases are added by the caller.
template <primal::Part P>
Mechanism layer_mechanism(std::string title, std::string bibtex) {
  Mechanism mechanism;
  mechanism.name = P::name;
  mechanism.title = std::move(title);
  mechanism.summary = P::help;
  mechanism.composition = P::name;
  mechanism.bibtex = std::move(bibtex);
  mechanism.tier = Tier::own;
  mechanism.level = Level::layer;
  mechanism.layer = [](const primal::Term& term) -> LayerPtr {
    return std::make_shared<const LayerOf<P>>(primal::make<P>(term));
  };
  return mechanism;
}

}  // namespace saddle::mechanisms

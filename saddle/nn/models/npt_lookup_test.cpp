// Rows attend to rows: a hidden target is looked up in the row with the same features. Targets are drawn anew for every
// table, so nothing but that row tells them.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "saddle/mechanisms/npt/optimiser.hpp"
#include "saddle/nn/models/npt.hpp"
#include "saddle/nn/optim/lamb.hpp"

namespace saddle::nn {
namespace {

constexpr int64_t classes = 4, pairs = classes * classes;

struct Table {
  Tensor seen, truth, targets;
};

// Every pair of classes twice: with its number, and with the number hidden.
Table draw() {
  const Tensor all = torch::arange(pairs), none = torch::zeros({pairs, 1});
  const auto encoded = [&](const Tensor& of) {
    return torch::cat({torch::one_hot(of, classes).to(torch::kFloat32), none}, 1);
  };
  const Tensor features = torch::cat({encoded(all.div(classes, "floor")), encoded(all.remainder(classes))}, 1);
  const Tensor numbers = torch::randn({pairs, 1});
  const Tensor shown = torch::cat({features, numbers, none}, 1);
  const Tensor hidden = torch::cat({features, none, torch::ones_like(none)}, 1);
  Table table{torch::cat({shown, hidden}), torch::cat({shown, shown}), torch::zeros({2 * pairs, 3})};
  table.targets.narrow(0, pairs, pairs).select(1, 2).fill_(1);
  return table;
}

Tensor loss_of(Npt& model, const Table& table) {
  return npt_loss(model(table.seen), table.truth, model->columns(), table.targets, torch::zeros_like(table.targets), 0)
      .loss;
}

TEST(Npt, LooksUpTheTargetOfACopy) {
  torch::manual_seed(1);
  Npt model(NptOptions("4,4,x").width(16).heads(4).depth(2).dropout(0).attention_dropout(0));
  Lamb lamb(model->parameters());
  Lookahead lookahead(model->parameters());
  const int64_t steps = 800;
  for (int64_t t = 0; t < steps; ++t) {
    lamb.zero_grad();
    loss_of(model, draw()).backward();
    for (const Tensor& p : model->parameters()) p.mutable_grad().clamp_(-1, 1);
    lamb.param_groups()[0].options().set_lr(mechanisms::npt::flat_then_anneal(0.015, 0.7, t, steps));
    lamb.step();
    lookahead.after_step(t + 1);
  }
  const torch::NoGradGuard no_grad;
  Table table = draw();
  EXPECT_LT(loss_of(model, table).sqrt().item<double>(), 0.1);
  // Numbers that are not shown cannot be known.
  table.seen.narrow(0, 0, pairs).copy_(table.seen.narrow(0, pairs, pairs));
  EXPECT_GT(loss_of(model, table).sqrt().item<double>(), 0.7);
}

}  // namespace
}  // namespace saddle::nn

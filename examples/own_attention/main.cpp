// An attention of your own, from its declaration to a trained layer: a value made of parts, its certificate, its fused
// kernel against the reference in double precision, and a toy task that needs attention.
#include <torch/torch.h>
#include <saddle/saddle.hpp>
#include <saddle/torch.hpp>

#include <iostream>

int main() try {
  using namespace saddle;
  // Directions around a learned share of the mean key, compared by an RBF kernel.
  primal::Attention mine;
  mine.kernel = primal::Rbf{};
  mine.transforms = {primal::BatchNorm{.beta = 0.5, .learn = primal::Learn::head}, primal::L2{}};
  // A name for it; options of the name go to the parts.
  const auto kindred = mechanisms::declared("kindred", "Kindred attention", "directions under an RBF kernel",
                                            primal::to_text(mine), "@misc{mine}");
  const primal::Attention value = primal::parse("kindred(gamma=2)", {{kindred.name}, kindred.declare});
  std::cout << kindred.name << "(gamma=2) is " << primal::to_text(value) << '\n';

  // Its regression: a layer of random keys and values is the optimum of the problem it was derived from.
  torch::manual_seed(0);
  const auto draw = [] { return torch::randn({1, 2, 16, 4}, torch::kFloat64); };  // B,H,N,D
  const torch::Tensor q = draw(), k = draw(), v = draw(), expected = torch::empty_like(v);
  primal::Call call{value, nn::view_of(q), nn::view_of(k), nn::view_of(v)};
  const primal::Certificate certificate = primal::certify(call);
  std::cout << "certificate " << (certificate.holds() ? "holds" : "fails") << ", duality gap " << certificate.gap
            << '\n';

  // The kernel that was chosen for it, in float, against the reference.
  primal::reference_forward(call, {nn::view_of(expected)});
  const torch::Tensor y = nn::attention(value, {q.to(torch::kFloat32), k.to(torch::kFloat32), v.to(torch::kFloat32)}).y;
  const double error = (y - expected).abs().max().item<double>();
  std::cout << "largest difference from the reference " << error << '\n';

  // Tokens are of four kinds and carry a number: each must find the mean of the numbers of its own kind.
  nn::MultiheadAttention layer(nn::MultiheadAttentionOptions(8, 2).attention(primal::to_text(value)).batch_first(true));
  torch::optim::Adam optimiser(layer->parameters(), 0.02);
  double first = 0, loss = 0;
  for (int step = 0; step <= 150; ++step) {
    const auto kind = torch::one_hot(torch::randint(4, {32, 24}), 4).to(torch::kFloat32);
    const auto number = torch::randn({32, 24, 1}), same = kind.matmul(kind.transpose(1, 2));
    const auto x = torch::cat({kind, number, torch::zeros({32, 24, 3})}, -1);  // B,N,X
    const auto answer = std::get<0>(layer->forward(x, x, x, {}, /*need_weights=*/false)).narrow(-1, 0, 1);
    const auto distance = torch::mse_loss(answer, same.matmul(number) / same.sum(-1, true));
    optimiser.zero_grad();
    distance.backward();
    optimiser.step();
    loss = distance.item<double>();
    if (step == 0) first = loss;
    if (step % 25 == 0) std::cout << "step " << step << "  loss " << loss << '\n';
  }
  return certificate.holds() && error < 1e-5 && loss < first / 5 ? 0 : 1;
} catch (const saddle::Error& error) {
  std::cerr << error.what() << '\n' << error.hint() << '\n';
  return 1;
}

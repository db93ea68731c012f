// A libtorch model whose attention is replaced: same weights and outputs with softmax, then trained on with softmax+bn.
#include <torch/torch.h>
#include <saddle/torch.hpp>

#include <iostream>

// From tokens [N,B,6] to two logits [B,2]. The model was written for torch::nn::MultiheadAttention; that the type is a
// parameter now is all that changed.
template <class Attention>
struct Classifier : torch::nn::Module {
  explicit Classifier(Attention given) : attention(std::move(given)) {
    register_module("embedding", embedding);
    register_module("attention", attention);
    register_module("norm", norm);
    register_module("hidden", hidden);
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& tokens) {
    const torch::Tensor x = embedding->forward(tokens);
    const torch::Tensor y = norm->forward(x + std::get<0>(attention->forward(x, x, x)));
    return head->forward((y + torch::gelu(hidden->forward(y))).mean(0));
  }

  torch::nn::Linear embedding{6, 32};
  Attention attention;
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({32})};
  torch::nn::Linear hidden{32, 32}, head{32, 2};
};

// Weights have the same names on both sides.
void copy_weights(const torch::nn::Module& from, torch::nn::Module& to) {
  const torch::NoGradGuard no_gradient;
  auto known = to.named_parameters();
  for (const auto& weight : from.named_parameters()) known[weight.key()].copy_(weight.value());
}

// Tokens [N,B,6] and classes [B]: two tokens are marked, and either of one kind or not.
std::pair<torch::Tensor, torch::Tensor> draw(int64_t N, int64_t B) {
  const torch::Tensor kind = torch::randint(4, {N, B}), marked = std::get<1>(torch::rand({N, B}).topk(2, 0));
  const torch::Tensor marks = torch::zeros({N, B}).scatter_(0, marked, 1).unsqueeze(-1);
  const torch::Tensor kinds = kind.gather(0, marked);
  return {torch::cat({torch::one_hot(kind, 4).to(torch::kFloat32), marks, 1 - marks}, -1),
          kinds[0].eq(kinds[1]).to(torch::kInt64)};
}

int main() try {
  torch::manual_seed(0);
  Classifier before(torch::nn::MultiheadAttention(32, 4));
  Classifier after(saddle::nn::MultiheadAttention(32, 4));
  copy_weights(before, after);
  const torch::Tensor x = draw(16, 8).first;
  const double difference = (before.forward(x) - after.forward(x)).abs().max().item<double>();
  std::cout << "softmax: outputs differ by at most " << difference << '\n';

  using Options = saddle::nn::MultiheadAttentionOptions;
  Classifier model(saddle::nn::MultiheadAttention(Options(32, 4).attention("softmax+bn(learn=head)")));
  copy_weights(before, model);
  torch::optim::Adam optimiser(model.parameters(), 0.005);
  double first = 0, loss = 0;
  for (int step = 0; step <= 250; ++step) {
    const auto [tokens, classes] = draw(16, 64);
    const torch::Tensor error = torch::nn::functional::cross_entropy(model.forward(tokens), classes);
    optimiser.zero_grad();
    error.backward();
    optimiser.step();
    loss = error.item<double>();
    if (step == 0) first = loss;
    if (step % 50 == 0) std::cout << "step " << step << "  loss " << loss << '\n';
  }
  return difference < 1e-5 && loss < first / 2 ? 0 : 1;
} catch (const saddle::Error& error) {
  std::cerr << error.what() << '\n' << error.hint() << '\n';
  return 1;
}

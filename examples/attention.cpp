// Reads an attention from its written form, runs it forward and backward on random tokens, and prints what comes out.
#include <saddle/saddle.hpp>

#include <iostream>

int main(int argc, char** argv) try {
  using namespace saddle;
  const Shape shape{1, 2, 6, 4};  // B,H,N,D
  Stream random(0, "example");
  const auto draw = [&] {
    Tensor tensor(DType::f32, shape);
    for (Index i = 0; i < tensor.size(); ++i) tensor.set(i, random.normal());
    return tensor;
  };
  Tensor q = draw(), k = draw(), v = draw(), dy = draw();
  Tensor y(DType::f32, shape), dq = y, dk = y, dv = y;

  primal::Call call;
  call.attention = mechanisms::parse(argc > 1 ? argv[1] : "attention_bn(beta=0.6)+causal");
  call.q = q.view();
  call.k = k.view();
  call.v = v.view();

  primal::Outputs outputs;
  outputs.y = y.view();
  mechanisms::forward(call, outputs);

  primal::Gradients gradients;
  gradients.dy = dy.view();
  gradients.dq = dq.view();
  gradients.dk = dk.view();
  gradients.dv = dv.view();
  mechanisms::backward(call, gradients);

  std::cout << primal::to_text(call.attention) << '\n';
  for (Index i = 0; i < 6; ++i)
    std::cout << "token " << i << "  y " << y.at(4 * i) << "  dq " << dq.at(4 * i) << "  dv " << dv.at(4 * i) << '\n';
} catch (const saddle::Error& error) {
  std::cerr << error.what() << '\n' << error.hint() << '\n';
  return 1;
}

// The smallest program of a user: includes, links, declares an attention and runs it.
#include <saddle/saddle.hpp>
#include <saddle/version.hpp>

#include <cmath>
#include <cstring>
#include <iostream>

int main() {
  using namespace saddle;
  std::cout << "saddle " << version() << '\n';
  if (std::strcmp(version(), SADDLE_VERSION) != 0) return 1;
  try {
    mechanisms::parse("softmax+bm");
    return 1;
  } catch (const InvalidArgument& error) {
    if (error.hint() != "did you mean 'bn'?") return 1;
  }

  // Two equal keys share the attention of one query: y is the mean of the values 1 and 3.
  Tensor q(DType::f32, {1, 1, 1, 2}), k(DType::f32, {1, 1, 2, 2}), v(DType::f32, {1, 1, 2, 1}),
      y(DType::f32, {1, 1, 1, 1});
  v.set(0, 1);
  v.set(1, 3);
  primal::Call call;
  call.attention = mechanisms::parse("attention_bn");
  call.q = q.view();
  call.k = k.view();
  call.v = v.view();
  primal::Outputs outputs;
  outputs.y = y.view();
  mechanisms::forward(call, outputs);
  return std::fabs(y.at(0) - 2) < 1e-6 ? 0 : 1;
}

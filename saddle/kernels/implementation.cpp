#include "saddle/kernels/implementation.hpp"

#include "saddle/base/parallel.hpp"
#include "saddle/kernels/amx/amx.hpp"
#include "saddle/kernels/linear/linear.hpp"
#include "saddle/kernels/reference/reference.hpp"
#include "saddle/kernels/tiled/tiled.hpp"

namespace saddle::kernels {

Implementation::~Implementation() = default;

Request request_of(const primal::Call& call, const primal::Outputs& outputs) {
  Request request{call.attention, call.dims(), call.dtype()};
  request.key_mask = static_cast<bool>(call.key_mask);
  request.mask = static_cast<bool>(call.mask);
  request.dropout = call.dropout.p > 0;
  request.weights = static_cast<bool>(outputs.weights);
  request.lse = static_cast<bool>(outputs.lse);
  request.column_sums = static_cast<bool>(outputs.column_sums);
  return request;
}

Request request_of(const primal::Call& call, const primal::Gradients& gradients) {
  Request request = request_of(call, primal::Outputs{});
  request.backward = true;
  request.beta_gradient = gradients.parameters.contains("beta");
  return request;
}

int threads_of(const Request& request) { return request.threads > 0 ? request.threads : threads(); }

const std::vector<const Implementation*>& generic_implementations() {
  static const std::vector<const Implementation*> list{&amx(), &linear(), &tiled(), &primal_reference(),
                                                       &dual_reference()};
  return list;
}

}  // namespace saddle::kernels

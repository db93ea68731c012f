#include "saddle/kernels/tiled/tiled.hpp"

#include "saddle/kernels/tiled/tiled_pass.hpp"

namespace saddle::kernels {

namespace {

class Tiled final : public Implementation {
 public:
  std::string_view name() const override { return "tiled"; }
  std::string_view summary() const override {
    return "tiles of queries by keys with a running normaliser, O(N) memory, fused gradients";
  }
  Isa isa() const override { return tiled_kernels<float>().isa; }

  std::vector<std::string> refusals(const Request& request) const override {
    return stage_refusals(request.attention, Goal::scores);
  }

  Estimate estimate(const Request& request) const override {
    Estimate estimate = score_estimate(request, name(), is_steep(request.attention) ? DType::f64 : request.dtype);
    estimate.memory = memory(request);
    return estimate;
  }

  void forward(const primal::Call& call, const primal::Outputs& outputs) const override {
    if (call.dtype() == DType::f64)
      tiled_forward<double>(call, outputs);
    else
      tiled_forward<float>(call, outputs);
  }
  // Steep gradients are computed in double.
  void backward(const primal::Call& call, const primal::Gradients& gradients) const override {
    if (call.dtype() == DType::f64 || is_steep(call.attention))
      tiled_backward<double>(call, gradients);
    else
      tiled_backward<float>(call, gradients);
  }

 private:
  static double memory(const Request& request) {
    const int lanes = threads_of(request);
    const Dims& d = request.dims;
    const auto count = [](Index n) { return static_cast<double>(n); };
    const bool in_double = request.dtype == DType::f64 || (request.backward && is_steep(request.attention));
    const double size = in_double ? 8 : 4, heads = count(d.B) * count(d.H);
    const bool finite = !score_form(request.attention.kernel, d.D).has_value();
    const Index D = finite ? feature_count(request.attention.kernel, d.D).value_or(d.D) : d.D;
    const Index scratch_size =
        request.dtype == DType::f64 ? tiled_kernels<double>().scratch(D, d.E) : tiled_kernels<float>().scratch(D, d.E);
    double bytes = stage_memory(request.attention, d, request.dtype, Goal::scores, request.backward);
    if (in_double && request.dtype != DType::f64)  // copies of everything
      bytes += 2 * heads * size * (count(d.N) * (count(d.D) + count(d.E)) + count(d.M) * (count(d.D) + count(d.E)));
    bytes += lanes * (size * (count(scratch_size) + 64 * count(d.E + 2)) + 4096);
    const double gathered = size * count(d.M) * count(D + d.E);
    if (gathered <= count(most_gathered_bytes)) bytes += lanes * gathered;
    bytes += heads * (4096 + 8 * count(d.M) + (request.key_mask ? 2 * count(d.M) : 0));
    if (request.weights || request.column_sums) bytes += lanes * size * 65 * count(d.M);
    if (!request.backward) return bytes;
    const auto padded = [](Index width) { return static_cast<double>((width + 15) / 16 * 16); };
    bytes += size * (heads * 4 * count(d.N) + lanes * count(d.M) * (padded(D) + padded(d.E)));
    return bytes + std::min(most_partial_bytes, enough_tasks * heads * size * count(d.N) * count(D));
  }
};

}  // namespace

const Implementation& tiled() {
  static const Tiled implementation;
  return implementation;
}

}  // namespace saddle::kernels

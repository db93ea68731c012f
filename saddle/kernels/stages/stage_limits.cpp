#include <algorithm>

#include "saddle/kernels/stages/stage.hpp"

namespace saddle::kernels {

namespace {

double count(Index n) { return static_cast<double>(n); }

// What a convolution keeps per number of its kernel: the parameter, its gradient, and where it reaches.
double tap_tables(const primal::Attention& attention) {
  double taps = 0;
  for (const primal::Transform& transform : attention.transforms) {
    if (const auto* conv = std::get_if<primal::Conv1d>(&transform)) taps += count(conv->size);
    if (const auto* conv = std::get_if<primal::Conv2d>(&transform)) taps += count(conv->size.size());
  }
  return 192 * taps;
}

// Bytes of one head.
double head_memory(const primal::Attention& attention, const Dims& dims, Index head, DType dtype, Goal goal,
                   bool backward) {
  const double N = count(dims.N), M = count(dims.M), D = count(dims.D), E = count(dims.E);
  const double K = count(primal::keys_of(attention, dims, head));
  const double element = dtype == DType::f64 ? 8 : 4;
  const bool converts = dtype == DType::bf16, pooled = primal::factor_of(attention, dims, head) > 1;
  const double transforms = count(std::ssize(attention.transforms));
  const bool per_query = primal::first_per_query_transform(attention) < attention.transforms.size();
  const bool rbf = std::holds_alternative<primal::Rbf>(attention.kernel);
  const bool maps = goal == Goal::scores && !primal::score_form(attention.kernel, dims.D);
  const double F = maps ? count(*primal::feature_count(attention.kernel, dims.D)) : 0;

  // Rows of q and k: a loaded copy, one more while a transform runs, and the folded, centred or mapped ones.
  double rows = (converts ? N + K : pooled ? K : 0) * D;
  rows += transforms > 0 || rbf || maps ? 2 * (N + K) * D : 0;
  rows += (N + K) * F + (converts || pooled ? K * E : 0) + (per_query ? N * D : 0);
  double bytes = element * (rows + N + K) + 4 * M + 2 * K;
  if (pooled) bytes += 64 * M + 256 * K;  // windows
  if (per_query) bytes += 64 * M + 1024;
  if (maps && F != D) bytes += F * (8 * D + 64);
  if (backward) {
    // Gradients and dy where they are not in place, the inputs of all transforms, one copy while a convolution is
    // pulled back.
    double more = (N + K) * F + N + K;
    if (converts || transforms > 0 || F > 0) more += (N + K) * D;
    if (converts || pooled) more += (converts ? N + K : K) * E + K * D;
    if (transforms > 0) more += (transforms + 2) * (N + K) * D;
    bytes += element * more + (per_query ? 16 * K * D : 0);
  }
  return bytes + tap_tables(attention) + 512 * (D + E) + 4096;
}

}  // namespace

std::vector<std::string> stage_refusals(const primal::Attention& attention, Goal goal) {
  std::vector<std::string> refusals;
  const std::size_t per_query = primal::first_per_query_transform(attention);
  if (per_query == attention.transforms.size()) return refusals;
  if (goal == Goal::tokens) {
    refusals.emplace_back("bn with per-query statistics gives every query its own transformed keys");
    return refusals;
  }
  if (per_query + 1 < attention.transforms.size())
    refusals.emplace_back(
        "bn with per-query statistics is followed by another transform: every query then has its own transformed keys");
  const auto form = primal::score_form(attention.kernel, 1);
  if (!form || form->c != 0)
    refusals.push_back("bn with per-query statistics moves into the queries only for kernels of <q,k>, not for '" +
                       std::string(primal::name_of(attention.kernel)) + "'");
  return refusals;
}

double stage_memory(const primal::Attention& attention, const Dims& dims, DType dtype, Goal goal, bool backward) {
  double bytes = 0;
  for (Index h = 0; h < dims.H; ++h) bytes += head_memory(attention, dims, h, dtype, goal, backward);
  return count(dims.B) * bytes;
}

}  // namespace saddle::kernels

// Rank collapse of what a file holds: the stack of the theory, a mask, attention maps, or tokens of any model.
#include <fmt/format.h>

#include <algorithm>

#include "saddle/analysis/named_tensors_internal.hpp"
#include "saddle/analysis/rank_collapse/report_internal.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::analysis::rank_collapse {

namespace {

template <int Rank>
Array<double, Rank> values(const TensorFile& file, const std::string& path, const std::string& name) {
  return tensor_values<Rank>(file, path, name,
                             "a stack has x [B,N,d], w_q and w_k [L,H,d,k], w_v [L,H,d,d], and may have mask [N,N]");
}

Mask mask_from(const TensorFile& file, const std::string& path) {
  const Matrix recorded = values<2>(file, path, "mask");
  Mask mask(recorded.shape());
  for (Index i = 0; i < recorded.size(); ++i) mask.data()[i] = recorded.data()[i] != 0 ? 1 : 0;
  return mask;
}

double number_of(const TensorFile& file, const std::string& name, double fallback) {
  return parse_number(metadata_text(file, name, "")).value_or(fallback);
}

Result on_stack(const TensorFile& file, const std::string& path, Options& options) {
  Stack stack;
  stack.w_q = values<4>(file, path, "w_q");
  stack.w_k = values<4>(file, path, "w_k");
  stack.w_v = values<4>(file, path, "w_v");
  const auto recorded = static_cast<Index>(number_of(file, "num_layers", static_cast<double>(stack.w_q.shape()[0])));
  stack.layers = options.integer("layers", recorded);
  stack.norm = norm_from(options.text("norm", metadata_text(file, "norm", "none")));
  stack.residual = options.flag("residual", metadata_text(file, "residual", "false") == "true");
  stack.temperature = options.number("temperature", number_of(file, "temperature", 0));
  const double rank_rtol = options.number("rank_rtol", number_of(file, "rank_rtol", default_rank_rtol));
  const std::string kind = options.text("mask", "");
  const Index window = options.integer("window", 4);
  options.check();
  if (stack.layers < 1 || stack.layers > 100000)
    throw InvalidArgument(fmt::format("option 'layers' must be from 1 to 100000, found {}", stack.layers));
  const Array<double, 3> x = values<3>(file, path, "x");
  const Index B = x.shape()[0], N = x.shape()[1], d = x.shape()[2];
  Mask whole = !kind.empty()                          ? make_mask(kind, N, window)
               : find_tensor(file, "mask") != nullptr ? mask_from(file, path)
                                                      : complete_mask(N);
  const Tensor* const kept = find_tensor(file, "token_mask");
  if (kept != nullptr && kept->shape() != Shape{B, N})
    throw DataError(
        path, 0, 0,
        fmt::format("'token_mask' has shape {}, expected {}", to_string(kept->shape()), to_string(Shape{B, N})));
  std::vector<Trace> traces;
  for (Index b = 0; b < B; ++b) {
    std::vector<bool> exists(static_cast<std::size_t>(N), true);
    for (Index i = 0; kept != nullptr && i < N; ++i) exists[static_cast<std::size_t>(i)] = kept->at(b * N + i) != 0;
    Matrix own({std::count(exists.begin(), exists.end(), true), d});
    for (Index i = 0, row = 0; i < N; ++i) {
      if (!exists[static_cast<std::size_t>(i)]) continue;
      for (Index c = 0; c < d; ++c) own(row, c) = x(b, i, c);
      ++row;
    }
    traces.push_back(trace(stack, own, without_padding(whole, exists), rank_rtol));
  }
  const bool identity =
      std::none_of(traces.begin(), traces.end(), [](const Trace& each) { return each.bound.empty(); });
  return report(path, {mean_course("stack", traces, identity)});
}

// A mask alone: tokens that all differ, every query looking at all it may see alike.
Result on_mask(const TensorFile& file, const std::string& path, Options& options) {
  const Index layers = options.integer("layers", 24);
  options.check();
  if (layers < 1 || layers > 100000)
    throw InvalidArgument(fmt::format("option 'layers' must be from 1 to 100000, found {}", layers));
  const Mask mask = mask_from(file, path);
  const Index N = mask.shape()[0];
  const Graph graph = graph_of(mask);
  Matrix attention({N, N}), x({N, N});
  double least = 1;
  for (Index i = 0; i < N; ++i) {
    x(i, i) = 1;
    const double seen = static_cast<double>(std::count(&mask(i, 0), &mask(i, 0) + N, std::uint8_t{1}));
    if (seen == 0)
      throw DataError(path, 0, 0, fmt::format("token {} sees no token, not even itself", i), "allow the diagonal");
    least = std::min(least, 1 / seen);
    for (Index j = 0; j < N; ++j) attention(i, j) = mask(i, j) != 0 ? 1 / seen : 0;
  }
  std::vector<Matrix> tokens{std::move(x)};
  for (Index t = 0; t < layers; ++t) tokens.push_back(product(attention, tokens.back()));
  const Trace seen = observe(std::move(tokens), mask, std::vector<double>(static_cast<std::size_t>(layers), least));
  Result result = report(path, {mean_course("uniform attention", {seen}, true)});
  result.findings.emplace_back(
      "A mask alone is given: tokens all differ at the start, and each looks alike at all that it may see.");
  Map map{"Mask: token (row) sees token (column)", "token", "token", Matrix({N, N}), true};
  for (Index i = 0; i < mask.size(); ++i) map.values.data()[i] = mask.data()[i];
  result.maps.push_back(std::move(map));
  Table table{"Eccentricity of the tokens", {"token", "eccentricity", "centre"}, {}};
  for (Index i = 0; i < N; ++i) {
    const auto at = static_cast<std::size_t>(i);
    table.rows.push_back({std::to_string(i),
                          graph.centre[at] ? std::to_string(graph.eccentricity[at]) : "does not reach all",
                          graph.centre[at] ? "yes" : "no"});
  }
  result.tables.push_back(std::move(table));
  return result;
}

}  // namespace

Result on_tensors(const TensorFile& file, const std::string& name, Options& options) {
  if (find_tensor(file, "w_q") != nullptr) return on_stack(file, name, options);
  if (find_tensor(file, "mask") != nullptr) return on_mask(file, name, options);
  return on_model(probed_model(file, name), options);
}

}  // namespace saddle::analysis::rank_collapse

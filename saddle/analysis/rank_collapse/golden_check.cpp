// Golden cases of rank collapse: every measure layer by layer, the graph, the bound and the gradients.
#include <cmath>

#include "saddle/analysis/rank_collapse/rank_collapse.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::rank_collapse {

namespace {

using mechanisms::golden_tensor;
using mechanisms::GoldenComparison;
using mechanisms::GoldenMetadata;

constexpr double tolerance = 1e-8;

constexpr std::pair<const char*, double Measures::*> fields[] = {
    {"out.mu", &Measures::mu},
    {"out.mu_relative", &Measures::mu_relative},
    {"out.effective_rank", &Measures::effective_rank},
    {"out.stable_rank", &Measures::stable_rank},
    {"out.rank", &Measures::rank},
    {"out.sigma_min", &Measures::sigma_min},
    {"out.cos_abs_mean", &Measures::cos_abs_mean},
    {"out.cos_mean", &Measures::cos_mean},
    {"out.oscillation", &Measures::oscillation},
};

void require_known(const TensorFile& golden) {
  std::vector<std::string> known{"out.x",
                                 "out.attention_min",
                                 "out.oscillation_bound",
                                 "out.graph_center_nodes",
                                 "out.graph_eccentricity",
                                 "out.graph_radius",
                                 "out.graph_quasi_strongly_connected",
                                 "out.graph_strongly_connected"};
  for (const auto& field : fields) known.emplace_back(field.first);
  mechanisms::require_outputs(golden, known);
  for (const auto& [name, tensor] : golden.tensors)
    if ((name.starts_with("cot.") && name != "cot.mu" && name != "cot.x") ||
        (name.starts_with("grad.") && name != "grad.x" && name != "grad.w_q" && name != "grad.w_k" &&
         name != "grad.w_v"))
      throw DataError("", 0, 0, "nothing here computes " + name);
}

void require_shape(const TensorFile& golden, const std::string& name, const Shape& shape) {
  if (golden.tensors.contains(name) && golden_tensor(golden, name).shape() != shape)
    throw DataError("", 0, 0,
                    name + " has shape " + saddle::to_string(golden_tensor(golden, name).shape()) + ", expected " +
                        saddle::to_string(shape));
}

Stack stack_of(const TensorFile& golden) {
  const GoldenMetadata metadata(golden);
  Stack stack;
  stack.w_q = to_double<4>(golden_tensor(golden, "param.w_q").view());
  stack.w_k = to_double<4>(golden_tensor(golden, "param.w_k").view());
  stack.w_v = to_double<4>(golden_tensor(golden, "param.w_v").view());
  stack.layers = metadata.integer("num_layers", stack.w_q.shape()[0]);
  stack.residual = metadata.flag("residual", false);
  stack.temperature = metadata.number("temperature", 0);
  stack.layernorm_eps = metadata.number("layernorm_eps", stack.layernorm_eps);
  const std::string norm = metadata.text("norm", "none");
  try {
    stack.norm = norm_from(norm);
  } catch (const InvalidArgument& error) {
    throw DataError("", 0, 0, error.what());
  }
  return stack;
}

// The case with its padding: tokens that exist keep their places in what is compared.
struct Case {
  Stack stack;
  Array<double, 3> x;  // [B,N,d]
  Mask mask;
  std::vector<std::vector<bool>> exists;  // [B][N]
  double rank_rtol;

  explicit Case(const TensorFile& golden)
      : stack(stack_of(golden)),
        x(to_double<3>(golden_tensor(golden, "in.x").view())),
        rank_rtol(GoldenMetadata(golden).number("rank_rtol", default_rank_rtol)) {
    const Index B = x.shape()[0], N = x.shape()[1];
    const Matrix recorded = to_double<2>(golden_tensor(golden, "in.mask").view());
    if (recorded.shape()[0] != N || recorded.shape()[1] != N)
      throw DataError("", 0, 0, "in.mask is not " + std::to_string(N) + " by " + std::to_string(N) + " as in.x says");
    mask = Mask({N, N});
    for (Index i = 0; i < N * N; ++i) mask.data()[i] = recorded.data()[i] != 0 ? 1 : 0;
    exists.assign(static_cast<std::size_t>(B), std::vector<bool>(static_cast<std::size_t>(N), true));
    require_shape(golden, "in.token_mask", {B, N});
    if (!golden.tensors.contains("in.token_mask")) return;
    const Tensor& kept = golden_tensor(golden, "in.token_mask");
    for (Index b = 0; b < B; ++b)
      for (Index i = 0; i < N; ++i)
        exists[static_cast<std::size_t>(b)][static_cast<std::size_t>(i)] = kept.at(b * N + i) != 0;
  }

  Index B() const { return x.shape()[0]; }
  Index N() const { return x.shape()[1]; }
  Index d() const { return x.shape()[2]; }

  std::vector<Index> tokens(Index b) const {
    std::vector<Index> kept;
    for (Index i = 0; i < N(); ++i)
      if (exists[static_cast<std::size_t>(b)][static_cast<std::size_t>(i)]) kept.push_back(i);
    return kept;
  }
  // Rows of sample b that exist, and back into their places.
  Matrix rows(const Array<double, 3>& all, Index b) const {
    const auto kept = tokens(b);
    Matrix result({static_cast<Index>(kept.size()), d()});
    for (std::size_t i = 0; i < kept.size(); ++i)
      for (Index c = 0; c < d(); ++c) result(static_cast<Index>(i), c) = all(b, kept[i], c);
    return result;
  }
  void put_rows(const Matrix& from, Index b, Array<double, 3>& all) const {
    const auto kept = tokens(b);
    for (std::size_t i = 0; i < kept.size(); ++i)
      for (Index c = 0; c < d(); ++c) all(b, kept[i], c) = from(static_cast<Index>(i), c);
  }
  Mask mask_of(Index b) const { return without_padding(mask, exists[static_cast<std::size_t>(b)]); }
};

class Comparer {
 public:
  Comparer(const TensorFile& golden, GoldenComparison& comparison) : golden_(golden), comparison_(comparison) {}
  template <int Rank>
  void compare(const std::string& name, const Array<double, Rank>& values) const {
    if (!golden_.tensors.contains(name)) return;
    comparison_.compare(name, to_tensor(values), golden_tensor(golden_, name), tolerance);
  }

 private:
  const TensorFile& golden_;
  GoldenComparison& comparison_;
};

void check_graph(const Case& c, const std::vector<Trace>& traces, const Comparer& comparer) {
  Matrix centre({c.B(), c.N()}), eccentricity({c.B(), c.N()}, -1);
  Vector radius({c.B()}), quasi({c.B()}), strong({c.B()});
  for (Index b = 0; b < c.B(); ++b) {
    const Graph& graph = traces[static_cast<std::size_t>(b)].graph;
    const auto kept = c.tokens(b);
    for (std::size_t i = 0; i < kept.size(); ++i) {
      centre(b, kept[i]) = graph.centre[i] ? 1 : 0;
      eccentricity(b, kept[i]) = static_cast<double>(graph.eccentricity[i]);
    }
    radius(b) = static_cast<double>(graph.radius);
    quasi(b) = graph.quasi_strongly_connected ? 1 : 0;
    strong(b) = graph.strongly_connected ? 1 : 0;
  }
  comparer.compare("out.graph_center_nodes", centre);
  comparer.compare("out.graph_eccentricity", eccentricity);
  comparer.compare("out.graph_radius", radius);
  comparer.compare("out.graph_quasi_strongly_connected", quasi);
  comparer.compare("out.graph_strongly_connected", strong);
}

void check_measures(const Case& c, const std::vector<Trace>& traces, const Comparer& comparer) {
  const Index L = c.stack.layers;
  for (const auto& [name, member] : fields) {
    Matrix values({c.B(), L + 1});
    for (Index b = 0; b < c.B(); ++b)
      for (Index t = 0; t <= L; ++t)
        values(b, t) = traces[static_cast<std::size_t>(b)].measures[static_cast<std::size_t>(t)].*member;
    comparer.compare(name, values);
  }
  Matrix smallest({c.B(), L}), bound({c.B(), L + 1}, std::nan(""));
  Array<double, 3> last({c.B(), c.N(), c.d()});
  for (Index b = 0; b < c.B(); ++b) {
    const Trace& trace = traces[static_cast<std::size_t>(b)];
    for (Index t = 0; t < L; ++t) smallest(b, t) = trace.attention_min[static_cast<std::size_t>(t)];
    for (std::size_t t = 0; t < trace.bound.size(); ++t) bound(b, static_cast<Index>(t)) = trace.bound[t];
    c.put_rows(trace.tokens.back(), b, last);
  }
  comparer.compare("out.attention_min", smallest);
  comparer.compare("out.oscillation_bound", bound);
  comparer.compare("out.x", last);
}

void add(Array<double, 4>& sum, const Array<double, 4>& term) {
  for (Index i = 0; i < sum.size(); ++i) sum.data()[i] += term.data()[i];
}

void check_gradients(const TensorFile& golden, const Case& c, const Comparer& comparer) {
  const bool any = golden.tensors.contains("cot.mu") || golden.tensors.contains("cot.x");
  for (const auto& [name, tensor] : golden.tensors)
    if (name.starts_with("grad.") && !any)
      throw DataError("", 0, 0, "the case has " + name + " but no cot.mu or cot.x");
  if (!any) return;
  const Index L = c.stack.layers;
  require_shape(golden, "cot.mu", {c.B(), L + 1});
  require_shape(golden, "cot.x", {c.B(), c.N(), c.d()});
  const Matrix cot_mu =
      golden.tensors.contains("cot.mu") ? to_double<2>(golden_tensor(golden, "cot.mu").view()) : Matrix({c.B(), L + 1});
  const Array<double, 3> cot_x = golden.tensors.contains("cot.x") ? to_double<3>(golden_tensor(golden, "cot.x").view())
                                                                  : Array<double, 3>(c.x.shape());
  Array<double, 3> x(c.x.shape());
  Array<double, 4> w_q(c.stack.w_q.shape()), w_k(c.stack.w_k.shape()), w_v(c.stack.w_v.shape());
  for (Index b = 0; b < c.B(); ++b) {
    const std::vector<double> mu(row(cot_mu, b).begin(), row(cot_mu, b).end());
    const Gradients g = gradients(c.stack, c.rows(c.x, b), c.mask_of(b), mu, c.rows(cot_x, b));
    c.put_rows(g.x, b, x);
    add(w_q, g.w_q);
    add(w_k, g.w_k);
    add(w_v, g.w_v);
  }
  comparer.compare("grad.x", x);
  comparer.compare("grad.w_q", w_q);
  comparer.compare("grad.w_k", w_k);
  comparer.compare("grad.w_v", w_v);
}

}  // namespace

mechanisms::GoldenReport check(const TensorFile& golden, DType dtype) {
  require_known(golden);
  const Case c(golden);
  std::vector<Trace> traces;
  for (Index b = 0; b < c.B(); ++b) traces.push_back(trace(c.stack, c.rows(c.x, b), c.mask_of(b), c.rank_rtol));
  GoldenComparison comparison(dtype == DType::f64 ? "recursion" : "recursion (runs in f64 only)");
  const Comparer comparer(golden, comparison);
  check_graph(c, traces, comparer);
  check_measures(c, traces, comparer);
  check_gradients(golden, c, comparer);
  mechanisms::GoldenReport report;
  report.results.push_back(comparison.result());
  return report;
}

}  // namespace saddle::analysis::rank_collapse

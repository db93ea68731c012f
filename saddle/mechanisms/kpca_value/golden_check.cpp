// Golden cases of the values by kernel PCA: every step for each head of each sample, padding left out.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/kpca_value/kpca_value.hpp"

namespace saddle::mechanisms::kpca_value {

namespace {

constexpr double tolerance = 1e-9;

// What one head of one sample is given: keys that exist, and where they stood.
struct Head {
  Index b, h, N;  // N: keys with those that do not exist
  std::vector<Index> kept;
  Matrix k, q, v;  // as recorded, keys and values without padding; v may be empty
};

// [B,H,..] tensors by name, filled head by head.
class Collected {
 public:
  Collected(Index B, Index H) : B_(B), H_(H) {}

  void put(const std::string& name, const Head& head, Shape shape, const double* data) {
    const Index count = element_count(shape);
    shape.insert(shape.begin(), {B_, H_});
    const auto [found, added] = tensors_.try_emplace(name, DType::f64, shape);
    if (found->second.shape() != shape)
      throw DataError("", 0, 0, "samples with different numbers of keys cannot stand in one tensor " + name);
    for (Index i = 0; i < count; ++i) found->second.set((head.b * H_ + head.h) * count + i, data[i]);
  }
  void put(const std::string& name, const Head& head, const Matrix& x) {
    put(name, head, {x.shape()[0], x.shape()[1]}, x.data());
  }
  void put(const std::string& name, const Head& head, const Vector& x) { put(name, head, {x.size()}, x.data()); }
  void put(const std::string& name, const Head& head, double x) { put(name, head, {}, &x); }

  // Rows of keys back in their places, 0 where there is none.
  void put_keys(const std::string& name, const Head& head, const Matrix& x) {
    Matrix all({head.N, x.shape()[1]});
    for (std::size_t i = 0; i < head.kept.size(); ++i)
      std::copy_n(row(x, static_cast<Index>(i)).begin(), x.shape()[1], row(all, head.kept[i]).begin());
    put(name, head, all);
  }
  void put_keys(const std::string& name, const Head& head, const Vector& x) {
    Vector all({head.N});
    for (std::size_t i = 0; i < head.kept.size(); ++i) all(head.kept[i]) = x(static_cast<Index>(i));
    put(name, head, all);
  }

  const std::map<std::string, Tensor>& tensors() const { return tensors_; }

 private:
  Index B_, H_;
  std::map<std::string, Tensor> tensors_;
};

// Rows of sample b, head h.
Matrix rows(const Array<double, 4>& x, Index b, Index h, const std::vector<Index>& which) {
  Matrix result({static_cast<Index>(which.size()), x.shape()[3]});
  for (std::size_t i = 0; i < which.size(); ++i)
    for (Index d = 0; d < x.shape()[3]; ++d) result(static_cast<Index>(i), d) = x(b, h, which[i], d);
  return result;
}

std::vector<Index> all_of(Index count) {
  std::vector<Index> which(static_cast<std::size_t>(count));
  std::iota(which.begin(), which.end(), Index{0});
  return which;
}

Array<double, 4> heads_of(const TensorFile& golden, const std::string& name, Index B, Index H) {
  auto x = to_double<4>(golden_tensor(golden, name).view());
  if (x.shape()[0] != B || x.shape()[1] != H)
    throw DataError(
        "", 0, 0,
        fmt::format("{} has {} samples and {} heads, in.k {} and {}", name, x.shape()[0], x.shape()[1], B, H));
  return x;
}

std::vector<Index> kept_keys(const TensorFile& golden, Index b, Index N) {
  if (!golden.tensors.contains("in.key_mask")) return all_of(N);
  const Matrix mask = to_double<2>(golden_tensor(golden, "in.key_mask").view());
  std::vector<Index> kept;
  if (b < mask.shape()[0] && mask.shape()[1] == N)
    for (Index j = 0; j < N; ++j)
      if (mask(b, j) != 0) kept.push_back(j);
  if (kept.empty()) throw DataError("", 0, 0, fmt::format("in.key_mask keeps no key of sample {} out of {}", b, N));
  return kept;
}

Normalisation normalisation_of(const GoldenMetadata& metadata) {
  const std::string word = metadata.text("normalization", "kpca");
  if (word == "kpca") return Normalisation::kpca;
  if (word == "unit") return Normalisation::unit;
  throw DataError("", 0, 0, "metadata 'normalization' must be kpca or unit, found '" + word + "'");
}

Vector means(const std::vector<Spread>& spreads) {
  Vector result({static_cast<Index>(spreads.size())});
  std::transform(spreads.begin(), spreads.end(), result.begin(), [](const Spread& s) { return s.mean; });
  return result;
}

void compute(const Head& head, const GoldenMetadata& metadata, const Matrix& cotangent, Collected& out) {
  const bool standard = metadata.flag("standardize", false);
  const Matrix k = standard ? standardised(head.k) : head.k, q = standard ? standardised(head.q) : head.q;
  const Normalisation normalisation = normalisation_of(metadata);
  const Gram keys = gram(k);
  const Axes formula = axes(keys, metadata.integer("num_components", k.shape()[1]), normalisation);
  out.put_keys("out.g", head, keys.g);
  out.put("out.gram", head, keys.scaled);
  out.put("out.gram_centered", head, keys.centred);
  out.put("out.eigenvalues", head, formula.eigenvalues);
  out.put("out.lam", head, formula.lambda);
  out.put_keys("out.coef", head, formula.coefficients);
  out.put_keys("out.values", head, formula.values);

  const Matrix h = attention(q, k, formula.values);
  const Vector norms = squared_norms(q, k);
  out.put("out.h", head, h);
  out.put("out.h_direct", head, projections(q, k, keys, formula.coefficients));
  out.put("out.phi_q_norm2", head, norms);
  if (normalisation == Normalisation::kpca) out.put("out.recon_error", head, reconstruction_errors(norms, h));

  if (!head.v.empty()) {
    const Matrix gammas = gamma(keys, head.v);
    out.put_keys("out.v_gamma", head, gammas);
    out.put("out.v_gamma_absdiff_mean", head, means(absolute_spread(gammas)));
    out.put("out.v_gamma_reldiff_mean", head, means(relative_spread(gammas)));
    out.put("out.v_linear_cka", head, linear_cka(head.v, formula.values));
    const Matrix cosines = row_cosines(head.v, formula.values);
    double cosine = 0;
    for (Index j = 0; j < cosines.shape()[0]; ++j) cosine += cosines(j, j) / static_cast<double>(cosines.shape()[0]);
    out.put("out.v_cosine_mean", head, cosine);
  }
  if (cotangent.empty()) return;
  const Matrix dk = gram_gradient(k, cotangent);
  out.put_keys("grad.k", head, standard ? standardised_gradient(head.k, dk) : dk);
}

}  // namespace

GoldenReport check(const TensorFile& golden, DType dtype) {
  const GoldenMetadata metadata(golden);
  const auto k = to_double<4>(golden_tensor(golden, "in.k").view());
  const Index B = k.shape()[0], H = k.shape()[1], N = k.shape()[2];
  const auto q = heads_of(golden, "in.q", B, H);
  const bool learned = golden.tensors.contains("in.v"), gradient = golden.tensors.contains("cot.gram_centered");
  const auto v = learned ? heads_of(golden, "in.v", B, H) : Array<double, 4>();
  if (learned && v.shape()[2] != N)
    throw DataError("", 0, 0, fmt::format("in.v has {} rows for {} keys", v.shape()[2], N));
  const auto cotangent = gradient ? heads_of(golden, "cot.gram_centered", B, H) : Array<double, 4>();

  Collected out(B, H);
  for (Index b = 0; b < B; ++b) {
    const auto kept = kept_keys(golden, b, N);
    for (Index h = 0; h < H; ++h) {
      const Head head{b,
                      h,
                      N,
                      kept,
                      rows(k, b, h, kept),
                      rows(q, b, h, all_of(q.shape()[2])),
                      learned ? rows(v, b, h, kept) : Matrix()};
      compute(head, metadata, gradient ? rows(cotangent, b, h, all_of(cotangent.shape()[2])) : Matrix(), out);
    }
  }

  std::vector<std::string> known;
  for (const auto& [name, tensor] : out.tensors()) known.push_back(name);
  require_outputs(golden, known);
  GoldenComparison comparison(dtype == DType::f64 ? "formulas" : "formulas (run in f64 only)");
  for (const auto& [name, tensor] : golden.tensors) {
    if (!name.starts_with("out.") && !name.starts_with("grad.")) continue;
    const auto found = out.tensors().find(name);
    if (found == out.tensors().end()) throw DataError("", 0, 0, "nothing here computes " + name);
    comparison.compare(name, found->second, tensor, tolerance);
  }
  GoldenReport report;
  report.results.push_back(comparison.result());
  return report;
}

}  // namespace saddle::mechanisms::kpca_value

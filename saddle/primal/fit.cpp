#include "saddle/primal/fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "saddle/base/error.hpp"
#include "saddle/primal/head.hpp"
#include "saddle/primal/weights.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::primal {

namespace {

std::vector<std::uint8_t> all_visible(const TrainingSet& set) {
  return std::vector<std::uint8_t>(set.keys.shape()[0], 1);
}

WeightRule rule_for(const Attention& attention, const TrainingSet& set) {
  return {attention, set.keys.shape()[1], set.N, set.K};
}

// h at the keys and G = kappa/(h h'). h must be usable everywhere, or there is no regression.
void fill_gram(const Attention& attention, TrainingSet& set) {
  const Index m = set.keys.shape()[0];
  const WeightRule rule = rule_for(attention, set);
  const auto visible = all_visible(set);
  set.h = Vector({m});
  set.gram = Matrix({m, m});
  for (Index j = 0; j < m; ++j) {
    set.h(j) = rule.normaliser(row(set.keys, j), set.keys, visible);
    if (set.h(j) == 0 || !std::isfinite(set.h(j)))
      throw InvalidArgument(
          fmt::format("[{}] the normaliser h is {} at key {}: it must be finite and non-zero at every key",
                      to_text(attention), set.h(j), set.indices[j]),
          "scale the keys, or use another normaliser");
  }
  for (Index j = 0; j < m; ++j)
    for (Index l = 0; l <= j; ++l)  // h h' may overflow where kappa/h does not
      set.gram(j, l) = set.gram(l, j) = rule.kappa(row(set.keys, j), row(set.keys, l)) / set.h(j) / set.h(l);
}

// A valid call with queries x, keys k and values v of one head. The tensors must outlive it.
struct OneHead {
  Tensor q, k, v;
  Call call;

  OneHead(const Attention& attention, const Matrix& x, const Matrix& keys, const Matrix& values)
      : q(lift(x)), k(lift(keys)), v(lift(values)) {
    call.attention = attention;
    call.attention.bias.reset();
    call.q = q.view();
    call.k = k.view();
    call.v = v.view();
    // validate refuses a row sum that some data could make zero; here the data is known, and fill_gram looks at h.
    Call checked = call;
    if (sign_of(attention.kernel) != Sign::positive) checked.attention.normaliser = One{};
    validate(checked);
  }
  OneHead(const OneHead&) = delete;
  OneHead& operator=(const OneHead&) = delete;

  static Tensor lift(const Matrix& x) {
    Tensor tensor(DType::f64, {1, 1, x.shape()[0], x.shape()[1]});
    saddle::detail::copy_from_double(x.data(), tensor.view());
    return tensor;
  }
};

// x [P,D] through the transforms. Without key sets every query sees all keys, so per-query statistics are common too.
Matrix transformed(const Fit& fit, const Matrix& x) {
  if (x.shape()[1] != fit.k.shape()[1])
    throw InvalidArgument(
        fmt::format("cannot predict from {} columns: the fit has {} inputs", x.shape()[1], fit.k.shape()[1]));
  const OneHead one(fit.attention, x, fit.k, fit.v);
  const Head head = prepare_head(one.call, 0, 0);
  Matrix tokens = head.tokens.q;
  if (head.per_query < fit.attention.transforms.size())
    for (Index i = 0; i < tokens.shape()[0]; ++i) {
      const Matrix own = per_query_tokens(one.call, head, i).tokens.q;
      std::copy(own.begin(), own.end(), tokens.data() + i * tokens.shape()[1]);
    }
  return tokens;
}

void check_table(const Attention& attention, const Matrix& k, const Matrix& y) {
  if (k.shape()[0] == 0 || k.shape()[1] == 0 || k.shape()[0] != y.shape()[0])
    throw InvalidArgument(
        fmt::format("the regression has inputs of shape ({},{}) and targets of shape ({},{}): it needs "
                    "one target row per input and at least one input",
                    k.shape()[0], k.shape()[1], y.shape()[0], y.shape()[1]));
  const auto refuse = [&](const char* what, const char* why, const char* hint) {
    throw NotSupported(fmt::format("[{}] {}", to_text(attention), what), {why}, hint);
  };
  if (attention.pooling || !attention.keys.empty())
    refuse("a fit uses every row of its data as a key", "pooling and key sets describe sequences, not a table of rows",
           "leave sh and key sets out");
  if (attention.residual)
    refuse("a fit has no residual", "a table brings no skip tensor to add to the output", "leave residual out");
  if (std::any_of(attention.transforms.begin(), attention.transforms.end(), mixes_tokens))
    refuse("a fit treats every row of its data on its own",
           "a convolution over tokens makes a prediction depend on the rows next to it", "use axis=feature");
}

}  // namespace

TrainingSet training_set(const Call& call, Index sample, Index head, Index query) {
  const Head data = prepare_head(call, sample, head);
  const Tokens tokens =
      data.per_query < call.attention.transforms.size() ? per_query_tokens(call, data, query).tokens : data.tokens;
  const Index own = tokens.q.shape()[0] == 1 ? 0 : query;
  const Index D = tokens.k.shape()[1], E = data.v.shape()[1];
  TrainingSet set;
  set.sample = sample;
  set.head = head;
  set.query = query;
  set.N = data.visible.shape()[0];
  set.K = data.visible.shape()[1];
  for (Index j = 0; j < set.K; ++j)
    if (data.visible(query, j)) set.indices.push_back(j);
  for (Index i = 0; i < set.N; ++i)
    for (Index j = 0; j < set.K; ++j) set.shared &= data.visible(i, j) == data.visible(query, j);
  const auto m = static_cast<Index>(set.indices.size());
  set.keys = Matrix({m, D});
  set.values = Matrix({m, E});
  for (Index j = 0; j < m; ++j) {
    const Index from = set.indices[j];
    std::copy_n(tokens.k.data() + from * D, D, set.keys.data() + j * D);
    std::copy_n(data.v.data() + from * E, E, set.values.data() + j * E);
  }
  set.query_tokens = Vector({D});
  std::copy_n(tokens.q.data() + own * D, D, set.query_tokens.data());
  fill_gram(call.attention, set);
  return set;
}

Matrix expansion_row(const Attention& attention, const TrainingSet& set, const Matrix& x) {
  const WeightRule rule = rule_for(attention, set);
  const auto visible = all_visible(set);
  Matrix weights({x.shape()[0], set.keys.shape()[0]});
  for (Index i = 0; i < x.shape()[0]; ++i) rule.row(row(x, i), set.keys, visible, row(weights, i));
  return weights;
}

Fit fit_attention(const Attention& attention, const Matrix& k, const Matrix& y, const SvrOptions& options) {
  check_table(attention, k, y);
  Fit fit;
  fit.attention = attention;
  if (options.bias) fit.attention.bias = Bias{};
  fit.k = k;
  fit.v = Matrix(y.shape());
  const OneHead head(attention, k, k, fit.v);
  fit.set = training_set(head.call, 0, 0, 0);
  SvrOptions with_bias = options;
  with_bias.bias = fit.attention.bias.has_value();
  fit.solution = solve_svr(fit.set.gram, y, with_bias);
  for (Index j = 0; j < k.shape()[0]; ++j)
    for (Index e = 0; e < y.shape()[1]; ++e) fit.v(j, e) = fit.solution.beta(j, e) / fit.set.h(j);
  fit.set.values = fit.v;
  return fit;
}

Matrix Fit::predict(const Matrix& x) const {
  const Matrix weights = expansion_row(attention, set, transformed(*this, x));
  Matrix f({x.shape()[0], v.shape()[1]});
  for (Index i = 0; i < f.shape()[0]; ++i)
    for (Index e = 0; e < f.shape()[1]; ++e) {
      for (Index j = 0; j < v.shape()[0]; ++j) f(i, e) += weights(i, j) * v(j, e);
      f(i, e) += solution.b(e);
    }
  return f;
}

Vector Fit::normaliser(const Matrix& x) const {
  const Matrix tokens = transformed(*this, x);
  const WeightRule rule = rule_for(attention, set);
  const auto visible = all_visible(set);
  Vector h({x.shape()[0]});
  for (Index i = 0; i < h.size(); ++i) h(i) = rule.normaliser(row(tokens, i), set.keys, visible);
  return h;
}

}  // namespace saddle::primal

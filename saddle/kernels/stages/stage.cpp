#include <algorithm>
#include <cmath>

#include "saddle/kernels/stages/row_loops.hpp"
#include "saddle/kernels/stages/stage_state.hpp"

namespace saddle::kernels {

using namespace stages;

namespace {

std::vector<std::uint8_t> read_key_mask(const primal::Call& call, Index b) {
  std::vector<std::uint8_t> keep;
  if (!call.key_mask) return keep;
  keep.resize(call.dims().M);
  const auto* mask = static_cast<const std::uint8_t*>(call.key_mask.data) + b * call.key_mask.stride[0];
  bool all = true;
  for (std::size_t j = 0; j < keep.size(); ++j) {
    keep[j] = mask[static_cast<Index>(j) * call.key_mask.stride[1]] != 0;
    all = all && keep[j] != 0;
  }
  if (all) keep.clear();
  return keep;
}

// Whether queries see different keys, so that a core asks which tokens a pooled key stands for.
bool restricts(const primal::Call& call) {
  return call.mask || std::any_of(call.attention.keys.begin(), call.attention.keys.end(), [](const auto& part) {
           return !std::holds_alternative<primal::Padding>(part) && !std::holds_alternative<primal::Explicit>(part);
         });
}

// A factor common to a row of exp cancels against the row sum.
bool row_cancels(const primal::Attention& attention) {
  const auto* sum = std::get_if<primal::RowSum>(&attention.normaliser);
  const auto form = primal::score_form(attention.kernel, 1);
  return sum != nullptr && form && form->exponential && primal::den_eps_of(*sum, attention.kernel) == 0;
}

Kappa kappa_of(const primal::Kernel& kernel) {
  if (const auto* poly = std::get_if<primal::Polynomial>(&kernel))
    return {Kappa::Kind::power, poly->degree, poly->coef0};
  if (std::holds_alternative<primal::Dot>(kernel)) return {Kappa::Kind::power, 1, 0};
  const auto* linear = std::get_if<primal::Linear>(&kernel);
  if (linear == nullptr) return {};
  if (linear->map == primal::FeatureMapKind::taylor) return {Kappa::Kind::taylor, linear->order, 0};
  return {Kappa::Kind::power, 1, 0};
}

// Above this ratio of mean to deviation the folded scores would lose digits that centred keys keep.
constexpr double largest_folded_mean = 16;

bool folds_well(const KeyStatistics& s, double beta) {
  for (std::size_t d = 0; d < s.mean.size(); ++d)
    if (std::fabs(beta * s.mean[d]) * std::sqrt(s.square[d]) > largest_folded_mean) return false;
  return true;
}

}  // namespace

template <class T>
Stage<T>::State::State(const primal::Call& call_, Index b_, Index h_, Goal goal_)
    : call(call_),
      b(b_),
      h(h_),
      goal(goal_),
      dims(call_.dims()),
      q(slice_of(call_.q, b_, h_)),
      k(slice_of(call_.k, b_, h_)),
      v(slice_of(call_.v, b_, h_)),
      keep_tokens(read_key_mask(call_, b_)) {}

// What is done to this head, and its keys.
template <class T>
void Stage<T>::State::plan() {
  const primal::Attention& attention = call.attention;
  const Index factor = primal::factor_of(attention, dims, h);
  K = dims.M;
  keep_keys = keep_tokens;
  if (factor > 1) {
    pooled.emplace(*attention.pooling, factor, dims.M, keep_tokens);
    K = pooled->K();
    keep_keys = pooled->keep();
    if (restricts(call)) windows = primal::pooling_windows(*attention.pooling, factor, dims.M);
  }
  for (const primal::Transform& transform : attention.transforms)
    theta.push_back(primal::parameter_of(
        call, std::visit([](const auto& part) { return std::string(part.parameter); }, transform), h));
  ordinary = attention.transforms.size();
  problem.N = dims.N;
  problem.K = K;
  problem.D = dims.D;
  problem.E = dims.E;
  if (goal == Goal::tokens) return;

  problem.kappa = kappa_of(attention.kernel);
  const auto form = primal::score_form(attention.kernel, dims.D);
  if (!form) {
    features.emplace(std::get<primal::Linear>(attention.kernel), dims.D);
    return;
  }
  problem.a = a = form->a;
  rbf = form->c != 0;
  if (rbf || attention.transforms.empty()) return;
  folded = std::get_if<primal::BatchNorm>(&attention.transforms.back());
  if (folded == nullptr) return;
  --ordinary;
  per_query = primal::stats_of(attention, *folded) == primal::Stats::subset;
}

template <class T>
Held<T> Stage<T>::State::load_queries() const {
  Held<T> held;
  held.rows = in_place<T>(q);
  if (held.rows) return held;
  held = Held<T>::fresh(dims.N, dims.D);
  for (Index i = 0; i < dims.N; ++i) load_row(q, i, held.buffer.rows()[i]);
  return held;
}

// k or v, pooled.
template <class T>
Held<T> Stage<T>::State::load_keys(const Slice& slice) const {
  Held<T> held;
  if (!pooled) held.rows = in_place<T>(slice);
  if (held.rows) return held;
  held = Held<T>::fresh(K, slice.columns);
  const Rows<T> rows = held.buffer.rows();
  if (pooled) {
    Reader<T> reader(slice);
    pooled->pool(reader, rows);
    return held;
  }
  for (Index j = 0; j < K; ++j) {
    if (kept_at(keep_keys, j))
      load_row(slice, j, rows[j]);
    else
      std::fill_n(rows[j], slice.columns, T{});
  }
  return held;
}

template <class T>
TokenRows<const T> Stage<T>::State::rows_of(const HeldTokens<T>& now) const {
  // Where queries and keys are the same tokens, a missing one is missing on both sides.
  const Kept keep_queries = dims.N == dims.M ? Kept(keep_tokens) : Kept{};
  return {now.q.rows, now.k.rows, dims.N, K, dims.D, keep_queries, keep_keys};
}

template <class T>
void Stage<T>::State::run_transform(std::size_t t, HeldTokens<T>& now, std::vector<HeldTokens<T>>* inputs) const {
  const primal::Transform& transform = call.attention.transforms[t];
  const TokenRows<const T> in = rows_of(now);
  const bool reuse = inputs == nullptr && works_in_place(transform);
  const auto output = [&](Held<T>& input, Index n) {
    return reuse && input.buffer ? std::move(input) : Held<T>::fresh(n, dims.D);
  };
  HeldTokens<T> next{output(now.q, dims.N), output(now.k, K)};
  stages::apply<T>(transform, theta[t], in,
                   {next.q.buffer.rows(), next.k.buffer.rows(), in.N, in.K, in.D, in.keep_queries, in.keep_keys});
  if (inputs != nullptr) inputs->push_back(std::move(now));
  now = std::move(next);
}

template <class T>
HeldTokens<T> Stage<T>::State::run_transforms(std::size_t count, std::vector<HeldTokens<T>>* inputs) const {
  HeldTokens<T> now{load_queries(), load_keys(k)};
  for (std::size_t t = 0; t < count; ++t) run_transform(t, now, inputs);
  return now;
}

// q, k and v as far as the ordinary transforms go. Tokens that another step reads row by row anyway, and raw ones, are
// not converted here.
template <class T>
void Stage<T>::State::load(bool raw) {
  const auto raw_rows = [&](const Slice& slice) {
    return raw && std::is_same_v<T, float> ? in_place<BFloat16>(slice) : Rows<BFloat16>{};
  };
  if (!pooled) raw_v = raw_rows(v);
  if (!raw_v) values = load_keys(v);
  if (ordinary > 0) {
    tokens = run_transforms(ordinary, nullptr);
    return;
  }
  if (!features && !rbf) {
    if (!per_query) raw_q = raw_rows(q);
    if (!pooled) raw_k = raw_rows(k);
  }
  if (!raw_q && !per_query) tokens.q = load_queries();
  if (!raw_k) tokens.k = load_keys(k);
}

template <class T>
Reader<T> Stage<T>::State::query_reader() const {
  return tokens.q.rows ? Reader<T>(tokens.q.rows, dims.D) : Reader<T>(q);
}

template <class T>
Reader<T> Stage<T>::State::key_reader() const {
  return tokens.k.rows ? Reader<T>(tokens.k.rows, dims.D) : Reader<T>(k);
}

// The last batch norm moves into the queries.
template <class T>
void Stage<T>::State::fold(bool need_row) {
  const double beta = theta.back()[0];
  Reader<T> queries = query_reader(), keys = key_reader();
  if (per_query) {
    final_q = Held<T>::fresh(dims.N, dims.D);
    if (need_row) row.resize(dims.N);
    QueryFold{*folded, beta, a}.apply<T>(queries, dims.N, keys, K, keep_keys, visible(), final_q.buffer.rows(),
                                         need_row ? row.data() : nullptr);
    return;
  }
  KeyStatistics statistics = key_statistics(*folded, keys, K, keep_keys);
  if (statistics.n == 0) return;
  if (folded->scale == primal::ScaleMode::std && !folds_well(statistics, beta)) {
    folded = nullptr;
    if (raw_q) tokens.q = load_queries();
    if (raw_k) tokens.k = load_keys(k);
    raw_q = raw_k = {};
    run_transform(ordinary++, tokens, nullptr);
    return;
  }
  global_fold.emplace(std::move(statistics), beta, a);
  problem.q_shift = global_fold->shift();
  problem.q_factor = global_fold->factor();
  if (!need_row) return;
  row.resize(dims.N);
  global_fold->row_terms(queries, dims.N, row.data());
}

// -gamma |q-k|^2 = 2 gamma <q,k> - gamma |q|^2 - gamma |k|^2. Around the mean of the keys the squares do not cancel.
template <class T>
void Stage<T>::State::centre(bool need_row) {
  const T gamma = static_cast<T>(a / 2);
  Reader<T> keys = key_reader();
  std::vector<double> mean;
  key_mean(keys, K, keep_keys, mean);
  std::vector<T> centre(mean.size());
  // A mean that is not finite would spoil every key instead of one.
  for (std::size_t d = 0; d < mean.size(); ++d) centre[d] = std::isfinite(mean[d]) ? static_cast<T>(mean[d]) : T{};
  const auto shift = [&](Held<T>& held, Index n, Kept keep, std::vector<T>* squares) {
    const Rows<const T> in = held.rows;
    if (!held.buffer) held = Held<T>::fresh(n, dims.D);
    const Rows<T> out = held.buffer.rows();
    if (squares != nullptr) squares->resize(n);
    for (Index i = 0; i < n; ++i) {
      T* y = out[i];
      const T* x = in[i];
      const bool exists = kept_at(keep, i);
      for (Index d = 0; d < dims.D; ++d) y[d] = exists ? x[d] - centre[d] : T{};
      if (squares != nullptr) (*squares)[i] = -gamma * static_cast<T>(squared_norm(y, dims.D));
    }
  };
  shift(tokens.q, dims.N, {}, need_row ? &row : nullptr);
  shift(tokens.k, K, keep_keys, &column);
}

template <class T>
void Stage<T>::State::map_features() {
  problem.D = features->F();
  const auto map = [&](Held<T>& held, Index n, Kept keep) {
    if (features->elementwise() && held.buffer) {
      features->map(held.rows, held.buffer.rows(), n, keep);
      return;
    }
    Held<T> mapped = Held<T>::fresh(n, features->F());
    features->map(held.rows, mapped.buffer.rows(), n, keep);
    held = std::move(mapped);
  };
  map(tokens.q, dims.N, {});
  map(tokens.k, K, keep_keys);
}

template <class T>
Stage<T>::Stage(const primal::Call& call, Index b, Index h, Goal goal, bool raw, bool need_row)
    : state_(std::make_unique<State>(call, b, h, goal)) {
  State& s = *state_;
  const bool row_wanted = need_row || !row_cancels(call.attention);
  s.plan();
  s.load(raw);
  if (s.folded != nullptr) s.fold(row_wanted);
  if (s.rbf) s.centre(row_wanted);
  if (s.features) s.map_features();
  s.problem.q = s.final_q.rows ? s.final_q.rows : s.tokens.q.rows;
  s.problem.k = s.tokens.k.rows;
  s.problem.v = s.values.rows;
  s.problem.row = s.row.empty() ? nullptr : s.row.data();
  s.problem.column = s.column.empty() ? nullptr : s.column.data();
}

template <class T>
Stage<T>::~Stage() = default;
template <class T>
Stage<T>::Stage(Stage&&) noexcept = default;
template <class T>
Stage<T>& Stage<T>::operator=(Stage&&) noexcept = default;

template <class T>
const ScoreProblem<T>& Stage<T>::problem() const {
  return state_->problem;
}
template <class T>
Rows<const BFloat16> Stage<T>::raw_q() const {
  return state_->raw_q;
}
template <class T>
Rows<const BFloat16> Stage<T>::raw_k() const {
  return state_->raw_k;
}
template <class T>
Rows<const BFloat16> Stage<T>::raw_v() const {
  return state_->raw_v;
}
template <class T>
const std::vector<std::uint8_t>& Stage<T>::keep() const {
  return state_->keep_keys;
}
template <class T>
const primal::Windows& Stage<T>::windows() const {
  return state_->windows;
}

template class Stage<float>;
template class Stage<double>;

}  // namespace saddle::kernels

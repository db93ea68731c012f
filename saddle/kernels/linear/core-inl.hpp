// The sweeps of core.hpp for one instruction set.
#if defined(SADDLE_KERNELS_LINEAR_CORE_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_LINEAR_CORE_INL_HPP_
#undef SADDLE_KERNELS_LINEAR_CORE_INL_HPP_
#else
#define SADDLE_KERNELS_LINEAR_CORE_INL_HPP_
#endif

#include "saddle/kernels/linear/chunk-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::linear_kernel::HWY_NAMESPACE {

template <class T>
HWY_INLINE void add_to_state(const Problem<T>& p, const Keys<T>& keys, bool transposed, State<T> sum,
                             Workspace<T>& work) {
  const Index E = padded<T>(p.E), F = padded<T>(p.F);
  const T* phi = work.phi_k;
  if (transposed)
    product<Along::row>(Product<T>{p.E, F, keys.count, keys.v.data, keys.v.stride, phi, F, sum.w, F, true});
  else
    product<Along::row>(Product<T>{p.F, E, keys.count, phi, F, keys.v.data, keys.v.stride, sum.w, E, true});
  add_rows(work.ones, phi, F, keys.count, F, sum.z);
}

template <class T>
void add_keys(const Problem<T>& p, Range queries, Range keys, bool transposed, State<T> sum, Workspace<T>& work) {
  if (!p.keys->causal())
    for (Index j = keys.begin; j < keys.end; j += chunk)
      add_to_state(p, fetch_keys(p, {j, std::min(keys.end, j + chunk)}, work), transposed, sum, work);
  // Chunk by chunk of the queries, as read() adds them: the sums are the same to the last bit.
  Index next = keys.begin;
  for (Index i = queries.begin; p.keys->causal() && i < queries.end; i += chunk) {
    const Keys<T> part = arriving_keys(p, next, keys.end, i, std::min(chunk, queries.end - i), work);
    if (part.count > 0) add_to_state(p, part, transposed, sum, work);
  }
}

// before + running, or before itself if nothing runs.
template <class T>
HWY_INLINE State<T> current(const Problem<T>& p, bool transposed, State<T> before, State<T> running,
                            Workspace<T>& work) {
  if (!running) return before;
  const Tag<T> d;
  const StateShape<T> shape{p.E, p.F};
  const State<T> sum = shape.at(work.state);
  const Index w = transposed ? p.E * padded<T>(p.F) : p.F * padded<T>(p.E);
  each<T>(w, [&](Index c) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, before.w + c), hn::LoadU(d, running.w + c)), d, sum.w + c);
  });
  each<T>(padded<T>(p.F), [&](Index c) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, before.z + c), hn::LoadU(d, running.z + c)), d, sum.z + c);
  });
  return sum;
}

// h_i and 1/h_i of a chunk of queries; 0 where nothing is seen or weighs anything.
template <class T>
HWY_INLINE void normalise(const Problem<T>& p, Index i0, Index count, const T* z, const Keys<T>& keys, T* h,
                          Workspace<T>& work) {
  const Index F = padded<T>(p.F);
  for (Index t = 0; t < count; ++t) {
    T sum = static_cast<T>(p.normaliser.fixed);
    if (p.normaliser.row_sum) {
      sum = inner(work.phi_q + t * F, z, F) + static_cast<T>(p.normaliser.den_eps);
      sum += inner(work.scores + t * chunk, work.ones, padded<T>(keys.seen[t]));
    }
    if (i0 + t < p.keys->first) sum = 0;
    h[i0 + t] = sum;
    work.scale[t] = sum == 0 ? T{0} : 1 / sum;
  }
}

// Queries [i, i + count) of a pass: their rows, the sums that they see and the keys that arrive among them.
template <class T>
struct QueryChunk {
  Index count = 0;
  Rows<const T> q;
  State<T> state;
  Keys<T> keys;
};

// Takes the next chunk: leaves features in phi_q, products with the arriving keys in scores, 1/h in scale.
template <class T, class Pass>
HWY_INLINE QueryChunk<T> take_queries(const Problem<T>& p, const Pass& pass, Index i, bool transposed, Index& next,
                                      Workspace<T>& work) {
  const Index F = padded<T>(p.F);
  QueryChunk<T> c;
  c.count = std::min(chunk, pass.queries.end - i);
  c.q = fetch(p.q, i, nullptr, c.count, p.D, work.q);
  map_features(*p.features, c.q, c.count, work.phi_q, work);
  c.state = current(p, transposed, pass.before, pass.running, work);
  c.keys = arriving_keys(p, next, pass.keys.end, i, c.count, work);
  if (c.keys.count > 0) {
    transpose(work.phi_k, F, c.keys.count, p.F, work.phi_kt, chunk);
    masked_product(c.keys, c.count, Rows<const T>{work.phi_q, F}, p.F, work.phi_kt, work.scores);
  }
  normalise(p, i, c.count, c.state.z, c.keys, pass.h, work);
  return c;
}

template <class T>
void read(const Problem<T>& p, const typename Core<T>::Read& pass, Workspace<T>& work) {
  const Index E = padded<T>(p.E), F = padded<T>(p.F);
  Index next = pass.keys.begin;
  for (Index i = pass.queries.begin; i < pass.queries.end; i += chunk) {
    const auto [count, q, state, keys] = take_queries(p, pass, i, false, next, work);
    const Rows<const T> phi{work.phi_q, F};
    const bool direct = pass.y && E == p.E;
    const Rows<T> y = direct ? Rows<T>{pass.y[i], pass.y.stride} : Rows<T>{work.y, E};
    product<Along::k>(Product<T>{count, E, p.F, phi.data, F, state.w, E, y.data, y.stride, false,
                                 keys.count > 0 ? nullptr : work.scale});
    if (keys.count > 0) {
      add_masked(keys, count, work.scores, keys.v, E, y, work.scale);
      add_to_state(p, keys, false, pass.running, work);
    }
    if (direct) continue;
    if (pass.y)
      deliver(y, pass.y, i, nullptr, count, p.E, work.y, false);
    else
      pass.store(i, count, {y.data, y.stride});
  }
}

// g [count,E] = dy_i/h_i, 0 where h is.
template <class T>
HWY_INLINE void scale_rows(const Problem<T>& p, Rows<const T> dy, Index i, Index count, const T* scale, T* g) {
  const Tag<T> d;
  const Index E = padded<T>(p.E);
  for (Index t = 0; t < count; ++t) {
    const T* const from = dy[i + t];
    T* const to = g + t * E;
    const Vec<T> f = hn::Set(d, scale[t]);
    Index e = 0;
    if (scale[t] == 0) {
      std::fill_n(to, E, T{0});
      continue;
    }
    for (; e + lanes<T> <= p.E; e += lanes<T>) hn::StoreU(hn::Mul(f, hn::LoadU(d, from + e)), d, to + e);
    for (; e < p.E; ++e) to[e] = scale[t] * from[e];
    for (; e < E; ++e) to[e] = 0;
  }
}

// sum += Phi(q_i) g_i^T and -c_i Phi(q_i) for the chunk in phi_q and g.
template <class T>
HWY_INLINE void add_chunk_of_queries(const Problem<T>& p, Index count, const T* minus_c, State<T> sum,
                                     Workspace<T>& work) {
  const Index E = padded<T>(p.E), F = padded<T>(p.F);
  product<Along::row>(Product<T>{p.F, E, count, work.phi_q, F, work.g, E, sum.w, E, true});
  if (p.normaliser.row_sum) add_rows(minus_c, work.phi_q, F, count, F, sum.z);
}

// The share that the queries of a chunk have in the gradients of the keys that arrive in it: dv_j = sum_i s_ij g_i and
// dPhi(k_j) = sum_i (g_i.v_j - c_i) Phi(q_i).
template <class T>
HWY_INLINE void key_shares(const Problem<T>& p, const typename Core<T>::QueryGradients& pass, const Keys<T>& keys,
                           Index i, Index count, Workspace<T>& work) {
  const Index E = padded<T>(p.E), F = padded<T>(p.F);
  if (pass.dv) {
    const Rows<T> dv = place(pass.dv, 0, keys.at, keys.count, p.E, work.y);
    masked_transposed(keys, i, count, work.scores, Rows<const T>{work.g, E}, E, dv);
    deliver(dv, pass.dv, 0, keys.at, keys.count, p.E, work.y, false);
  }
  if (pass.dk) {
    const Rows<T> dphi{work.dphi, F};
    masked_transposed(keys, i, count, work.dscores, Rows<const T>{work.phi_q, F}, F, dphi);
    const Rows<T> dk = place(pass.dk, 0, keys.at, keys.count, p.D, work.q);
    pull_back(*p.features, keys.k, work.phi_k, dphi.data, work.zeros, pass.before.z, keys.count, dk, false, work);
    deliver(dk, pass.dk, 0, keys.at, keys.count, p.D, work.q, false);
  }
}

template <class T>
void query_gradients(const Problem<T>& p, const typename Core<T>::QueryGradients& pass, Workspace<T>& work) {
  const Index E = padded<T>(p.E), F = padded<T>(p.F);
  const bool row_sum = p.normaliser.row_sum;
  T minus_c[chunk];
  Index next = pass.keys.begin;
  for (Index i = pass.queries.begin; i < pass.queries.end; i += chunk) {
    const auto [count, q, state, keys] = take_queries(p, pass, i, true, next, work);
    const Rows<const T> phi{work.phi_q, F}, g{work.g, E};
    const Rows<T> dphi{work.dphi, F};
    scale_rows(p, pass.dy, i, count, work.scale, work.g);
    product<Along::k>(Product<T>{count, F, p.E, g.data, E, state.w, F, dphi.data, F});
    if (keys.count > 0) {
      transpose(keys.v.data, keys.v.stride, keys.count, p.E, work.vt, chunk);
      masked_product(keys, count, g, p.E, work.vt, work.dscores);
    }
    // c_i = g_i.y_i = (Phi(q_i).W g_i + sum_j s_ij g_i.v_j)/h_i
    for (Index t = 0; t < count; ++t) {
      T* const ds = work.dscores + t * chunk;
      const Index seen = keys.seen[t], whole = padded<T>(seen);
      T c = 0;
      if (row_sum) {
        c = (inner(phi[t], dphi[t], F) + inner(work.scores + t * chunk, ds, whole)) * work.scale[t];
        add_scaled(-c, work.ones, whole, ds);
        std::fill(ds + seen, ds + whole, T{0});
      }
      minus_c[t] = -c;
      pass.c[i + t] = c;
    }
    if (keys.count > 0) add_masked(keys, count, work.dscores, Rows<const T>{work.phi_k, F}, F, dphi);
    if (pass.dq) {
      const Rows<T> dq = place(pass.dq, i, nullptr, count, p.D, work.y);
      pull_back(*p.features, q, work.phi_q, dphi.data, minus_c, state.z, count, dq, false, work);
      deliver(dq, pass.dq, i, nullptr, count, p.D, work.y, false);
    }
    if (pass.dsum) add_chunk_of_queries(p, count, minus_c, pass.dsum, work);
    if (keys.count > 0) {
      key_shares(p, pass, keys, i, count, work);
      add_to_state(p, keys, true, pass.running, work);
    }
  }
}

template <class T>
HWY_INLINE void add_queries_at(const Problem<T>& p, const typename Core<T>::KeyGradients& pass, Index i, Index count,
                               State<T> sum, Workspace<T>& work) {
  T minus_c[chunk];
  for (Index t = 0; t < count; ++t) {
    work.scale[t] = pass.h[i + t] == 0 ? T{0} : 1 / pass.h[i + t];
    minus_c[t] = -pass.c[i + t];
  }
  const Rows<const T> q = fetch(p.q, i, nullptr, count, p.D, work.q);
  map_features(*p.features, q, count, work.phi_q, work);
  scale_rows(p, pass.dy, i, count, work.scale, work.g);
  add_chunk_of_queries(p, count, minus_c, sum, work);
}

template <class T>
void add_queries(const Problem<T>& p, const typename Core<T>::KeyGradients& pass, Range queries, State<T> sum,
                 Workspace<T>& work) {
  // Last to first, as key_gradients adds them.
  const Index chunks = (queries.end - queries.begin + chunk - 1) / chunk;
  for (Index n = chunks; n-- > 0;) {
    const Index i = queries.begin + n * chunk;
    add_queries_at(p, pass, i, std::min(chunk, queries.end - i), sum, work);
  }
}

// dv_j (+)= dW^T Phi(k_j) and dPhi(k_j) = dW v_j + dz for the keys of one chunk; dwt is dW transposed.
template <class T>
HWY_INLINE void key_chunk(const Problem<T>& p, const typename Core<T>::KeyGradients& pass, Range range, State<T> dsum,
                          const T* dwt, bool add, Workspace<T>& work) {
  const Index E = padded<T>(p.E), F = padded<T>(p.F);
  const Keys<T> keys = fetch_keys(p, range, work);
  if (pass.dv) {
    const Rows<T> dv = place(pass.dv, 0, keys.at, keys.count, p.E, work.y);
    const bool direct = dv.data != work.y;
    product<Along::k>(Product<T>{keys.count, E, p.F, work.phi_k, F, dsum.w, E, dv.data, dv.stride, add && direct});
    deliver(dv, pass.dv, 0, keys.at, keys.count, p.E, work.y, add);
  }
  if (pass.dk) {
    product<Along::k>(Product<T>{keys.count, F, p.E, keys.v.data, keys.v.stride, dwt, F, work.dphi, F});
    const Rows<T> dk = place(pass.dk, 0, keys.at, keys.count, p.D, work.y);
    const bool direct = dk.data != work.y;
    pull_back(*p.features, keys.k, work.phi_k, work.dphi, work.ones, dsum.z, keys.count, dk, add && direct, work);
    deliver(dk, pass.dk, 0, keys.at, keys.count, p.D, work.y, add);
  }
}

template <class T>
void key_gradients(const Problem<T>& p, const typename Core<T>::KeyGradients& pass, Workspace<T>& work) {
  const Index E = padded<T>(p.E), F = padded<T>(p.F);
  T* const dwt = work.transposed;
  if (!p.keys->causal()) {
    transpose(pass.after.w, E, p.F, p.E, dwt, F);
    for (Index j = pass.keys.begin; j < pass.keys.end; j += chunk)
      key_chunk(p, pass, {j, std::min(pass.keys.end, j + chunk)}, pass.after, dwt, false, work);
    return;
  }
  const Index chunks = (pass.queries.end - pass.queries.begin + chunk - 1) / chunk;
  Index end = pass.keys.end;
  for (Index n = chunks; n-- > 0;) {
    const Index i = pass.queries.begin + n * chunk;
    Index begin = end;
    while (begin > pass.keys.begin && p.keys->arrival[begin - 1] >= i) --begin;
    if (begin < end) {
      const State<T> dsum = current(p, false, pass.after, pass.running, work);
      transpose(dsum.w, E, p.F, p.E, dwt, F);
      key_chunk(p, pass, {begin, end}, dsum, dwt, true, work);
      end = begin;
    }
    add_queries_at(p, pass, i, std::min(chunk, pass.queries.end - i), pass.running, work);
  }
}

template <class T>
const Core<T>& table(Isa isa) {
  static const Core<T> core{isa, add_keys<T>, read<T>, query_gradients<T>, key_gradients<T>, add_queries<T>};
  return core;
}

}  // namespace saddle::kernels::linear_kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

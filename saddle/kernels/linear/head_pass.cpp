#include "saddle/kernels/linear/head_pass.hpp"

#include <optional>

#include "saddle/base/parallel.hpp"

namespace saddle::kernels::linear_kernel {

namespace {

constexpr Index shortest_part = 16 * chunk;
constexpr Index most_parts = 16;

// States of one head, zero-filled.
template <class T>
class States {
 public:
  States(const Problem<T>& p, Index count) : shape_{p.E, p.F}, memory_(count * shape_.size()) {}
  State<T> operator[](Index n) { return shape_.at(memory_.data() + n * shape_.size()); }

 private:
  StateShape<T> shape_;
  Buffer<T> memory_;
};

template <class T>
class HeadPass {
 public:
  HeadPass(const Core<T>& core, const Problem<T>& problem, typename Workspace<T>::Pass pass, Tasks tasks,
           Workspace<T>* work)
      : core_(core),
        p_(problem),
        pass_(pass),
        tasks_(tasks),
        shared_(work),
        queries_(problem.N),
        keys_(problem.keys->size()) {
    if (!shared_ && in_order()) shared_ = &own_.emplace(workspace());
  }

  void forward(const ForwardPass<T>& pass) {
    typename Core<T>::Read read;
    read.h = pass.h;
    read.y = pass.y;
    read.store = pass.store;
    if (p_.keys->causal() || pass.carry) {
      scan(Direction::forward, false, pass.carry, [&](Index n, State<T> before, State<T> running, Workspace<T>& work) {
        auto part = causal_part(read, n, running);
        part.before = before;
        core_.read(p_, part, work);
      });
      return;
    }
    States<T> total(p_, 1);
    sum_keys(false, total[0]);
    each_part(queries_.count, [&](Index n, Workspace<T>& work) {
      auto part = read;
      part.queries = queries_[n];
      part.before = total[0];
      core_.read(p_, part, work);
    });
  }

  void backward(const BackwardPass<T>& pass) {
    for (Index j : p_.keys->unseen) {
      if (pass.dk) std::fill_n(pass.dk[j], p_.D, T{0});
      if (pass.dv) std::fill_n(pass.dv[j], p_.E, T{0});
    }
    Buffer<T> h(p_.N), c(p_.N);
    typename Core<T>::QueryGradients at_queries;
    at_queries.dy = pass.dy;
    at_queries.h = h.data();
    at_queries.c = c.data();
    at_queries.dq = pass.dq;
    at_queries.dk = pass.dk;
    at_queries.dv = pass.dv;
    typename Core<T>::KeyGradients at_keys;
    at_keys.dy = pass.dy;
    at_keys.h = h.data();
    at_keys.c = c.data();
    at_keys.dk = pass.dk;
    at_keys.dv = pass.dv;
    if (p_.keys->causal())
      causal_backward(at_queries, at_keys);
    else
      full_backward(at_queries, at_keys);
  }

 private:
  enum class Direction { forward, backward };

  bool in_order() const { return tasks_ == Tasks::in_order; }
  Workspace<T> workspace() const { return {p_.D, p_.E, *p_.features, p_.keys->causal(), pass_}; }

  // body(part, workspace) for all parts.
  template <class Body>
  void each_part(Index count, Body&& body) {
    if (in_order()) {
      for (Index n = 0; n < count; ++n) body(n, *shared_);
      return;
    }
    parallel_for(count, 1, [&](Index n) {
      Workspace<T> work = workspace();
      body(n, work);
    });
  }

  Index state_size(bool transposed) const { return transposed ? p_.E * padded<T>(p_.F) : p_.F * padded<T>(p_.E); }

  void add(bool transposed, State<T> part, State<T> sum) const {
    const Index w = state_size(transposed), z = padded<T>(p_.F);
    for (Index n = 0; n < w; ++n) sum.w[n] += part.w[n];
    for (Index n = 0; n < z; ++n) sum.z[n] += part.z[n];
  }
  void clear(State<T> state) const {
    const StateShape<T> shape{p_.E, p_.F};
    std::fill_n(state.w, shape.size(), T{0});
  }

  // total += the sums that body(part, sum, workspace) adds up from 0.
  template <class Body>
  void sum_parts(Index count, bool transposed, State<T> total, Body&& body) {
    if (in_order()) {
      States<T> part(p_, 1);
      for (Index n = 0; n < count; ++n) {
        if (n > 0) clear(part[0]);
        body(n, part[0], *shared_);
        add(transposed, part[0], total);
      }
      return;
    }
    States<T> parts(p_, count);
    each_part(count, [&](Index n, Workspace<T>& work) { body(n, parts[n], work); });
    for (Index n = 0; n < count; ++n) add(transposed, parts[n], total);
  }

  void sum_keys(bool transposed, State<T> total) {
    sum_parts(keys_.count, transposed, total, [&](Index n, State<T> sum, Workspace<T>& work) {
      core_.add_keys(p_, {}, keys_[n], transposed, sum, work);
    });
  }

  // Keys, counted in arrival order, that arrive among the queries of a causal head.
  Range arriving_in(Range queries) const {
    const auto& arrival = p_.keys->arrival;
    const auto at = [&](Index i) {
      return static_cast<Index>(std::lower_bound(arrival.begin(), arrival.end(), i) - arrival.begin());
    };
    return {at(queries.begin), at(queries.end)};
  }

  // The queries of part n of a causal head, with the keys that arrive among them.
  template <class Part>
  Part causal_part(Part part, Index n, State<T> running) const {
    part.queries = queries_[n];
    part.keys = arriving_in(part.queries);
    part.running = running;
    return part;
  }

  // body(part, before, running, workspace) for parts of the queries: before holds the sums of all parts on one side,
  // and running leaves with those of the part. Side by side, preview(part, sum, workspace) finds the sums first.
  // carry: where the sums start and end; null: at 0.
  template <class Body, class Preview>
  void scan_parts(Direction direction, bool transposed, State<T> carry, Body&& body, Preview&& preview) {
    const Index count = queries_.count;
    const auto part = [&](Index n) { return direction == Direction::forward ? n : count - 1 - n; };
    if (in_order()) {
      States<T> states(p_, 2);
      const State<T> before = carry ? carry : states[0];
      for (Index n = 0; n < count; ++n) {
        if (n > 0) clear(states[1]);
        body(part(n), before, states[1], *shared_);
        add(transposed, states[1], before);
      }
      return;
    }
    States<T> sums(p_, count), before(p_, count + 1);
    each_part(count, [&](Index n, Workspace<T>& work) { preview(part(n), sums[n], work); });
    if (carry) add(transposed, carry, before[0]);
    for (Index n = 0; n < count; ++n) {
      add(transposed, before[n], before[n + 1]);
      add(transposed, sums[n], before[n + 1]);
      clear(sums[n]);
    }
    each_part(count, [&](Index n, Workspace<T>& work) { body(part(n), before[n], sums[n], work); });
    if (carry) {
      clear(carry);
      add(transposed, before[count], carry);
    }
  }

  template <class Body>
  void scan(Direction direction, bool transposed, State<T> carry, Body&& body) {
    scan_parts(direction, transposed, carry, body, [&](Index n, State<T> sum, Workspace<T>& work) {
      core_.add_keys(p_, queries_[n], arriving_in(queries_[n]), transposed, sum, work);
    });
  }

  void full_backward(typename Core<T>::QueryGradients at_queries, typename Core<T>::KeyGradients at_keys) {
    States<T> totals(p_, 2);
    sum_keys(true, totals[0]);
    at_queries.before = totals[0];
    sum_parts(queries_.count, false, totals[1], [&](Index n, State<T> sum, Workspace<T>& work) {
      auto part = at_queries;
      part.queries = queries_[n];
      part.dsum = sum;
      core_.query_gradients(p_, part, work);
    });
    at_keys.after = totals[1];
    each_part(keys_.count, [&](Index n, Workspace<T>& work) {
      auto part = at_keys;
      part.keys = keys_[n];
      core_.key_gradients(p_, part, work);
    });
  }

  void causal_backward(const typename Core<T>::QueryGradients& at_queries,
                       const typename Core<T>::KeyGradients& at_keys) {
    scan(Direction::forward, true, {}, [&](Index n, State<T> before, State<T> running, Workspace<T>& work) {
      auto part = causal_part(at_queries, n, running);
      part.before = before;
      core_.query_gradients(p_, part, work);
    });
    scan_parts(
        Direction::backward, false, {},
        [&](Index n, State<T> after, State<T> running, Workspace<T>& work) {
          auto part = causal_part(at_keys, n, running);
          part.after = after;
          core_.key_gradients(p_, part, work);
        },
        [&](Index n, State<T> sum, Workspace<T>& work) { core_.add_queries(p_, at_keys, queries_[n], sum, work); });
  }

  const Core<T>& core_;
  const Problem<T>& p_;
  const typename Workspace<T>::Pass pass_;
  const Tasks tasks_;
  Workspace<T>* shared_;  // by all parts that run in order
  std::optional<Workspace<T>> own_;
  const Parts queries_, keys_;
};

}  // namespace

Parts::Parts(Index n) : tokens(n) {
  const Index even = (n + most_parts - 1) / most_parts;
  length = std::max(shortest_part, (even + chunk - 1) / chunk * chunk);
  count = (n + length - 1) / length;
}

template <class T>
void run_forward(const Core<T>& core, const Problem<T>& problem, const ForwardPass<T>& pass, Tasks tasks,
                 Workspace<T>* work) {
  HeadPass<T>(core, problem, Workspace<T>::Pass::forward, tasks, work).forward(pass);
}

template <class T>
void run_backward(const Core<T>& core, const Problem<T>& problem, const BackwardPass<T>& pass, Tasks tasks,
                  Workspace<T>* work) {
  HeadPass<T>(core, problem, Workspace<T>::Pass::backward, tasks, work).backward(pass);
}

// Side by side every part has a workspace and two states, and a few are shared; the order of the keys takes three
// indices each.
template <class T>
double pass_memory(Index N, Index K, Index D, Index E, Index F, Index monomials, Index tasks) {
  const auto n = static_cast<double>(N), k = static_cast<double>(K), t = static_cast<double>(tasks);
  const auto states = 2 * static_cast<double>(Parts(std::max(N, K)).count) + 3;
  const auto state = static_cast<double>(StateShape<T>{E, F}.size() * static_cast<Index>(sizeof(T)));
  return t * Workspace<T>::bytes(D, E, F, monomials) + states * state + 4 * n * sizeof(T) + 32 * k;
}

template void run_forward(const Core<float>&, const Problem<float>&, const ForwardPass<float>&, Tasks,
                          Workspace<float>*);
template void run_forward(const Core<double>&, const Problem<double>&, const ForwardPass<double>&, Tasks,
                          Workspace<double>*);
template void run_backward(const Core<float>&, const Problem<float>&, const BackwardPass<float>&, Tasks,
                           Workspace<float>*);
template void run_backward(const Core<double>&, const Problem<double>&, const BackwardPass<double>&, Tasks,
                           Workspace<double>*);
template double pass_memory<float>(Index, Index, Index, Index, Index, Index, Index);
template double pass_memory<double>(Index, Index, Index, Index, Index, Index, Index);

}  // namespace saddle::kernels::linear_kernel

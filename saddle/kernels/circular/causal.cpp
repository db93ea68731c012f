// The causal product. With e = exp(z - max z) and s_i = e_0 + .. + e_i, row i is the linear convolution of e and v over
// s_i. A transform has errors of the size of the last s, so it serves the rows whose s_i is not much smaller; the rows
// before form a shorter problem with a smaller maximum, and so on. Nothing overflows, underflows or cancels on the way.
#include <cmath>
#include <limits>

#include "saddle/base/denormals.hpp"
#include "saddle/kernels/circular/problem.hpp"
#include "saddle/kernels/circular/rows.hpp"

namespace saddle::kernels::circular {

namespace {

// A transform serves row i if s_i is at least its largest over this: a few bits are lost at most.
constexpr double transform_loss = 16;
// Direct sums lose nothing; this keeps what counts of e away from underflow.
constexpr double direct_loss = 0x1p80;
// Rows of the direct form that are computed together, with zeros above the diagonal.
constexpr Index together = 48;

template <class T>
struct Causal {
  CircularShape shape;
  Form form;
  View<const T, 3> z;
  View<const T, 4> v, y, dy;  // dy null: forward
  View<T, 4> out;             // y forward, dv backward
  View<T, 3> dz;
  const Core<T>& core;
};

// One head. Rows [begin_,end_) are at work, with e and 1/s of the tokens before end_.
template <class T>
class Worker {
 public:
  Worker(const Causal<T>& causal, Index longest)
      : p_(causal),
        layout_{causal.shape.D, causal.core.lanes},
        z_(longest, Fill::none),
        e_(longest, Fill::none),
        factor_(longest, Fill::none),
        sums_(longest, Fill::none),
        inner_(longest, Fill::none),
        toeplitz_(longest + together, Fill::none),
        values_(layout_.size(longest + together), Fill::none),
        scaled_(layout_.size(longest), Fill::none),
        rows_(layout_.size(together), Fill::none) {
    const Index length = linear_length(longest), size = length * 2 * p_.core.lanes;
    x_ = Buffer<T>(size, Fill::none);
    spectrum_ = Buffer<T>(2 * length, Fill::none);
    if (!p_.dy) return;
    g_ = Buffer<T>(size, Fill::none);
    share_ = Buffer<T>(2 * length, Fill::none);
  }

  void run(const Head& head) {
    head_ = head;
    gathered_ = 0;
    for (Index i = 0; i < head.n; ++i) z_.data()[i] = p_.z(head.b, head.h, i);
    if (p_.dy) {
      if (p_.dz)
        for (Index i = 0; i < head.n; ++i) p_.dz(head.b, head.h, i) = 0;
      if (p_.out)
        for (Index i = 0; i < head.n; ++i) std::fill_n(&p_.out(head.b, head.h, i, 0), p_.shape.D, T{0});
    }
    for (end_ = head.n; end_ > 0; end_ = begin_) {
      const bool transforms = choose_rows();
      if (!p_.dy) {
        transforms ? forward_by_transform() : forward_by_sums();
      } else {
        transforms ? backward_by_transform() : backward_by_sums();
        if (p_.dz) add_score_gradient();
      }
    }
  }

 private:
  // Sets begin_, e, 1/s and the length of transforms; tells whether transforms shall do the work.
  bool choose_rows() {
    const T top = *std::max_element(z_.data(), z_.data() + end_);
    begin_ = 0;
    if (top == -std::numeric_limits<T>::infinity()) {
      std::fill_n(e_.data(), end_, T{0});
      std::fill_n(factor_.data(), end_, T{0});
      return false;
    }
    p_.core.exponentials(z_.data(), end_, top, e_.data());
    double total = 0, sum = 0;
    for (Index i = 0; i < end_; ++i) total += static_cast<double>(e_.data()[i]);
    Index accurate = 0, safe = 0;  // the first rows that a transform, that sums may serve
    for (Index i = 0; i < end_; ++i) {
      sum += static_cast<double>(e_.data()[i]);
      if (sum < total / transform_loss) accurate = i + 1;
      if (sum < total / direct_loss) safe = i + 1;
      factor_.data()[i] = static_cast<T>(1 / sum);
    }
    length_ = linear_length(end_);
    const double transform = transform_time();
    begin_ = accurate;
    if (p_.form == Form::fft || (p_.form == Form::automatic && transform < sum_time(accurate))) return true;
    // Steep scores leave few rows to a transform. Some more at once spare looking at all scores again for each.
    const bool all = p_.form == Form::direct || sum_time(0) < transform;
    begin_ = all ? safe : std::min(accurate, std::max(safe, end_ - together));
    return false;
  }
  double sum_time(Index begin) const {
    const auto first = static_cast<double>(begin), last = static_cast<double>(end_);
    return direct_unit * (last * last - first * first) / 2 * static_cast<double>(layout_.vectors());
  }
  double transform_time() const { return transform_cost(length_) * static_cast<double>(1 + 2 * blocks()); }

  Index width() const { return 2 * p_.core.lanes; }
  Index blocks() const { return (p_.shape.D + width() - 1) / width(); }
  template <class U>
  Run<U> block(const View<U, 4>& x, Index k) const {
    const Index channel = k * width();
    return {&x(head_.b, head_.h, 0, channel), x.stride[2], 0, std::min(width(), p_.shape.D - channel)};
  }

  void find_spectrum(const Plan<T>& stages) {
    const Index L = p_.core.lanes;
    spread<T>({{e_.data(), 1, 0, 1}}, end_, stages.length, L, x_.data());
    p_.core.analyse(stages, x_.data());
    for (Index k = 0; k < 2 * stages.length; ++k) spectrum_.data()[k] = x_.data()[k * L];
  }

  void forward_by_transform() {
    const auto stages = plan<T>(length_);
    find_spectrum(*stages);
    for (Index k = 0; k < blocks(); ++k) {
      const Run<const T> v = block(p_.v, k);
      const Run<T> y = block(p_.out, k);
      p_.core.load({&v, 1}, 0, end_, stages->length, nullptr, x_.data());
      p_.core.convolve(*stages, x_.data(), {spectrum_.data(), false}, Direction::convolution);
      p_.core.store(x_.data(), {&y, 1}, begin_, end_, {}, 1 / static_cast<T>(stages->length), factor_.data());
    }
  }

  // dv, and in sums_ what the numerators give to e
  void backward_by_transform() {
    const auto stages = plan<T>(length_);
    const T scale = 1 / static_cast<T>(stages->length);
    if (p_.out) find_spectrum(*stages);
    const Spectrum<const T> w{p_.out ? spectrum_.data() : nullptr, false};
    for (Index k = 0; k < blocks(); ++k) {
      const Run<const T> v = block(p_.v, k), dy = block(p_.dy, k);
      p_.core.load({&dy, 1}, begin_, end_, stages->length, factor_.data(), g_.data());
      if (p_.dz) {
        p_.core.load({&v, 1}, 0, end_, stages->length, nullptr, x_.data());
        p_.core.gradients(*stages, g_.data(), x_.data(), w, Direction::convolution, {share_.data(), false}, k > 0);
      } else {
        p_.core.convolve(*stages, g_.data(), w, Direction::correlation);
      }
      if (!p_.out) continue;
      const Run<T> dv = block(p_.out, k);
      p_.core.store_add(g_.data(), {&dv, 1}, 0, end_, {}, scale, nullptr);
    }
    if (!p_.dz) return;
    const Index L = p_.core.lanes;
    std::fill_n(x_.data(), 2 * stages->length * L, T{0});
    for (Index k = 0; k < 2 * stages->length; ++k) x_.data()[k * L] = share_.data()[k];
    p_.core.synthesise(*stages, x_.data());
    collect<T>(x_.data(), {{sums_.data(), 1, 0, 1}}, end_, L, {}, scale, false);
  }

  // The first rows of v in values_, zeros before them. Later calls ask for fewer.
  const T* gathered_values() {
    T* const first = values_.data() + layout_.size(together);
    if (gathered_ == 0) {
      std::fill(values_.data(), first, T{0});
      gather<T>(p_.v[head_.b][head_.h], 0, end_, nullptr, layout_, first);
      gathered_ = end_;
    }
    return first;
  }

  void forward_by_sums() {
    const T* const v = gathered_values();
    // a[t] = e_-t for a value t tokens after the query, 0 if that is later
    T* const a = toeplitz_.data() + end_ - 1;
    std::reverse_copy(e_.data(), e_.data() + end_, toeplitz_.data());
    std::fill_n(a + 1, together, T{0});
    for (Index i = begin_; i < end_; i += together) {
      const Index count = std::min(together, end_ - i);
      std::fill_n(rows_.data(), layout_.size(count), T{0});
      p_.core.toeplitz(a - i, v, i + count, rows_.data(), count, layout_.stride(), layout_.vectors());
      scatter(rows_.data(), i, i + count, factor_.data(), layout_, p_.out[head_.b][head_.h]);
    }
  }

  void backward_by_sums() {
    gather<T>(p_.dy[head_.b][head_.h], begin_, end_, factor_.data(), layout_, scaled_.data());
    const T* const v = gathered_values();
    T* const a = toeplitz_.data() + together;  // a[t] = e_t for a query t tokens after the value, 0 if that is earlier
    std::fill_n(toeplitz_.data(), together, T{0});
    std::copy_n(e_.data(), end_, a);
    for (Index j = 0; j < end_; j += together) {
      const Index count = std::min(together, end_ - j), i = std::max(begin_, j);
      const T* const g = scaled_.data() + layout_.size(i - begin_);
      if (p_.dz)
        p_.core.match(g, v + layout_.size(i - j), end_ - i, sums_.data() + j, count, layout_.stride(),
                      layout_.vectors());
      if (!p_.out) continue;
      std::fill_n(rows_.data(), layout_.size(count), T{0});
      p_.core.toeplitz(a + i - j, g, end_ - i, rows_.data(), count, layout_.stride(), layout_.vectors());
      for (Index r = 0; r < count; ++r)
        for (Index c = 0; c < p_.shape.D; ++c) p_.out(head_.b, head_.h, j + r, c) += rows_.data()[layout_.size(r) + c];
    }
  }

  // dz_d += e_d (sums_d - sum_{i>=d} <dy_i, y_i>/s_i): numerators and denominators of the rows at work
  void add_score_gradient() {
    const auto all = [&](const View<const T, 4>& x) {
      return Run<const T>{&x(head_.b, head_.h, 0, 0), x.stride[2], 0, p_.shape.D};
    };
    p_.core.inner(all(p_.dy), all(p_.y), begin_, end_, inner_.data());
    double denominators = 0;
    for (Index i = end_; i-- > 0;) {
      if (i >= begin_) denominators += static_cast<double>(inner_.data()[i]) * static_cast<double>(factor_.data()[i]);
      p_.dz(head_.b, head_.h, i) += e_.data()[i] * static_cast<T>(static_cast<double>(sums_.data()[i]) - denominators);
    }
  }

  const Causal<T>& p_;
  RowLayout layout_;
  Buffer<T> z_, e_, factor_, sums_, inner_, toeplitz_, values_, scaled_, rows_, x_, g_, spectrum_, share_;
  Head head_;
  Index begin_ = 0, end_ = 0, length_ = 0, gathered_ = 0;
};

template <class T>
void run(const Causal<T>& causal, const std::vector<Head>& heads) {
  Index longest = 0;
  for (const Head& head : heads) longest = std::max(longest, head.n);
  for_tasks(static_cast<Index>(heads.size()), [&](Index begin, Index end) {
    Worker<T> worker(causal, longest);
    for (Index task = begin; task < end; ++task) worker.run(heads[static_cast<std::size_t>(task)]);
  });
}

}  // namespace

template <class T>
void causal_forward(const CausalCall<T>& call, const View<T, 4>& y) {
  const FlushDenormals flush;  // e has many of them
  const std::vector<Head> heads = list_heads(call.shape, call.lengths);
  clear_padding(call.shape, call.lengths, y, call.shape.D);
  run(Causal<T>{call.shape, call.form, call.z, call.v, {}, {}, y, {}, core<T>(best_isa())}, heads);
}

template <class T>
void causal_backward(const CausalCall<T>& call, const View<const T, 4>& y, const View<const T, 4>& dy,
                     const View<T, 3>& dz, const View<T, 4>& dv) {
  if (!dz && !dv) return;
  const FlushDenormals flush;
  const std::vector<Head> heads = list_heads(call.shape, call.lengths);
  clear_padding(call.shape, call.lengths, dv, call.shape.D);
  if (dz) clear_padding(call.shape, call.lengths, per_head(dz, 1), 1);
  run(Causal<T>{call.shape, call.form, call.z, call.v, y, dy, dv, dz, core<T>(best_isa())}, heads);
}

template void causal_forward(const CausalCall<float>&, const View<float, 4>&);
template void causal_forward(const CausalCall<double>&, const View<double, 4>&);
template void causal_backward(const CausalCall<float>&, const View<const float, 4>&, const View<const float, 4>&,
                              const View<float, 3>&, const View<float, 4>&);
template void causal_backward(const CausalCall<double>&, const View<const double, 4>&, const View<const double, 4>&,
                              const View<double, 3>&, const View<double, 4>&);

}  // namespace saddle::kernels::circular

// The direct form: products with Toeplitz matrices of twice the kernel.
#include "saddle/kernels/circular/problem.hpp"
#include "saddle/kernels/circular/rows.hpp"

namespace saddle::kernels::circular {

namespace {

// y = the product of w with x [n], in rows; `twice` has room for 2n.
template <class T>
void multiply(const Core<T>& core, const RowLayout& layout, Direction direction, const View<const T, 1>& w, const T* x,
              T* twice, T* y) {
  const Index n = w.shape[0];
  for (Index t = 0; t < n; ++t) twice[t] = twice[n + t] = w[direction == Direction::convolution ? (n - t) % n : t];
  std::fill_n(y, layout.size(n), T{0});
  core.toeplitz(twice + n, x, n, y, n, layout.stride(), layout.vectors());
}

}  // namespace

template <class T>
void run_direct(const Problem<T>& p, const std::vector<Head>& heads) {
  Index longest = 0;
  for (const Head& head : heads) longest = std::max(longest, head.n);
  const RowLayout layout{p.shape.D, p.core.lanes};
  const Index most = layout.size(longest);
  for_tasks(static_cast<Index>(heads.size()), [&](Index begin, Index end) {
    Buffer<T> kernel(2 * longest, Fill::none), sums(longest, Fill::none);
    Buffer<T> x(2 * most, Fill::none), y(2 * most, Fill::none), z(most, Fill::none);
    for (Index task = begin; task < end; ++task) {
      const auto [b, h, n] = heads[static_cast<std::size_t>(task)];
      const Index size = layout.size(n);
      const T* const none = nullptr;
      const View<const T, 2> w = p.w[b][h];
      const View<const T, 1> w0{w.data, {n}, {w.stride[0]}};
      gather(p.v[b][h], 0, n, none, layout, x.data());
      if (!p.dy) {
        multiply(p.core, layout, p.direction, w0, x.data(), kernel.data(), y.data());
        scatter(y.data(), 0, n, none, layout, p.y[b][h]);
        continue;
      }
      gather(p.dy[b][h], 0, n, none, layout, y.data());
      if (p.dv) {
        multiply(p.core, layout, opposite(p.direction), w0, y.data(), kernel.data(), z.data());
        scatter(z.data(), 0, n, none, layout, p.dv[b][h]);
      }
      // dw_m = sum_i <dy_i, v_{i-m}>, with the roles exchanged for a correlation
      T* a = y.data();
      T* twice = x.data();
      if (p.direction == Direction::correlation) std::swap(a, twice);
      std::copy_n(twice, size, twice + size);
      p.core.match(a, twice + size, n, sums.data(), n, layout.stride(), layout.vectors());
      for (Index m = 0; m < n; ++m) p.dw(b, h, m, 0) = sums.data()[m];
    }
  });
}
template void run_direct(const Problem<float>&, const std::vector<Head>&);
template void run_direct(const Problem<double>&, const std::vector<Head>&);

}  // namespace saddle::kernels::circular

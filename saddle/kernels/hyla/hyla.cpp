#include "saddle/kernels/hyla/hyla.hpp"

#include <memory>

#include "saddle/base/parallel.hpp"
#include "saddle/kernels/hyla/sample.hpp"

namespace saddle::kernels::hyla {

namespace {

// The queries of a sample are cut into groups until there are enough tasks, but not into groups of fewer queries than
// `least_rows`. The cut depends on the shape alone.
constexpr Index enough_tasks = 16, least_rows = 64;

Index groups_of(const HylaShape& shape) {
  return std::clamp<Index>((shape.N + least_rows - 1) / least_rows, 1, std::max<Index>(1, enough_tasks / shape.B));
}

// Calls body(task, b, sample) for each group of queries; task = b groups + group. Samples with several groups are
// packed once, before; others when their turn comes, so that few of them exist at a time.
template <class T, class Body>
void each_task(const HylaCall<T>& call, const Core<T>& core, Index groups, Body&& body) {
  std::vector<std::unique_ptr<const Sample<T>>> samples(static_cast<std::size_t>(groups > 1 ? call.shape.B : 0));
  parallel_for(static_cast<Index>(samples.size()), 1, [&](Index b) {
    samples[static_cast<std::size_t>(b)] = std::make_unique<const Sample<T>>(call, core, b);
  });
  const auto run = [&](Index task) {
    const Index b = task / groups;
    if (samples.empty())
      body(task, b, Sample<T>(call, core, b));
    else
      body(task, b, *samples[static_cast<std::size_t>(b)]);
  };
  parallel_for(call.shape.B * groups, 1, run, {Schedule::dynamic});
}

template <class T>
void clear(const View<T, 4>& x) {
  for (Index b = 0; b < x.shape[0]; ++b)
    for (Index i = 0; i < x.shape[1]; ++i)
      for (Index h = 0; h < x.shape[2]; ++h) std::fill_n(&x(b, i, h, 0), x.shape[3], T{0});
}

// What one group of queries adds to the gradients of its sample: panels, and the bias as the core has it.
template <class T>
struct Part {
  Index width = 0;
  Buffer<T> k, v, bias;
};

// x [N,H,C] = sum of the panels of `count` parts, which goes to the first of them.
template <class T>
void unpack(Part<T>* parts, Index count, Buffer<T> Part<T>::*panel, const View<T, 3>& x) {
  const Index N = x.shape[0], H = x.shape[1], C = x.shape[2], W = parts->width, size = (parts->*panel).size();
  T* const sum = (parts->*panel).data();
  for (Index g = 1; g < count; ++g) {
    const T* const other = (parts[g].*panel).data();
    for (Index n = 0; n < size; ++n) sum[n] += other[n];
  }
  const Index packed = size / (H * C);  // tokens: there may be more that do not exist
  for (Index j = 0; j < N; ++j)
    for (Index h = 0; h < H; ++h)
      for (Index c = 0; c < C; ++c) x(j, h, c) = j < packed ? sum[((j / W * H + h) * C + c) * W + j % W] : T{0};
}

}  // namespace

template <class T>
void forward(const HylaCall<T>& call, const View<T, 4>& o) {
  const HylaShape& shape = call.shape;
  if (shape.B * shape.N * shape.H * shape.E == 0) return;
  if (call.exists) clear(o);
  const Core<T>& c = core<T>(best_isa());
  const Index groups = groups_of(shape);
  each_task(call, c, groups, [&](Index task, Index b, const Sample<T>& sample) {
    if (sample.problem().keys == 0) return;
    Scratch<T> scratch(sample.problem(), false);
    std::vector<T> rows_o(static_cast<std::size_t>(scratch.rows * shape.H * shape.E));
    sample.each_rows(task % groups, groups, scratch.rows, [&](Rows<T>& rows) {
      rows.o = rows_o.data();
      c.forward(sample.problem(), rows, scratch);
      sample.scatter(rows.o, rows, T{1}, o[b]);
    });
  });
}
template void forward(const HylaCall<float>&, const View<float, 4>&);
template void forward(const HylaCall<double>&, const View<double, 4>&);

template <class T>
void backward(const HylaCall<T>& call, const View<const T, 4>& d_o, const View<T, 4>& d_q, const View<T, 4>& d_k,
              const View<T, 4>& d_v, const View<T, 2>& d_bias) {
  const HylaShape& shape = call.shape;
  const Index N = shape.N, H = shape.H;
  if (shape.B * N * H * shape.D * shape.E == 0) return;
  if (call.exists) clear(d_q);
  const Core<T>& c = core<T>(best_isa());
  const Index groups = groups_of(shape);
  std::vector<Part<T>> parts(static_cast<std::size_t>(shape.B * groups));
  const auto finish = [&](Index b) {
    Part<T>* const first = &parts[static_cast<std::size_t>(b * groups)];
    unpack(first, groups, &Part<T>::k, d_k[b]);
    unpack(first, groups, &Part<T>::v, d_v[b]);
    for (Index g = 0; g < groups; ++g) {
      first[g].k = Buffer<T>();
      first[g].v = Buffer<T>();
    }
  };
  each_task(call, c, groups, [&](Index task, Index b, const Sample<T>& sample) {
    const Problem<T>& p = sample.problem();
    Part<T>& part = parts[static_cast<std::size_t>(task)];
    part.width = p.width;
    part.k = Buffer<T>(p.tiles() * H * p.D * p.width);
    part.v = Buffer<T>(p.tiles() * H * p.E * p.width);
    part.bias = Buffer<T>(d_bias ? H * p.bias_stride : 0);
    Scratch<T> scratch(p, true);
    std::vector<T> rows_o(static_cast<std::size_t>(scratch.rows * H * p.E));
    std::vector<T> rows_q(static_cast<std::size_t>(scratch.rows * H * p.D));
    const Sums<T> sums{part.k.data(), part.v.data(), d_bias ? part.bias.data() : nullptr};
    sample.each_rows(task % groups, groups, scratch.rows, [&](Rows<T>& rows) {
      sample.gather(d_o[b], rows, T{1}, rows_o.data());
      rows.d_o = rows_o.data();
      rows.d_q = rows_q.data();
      c.backward(p, rows, scratch, sums);
      sample.scatter(rows.d_q, rows, sample.scale(), d_q[b]);
    });
    if (groups == 1) finish(b);
  });
  if (groups > 1) parallel_for(shape.B, 1, finish);
  if (!d_bias) return;
  const Index stride = parts.front().bias.size() / H;
  for (Index h = 0; h < H; ++h) {
    for (Index n = 0; n < N; ++n) d_bias(h, n) = 0;
    for (const Part<T>& part : parts)
      for (Index n = 0; n < 2 * N - 1; ++n)
        d_bias(h, std::max<Index>(N - 1 - n, 0)) += part.bias.data()[h * stride + n];
  }
}
template void backward(const HylaCall<float>&, const View<const float, 4>&, const View<float, 4>&,
                       const View<float, 4>&, const View<float, 4>&, const View<float, 2>&);
template void backward(const HylaCall<double>&, const View<const double, 4>&, const View<double, 4>&,
                       const View<double, 4>&, const View<double, 4>&, const View<double, 2>&);

}  // namespace saddle::kernels::hyla

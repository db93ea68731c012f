// Kernels that differ from lane to lane: narrow heads side by side, or a kernel for each channel. They are transformed
// in the lanes that they serve.
#include "saddle/kernels/circular/problem.hpp"

namespace saddle::kernels::circular {

namespace {

// What fills the lanes of a signal.
template <class T>
struct Signal {
  std::vector<Run<const T>> v, dy;
  std::vector<Run<T>> out;  // y, or dv where it is wanted
};

// Signals with the same kernels in their lanes. `add`: to dw, of which others have a share too.
template <class T>
struct Group {
  Index n = 0, length = 0;
  std::vector<Spread<const T>> w;
  std::vector<Spread<T>> dw;
  std::vector<Signal<T>> signals;
  bool add = false;
};

template <class T>
struct Scratch {
  explicit Scratch(Index size) : w(size, Fill::none), x(size, Fill::none), g(size, Fill::none), s(size, Fill::none) {}
  Buffer<T> w, x, g, s;
};

template <class T>
void run_group(const Problem<T>& p, const Group<T>& group, Scratch<T>& scratch) {
  const auto stages = plan<T>(group.length);
  const T scale = 1 / static_cast<T>(group.length);
  const Index n = group.n, length = group.length;
  T *const x = scratch.x.data(), *const g = scratch.g.data(), *const s = scratch.s.data();
  const bool forward = !p.dy;
  Spectrum<const T> w{nullptr, true};
  if (forward || p.dv) {
    spread(group.w, n, length, p.core.lanes, scratch.w.data());
    p.core.analyse(*stages, scratch.w.data());
    w.data = scratch.w.data();
  }
  bool first = true;
  for (const Signal<T>& signal : group.signals) {
    p.core.load(signal.v, 0, n, length, nullptr, x);
    if (forward) {
      p.core.convolve(*stages, x, w, p.direction);
      p.core.store(x, signal.out, 0, n, fold_of(p.direction, n, length), scale, nullptr);
      continue;
    }
    p.core.load(signal.dy, 0, n, length, nullptr, g);
    p.core.gradients(*stages, g, x, w, p.direction, {s, true}, !first);
    first = false;
    if (p.dv) p.core.store(g, signal.out, 0, n, fold_of(opposite(p.direction), n, length), scale, nullptr);
  }
  if (forward) return;
  p.core.synthesise(*stages, s);
  collect(s, group.dw, n, p.core.lanes, fold_of(Direction::correlation, n, length), scale, group.add);
}

// The groups of a task run one after the other.
template <class T>
void run_tasks(const Problem<T>& p, const std::vector<std::vector<Group<T>>>& tasks) {
  Index longest = 0;
  for (const auto& groups : tasks)
    for (const Group<T>& group : groups) longest = std::max(longest, group.length);
  for_tasks(static_cast<Index>(tasks.size()), [&](Index begin, Index end) {
    Scratch<T> scratch(longest * 2 * p.core.lanes);
    for (Index task = begin; task < end; ++task)
      for (const Group<T>& group : tasks[static_cast<std::size_t>(task)]) run_group(p, group, scratch);
  });
}

// Channels [channel, channel + count) of a head in the lanes from `lane` on.
template <class T>
void add_run(const Problem<T>& p, const Head& head, Index channel, Index count, Index lane, Signal<T>& signal) {
  if (count == 0) return;
  signal.v.push_back({&p.v(head.b, head.h, 0, channel), p.v.stride[2], lane, count});
  if (p.dy) signal.dy.push_back({&p.dy(head.b, head.h, 0, channel), p.dy.stride[2], lane, count});
  const View<T, 4>& out = p.dy ? p.dv : p.y;
  if (out) signal.out.push_back({&out(head.b, head.h, 0, channel), out.stride[2], lane, count});
}

// The kernel of a channel, or of a head, in `count` lanes.
template <class T>
void add_kernel(const Problem<T>& p, const Head& head, Index channel, Index lane, Index count, Group<T>& group) {
  group.w.push_back({&p.w(head.b, head.h, 0, channel), p.w.stride[2], lane, count});
  if (p.dw) group.dw.push_back({&p.dw(head.b, head.h, 0, channel), p.dw.stride[2], lane, count});
}

}  // namespace

template <class T>
void run_abreast(const Problem<T>& p, const std::vector<Head>& heads) {
  const Index D = p.shape.D, L = p.core.lanes, half = (D + 1) / 2;
  std::vector<std::vector<Group<T>>> tasks;
  for (const Bundle& bundle : circular::bundle(heads, heads_abreast(D, L))) {
    Group<T> group{bundle.n, bundle.length, {}, {}, std::vector<Signal<T>>(1), false};
    Index lane = 0;
    for (const Head& head : bundle.heads) {
      add_kernel(p, head, 0, lane, half, group);
      add_run(p, head, 0, half, lane, group.signals[0]);
      add_run(p, head, half, D - half, L + lane, group.signals[0]);
      lane += half;
    }
    tasks.push_back({std::move(group)});
  }
  run_tasks(p, tasks);
}
template void run_abreast(const Problem<float>&, const std::vector<Head>&);
template void run_abreast(const Problem<double>&, const std::vector<Head>&);

template <class T>
void run_channels(const Problem<T>& p, const std::vector<Head>& heads) {
  const Index D = p.shape.D, L = p.core.lanes;
  const bool summed = p.dw && p.dw.stride[0] == 0 && p.shape.B > 1;
  const bool shared = p.w.stride[0] == 0 && (!p.dw || summed);
  std::vector<std::vector<Group<T>>> tasks;
  for (Index h = 0; h < p.shape.H; ++h) {
    std::vector<Head> own;
    for (const Head& head : heads)
      if (head.h == h) own.push_back(head);
    for (Index channel = 0; channel < D; channel += L) {
      const Index count = std::min(L, D - channel);
      std::vector<Group<T>> groups;
      for (const Bundle& bundle : circular::bundle(own, shared ? p.shape.B : 1)) {
        Group<T> group{bundle.n, bundle.length, {}, {}, {}, summed};
        for (Index c = 0; c < count; ++c) add_kernel(p, bundle.heads[0], channel + c, c, 1, group);
        for (std::size_t at = 0; at < bundle.heads.size(); ++at) {
          if (at % 2 == 0) group.signals.emplace_back();
          add_run(p, bundle.heads[at], channel, count, at % 2 == 0 ? 0 : L, group.signals.back());
        }
        groups.push_back(std::move(group));
      }
      if (summed) {
        tasks.push_back(std::move(groups));
      } else {
        for (Group<T>& group : groups) tasks.push_back({std::move(group)});
      }
    }
  }
  run_tasks(p, tasks);
}
template void run_channels(const Problem<float>&, const std::vector<Head>&);
template void run_channels(const Problem<double>&, const std::vector<Head>&);

}  // namespace saddle::kernels::circular

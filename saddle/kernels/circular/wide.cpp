// Heads that fill the lanes on their own. Kernels of many heads are transformed side by side, then each block of
// channels of each head is a task; what the blocks find for dw comes together again with many heads side by side.
#include "saddle/kernels/circular/problem.hpp"

namespace saddle::kernels::circular {

namespace {

// One block of channels of one head.
struct Block {
  const Bundle* bundle;
  std::size_t place;  // of the head in its bundle
  Index channel, count;
  Index spectrum, share;  // where the numbers of the head and of the block start
};

struct Blocks {
  std::vector<Block> list;
  std::vector<Index> spectra;  // of each bundle: where those of its first head start
  Index numbers = 0;           // in all spectra
  Index per_head = 0;          // blocks

  Blocks(const std::vector<Bundle>& bundles, Index D, Index width) : per_head((D + width - 1) / width) {
    for (const Bundle& bundle : bundles) {
      spectra.push_back(numbers);
      for (std::size_t place = 0; place < bundle.heads.size(); ++place, numbers += 2 * bundle.length)
        for (Index k = 0; k < per_head; ++k)
          list.push_back({&bundle, place, k * width, std::min(width, D - k * width), numbers,
                          numbers * per_head + 2 * k * bundle.length});
    }
  }
};

Index longest(const std::vector<Bundle>& bundles) {
  Index length = 0;
  for (const Bundle& bundle : bundles) length = std::max(length, bundle.length);
  return length;
}

// spectra: for each head of each bundle [length] complex numbers
template <class T>
void find_spectra(const Problem<T>& p, const std::vector<Bundle>& bundles, const Blocks& blocks, T* spectra) {
  const Index L = p.core.lanes;
  for_tasks(static_cast<Index>(bundles.size()), [&](Index begin, Index end) {
    Buffer<T> x(longest(bundles) * 2 * L, Fill::none);
    std::vector<Spread<const T>> kernels;
    for (Index task = begin; task < end; ++task) {
      const Bundle& bundle = bundles[static_cast<std::size_t>(task)];
      const auto count = static_cast<Index>(bundle.heads.size());
      kernels.clear();
      for (const Head& head : bundle.heads)
        kernels.push_back({&p.w(head.b, head.h, 0, 0), p.w.stride[2], static_cast<Index>(kernels.size()), 1});
      spread(kernels, bundle.n, bundle.length, L, x.data());
      p.core.analyse(*plan<T>(bundle.length), x.data());
      T* const to = spectra + blocks.spectra[static_cast<std::size_t>(task)];
      for (Index k = 0; k < bundle.length; ++k)
        for (Index head = 0; head < count; ++head) {
          to[2 * (head * bundle.length + k)] = x.data()[2 * k * L + head];
          to[2 * (head * bundle.length + k) + 1] = x.data()[(2 * k + 1) * L + head];
        }
    }
  });
}

// dw out of the shares of the blocks
template <class T>
void gather_shares(const Problem<T>& p, const std::vector<Bundle>& bundles, const Blocks& blocks, const T* shares) {
  const Index L = p.core.lanes;
  for_tasks(static_cast<Index>(bundles.size()), [&](Index begin, Index end) {
    Buffer<T> x(longest(bundles) * 2 * L, Fill::none);
    std::vector<Spread<T>> kernels;
    for (Index task = begin; task < end; ++task) {
      const Bundle& bundle = bundles[static_cast<std::size_t>(task)];
      const auto count = static_cast<Index>(bundle.heads.size());
      const Index size = 2 * bundle.length;
      const T* const from = shares + blocks.spectra[static_cast<std::size_t>(task)] * blocks.per_head;
      std::fill_n(x.data(), size * L, T{0});
      for (Index k = 0; k < size; ++k)
        for (Index head = 0; head < count; ++head) {
          const T* const share = from + head * blocks.per_head * size + k;
          T sum = 0;
          for (Index block = 0; block < blocks.per_head; ++block) sum += share[block * size];
          x.data()[k * L + head] = sum;
        }
      p.core.synthesise(*plan<T>(bundle.length), x.data());
      kernels.clear();
      for (const Head& head : bundle.heads)
        kernels.push_back({&p.dw(head.b, head.h, 0, 0), p.dw.stride[2], static_cast<Index>(kernels.size()), 1});
      // dw_m joins tokens that lie m apart, whatever the direction: a correlation
      const Fold fold = fold_of(Direction::correlation, bundle.n, bundle.length);
      collect(x.data(), kernels, bundle.n, L, fold, 1 / static_cast<T>(bundle.length), false);
    }
  });
}

}  // namespace

template <class T>
void run_wide(const Problem<T>& p, const std::vector<Head>& heads) {
  if (heads.empty()) return;
  const Index L = p.core.lanes;
  const std::vector<Bundle> bundles = bundle(heads, L);
  const Blocks blocks(bundles, p.shape.D, 2 * L);
  const bool forward = !p.dy;
  Buffer<T> spectra, shares(forward ? 0 : blocks.numbers * blocks.per_head, Fill::none);
  if (forward || p.dv) {
    spectra = Buffer<T>(blocks.numbers, Fill::none);
    find_spectra(p, bundles, blocks, spectra.data());
  }
  for_tasks(static_cast<Index>(blocks.list.size()), [&](Index begin, Index end) {
    const Index size = longest(bundles) * 2 * L;
    Buffer<T> x(size, Fill::none), g(forward ? 0 : size, Fill::none);
    for (Index task = begin; task < end; ++task) {
      const Block& block = blocks.list[static_cast<std::size_t>(task)];
      const auto [b, h, n] = block.bundle->heads[block.place];
      const Index length = block.bundle->length;
      const auto stages = plan<T>(length);
      const T scale = 1 / static_cast<T>(length);
      const auto run = [&, b = b, h = h](const auto& view) {
        return Run<std::remove_reference_t<decltype(view(0, 0, 0, 0))>>{&view(b, h, 0, block.channel), view.stride[2],
                                                                        0, block.count};
      };
      const Spectrum<const T> w{spectra.data() ? spectra.data() + block.spectrum : nullptr, false};
      const Run<const T> v = run(p.v);
      p.core.load({&v, 1}, 0, n, length, nullptr, x.data());
      if (forward) {
        const Run<T> y = run(p.y);
        p.core.convolve(*stages, x.data(), w, p.direction);
        p.core.store(x.data(), {&y, 1}, 0, n, fold_of(p.direction, n, length), scale, nullptr);
        continue;
      }
      const Run<const T> dy = run(p.dy);
      p.core.load({&dy, 1}, 0, n, length, nullptr, g.data());
      p.core.gradients(*stages, g.data(), x.data(), w, p.direction, {shares.data() + block.share, false}, false);
      if (!p.dv) continue;
      const Run<T> dv = run(p.dv);
      p.core.store(g.data(), {&dv, 1}, 0, n, fold_of(opposite(p.direction), n, length), scale, nullptr);
    }
  });
  if (!forward) gather_shares(p, bundles, blocks, shares.data());
}
template void run_wide(const Problem<float>&, const std::vector<Head>&);
template void run_wide(const Problem<double>&, const std::vector<Head>&);

}  // namespace saddle::kernels::circular

#include "saddle/kernels/circular/circular.hpp"

#include "saddle/kernels/circular/problem.hpp"

namespace saddle::kernels::circular {

namespace {

bool direct_is_faster(Index n, Index D, Index lanes) {
  const auto pieces = [](Index of, Index size) { return (of + size - 1) / size; };
  const Index abreast = heads_abreast(D, lanes);
  const double transforms =
      abreast > 1 ? transforms_abreast / static_cast<double>(abreast) : static_cast<double>(2 * pieces(D, 2 * lanes));
  const auto products = static_cast<double>(n * n * pieces(D, lanes));
  return direct_unit * products < transforms * transform_cost(circular_length(n));
}

template <class T>
void run(const Problem<T>& p, const std::vector<Head>& heads, Form form) {
  if (heads.empty()) return;
  if (p.w.stride[3] != 0 && p.shape.D > 1) return run_channels(p, heads);
  const Index D = p.shape.D, lanes = p.core.lanes;
  std::vector<Head> direct, fft;
  for (const Head& head : heads) {
    const bool sum = form == Form::automatic ? direct_is_faster(head.n, D, lanes) : form == Form::direct;
    (sum ? direct : fft).push_back(head);
  }
  run_direct(p, direct);
  heads_abreast(D, lanes) > 1 ? run_abreast(p, fft) : run_wide(p, fft);
}

}  // namespace

std::vector<Bundle> bundle(std::vector<Head> heads, Index most) {
  std::stable_sort(heads.begin(), heads.end(), [](const Head& a, const Head& b) { return a.n < b.n; });
  std::vector<Bundle> bundles;
  for (const Head& head : heads) {
    if (bundles.empty() || bundles.back().n != head.n || static_cast<Index>(bundles.back().heads.size()) == most)
      bundles.push_back({head.n, circular_length(head.n), {}});
    bundles.back().heads.push_back(head);
  }
  return bundles;
}

template <class T>
void forward(const CircularCall<T>& call, const View<T, 4>& y) {
  const std::vector<Head> heads = list_heads(call.shape, call.lengths);
  clear_padding(call.shape, call.lengths, y, call.shape.D);
  run(Problem<T>{call.shape, call.direction, call.w, call.v, {}, y, {}, {}, core<T>(best_isa())}, heads, call.form);
}

template <class T>
void backward(const CircularCall<T>& call, const View<const T, 4>& dy, const View<T, 4>& dw, const View<T, 4>& dv) {
  const CircularShape& shape = call.shape;
  if (!dw) {  // dv is a product of the same kind
    if (dv) forward(CircularCall<T>{shape, opposite(call.direction), call.lengths, call.w, dy, call.form}, dv);
    return;
  }
  const bool channels = call.w.stride[3] != 0 && shape.D > 1, summed = dw.stride[0] == 0 && shape.B > 1;
  if (summed && !channels) {
    Array<T, 3> each({shape.B, shape.H, shape.N});
    backward(call, dy, per_head(each.view(), shape.D), dv);
    parallel_for(shape.H, 1, [&](Index h) {
      for (Index m = 0; m < shape.N; ++m) {
        T sum = 0;
        for (Index b = 0; b < shape.B; ++b) sum += each(b, h, m);
        dw(0, h, m, 0) = sum;
      }
    });
    return;
  }
  const std::vector<Head> heads = list_heads(shape, call.lengths);
  clear_padding(shape, call.lengths, dv, shape.D);
  if (summed) {
    for (Index h = 0; h < shape.H; ++h)
      for (Index m = 0; m < shape.N; ++m) std::fill_n(&dw(0, h, m, 0), shape.D, T{0});
  } else {
    clear_padding(shape, call.lengths, dw, channels ? shape.D : 1);
  }
  run(Problem<T>{shape, call.direction, call.w, call.v, dy, {}, dw, dv, core<T>(best_isa())}, heads, call.form);
}

template void forward(const CircularCall<float>&, const View<float, 4>&);
template void forward(const CircularCall<double>&, const View<double, 4>&);
template void backward(const CircularCall<float>&, const View<const float, 4>&, const View<float, 4>&,
                       const View<float, 4>&);
template void backward(const CircularCall<double>&, const View<const double, 4>&, const View<double, 4>&,
                       const View<double, 4>&);

}  // namespace saddle::kernels::circular

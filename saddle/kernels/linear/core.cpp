#include "saddle/kernels/linear/core.hpp"

namespace saddle::kernels::linear_kernel {

template <class T>
Workspace<T>::Workspace(Index D, Index E, const FeaturePlan<T>& plan, bool causal, Pass pass, Index rows) {
  const Index d = padded<T>(D), e = padded<T>(E), f = padded<T>(plan.F);
  const bool back = pass == Pass::backward, monomial = plan.kind == FeaturePlan<T>::Kind::monomial;
  const StateShape<T> shape{E, plan.F};
  const Index line = padded<T>(1), room = padded<T>(std::max(plan.lower, plan.D)) + 3 * line;
  std::vector<std::pair<T**, Index>> pieces{
      {&q, rows * d},           {&k, rows * d}, {&v, rows * e}, {&y, rows * std::max(d, e)}, {&phi_q, rows * f + line},
      {&phi_k, rows * f + line}};
  if (causal) pieces.insert(pieces.end(), {{&phi_kt, f * chunk}, {&scores, chunk * chunk}, {&state, shape.size()}});
  if (back) pieces.insert(pieces.end(), {{&g, rows * e}, {&dphi, rows * f + line}, {&transposed, shape.w()}});
  if (back && causal) pieces.insert(pieces.end(), {{&vt, e * chunk}, {&dscores, chunk * chunk}});
  if (monomial) pieces.push_back({&monomials, room});
  if (monomial && back) pieces.push_back({&dmonomials, room});
  Index size = 0;
  for (const auto& piece : pieces) size += piece.second;
  memory_ = Buffer<T>(size, Fill::none);
  T* at = memory_.data();
  for (const auto& [pointer, length] : pieces) {
    *pointer = at;
    at += length;
  }
  // Read beyond what is written to them, and the rest must be harmless.
  if (monomial) {
    std::fill_n(monomials, room, T{0});
    monomials += line - 1;  // so that the second, x_0, starts a line
    if (back) dmonomials += line - 1;
  }
  if (back) std::fill_n(transposed, shape.w(), T{0});
  std::fill_n(ones, chunk, T{1});
}

template <class T>
double Workspace<T>::bytes(Index D, Index E, Index F, Index monomials) {
  const auto d = static_cast<double>(padded<T>(D)), e = static_cast<double>(padded<T>(E)),
             f = static_cast<double>(padded<T>(F)), n = static_cast<double>(chunk);
  const double rows = 3 * d + 5 * e + 4 * f + 2 * n + 8;
  return static_cast<double>(sizeof(T)) *
         (n * rows + 2 * static_cast<double>(StateShape<T>{E, F}.size()) +
          2 * static_cast<double>(padded<T>(std::max(monomials, D)) + 3 * padded<T>(1)));
}

template struct Workspace<float>;
template struct Workspace<double>;

template <class T>
const Core<T>& core(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return avx512_core<T>();
  if (isa >= Isa::avx2) return avx2_core<T>();
#endif
  (void)isa;
  return scalar_core<T>();
}
template const Core<float>& core(Isa isa);
template const Core<double>& core(Isa isa);

}  // namespace saddle::kernels::linear_kernel

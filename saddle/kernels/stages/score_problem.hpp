// One head of one sample as the cores see it: y_i = sum_j g(s_ij)/h_i v_j with s_ij = a <q_i,k_j> + r_i + c_j.
#pragma once

#include <type_traits>

#include "saddle/base/view.hpp"

namespace saddle::kernels {

// Rows with unit column stride; strides in elements.
template <class T>
struct Rows {
  T* data = nullptr;
  Index stride = 0;

  T* operator[](Index i) const { return data + i * stride; }
  explicit operator bool() const { return data != nullptr; }
  operator Rows<const T>() const requires(!std::is_const_v<T>) { return {data, stride}; }
};

// g: exp(s), (s + coef0)^degree, or the sum of s^t/t! up to t = degree.
struct Kappa {
  enum class Kind { exp, power, taylor };
  Kind kind = Kind::exp;
  Index degree = 1;
  double coef0 = 0;

  bool operator==(const Kappa&) const = default;
};

template <class T>
struct ScoreProblem {
  Index N = 0, K = 0, D = 0, E = 0;
  Rows<const T> q, k, v;        // [N,D], [K,D], [K,E]
  const T* q_shift = nullptr;   // [D]: the queries are (q - q_shift) q_factor; both or neither
  const T* q_factor = nullptr;  // [D]
  double a = 1;
  Kappa kappa;
  const T* row = nullptr;     // r [N]; null: 0, or a factor that cancels in g/h
  const T* column = nullptr;  // c [K]; null: 0
};

}  // namespace saddle::kernels

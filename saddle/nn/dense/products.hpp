// The products of linear layers on tensors that are rows: what the nodes of the graph are made of.
#pragma once

#include <torch/types.h>

#include "saddle/kernels/dense/product.hpp"
#include "saddle/nn/dense/rows.hpp"

namespace saddle::nn {

using kernels::dense::Activation;
using kernels::dense::Side;
using torch::Tensor;

// What becomes of the sums, as kernels::dense::Finish; undefined tensors are left out. residual, slope and y have one
// type, the bias is float32.
struct Finished {
  Tensor bias, residual, slope, y;
  Activation activation = Activation::none;
};

// y = finish(x W^T) or, Side::input, finish(x W). bf16: with operands rounded to it; else everything is float32.
void multiply(const Tensor& x, const Tensor& weight, Side side, const Finished& to, bool bf16);

// dW [O,I], and the columns of dy into db, if defined.
Tensor weight_gradient(const Tensor& dy, const Tensor& x, const Tensor& db, bool bf16);

// dy times the slope of a gelu, and its columns into db, if defined.
Tensor gelu_gradient(const Tensor& dy, const Tensor& slope, const Tensor& db);

// The type in which CPUs take the product here, or none if torch is to do it.
c10::optional<torch::ScalarType> product_type(const Tensor& x, const Tensor& weight);

// Throw InvalidArgument if these do not make a linear layer.
void check_bias(const Tensor& weight, const Tensor& bias);
void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual);

inline Tensor contiguous(const Tensor& x) { return x.defined() ? x.contiguous() : x; }
inline Tensor rows_or_none(const Tensor& x) { return x.defined() ? as_rows(x) : x; }

}  // namespace saddle::nn

#include "saddle/nn/tensor.hpp"

#include <ATen/Parallel.h>

#include "saddle/base/parallel.hpp"

namespace saddle::nn {

namespace {

struct Pair {
  DType dtype;
  torch::ScalarType type;
};
constexpr Pair pairs[] = {{DType::f64, torch::kFloat64}, {DType::f32, torch::kFloat32}, {DType::bf16, torch::kBFloat16},
                          {DType::i64, torch::kInt64},   {DType::i32, torch::kInt32},   {DType::u8, torch::kUInt8},
                          {DType::boolean, torch::kBool}};

}  // namespace

DType dtype_of(torch::ScalarType type) {
  for (const Pair& pair : pairs)
    if (pair.type == type) return pair.dtype;
  throw InvalidArgument(std::string("tensors of type ") + c10::toString(type) + " cannot be used",
                        "float32, bfloat16 and float64 can");
}

torch::ScalarType scalar_type(DType dtype) {
  for (const Pair& pair : pairs)
    if (pair.dtype == dtype) return pair.type;
  throw InvalidArgument("no type of torch stands for " + std::string(to_string(dtype)));
}

TensorView view_of(const torch::Tensor& tensor) {
  if (!tensor.defined()) return {};
  const auto sizes = tensor.sizes(), strides = tensor.strides();
  return {tensor.data_ptr(), dtype_of(tensor.scalar_type()), Shape(sizes.begin(), sizes.end()),
          Shape(strides.begin(), strides.end())};
}

void follow_torch_threads() {
  if (const int count = at::get_num_threads(); count != threads()) set_threads(count);
}

}  // namespace saddle::nn

// The tensors of a row, filled with seeded random numbers, and one run of it as a user would write it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "row.hpp"
#include "saddle/mechanisms/select.hpp"
#include "saddle/primal/call.hpp"

namespace saddle::bench {

// Owned memory that begins on a cache line, all of it touched.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes);
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte[], Free> data_;
};

class Problem {
 public:
  explicit Problem(const Row& row);
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  const Row& row() const { return row_; }
  const primal::Call& call() const { return call_; }
  const primal::Outputs& outputs() const { return outputs_; }
  const primal::Gradients& gradients() const { return gradients_; }

  // The whole pass on row().threads threads; training hands y and lse of its forward to its backward.
  void run() const;

  // Who runs; null when everybody refuses.
  const kernels::Implementation* forward() const { return forward_; }
  const kernels::Implementation* backward() const { return backward_; }  // null without a backward pass

 private:
  TensorView place(const std::string& name, DType dtype, const Shape& shape, const Shape& stride, Index extent);

  Row row_;
  std::map<std::string, Buffer> memory_;
  Tensor key_mask_;
  std::map<std::string, Tensor> parameters_;
  primal::Call call_;
  primal::Outputs outputs_;
  primal::Gradients gradients_;
  const kernels::Implementation* forward_ = nullptr;
  const kernels::Implementation* backward_ = nullptr;
};

// The highest resident memory during `run` beyond what was resident before, in bytes; -1 where it cannot be known.
double extra_memory(const std::function<void()>& run);

}  // namespace saddle::bench

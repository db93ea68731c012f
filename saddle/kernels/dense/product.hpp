// The three products of a linear layer y = x W^T + b: y, dx = dy W and dW = dy^T x. In float on any processor, in
// bfloat16 with float sums where it has AMX or fast dot products. Every sum is taken in an order that depends on the
// shape alone.
#pragma once

#include "saddle/base/export.hpp"
#include "saddle/kernels/amx/panels.hpp"
#include "saddle/kernels/dense/core.hpp"

namespace saddle::kernels::dense {

// Which product a packed weight W [O,I] is for: x W^T or dy W.
enum class Side { output, input };

// A weight in the order in which products read it, rounded to T.
template <class T>
class SADDLE_API PackedWeight {
 public:
  void pack(Side side, Rows<const float> weight, Index O, Index I);

  Index depth() const { return depth_; }      // that is summed over
  Index columns() const { return columns_; }  // of the result
  Index width() const { return width_; }      // columns of a panel
  const T* at(Index p) const { return data_.data() + p * panel_size(); }
  Index panels() const { return (columns_ + width_ - 1) / width_; }
  Index bytes() const { return panels() * panel_size() * static_cast<Index>(sizeof(T)); }

 private:
  Index panel_size() const { return padded_depth_ * width_; }

  Index depth_ = 0, columns_ = 0, width_ = 1, padded_depth_ = 0;
  AmxBuffer<T> data_;
};
template <>
SADDLE_API void PackedWeight<float>::pack(Side side, Rows<const float> weight, Index O, Index I);
template <>
SADDLE_API void PackedWeight<BFloat16>::pack(Side side, Rows<const float> weight, Index O, Index I);

// A number that follows from all bits of a weight: another one, but for a chance of about 2^-32, if it has changed.
SADDLE_API std::uint64_t digest(Rows<const float> weight, Index O, Index I);

// Whether products in bfloat16 can be had: else convert and use those in float.
SADDLE_API bool has_bf16_products();

// y [M,columns] = finish(x [M,depth] times the weight). AmxRows: bfloat16, or float that is rounded to it on the way.
SADDLE_API void multiply(Rows<const float> x, Index M, const PackedWeight<float>& weight, const Finish<float>& finish);
SADDLE_API void multiply(const AmxRows& x, Index M, const PackedWeight<BFloat16>& weight, const Finish<float>& finish);
SADDLE_API void multiply(const AmxRows& x, Index M, const PackedWeight<BFloat16>& weight,
                         const Finish<BFloat16>& finish);

// dw [O,I] = dy [M,O]^T x [M,I], and db [O] (or null) = the columns of dy.
SADDLE_API void weight_gradient(Rows<const float> dy, Rows<const float> x, Index M, Index O, Index I, Rows<float> dw,
                                float* db);
SADDLE_API void weight_gradient(const AmxRows& dy, const AmxRows& x, Index M, Index O, Index I, Rows<float> dw,
                                float* db);

}  // namespace saddle::kernels::dense

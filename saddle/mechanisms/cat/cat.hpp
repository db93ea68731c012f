// CAT: circular-convolutional attention. One vector of scores per head, softmaxed once and shifted round for every
// query.
#pragma once

#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms::cat {

enum class Variant { qv, qkv, q, v };
enum class Direction { convolution, correlation };

struct Cat {
  static constexpr std::string_view name = "cat";
  static constexpr std::string_view help = "one softmax per head, shifted round for every query: O(N log N)";

  Variant variant = Variant::qv;
  Direction direction = Direction::convolution;

  static void options(auto& self, auto&& visit) {
    visit({"variant", primal::Written::named, "where scores and values come from"}, self.variant);
    visit({"direction", primal::Written::named, "whose score an offset takes"}, self.direction);
  }

  bool causal() const { return false; }
  void check(const LayerPlace& place) const;
  primal::Cost cost(const LayerPlace& place, Index B, primal::Pass pass, DType dtype) const;
  // Weights: a (qv, q), q and k (qkv), v (but q), v_static (q), z_static (v), out. Gives y, core [B,N,X], kernel
  // [B,H,N] or, for v, [B,X,N].
  LayerOutputs reference(const LayerInputs& inputs) const;

  bool operator==(const Cat&) const = default;
};

const Mechanism& mechanism();

// lengths [B] -> a mask [B,N], 1 where a token exists.
tape::Value mask_of(const tape::Value& lengths, Index N);
// Lengths of sequences from a mask [B,N] that is 1 up to a length and 0 behind it; N each without a mask. Throws
// InvalidArgument for any other mask.
std::vector<Index> lengths_of(const tape::Value& key_mask, Index B, Index N);

// Multiply-adds of the transforms behind one product with C columns.
double transform_cost(Index N, Index C, Index kernels);

}  // namespace saddle::mechanisms::cat

template <>
inline constexpr std::array<std::string_view, 4> saddle::primal::enum_words<saddle::mechanisms::cat::Variant>{
    "qv", "qkv", "q", "v"};
template <>
inline constexpr std::array<std::string_view, 2> saddle::primal::enum_words<saddle::mechanisms::cat::Direction>{
    "convolution", "correlation"};

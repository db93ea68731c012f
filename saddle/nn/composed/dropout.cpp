#include "saddle/primal/dropout.hpp"

#include "saddle/nn/composed/heads.hpp"

namespace saddle::nn::composed {

namespace {

constexpr Index low_half = 0xffff, word = 0xffffffff;

Index low(std::uint64_t x) { return static_cast<Index>(x & 0xffffffffu); }
Index high(std::uint64_t x) { return static_cast<Index>(x >> 32); }

struct Product {
  Tensor high, low;
};

// Both words of a x for words a and x, in halves because there are no unsigned 64 bits to hold them.
Product multiply(Index a, const Tensor& x) {
  const Tensor lower = (x & low_half) * a;
  const Tensor sum = x.bitwise_right_shift(16) * a + lower.bitwise_right_shift(16);
  return {sum.bitwise_right_shift(16), (sum & low_half).bitwise_left_shift(16) | (lower & low_half)};
}

// Philox4x32 on tensors of words, as base/random.hpp has it.
std::array<Tensor, 4> philox(std::array<Tensor, 4> c, Index key0, Index key1) {
  for (int round = 0; round < primal::dropout_rounds; ++round) {
    const Product a = multiply(0xD2511F53, c[0]), b = multiply(0xCD9E8D57, c[2]);
    c = {b.high ^ c[1] ^ key0, b.low, a.high ^ c[3] ^ key1, a.low};
    key0 = (key0 + 0x9E3779B9) & word;
    key1 = (key1 + 0xBB67AE85) & word;
  }
  return c;
}

}  // namespace

Tensor dropout_factors(const primal::Dropout& dropout, const Tensor& weights, const std::vector<Index>& heads,
                       Index H) {
  const Index B = weights.size(0), N = weights.size(2), K = weights.size(3);
  const auto options = torch::dtype(torch::kInt64).device(weights.device());
  const Tensor head = torch::arange(B, options).view({B, 1, 1, 1}) * H + torch::tensor(heads, options).view({-1, 1, 1});
  const std::uint64_t seed = primal::dropout_seed(dropout);
  const auto words = philox({torch::arange(N, options).view({N, 1}), torch::arange((K + 7) / 8, options), head,
                             torch::full({}, low(dropout.offset), options)},
                            low(seed), high(seed));
  std::vector<Tensor> halves;
  for (const Tensor& bits : words) {
    halves.push_back(bits & low_half);
    halves.push_back(bits.bitwise_right_shift(16));
  }
  const Tensor bits = torch::stack(halves, -1).flatten(-2).narrow(-1, 0, K);  // [B,G,N,K]
  return (bits >= static_cast<Index>(primal::dropout_threshold(dropout))).to(weights.scalar_type()) *
         primal::dropout_factor(dropout);
}

}  // namespace saddle::nn::composed

// Autoregressive attention with finite Phi: the running sums W and z are all it remembers, O(F E) per head however many
// tokens have passed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/base/tensor.hpp"
#include "saddle/primal/attention.hpp"

namespace saddle::kernels {

// Why this attention has no running state; empty when it has one.
SADDLE_API std::vector<std::string> decoder_refusals(const primal::Attention& attention, Index D);

class SADDLE_API Decoder {
 public:
  // dtype: of the tokens; sums are kept in f64 for f64 and in f32 otherwise. parameters: as in a call, copied; absent
  // ones have their initial values. Throws NotSupported with the refusals, InvalidArgument for what a call refuses.
  Decoder(const primal::Attention& attention, Index B, Index H, Index D, Index E, DType dtype = DType::f32,
          const std::map<std::string, TensorView>& parameters = {});
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  // One token: q, k [B,H,1,D], v [B,H,1,E] -> y [B,H,1,E]. The query sees its own key. skip [B,H,1,E]: with residual.
  // The rows of the causal forward pass, one after the other, up to rounding.
  void step(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& y,
            const TensorView& skip = {});
  // n tokens at once, by chunks: the same as n steps up to rounding, much faster.
  void prefill(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& y,
               const TensorView& skip = {});

  Index length() const;  // tokens so far
  void reset();

  // All that is remembered, to save, copy or branch a decoder.
  struct State {
    Tensor w;  // [B,H,F,E]
    Tensor z;  // [B,H,F]
    Index length = 0;
  };
  State state() const;
  // Throws InvalidArgument when shapes or dtypes are not those of state().
  void set_state(const State& state);

  struct Memory;

 private:
  std::unique_ptr<Memory> memory_;
};

}  // namespace saddle::kernels

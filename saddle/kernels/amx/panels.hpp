// Keys and values of a head in bfloat16, in the order in which the tiles of the AMX core take them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "saddle/base/dtype.hpp"
#include "saddle/base/export.hpp"
#include "saddle/kernels/stages/score_problem.hpp"

namespace saddle::kernels {

inline constexpr Index amx_max_width = 256;  // of a row of q, k or v

// Rows in the caller's memory; one of the two is set. Float rows are rounded to bfloat16.
struct AmxRows {
  Rows<const BFloat16> half;
  Rows<const float> full;
};

// Memory on cache lines that is kept from one use to the next and not initialised.
template <class T>
class AmxBuffer {
 public:
  T* reserve(Index count) {
    if (count > count_) {
      const std::size_t bytes = (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
      data_.reset(static_cast<T*>(std::aligned_alloc(64, bytes)));
      if (!data_) throw std::bad_alloc();
      count_ = count;
    }
    return data_.get();
  }
  T* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T, Free> data_;
  Index count_ = 0;
};

class SADDLE_API AmxKeys {
 public:
  enum class Pass { forward, backward };

  // k [K,D] and v [K,E]. keep [K] tells which keys exist (null: all); rows of the others are packed as zeros.
  void pack(Pass pass, Index K, Index D, Index E, const AmxRows& k, const AmxRows& v, const std::uint8_t* keep);

  // Row panels: tiles of 16 keys by 32 columns, [K/16][width/32][16][32].
  const BFloat16* key_rows() const { return key_rows_.data(); }
  const BFloat16* value_rows() const { return value_rows_.data(); }  // backward
  // Column panels: columns of 32 keys, [K/32][width][32].
  const BFloat16* key_columns() const { return key_columns_.data(); }      // backward
  const BFloat16* value_columns() const { return value_columns_.data(); }  // forward
  // The largest norm of a key, NaN or inf if there is one that is not finite.
  float max_norm() const { return max_norm_; }

 private:
  AmxBuffer<BFloat16> key_rows_, value_rows_, key_columns_, value_columns_;
  float max_norm_ = 0;
};

}  // namespace saddle::kernels

// Scratch memory of the linear kernel: rows whose width is padded to whole cache lines, which are whole vectors too.
#pragma once

#include <algorithm>
#include <memory>
#include <new>

#include "saddle/base/view.hpp"

namespace saddle::kernels::linear_kernel {

inline constexpr std::size_t cache_line = 64;

// The number of elements that rows of this width take.
template <class T>
constexpr Index padded(Index width) {
  constexpr auto line = static_cast<Index>(cache_line / sizeof(T));
  return (width + line - 1) / line * line;
}

enum class Fill { zero, none };

// Memory that starts at a cache line.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(Index size, Fill fill = Fill::zero)
      : data_(
            static_cast<T*>(::operator new (static_cast<std::size_t>(size) * sizeof(T), std::align_val_t{cache_line}))),
        size_(size) {
    if (fill == Fill::zero) clear();
  }
  void clear() { std::fill_n(data_.get(), size_, T{0}); }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  Index size() const { return size_; }

 private:
  struct Free {
    void operator()(T* data) const { ::operator delete (data, std::align_val_t{cache_line}); }
  };
  std::unique_ptr<T, Free> data_;
  Index size_ = 0;
};

}  // namespace saddle::kernels::linear_kernel

// What both circular products share outside the vector code: heads and their lengths, kernels in the lanes of a signal,
// tasks.
#pragma once

#include <algorithm>
#include <vector>

#include "saddle/base/parallel.hpp"
#include "saddle/kernels/circular/core.hpp"
#include "saddle/kernels/linear/buffer.hpp"

namespace saddle::kernels::circular {

template <class T>
using Buffer = linear_kernel::Buffer<T>;
using linear_kernel::Fill;

// Head h of sequence b, of length n.
struct Head {
  Index b = 0, h = 0, n = 0;
};

// All heads of sequences that are not empty. Throws InvalidArgument if a length is not in [0,N].
std::vector<Head> list_heads(const CircularShape& shape, const Index* lengths);

// Rows n..N of every sequence = 0; x may be null.
template <class T>
void clear_padding(const CircularShape& shape, const Index* lengths, const View<T, 4>& x, Index channels);

// Where the sums of a product with a transform of `length` lie, for rows that count modulo n.
Fold fold_of(Direction direction, Index n, Index length);

// The number data[i stride] of each row i in `count` lanes of a signal, from `lane` on, as a real part.
template <class T>
struct Spread {
  T* data = nullptr;
  Index stride = 0, lane = 0, count = 1;
};

// x [length, 2 lanes] = rows [0,n) of the spreads, zeros elsewhere.
template <class T>
void spread(const std::vector<Spread<const T>>& kernels, Index n, Index length, Index lanes, T* x);
// Rows [0,n) of the spreads = sums over their lanes, folded, times scale; added to what is there if `add`.
template <class T>
void collect(const T* x, const std::vector<Spread<T>>& kernels, Index n, Index lanes, Fold fold, T scale, bool add);

// A run of tasks [begin,end) per call of body, so that scratch serves many of them. Results do not depend on the cut.
template <class Body>
void for_tasks(Index count, const Body& body) {
  parallel_for(count, std::max<Index>(1, count / (8 * threads())), body, {Schedule::dynamic, 0});
}

}  // namespace saddle::kernels::circular

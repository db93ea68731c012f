#include "saddle/kernels/dense/product.hpp"

#include "saddle/base/parallel.hpp"
#include "saddle/kernels/dense/tasks.hpp"

namespace saddle::kernels::dense {

namespace {

constexpr Index block_rows = 96;  // of the result in a task
constexpr Index few_rows =
    12;  // that are written at once: the store buffer takes them, and they leave it during the next
constexpr Index most_width = 64;   // of a panel
constexpr Index chunk_rows = 256;  // of x and dy that a weight gradient sums up in registers
constexpr Index pack_rows = 4096;  // of x that it packs at once

constexpr Index gradient_tasks = 8;  // a thread, of a weight gradient

const LoopOptions dynamic{Schedule::dynamic};

// Rows of a weight gradient in a task: few where that makes enough tasks, as each copies its part of dy.
Index gradient_rows(Index O) {
  if (threads() == 1) return block_rows;
  const Index share = O / (gradient_tasks * threads()) / few_rows * few_rows;
  return std::clamp(share, 2 * few_rows, block_rows);
}

// What a block of sums meets when it is finished comes closer while they are multiplied: a panel takes a line or so of
// each row, and no hardware foresees such strides. Inline, or GCC takes it for a function without effect.
[[gnu::always_inline]] inline void fetch(const Finish<float>& part, Index rows, Index columns) {
  constexpr Index line = 16;
  for (const Rows<const float> from : {part.residual, Rows<const float>{part.slope.data, part.slope.stride}})
    for (Index i = 0; i < rows && from; ++i)
      for (Index c = 0; c < columns; c += line) __builtin_prefetch(from[i] + c);
}

}  // namespace

std::uint64_t digest(Rows<const float> weight, Index O, Index I) {
  std::uint64_t sum = 1469598103934665603u;
  if (weight.stride == I) return core().digest(weight.data, O * I, sum);
  for (Index o = 0; o < O; ++o) sum = core().digest(weight[o], I, sum);
  return sum;
}

bool has_bf16_products() {
  // Dot products of pairs: AMD's run at twice the rate of float, those that Intel has beside its tiles at half of it.
  static const bool fast_dots = cpu().avx512_bf16 && cpu().vendor == "AuthenticAMD";
  return best_isa() >= Isa::amx || (best_isa() == Isa::avx512 && fast_dots);
}

template <>
void PackedWeight<float>::pack(Side side, Rows<const float> weight, Index O, Index I) {
  const Core& simd = core();
  depth_ = padded_depth_ = side == Side::output ? I : O;
  columns_ = side == Side::output ? O : I;
  width_ = simd.width;
  float* const data = data_.reserve(panels() * panel_size());
  parallel_for(panels(), 1, [&](Index p) {
    const Index first = p * width_, count = std::min(width_, columns_ - first);
    float* const to = data + p * panel_size();
    if (side == Side::output) {
      simd.transpose(weight[first], weight.stride, count, depth_, to);
      return;
    }
    if (count < width_) std::fill_n(to, panel_size(), 0.0f);
    simd.copy({weight.data + first, weight.stride}, depth_, count, to, width_, nullptr);
  });
}

void multiply(Rows<const float> x, Index M, const PackedWeight<float>& weight, const Finish<float>& finish) {
  const Core& simd = core();
  const Index width = weight.width();
  const Tasks tasks((M + block_rows - 1) / block_rows, weight.panels());
  parallel_for(
      tasks.count(), 1,
      [&](Index task) {
        alignas(64) float sums[few_rows * most_width];
        const Index row = task / tasks.groups * block_rows, rows = std::min(block_rows, M - row);
        const Index begin = task % tasks.groups * tasks.size, end = std::min(weight.panels(), begin + tasks.size);
        for (Index p = begin; p < end; ++p)
          for (Index i = row; i < row + rows; i += few_rows) {
            const Index few = std::min(few_rows, row + rows - i);
            const Finish<float> part = finish.at(i, p * width);
            const Index columns = std::min(width, weight.columns() - p * width);
            fetch(part, few, columns);
            simd.multiply(x[i], x.stride, weight.at(p), weight.depth(), sums, few);
            simd.finish(sums, width, few, columns, part);
          }
      },
      dynamic);
}

void weight_gradient(Rows<const float> dy, Rows<const float> x, Index M, Index O, Index I, Rows<float> dw, float* db) {
  const Core& simd = core();
  const Index width = simd.width, panels = (I + width - 1) / width;
  const Index packed_rows = std::min(M, pack_rows), part_rows = gradient_rows(O), part_size = part_rows * width;
  const Tasks tasks((O + part_rows - 1) / part_rows, panels, gradient_tasks);
  AmxBuffer<float> x_memory, sum_memory;
  float* const x_panels = x_memory.reserve(panels * packed_rows * width);
  float* const sums = sum_memory.reserve(tasks.blocks * panels * part_size);
  std::fill_n(sums, tasks.blocks * panels * part_size, 0.0f);
  if (db) std::fill_n(db, O, 0.0f);
  for (Index m = 0; m < M; m += pack_rows) {
    const Index packed = std::min(pack_rows, M - m);
    parallel_for(packed, 64, [&](Index begin, Index end) {
      for (Index p = 0; p < panels; ++p)
        simd.copy({x[m + begin] + p * width, x.stride}, end - begin, std::min(width, I - p * width),
                  x_panels + (p * packed_rows + begin) * width, width, nullptr);
    });
    parallel_for(
        tasks.count(), 1,
        [&](Index task) {
          const Index block = task / tasks.groups, row = block * part_rows, rows = std::min(part_rows, O - row);
          const Index begin = task % tasks.groups * tasks.size, end = std::min(panels, begin + tasks.size);
          alignas(64) float dy_part[chunk_rows * block_rows];
          for (Index c = 0; c < packed; c += chunk_rows) {
            const Index count = std::min(chunk_rows, packed - c);
            simd.copy({dy[m + c] + row, dy.stride}, count, rows, dy_part, part_rows,
                      db && begin == 0 ? db + row : nullptr);
            // While these are multiplied, the next of dy come closer.
            Index next = c + count;
            const Index pieces = (end - begin) * ((rows + few_rows - 1) / few_rows);
            for (Index p = begin; p < end; ++p)
              for (Index i = 0; i < rows; i += few_rows) {
                for (Index stop = std::min(packed, next + chunk_rows / pieces + 1); next < stop; ++next)
                  for (Index line = 0; line < rows; line += 16) __builtin_prefetch(dy[m + next] + row + line);
                simd.add_transposed(dy_part + i, part_rows, x_panels + (p * packed_rows + c) * width, count,
                                    sums + (block * panels + p) * part_size + i * width, std::min(few_rows, rows - i));
              }
          }
        },
        dynamic);
  }
  Finish<float> finish;
  finish.y = dw;
  parallel_for(tasks.blocks * panels, 1, [&](Index i) {
    const Index row = i / panels * part_rows, column = i % panels * width;
    simd.finish(sums + i * part_size, width, std::min(part_rows, O - row), std::min(width, I - column),
                finish.at(row, column));
  });
}

}  // namespace saddle::kernels::dense

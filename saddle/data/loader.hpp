// Samples in batches, in an order that depends on seed and epoch alone, prepared on a second thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "saddle/data/split.hpp"

namespace saddle::data {

// Series [B,N,C], images [B,C,rows,columns], tokens [B,N]; shorter ones are padded with 0. A token 0 is masked as
// padding wherever it stands; an image with a text has both. The last batch of an epoch may be smaller, and hold none
// of this worker's samples.
struct Batch {
  Index size = 0, length = 0, second_length = 0;
  std::vector<float> values;
  std::vector<std::int64_t> tokens, second;     // [B,N]
  std::vector<std::uint8_t> mask, second_mask;  // [B,N], 1 where a step or token exists
  std::vector<double> times;                    // [B,N] of events
  std::vector<std::int64_t> labels;             // [B]
  std::vector<Index> samples;                   // [B], which they are
};

struct LoaderOptions {
  Index batch = 16;        // of all workers together
  Index max_length = 0;    // longer samples are cut; 0: none is
  bool pad_to_max = true;  // every batch is max_length long (0: as the data's longest), else as its longest sample
  bool by_length = false;  // samples of similar length share a batch, to cut padding
  bool shuffle = false;
  std::uint64_t seed = 0;     // of the order, through the stream "shuffle"
  Index part = 0, parts = 1;  // which samples of every batch this worker takes
  bool prefetch = true;
};

class Loader {
 public:
  // The samples of one epoch, which are all seen once. Throws InvalidArgument for options that make no sense.
  Loader(DatasetPtr data, std::vector<Index> samples, LoaderOptions options, Scaling scaling = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  Index samples() const;
  Index batches() const;  // of an epoch, a smaller last one included
  // Goes to this batch of this epoch; a new loader stands at the first of epoch 0.
  void start(Index epoch, Index batch = 0);
  // The next batch; false at the end of the epoch. An error while reading is thrown here.
  bool next(Batch& into);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace saddle::data

// Looking inside attention layers while a model runs, without a change to it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "saddle/nn/attention.hpp"

namespace saddle::nn {

// What one attention layer did.
struct Tapped {
  Tensor heads;     // [B,H,N,E], outputs of the heads before the output projection
  Tensor weights;   // [B,H,N,K], if wanted: keys of a head behind its K-th are 0
  Tensor key_mask;  // [B,M], undefined if all exist
  Index head_count = 0;
  // If wanted, what else the layer has to show, [B,H,..]: see analysis::ProbedLayer.
  std::map<std::string, Tensor> parts = {};
};

// While one lives, every multi-head attention of this thread leaves a record, in the order in which they run; if
// wanted, models leave the tokens before their first block and behind each, and layers their parts.
class SADDLE_TORCH_API Taps {
 public:
  explicit Taps(bool with_weights, bool with_tokens = false, bool with_parts = false);
  ~Taps();
  Taps(const Taps&) = delete;
  Taps& operator=(const Taps&) = delete;

  std::vector<Tapped> layers;
  std::vector<Tensor> tokens;  // [B,N,X]

  bool wants_weights() const { return weights_; }
  bool wants_tokens() const { return tokens_; }
  bool wants_parts() const { return parts_; }
  // The one of this thread, if any.
  static Taps* current();

 private:
  bool weights_, tokens_, parts_;
  Taps* before_;
};

// Leaves tokens [B,N,X] with the taps of this thread, if they are wanted.
SADDLE_TORCH_API void tap_tokens(const Tensor& tokens);

// Mean and standard deviation over pairs of heads, samples and tokens of |y_s - y_t|, the distance between the outputs
// of two heads, and the mean of |y_s|, which it is to be measured by: outputs of twice the size are twice as far apart.
// Tokens that do not exist are left out where token_mask [B,N] says so.
struct HeadDistance {
  double mean = 0, deviation = 0, norm = 0;
};
SADDLE_TORCH_API HeadDistance head_distance(const Tensor& heads, const Tensor& token_mask = {});

}  // namespace saddle::nn

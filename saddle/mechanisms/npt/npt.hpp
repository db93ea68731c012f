// Non-parametric transformers: attention between the rows of a table and between the attributes of each row, in turn.
// The reference of the layers, the model, its loss and its masks, on the tape.
#pragma once

#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms::npt {

using tape::Value;
using Weights = std::map<std::string, Value>;

// Who attends to whom: rows [1,n,d e], or the attributes of each row [n,d,e].
enum class Axis { rows, attributes };

struct LayerOptions {
  Index heads = 8;
  bool norm = true, norm_first = true;
  bool mix_heads = true;
  bool separate_residual = true;  // a linear map of x, else the queries
  bool softmax = true;            // else scores are divided by the width of a head
  bool network = true;            // else out = x + LN(x)
  double norm_eps = 1e-12;
};

// h [n,d,e] -> [n,d,e]. Weights fc_q, fc_k, fc_v, fc_mix_heads, fc_res, ln0, ln1, rff.0, rff.2 .. As published, only
// queries see the normalised x, and scores are divided by the root of the whole width.
SADDLE_API Value layer(const Value& h, Axis axis, const Weights& weights, const LayerOptions& options);

// A column of the table: classes as one number each, or one standardised number. Encoded, a channel for the mask
// follows.
struct Column {
  Index width = 1;
  bool categorical = false;
};

struct ModelOptions {
  std::vector<Column> columns;
  Index depth = 2;  // layers: rows first, then attributes, in turn
  LayerOptions layer;
};

// Columns [n,width+1] -> predictions [n,width] of each. Embeddings of type and index and the norm of the embedding are
// used if there are weights for them. Throws InvalidArgument for shapes that do not fit.
SADDLE_API std::vector<Value> model(const std::vector<Value>& columns, const Weights& weights,
                                    const ModelOptions& options);

struct Loss {
  Value loss, targets, features;  // the sums of targets and features
  double target_count = 0, feature_count = 0;
};
// Cross entropy of classes, squared error of numbers, over the entries that the masks [n,d] name: share of the mean
// over features and 1 - share of that over targets; a negative share: the mean over both together.
SADDLE_API Loss loss(const std::vector<Value>& predictions, const std::vector<Value>& truth,
                     const std::vector<Column>& columns, const Value& target_mask, const Value& feature_mask,
                     double share);

// How many of `selected` entries, of which a share is to be hidden, are replaced by random values instead. As published
// this is one more than the rest; `exact` gives the rest.
SADDLE_API Index randomised_count(Index selected, double hidden_share, bool exact = false);
// column [n,width+1] with entries hidden (zeros, mask channel 1) or replaced (a class or a number, mask channel 0).
SADDLE_API Value masked(const Value& column, const Column& kind, const std::vector<bool>& hidden,
                        const std::vector<bool>& replaced, const std::vector<double>& values);

// Recorded cases of layers and models, by whatever computes them as layer() and model() do; losses are made here.
struct GoldenFunctions {
  std::function<Value(const Value& h, Axis axis, const Weights& weights, const LayerOptions& options)> layer;
  std::function<std::vector<Value>(const std::vector<Value>& columns, const Weights& weights,
                                   const ModelOptions& options)>
      model;
};
SADDLE_API GoldenReport check_golden_case(const TensorFile& golden, const GoldenFunctions& functions,
                                          const GoldenRun& run);
inline constexpr double golden_tolerance = 1e-10;

const Mechanism& mechanism();

}  // namespace saddle::mechanisms::npt

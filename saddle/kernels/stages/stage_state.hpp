// What a stage holds, for the files that prepare it and pull gradients back.
#pragma once

#include "saddle/kernels/stages/feature_rows.hpp"
#include "saddle/kernels/stages/fold.hpp"
#include "saddle/kernels/stages/pooled_rows.hpp"
#include "saddle/kernels/stages/stage.hpp"
#include "saddle/kernels/stages/transforms.hpp"

namespace saddle::kernels {

namespace stages {

// Rows that are read, with the memory of the copy where they are not in place.
template <class T>
struct Held {
  Rows<const T> rows;
  Buffer<T> buffer;

  static Held fresh(Index n, Index columns) {
    Held held;
    held.buffer = Buffer<T>(n, columns);
    held.rows = held.buffer.rows();
    return held;
  }
};

template <class T>
struct HeldTokens {
  Held<T> q, k;
};

}  // namespace stages

template <class T>
struct Stage<T>::State {
  const primal::Call& call;
  const Index b, h;
  const Goal goal;
  const Dims dims;
  const stages::Slice q, k, v;

  std::vector<std::uint8_t> keep_tokens, keep_keys;  // [M] before and [K] after pooling, empty: all
  std::optional<stages::PooledRows> pooled;
  primal::Windows windows;
  Index K = 0;

  std::vector<std::vector<double>> theta;
  std::size_t ordinary = 0;                   // transforms that run as such
  const primal::BatchNorm* folded = nullptr;  // the one after them, if it moves into the queries
  bool per_query = false;
  double a = 1;
  bool rbf = false;

  stages::HeldTokens<T> tokens;  // after the ordinary transforms, centred or mapped; null where the tensors serve
  stages::Held<T> values;
  std::optional<stages::GlobalFold<T>> global_fold;
  std::optional<stages::FeatureRows<T>> features;
  stages::Held<T> final_q;  // where a fold per query makes others than `tokens`
  std::vector<T> row, column;
  ScoreProblem<T> problem;
  Rows<const BFloat16> raw_q, raw_k, raw_v;

  stages::Held<T> dy;
  stages::Buffer<T> own_dq, own_dk, own_dv, dphi_q, dphi_k;
  Rows<T> dq, dk, dv;  // [N,D], [K,D], [K,E]: in the call's gradients or owned; null: not wanted
  std::vector<T> drow, dcolumn;
  std::vector<std::uint8_t> wanted;  // parameters of which transforms

  State(const primal::Call& call, Index b, Index h, Goal goal);

  // Forward, in this order.
  void plan();
  void load(bool raw);
  void fold(bool need_row);
  void centre(bool need_row);
  void map_features();

  // The tokens through pooling and the first transforms; each transform's input is kept where asked for.
  stages::Held<T> load_queries() const;
  stages::Held<T> load_keys(const stages::Slice& slice) const;
  void run_transform(std::size_t t, stages::HeldTokens<T>& now, std::vector<stages::HeldTokens<T>>* inputs) const;
  stages::HeldTokens<T> run_transforms(std::size_t count, std::vector<stages::HeldTokens<T>>* inputs) const;
  stages::TokenRows<const T> rows_of(const stages::HeldTokens<T>& now) const;
  stages::Reader<T> query_reader() const;
  stages::Reader<T> key_reader() const;
  stages::VisibleKeys visible() const { return {call, b, h, keep_tokens, K, pooled.has_value()}; }

  void pull_scores(std::vector<std::vector<double>>& dtheta);
  void pull_transforms(std::vector<std::vector<double>>& dtheta);
};

}  // namespace saddle::kernels

// The way from the tensors of a call to the rows a core computes with, and back for gradients: pooling, transforms,
// feature maps, conversion. Nothing is copied that a core can read in place.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "saddle/base/dtype.hpp"
#include "saddle/kernels/stages/score_problem.hpp"
#include "saddle/primal/call.hpp"

namespace saddle::kernels {

// What the core wants.
enum class Goal {
  scores,  // a complete ScoreProblem: batch norm folded into the queries, features mapped, RBF split into r, c and a
  tokens   // q and k after all transforms and v, for a core that maps features itself; a, kappa, row, column unused
};

// Why a stage cannot serve this attention; empty when it can.
SADDLE_API std::vector<std::string> stage_refusals(const primal::Attention& attention, Goal goal);

// Bytes that the stages of all heads hold at most, for Request-like numbers, with tensors of one dtype whose columns
// lie side by side; where they do not, a copy of the tensor comes on top.
SADDLE_API double stage_memory(const primal::Attention& attention, const Dims& dims, DType dtype, Goal goal,
                               bool backward);

// T is the type the core computes in: float (also for bf16 tensors) or double.
template <class T>
class SADDLE_API Stage {
 public:
  // Prepares sample b, head h of a validated call without refusals; the call must outlive the stage.
  // raw: where only a conversion from bf16 stands between a tensor and its rows, leave it to the core (see raw_q).
  // need_row: false leaves problem().row out where it cancels in y, that is for exp over a row sum with den_eps = 0.
  // The log-sum-exp then misses it.
  Stage(const primal::Call& call, Index b, Index h, Goal goal, bool raw = false, bool need_row = true);
  ~Stage();
  Stage(Stage&&) noexcept;
  Stage& operator=(Stage&&) noexcept;

  const ScoreProblem<T>& problem() const;
  // With raw: bf16 rows that stand in for problem().q, k, v where those are null.
  Rows<const BFloat16> raw_q() const;
  Rows<const BFloat16> raw_k() const;
  Rows<const BFloat16> raw_v() const;
  // Keys of the problem that exist [K]; empty when all do.
  const std::vector<std::uint8_t>& keep() const;
  // The tokens behind pooled keys [K]; empty without pooling, and where no key set or mask asks which tokens they are.
  const primal::Windows& windows() const;

  // dy [N,E] as rows of T: in place or converted.
  Rows<const T> dy(const primal::Gradients& gradients);
  // dy as bf16 rows where it lies so, else null.
  Rows<const BFloat16> raw_dy(const primal::Gradients& gradients) const;

  // Where a core puts the gradients with respect to problem(): all rows of dq, dk, dv are written (for q after q_shift
  // and q_factor; zero for keys that do not exist), drow [N] and dcolumn [K] are sums of ds_ij. Null: neither the call
  // nor the pullback wants it. Straight into the call's gradients where their memory allows it.
  // raw: where only rounding to bf16 stands between such rows and the call's gradients, these stand in for them.
  struct Targets {
    Rows<T> dq, dk, dv;
    T* drow = nullptr;
    T* dcolumn = nullptr;
    Rows<BFloat16> raw_dq, raw_dk, raw_dv;
  };
  Targets targets(const primal::Gradients& gradients, bool raw = false);
  // After the core: back through features, transforms and pooling into the call's gradients. Gradients of the
  // parameters of this head are added to dtheta, one vector per transform.
  void pullback(const primal::Gradients& gradients, std::vector<std::vector<double>>& dtheta);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

extern template class Stage<float>;
extern template class Stage<double>;

// dskip, bias and the transform parameters, whose gradients are sums over heads in fixed order. dtheta [b * H + h].
SADDLE_API void write_parameter_gradients(const primal::Call& call, const primal::Gradients& gradients,
                                          const std::vector<std::vector<std::vector<double>>>& dtheta);

// Whether the outputs of the forward pass that come with the gradients are precise enough to be used: no coarser than
// the tensors of the call, a log-sum-exp in f32 at least, and a bf16 y only where nothing was added to the expansion
// and beta gets no gradient.
SADDLE_API bool has_saved_outputs(const primal::Call& call, const primal::Gradients& gradients);

// Where rows of the expansion go: into y, with bias and skip added and converted where needed.
template <class T>
class SADDLE_API OutputRows {
 public:
  OutputRows(const primal::Call& call, const TensorView& y);

  // Rows that a core may write straight into, or null.
  Rows<T> direct(Index b, Index h) const;
  // rows [count,E] of the expansion at query i.
  void store(Index b, Index h, Index i, Index count, Rows<const T> rows) const;
  // The expansion again, from a y that was stored: rows [count,E].
  void load(Index b, Index h, Index i, Index count, Rows<T> rows) const;

 private:
  const primal::Call& call_;
  TensorView y_;
  std::vector<T> bias_;  // [H,E], empty: none
};

extern template class OutputRows<float>;
extern template class OutputRows<double>;

}  // namespace saddle::kernels

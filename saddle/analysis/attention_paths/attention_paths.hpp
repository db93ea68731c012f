// Attention paths: what a deep attention network of finite width predicts, and which heads it needs, without training
// it. Attention is computed from the raw input with fixed queries and keys; value weights, input projection and readout
// are learned. Letters: P examples, N0 features, T tokens, H_l heads of layer l = 1..L, Pi = H_1 ... H_L paths, one
// head per layer, the head of the last layer counted fastest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "saddle/analysis/registry.hpp"
#include "saddle/base/view.hpp"

namespace saddle::analysis::attention_paths {

enum class Readout { average_pooling, first_token, last_token };
enum class Nonlinearity { softmax, hardmax };
SADDLE_API Readout readout_from(const std::string& name);
SADDLE_API Nonlinearity nonlinearity_from(const std::string& name);

// Attention weights [P,H,T,T], index (.., key, query), columns sum to one, of x [P,N0,T].
using Attention = Array<double, 4>;
// score(s,t) = x_s^T W_h x_t, w [H,N0,N0]
SADDLE_API Attention attention_from_w(const Array<double, 3>& x, const Array<double, 3>& w,
                                      Nonlinearity nonlinearity = Nonlinearity::softmax);
// score(s,t) = (K_h x_s).(Q_h x_t) / sqrt(G), q and k [H,G,N0]
SADDLE_API Attention attention_from_qk(const Array<double, 3>& x, const Array<double, 3>& q, const Array<double, 3>& k,
                                       Nonlinearity nonlinearity = Nonlinearity::softmax);
// From attention maps [P,H,T,T] with index (.., query, key), as models give them.
SADDLE_API Attention attention_from_maps(const Array<double, 4>& maps);

// The input as each path attends to it, xi [P,N0,Pi], from the attention of every layer, first layer first.
SADDLE_API Array<double, 3> attended_input(const Array<double, 3>& x, const std::vector<Attention>& attention,
                                           Readout readout, double input_variance = 1);

// Kernels of pairs of paths [count,count,P,P], of the first `count` paths; 0: of all. Not divided by Pi.
SADDLE_API Array<double, 4> path_kernels(const Array<double, 3>& xi, Index count = 0);
// sum over pairs of paths of u [Pi,Pi] times their kernel: [P,Q] between xi [P,N0,Pi] and other [Q,N0,Pi].
SADDLE_API Matrix kernel(const Array<double, 3>& xi, const Array<double, 3>& other, const Matrix& u);

// The network as far as the theory knows it.
struct Prior {
  std::vector<Index> heads;       // H_1 .. H_L
  std::vector<Index> widths;      // N_1 .. N_L, N_a
  std::vector<double> variances;  // of the weights: input, layers 1 .. L, readout
  double temperature = 0.01;      // variance of the label noise

  Index layers() const { return static_cast<Index>(heads.size()); }
  SADDLE_API Index paths() const;
};

// The order parameters U_1 .. U_L; U_1 [Pi,Pi] weights the kernel. At infinite width they are multiples of the
// identity.
using OrderParameters = std::vector<Matrix>;
SADDLE_API OrderParameters gp_order_parameters(const Prior& prior);

// Energy, which fits the labels, and entropy, which holds to the prior, both divided by the largest width.
struct Action {
  double energy = 0, entropy = 0, ua = 0;
  OrderParameters gradient;  // of energy + entropy
};
// Labels y [P]. Throws InvalidArgument for order parameters that are not positive definite.
SADDLE_API Action action(const Array<double, 3>& xi, const Vector& y, const Prior& prior, const OrderParameters& u);

struct MinimumOptions {
  double tolerance = 1e-12;  // of the largest entry of the gradient
  int steps = 500;
  Index hessian_size = 500;  // unknowns up to which the smallest eigenvalue of the Hessian is computed
};

struct Minimum {
  OrderParameters u;
  double energy = 0, entropy = 0, ua = 0;
  double gradient_max = 0;
  double min_hessian_eigenvalue = 0;  // with respect to upper triangles; NaN where it was not computed
  int steps = 0;
  bool converged = false;
};
// The minimum of the action that is reached from the values at infinite width, or from `start`. Newton's method in a
// trust region that cannot leave the positive definite matrices.
SADDLE_API Minimum minimise(const Array<double, 3>& xi, const Vector& y, const Prior& prior,
                            const MinimumOptions& options = {}, OrderParameters start = {});

struct Prediction {
  Vector mean, variance;  // [Q]; the class is the sign of the mean
};
SADDLE_API Prediction predict(const Array<double, 3>& xi, const Vector& y, const Array<double, 3>& test,
                              const Matrix& u, double temperature);

// How much a head takes part in u [Pi,Pi], relative to the head that does most.
struct HeadScore {
  Index layer = 0, head = 0;  // from 0
  double raw = 0, score = 0;
};
// All heads, layer by layer. Prune in ascending order of the score.
SADDLE_API std::vector<HeadScore> head_scores(const Matrix& u, const std::vector<Index>& heads);
// u with all paths through a head at 0.
SADDLE_API Matrix without_head(const Matrix& u, const std::vector<Index>& heads, Index layer, Index head);

// |v_i . y| / sqrt(P) for the leading eigenvectors v_i of a kernel [P,P], largest eigenvalue first.
SADDLE_API Vector alignment(const Matrix& kernel, const Vector& y, Index count);

SADDLE_API mechanisms::GoldenReport check(const TensorFile& golden, DType dtype);

// The theory on the attention of a trained model: its embeddings are the input, its attention maps those of the layers,
// its training samples the examples, each class against the rest. It needs tokens and weights between them.
struct ModelOptions {
  double temperature = 0.1;
  Index width = 0;                      // of all layers; 0: that of the model
  std::optional<Readout> readout = {};  // that of the model if it is not given
  Index most_paths = 256;               // more throw NotSupported
};
struct ModelTheory {
  Prior prior;
  Array<double, 3> xi;                   // [P,X,Pi], of the training samples
  std::vector<Index> classes;            // that occur among them
  std::vector<Vector> y;                 // of each class: +1 for its samples, -1 for the rest
  Matrix u;                              // [Pi,Pi], mean over classes
  std::vector<HeadScore> scores;         // of u
  std::vector<Prediction> finite;        // of each class, for the test samples; empty if there are none
  std::vector<Prediction> infinite;      // the same at infinite width
  double accuracy = 0, accuracy_gp = 0;  // of these, by the class with the largest mean; NaN if there are none
  Index unconverged = 0;                 // classes whose minimum was not reached
};
SADDLE_API ModelTheory theory_of(const ProbedModel& model, const ModelOptions& options = {});

// Scores of the heads of a model of any depth, from its training samples alone. Neighbouring layers stand together as
// long as they make at most most_paths paths; each such group is a network of the theory, whose input are the tokens
// before its first layer; all groups but the last are read out by the average. Scores are relative to the largest of
// the group. Layers without weights between tokens end a group and have no scores.
struct GroupedScores {
  std::vector<HeadScore> scores;  // layer by layer
  std::vector<Index> groups;      // the first layer of each
  Index unconverged = 0;          // classes of groups whose minimum was not reached
};
SADDLE_API GroupedScores grouped_head_scores(const Probe& train, const ModelOptions& options = {});

// As an analysis of a trained model, with the options above by their names. Of models with more paths scores alone.
SADDLE_API Result on_model(const ProbedModel& model, Options& options);
// Of tensors: a task of two classes as in recorded cases (x_train, y_train, x_test, w1 or q1 and k1, ..; y_test if
// known) with options `width`, `temperature`, `readout`, `nonlinearity`, or what a model did as probed_model() reads
// it.
SADDLE_API Result on_tensors(const TensorFile& file, const std::string& name, Options& options);

// Its own network on its own task, hidden Markov chains, whose heads go by the score, by magnitude and at random.
// Options `seeds`, `width`, `networks` drawn for each seed, `tests` and `noise` perpendicular to the states.
SADDLE_API Result example(Options& options);

SADDLE_API const Analysis& analysis();

}  // namespace saddle::analysis::attention_paths

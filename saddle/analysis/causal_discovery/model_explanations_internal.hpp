// Explanations of a model's predictions, with the model itself as the judge.
#pragma once

#include "saddle/analysis/causal_discovery/request.hpp"
#include "saddle/analysis/probe.hpp"

namespace saddle::analysis::causal_discovery {

struct ModelExplainOptions {
  Removal removal = Removal::pad;
  Index max_calls = 2000;  // of the model, in each search
};

// What one search for tokens without which the prediction changes came to.
struct SearchResult {
  bool found = false;
  Nodes tokens = {};   // positions in the input, of the first that was found
  Index calls = 0;     // sets that the model was asked about
  Index becomes = -1;  // the class predicted without them
  Index tried = 0;     // of trying all sets: those of up to so many tokens were all asked about
};

// One head of one sample, or, with head -1, what needs no head.
struct ModelExplanation {
  Index head = -1;
  Answer answer;           // the graph that was searched, its target the prediction
  SearchResult by_graph;   // CLEANN
  SearchResult by_weight;  // tokens in falling order of the attention that the target pays them, one more each time
  Nodes candidates = {};   // the tokens that both may take, ascending
};

// Asks the model about sets of tokens of a sample; answers are kept, calls are counted by the searches.
class SADDLE_API Judge {
 public:
  // Throws NotSupported where the probe has no model to ask.
  Judge(const Probe& probe, Index sample, Removal removal);

  Index predicted() const { return predicted_; }
  double probability() const { return probability_; }
  // The class without these tokens.
  Index without(const Nodes& tokens);
  // The same for many at once: what `without` says of them later costs nothing.
  void prepare(const std::vector<Nodes>& sets);

 private:
  const Probe& probe_;
  Index sample_;
  Removal removal_;
  Index predicted_ = -1;
  double probability_ = 0;
  std::map<Nodes, Index> known_;
};

// Attention [N,N] with one more token [N+1,N+1], which reads all others by their mean as the readout of a model does,
// and has an own share as large as that of each of them.
SADDLE_API Matrix with_readout(const Matrix& attention);

// The request's target explains a token's part in the prediction; without one the readout is the target.
SADDLE_API ModelExplanation explain_head(const Matrix& attention, std::vector<std::string> names, Index head,
                                         const Request& request, Judge& judge, const ModelExplainOptions& options);

// All sets of these tokens, which ascend, by size, then lexicographically.
SADDLE_API SearchResult search_exhaustively(const Nodes& tokens, Judge& judge, const ModelExplainOptions& options);

}  // namespace saddle::analysis::causal_discovery

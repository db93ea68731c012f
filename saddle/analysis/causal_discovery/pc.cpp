#include "saddle/analysis/causal_discovery/orientation.hpp"
#include "saddle/analysis/causal_discovery/skeleton_internal.hpp"

namespace saddle::analysis::causal_discovery {

Discovery pc(const IndependenceTest& test, const Options& given) {
  const Options options = checked(test, given);
  Progress progress("pc", options);
  Skeleton skeleton = learn_skeleton(test, options, Mark::tail, progress);
  orient_directed(skeleton.graph, skeleton.separating);
  return {std::move(skeleton.graph), std::move(skeleton.separating), std::move(skeleton.tests), {}};
}

}  // namespace saddle::analysis::causal_discovery

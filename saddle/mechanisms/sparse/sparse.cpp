#include "saddle/mechanisms/sparse/sparse.hpp"

#include <algorithm>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::mechanisms::sparse {

namespace {

const std::vector<std::string> patterns{"window", "local", "strided", "fixed", "global_window", "all"};

// The part that a pattern names.
std::string part_of(const primal::Argument& pattern) {
  if (pattern.value == "all") return "causal";
  if (std::find(patterns.begin(), patterns.end(), pattern.value) != patterns.end()) return pattern.value;
  const std::string where = pattern.position > 0 ? " at position " + std::to_string(pattern.position) : "";
  const std::string close = nearest(pattern.value, patterns);
  const std::string hint = close.empty() ? "" : "did you mean '" + close + "'?";
  throw InvalidArgument("sparse: unknown pattern '" + pattern.value + "'" + where + ", expected " +
                            join(patterns, ", ") + (hint.empty() ? "" : "; " + hint),
                        hint);
}

// sparse(pattern, options...): `scale` belongs to softmax, everything else to the key set.
primal::Attention declare(const primal::Term& term) {
  primal::Term kernel{"softmax", {}, term.position}, keys{"window", {}, term.position};
  bool named = false;
  for (const primal::Argument& argument : term.arguments) {
    if (argument.key == "pattern" && named)
      throw InvalidArgument("sparse: the pattern is given twice, as '" + keys.name + "' and '" + argument.value + "'");
    if (argument.key == "pattern" || (!named && argument.key.empty())) {
      keys.name = part_of(argument);
      named = true;
    } else {
      (argument.key == "scale" ? kernel : keys).arguments.push_back(argument);
    }
  }
  return primal::build({kernel, keys});
}

}  // namespace

const Mechanism& mechanism() {
  static const Mechanism value = [] {
    Mechanism sparse = declared("sparse", "Sparse attention", "softmax over the keys that a pattern lets a query see",
                                "softmax+window", R"(@article{child2019generating,
  title   = {Generating Long Sequences with Sparse Transformers},
  author  = {Child, Rewon and Gray, Scott and Radford, Alec and Sutskever, Ilya},
  journal = {arXiv preprint arXiv:1904.10509},
  year    = {2019}
})");
    sparse.declare = declare;
    return sparse;
  }();
  return value;
}

}  // namespace saddle::mechanisms::sparse

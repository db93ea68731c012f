#include "saddle/mechanisms/layer.hpp"

#include <algorithm>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/registry.hpp"
#include "saddle/primal/written/terms.hpp"

namespace saddle::mechanisms {

LayerPtr find_layer(std::string_view text) {
  const auto terms = primal::parse_terms(text);
  if (terms.empty()) return nullptr;
  const auto& list = all();
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const Mechanism* m) { return m->name == terms[0].name; });
  if (found == list.end() || !(*found)->layer) return nullptr;
  try {
    if (terms.size() > 1)
      throw primal::Mistake{
          terms[1].position,
          "'" + terms[0].name + "' is a layer of its own, '" + terms[1].name + "' cannot be added to it",
          "saddle show " + terms[0].name + " lists its options"};
    return (*found)->layer(terms[0]);
  } catch (const primal::Mistake& mistake) {
    primal::report(mistake, text);
  }
}

double product_cost(Index n, Index k, Index m, primal::Pass pass) {
  const double forward = static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(m);
  return pass == primal::Pass::forward ? forward : 2 * forward;
}

}  // namespace saddle::mechanisms

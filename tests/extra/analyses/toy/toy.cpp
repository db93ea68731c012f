#include "saddle/analysis/toy/toy.hpp"

#include <cmath>

namespace saddle::analysis::toy {

namespace {

Result show(double size) {
  Result result;
  result.about = "How large the outputs of heads are. Large is large.";
  result.findings = {"toy found a size of " + std::to_string(size)};
  result.figures = {{"size", size}};
  result.json = "{\"size\":" + std::to_string(size) + "}";
  return result;
}

Result on_model(const ProbedModel& model, Options& options) {
  options.check();
  double sum = 0;
  for (const Probe& probe : model.probes)
    for (const ProbedLayer& layer : probe.layers)
      for (const double value : layer.heads) sum += value * value;
  return show(std::sqrt(sum));
}

}  // namespace

const Analysis& analysis() {
  static const Analysis value = [] {
    Analysis made;
    made.name = "toy";
    made.title = "Toy";
    made.summary = "made up for the tests";
    made.bibtex = "@misc{toy, title = {Nobody published this}}";
    made.on_model = on_model;
    made.example = [](Options& options) {
      options.check();
      return show(2);
    };
    return made;
  }();
  return value;
}

}  // namespace saddle::analysis::toy

// The planner as an analysis of files and models.
#include "saddle/analysis/depth_width/plan.hpp"
#include "saddle/base/error.hpp"
#include "saddle/io/safetensors.hpp"

namespace saddle::analysis::depth_width {

namespace {

Result result_of(PlanRequest request, Options& options) {
  request.analyze = true;
  request.band = options.number("band", request.band);
  request.multiple = options.integer("multiple", request.multiple);
  options.check();
  return to_result(make_plan(request), request);
}

// Models with blocks of their own show no tokens; their heads side by side are as wide.
Index width_of(const Probe& probe) {
  if (!probe.tokens.empty()) return probe.tokens.shape()[2];
  const auto& heads = probe.layers.front().heads;
  if (!heads.empty()) return heads.shape()[1] * heads.shape()[3];
  throw InvalidArgument("depth_width: neither tokens nor heads say how wide the model is",
                        "give tokens [L+1,B,N,X] or heads [L,B,H,N,E]");
}

Index heads_of(const ProbedLayer& layer) {
  return !layer.heads.empty()    ? layer.heads.shape()[1]
         : layer.weights.empty() ? PlanRequest::not_given
                                 : layer.weights.shape()[1];
}

}  // namespace

Result on_file(const std::string& file, Options& options) {
  if (file.ends_with(".safetensors")) return on_model(probed_model(io::read_safetensors(file), file), options);
  PlanRequest request;
  request.config = file;
  return result_of(std::move(request), options);
}

Result on_model(const ProbedModel& model, Options& options) {
  if (model.probes.empty() || model.probes.front().layers.empty())
    throw InvalidArgument("depth_width: the model was not probed");
  const Probe& probe = model.probes.front();
  PlanRequest request;
  request.depth = static_cast<Index>(probe.layers.size());
  request.width = width_of(probe);
  request.heads = heads_of(probe.layers.front());
  return result_of(std::move(request), options);
}

}  // namespace saddle::analysis::depth_width

#include "saddle/mechanisms/select.hpp"

#include <fmt/format.h>

#include "saddle/base/cpu.hpp"
#include "saddle/base/denormals.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/log.hpp"
#include "saddle/base/text.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::mechanisms {

namespace {

std::string shape_text(const Dims& d) {
  return fmt::format("B={} H={} N={} M={} D={} E={}", d.B, d.H, d.N, d.M, d.D, d.E);
}

// What kept the implementations that were not chosen from running.
std::string why_not_others(const Selection& selection) {
  std::vector<std::string> reasons;
  for (const Candidate& candidate : selection.candidates)
    if (candidate.implementation != selection.chosen)
      reasons.push_back(fmt::format("'{}' {}", candidate.implementation->name(),
                                    candidate.refusals.empty() ? "would take longer at this shape"
                                                               : "refuses: " + join(candidate.refusals, "; ")));
  return join(reasons, ", ");
}

// The implementation to run; a slow one is never chosen silently.
const kernels::Implementation& choose(const kernels::Request& request) {
  const Selection selection = select(request);
  if (selection.chosen == nullptr) {
    std::vector<std::string> refusals;
    for (const Candidate& candidate : selection.candidates)
      for (const std::string& refusal : candidate.refusals)
        refusals.push_back(fmt::format("{}: {}", candidate.implementation->name(), refusal));
    throw NotSupported(fmt::format("[{}] no implementation accepts this call\n{}", primal::to_text(request.attention),
                                   explain(request, selection)),
                       refusals);
  }
  if (selection.chosen->is_reference()) {
    const std::string text = primal::to_text(request.attention);
    log_once("reference " + text, LogLevel::info,
             fmt::format("[{}] runs on the slow double reference: {}", text, why_not_others(selection)));
  }
  return *selection.chosen;
}

// The same, remembered: a training loop asks the same few questions over and over, and refusals are sentences.
const kernels::Implementation& chosen(const kernels::Request& request) {
  struct Answer {
    kernels::Request request;
    Isa isa;
    const kernels::Implementation* implementation;
  };
  constexpr std::size_t most = 32;
  thread_local std::vector<Answer> known;
  const Isa isa = best_isa();
  for (const Answer& answer : known)
    if (answer.isa == isa && answer.request == request) return *answer.implementation;
  const kernels::Implementation& implementation = choose(request);
  if (known.size() == most) known.erase(known.begin());
  known.push_back({request, isa, &implementation});
  return implementation;
}

}  // namespace

Selection select(const kernels::Request& request) {
  Selection selection;
  const Candidate* best = nullptr;
  for (const kernels::Implementation* implementation : kernels::generic_implementations()) {
    Candidate candidate{implementation, implementation->refusals(request), {}};
    if (candidate.refusals.empty()) candidate.estimate = implementation->estimate(request);
    selection.candidates.push_back(std::move(candidate));
  }
  // Ranked by the time of one thread: which bits come out must not depend on how many there are.
  kernels::Request serial = request;
  serial.threads = 1;
  double least = 0;
  for (const Candidate& candidate : selection.candidates) {
    if (!candidate.refusals.empty()) continue;
    const double seconds = candidate.implementation->estimate(serial).seconds;
    if (best == nullptr || seconds < least) {
      best = &candidate;
      least = seconds;
    }
  }
  if (best == nullptr) {
    selection.reason = "every implementation refuses";
    return selection;
  }
  selection.chosen = best->implementation;
  selection.reason =
      fmt::format("'{}' has the lowest predicted time of those that accept", best->implementation->name());
  return selection;
}

std::string explain(const kernels::Request& request, const Selection& selection) {
  std::string text = fmt::format("{}  {}  {}{}\n", primal::to_text(request.attention), shape_text(request.dims),
                                 to_string(request.dtype), request.backward ? "  forward and backward" : "  forward");
  for (const Candidate& candidate : selection.candidates) {
    const bool runs = candidate.implementation == selection.chosen;
    text += fmt::format("{} {:<10} {:<7} ", runs ? "*" : " ", candidate.implementation->name(),
                        to_string(candidate.implementation->isa()));
    if (candidate.refusals.empty())
      text += fmt::format("{:.3g} s predicted, {:.4g} multiply-adds, {:.4g} exps, {:.4g} bytes extra\n",
                          candidate.estimate.seconds, candidate.estimate.cost.multiply_adds,
                          candidate.estimate.cost.exps, candidate.estimate.memory);
    else
      text += "refuses: " + join(candidate.refusals, "; ") + "\n";
  }
  return text + "choice: " + selection.reason + "\n";
}

void forward(const primal::Call& call, const primal::Outputs& outputs) {
  validate(call);
  validate(call, outputs);
  const FlushDenormals flush;
  chosen(kernels::request_of(call, outputs)).forward(call, outputs);
}

void backward(const primal::Call& call, const primal::Gradients& gradients) {
  validate(call);
  validate(call, gradients);
  const FlushDenormals flush;
  chosen(kernels::request_of(call, gradients)).backward(call, gradients);
}

}  // namespace saddle::mechanisms

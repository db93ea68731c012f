#include "self_check.hpp"

#include <cmath>
#include <functional>

#include "output.hpp"
#include "saddle/base/random.hpp"
#include "saddle/io/safetensors.hpp"
#include "saddle/mechanisms/registry.hpp"
#include "saddle/mechanisms/select.hpp"
#include "saddle/primal/certificate.hpp"
#include "saddle/primal/primal_form.hpp"
#include "saddle/primal/reference.hpp"

namespace saddle::cli {

namespace {

constexpr const char* rebuild = "rebuild saddle, and report this with the output of 'saddle doctor --json'";

Tensor seeded(const std::string& name, Shape shape) {
  Tensor tensor(DType::f64, std::move(shape));
  const Stream stream(0, name);
  for (Index i = 0; i < tensor.size(); ++i) tensor.set(i, stream.normal_at(static_cast<std::uint64_t>(i)));
  return tensor;
}

// A small problem with odd sizes: B=1 H=2 N=7 M=9 D=3 E=5.
struct Problem {
  Tensor q = seeded("q", {1, 2, 7, 3}), k = seeded("k", {1, 2, 9, 3}), v = seeded("v", {1, 2, 9, 5});
  primal::Call call;

  explicit Problem(const char* attention) {
    call.attention = mechanisms::parse(attention);
    call.q = q.view();
    call.k = k.view();
    call.v = v.view();
    primal::validate(call);
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  Tensor output(const std::function<void(const primal::Call&, const primal::Outputs&)>& forward) const {
    Tensor y(DType::f64, {1, 2, 7, 5});
    forward(call, {y.view(), {}, {}, {}});
    return y;
  }
};

double difference(const Tensor& a, const Tensor& b) { return mechanisms::golden_error(a, b); }

SelfCheck compare(const std::string& name, double error, double tolerance) {
  return {name, "difference " + error_text(error), rebuild, error <= tolerance};
}

SelfCheck primal_against_dual() {
  const Problem problem("linear(elu1)+causal");
  return compare("primal form equals dual form",
                 difference(problem.output(primal::primal_forward), problem.output(primal::reference_forward)), 1e-12);
}

SelfCheck selected_against_reference() {
  const Problem problem("linear(elu1)");  // served by more than the reference
  const Tensor y = problem.output(mechanisms::forward);
  const auto* chosen =
      mechanisms::select(kernels::request_of(problem.call, primal::Outputs{y.view(), {}, {}, {}})).chosen;
  SelfCheck check = compare("selected implementation equals the reference",
                            difference(y, problem.output(primal::reference_forward)), 1e-10);
  check.detail = (chosen != nullptr ? std::string(chosen->name()) : "nothing") + " selected, " + check.detail;
  check.passed &= chosen != nullptr && !chosen->is_reference();
  return check;
}

SelfCheck certificate() {
  const Problem problem("rbf(gamma=0.5)");
  const primal::Certificate c = primal::certify(problem.call);
  return {"regression certificate holds", "gap " + error_text(c.gap) + ", KKT residual " + error_text(c.kkt), rebuild,
          c.holds()};
}

SelfCheck file_round_trip() {
  TensorFile file;
  file.tensors["x"] = seeded("x", {3, 2});
  file.metadata["mechanism"] = "softmax";
  const TensorFile back = io::parse_safetensors(io::to_safetensors(file), "self test");
  return {"tensor files round-trip", "", rebuild, back.tensors == file.tensors && back.metadata == file.metadata};
}

SelfCheck names() {
  for (const mechanisms::Mechanism* mechanism : mechanisms::all())
    if (mechanism->declare != nullptr) static_cast<void>(mechanisms::parse(mechanism->name));
  const std::size_t count = mechanisms::all().size();
  return {"mechanisms are registered", std::to_string(count) + " found", rebuild, count > 0};
}

}  // namespace

std::vector<SelfCheck> self_checks() {
  std::vector<SelfCheck> results;
  const std::pair<const char*, SelfCheck (*)()> tests[] = {{"mechanisms", names},
                                                           {"primal and dual form", primal_against_dual},
                                                           {"selection", selected_against_reference},
                                                           {"certificate", certificate},
                                                           {"tensor files", file_round_trip}};
  for (const auto& [name, test] : tests) {
    try {
      results.push_back(test());
    } catch (const std::exception& error) {
      results.push_back({name, error.what(), rebuild, false});
    }
  }
  return results;
}

}  // namespace saddle::cli

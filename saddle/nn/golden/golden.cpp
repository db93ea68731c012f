#include "saddle/nn/golden/golden.hpp"

#include <fmt/format.h>
#include <torch/autograd.h>

#include "saddle/base/error.hpp"
#include "saddle/nn/golden/golden_internal.hpp"
#include "saddle/nn/tensor.hpp"

namespace saddle::nn {

namespace {

std::vector<double> numbers(const Tensor& tensor) {
  const Tensor dense = tensor.detach().to(torch::kFloat64).contiguous();
  return {dense.data_ptr<double>(), dense.data_ptr<double>() + dense.numel()};
}

Tensor tensor_of(const tape::Value& value) { return torch::tensor(value.data(), torch::kFloat64).view(value.shape()); }

}  // namespace

std::vector<GoldenCheck> golden_checks() {
  std::vector<GoldenCheck> all;
  for (auto part : {declared_checks(), layer_checks(), time_checks(), table_checks()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

mechanisms::GoldenRun module_run(DType dtype, double in_double) {
  return {"module", dtype == DType::f64 ? in_double : 1e-4, mechanisms::Coverage::given_outputs};
}

GoldenCheck refusing(std::string mechanism, std::function<GoldenReport(const TensorFile&, DType)> check) {
  return {std::move(mechanism), [check = std::move(check)](const TensorFile& golden, DType dtype) -> GoldenReport {
            mechanisms::GoldenResult refused;
            refused.implementation = "module";
            if (dtype == DType::bf16) {
              refused.refusals = {"modules are held to golden cases in f64 and f32"};
            } else {
              try {
                return check(golden, dtype);
              } catch (const NotSupported& error) {
                refused.refusals = {error.what()};
              }
            }
            GoldenReport report;
            report.results.push_back(refused);
            return report;
          }};
}

Tensor leaf_of(const tape::Value& value, torch::ScalarType type) { return tensor_of(value).to(type).requires_grad_(); }

Tensor flags_of(const tape::Value& value) { return value ? tensor_of(value).ne(0) : Tensor(); }

void Traced::from(const tape::Value& value, const Tensor& leaf) {
  values_.push_back(value);
  leaves_.push_back(leaf);
}

void Traced::fill(torch::nn::Module& module, const TapeValues& weights) {
  const torch::NoGradGuard guard;
  std::size_t used = 0;
  for (const auto& item : module.named_parameters()) {
    const auto found = weights.find(item.key());
    if (found == weights.end()) {
      if (!item.key().ends_with("bias"))
        throw NotSupported(fmt::format("the module has the parameter '{}', the case has none", item.key()), {});
      item.value().zero_();
      continue;
    }
    const Shape own(item.value().sizes().begin(), item.value().sizes().end());
    if (own != found->second.shape())
      throw NotSupported(fmt::format("the parameter '{}' has shape {} in the module and {} in the case", item.key(),
                                     saddle::to_string(own), saddle::to_string(found->second.shape())),
                         {});
    item.value().copy_(tensor_of(found->second));
    from(found->second, item.value());
    ++used;
  }
  // Running statistics, if there are any, are what evaluation uses; without them batches have their own.
  bool evaluates = true;
  for (const auto& item : module.named_buffers()) {
    if (item.value().dim() == 0) continue;  // the number of batches so far
    const auto found = weights.find(item.key());
    evaluates = evaluates && found != weights.end();
    if (found == weights.end()) continue;
    item.value().copy_(tensor_of(found->second));
    ++used;
  }
  module.train(!evaluates);
  if (used != weights.size())
    for (const auto& [name, value] : weights)
      if (module.named_parameters().find(name) == nullptr && module.named_buffers().find(name) == nullptr)
        throw NotSupported(fmt::format("the case has the parameter '{}', the module has none", name), {});
}

TapeValues Traced::values(const std::map<std::string, Tensor>& outputs) const {
  // All of them behind each other as one value, so that torch's graph is walked once.
  std::vector<Tensor> flat;
  Index total = 0;
  for (const auto& [name, tensor] : outputs) flat.push_back(tensor.to(torch::kFloat64).reshape({-1}));
  const Tensor all = torch::cat(flat);
  const tape::Value joined = tape::computed(
      {all.numel()}, numbers(all), values_, [all, leaves = leaves_](const std::vector<double>& gradient) {
        const Tensor cotangent = torch::tensor(gradient, torch::kFloat64);
        std::vector<std::vector<double>> found;
        for (const Tensor& each : torch::autograd::grad({all}, leaves, {cotangent}, true, false, true))
          found.push_back(each.defined() ? numbers(each) : std::vector<double>());
        return found;
      });
  TapeValues values;
  for (const auto& [name, tensor] : outputs) {
    const Shape shape(tensor.sizes().begin(), tensor.sizes().end());
    values.emplace(name, tape::reshape(tape::slice(joined, 0, total, tensor.numel()), shape));
    total += tensor.numel();
  }
  return values;
}

}  // namespace saddle::nn

// Golden cases: recorded inputs, outputs and gradients, recomputed by every implementation that accepts them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/base/tensor.hpp"
#include "saddle/kernels/implementation.hpp"
#include "saddle/primal/kernel.hpp"
#include "saddle/primal/layer.hpp"

namespace saddle::mechanisms {

// One implementation on one case.
struct GoldenResult {
  std::string implementation;         // "reference", "primal", "reference, explicit mask"
  std::vector<std::string> refusals;  // not empty: it did not run
  std::string worst_tensor;
  double error = 0;      // of the tensor that is worst relative to its tolerance
  double tolerance = 0;  // of that tensor
  bool passed = true;
};

struct GoldenReport {
  std::string mechanism, name, attention;  // attention: the written form, where there is one
  std::vector<GoldenResult> results;
  std::string problem;  // the case could not be read or nothing accepted it

  SADDLE_API bool passed() const;
};

struct GoldenCheck {
  std::string mechanism;  // metadata value that is answered for
  std::function<GoldenReport(const TensorFile&, DType)> check;
};

// The checks of the mechanisms and of the regression.
SADDLE_API std::vector<GoldenCheck> golden_checks();

// Dispatches on the metadata key `mechanism`, to every check that answers for it; `file` names the case when it has no
// name of its own.
// Inputs are rounded to `dtype` first; bf16 checks outputs only; the regression runs in f64 only and says so.
// A malformed case is a problem in the report, nothing is thrown.
SADDLE_API GoldenReport check_golden(const TensorFile& golden, const std::string& file, DType dtype = DType::f64,
                                     const std::vector<GoldenCheck>& checks = golden_checks());
// The names that are answered for.
SADDLE_API std::vector<std::string> golden_names(const std::vector<GoldenCheck>& checks = golden_checks());

// Compares tensors one after the other and keeps the worst.
class SADDLE_API GoldenComparison {
 public:
  explicit GoldenComparison(std::string implementation) { result_.implementation = std::move(implementation); }
  void compare(const std::string& name, const Tensor& computed, const Tensor& expected, double tolerance);
  // A condition that must hold beside the tensors.
  void require(const std::string& name, double value, double limit);
  void fail(const std::string& problem);
  const GoldenResult& result() const { return result_; }

 private:
  GoldenResult result_;
};

// Metadata of a case: JSON values behind strings.
class SADDLE_API GoldenMetadata {
 public:
  explicit GoldenMetadata(const TensorFile& golden) : values_(golden.metadata) {}
  bool has(const std::string& key) const { return values_.contains(key); }
  // What is there but of another kind throws DataError; integers are whole, flags are true, false, 1 or 0.
  std::string text(const std::string& key, const std::string& fallback) const;
  double number(const std::string& key, double fallback) const;
  Index integer(const std::string& key, Index fallback) const;
  bool flag(const std::string& key, bool fallback) const;
  std::vector<Index> list(const std::string& key) const;  // of integers, empty when absent

 private:
  const std::map<std::string, std::string>& values_;
};

// A tensor of a case; throws DataError when it is missing.
SADDLE_API const Tensor& golden_tensor(const TensorFile& golden, const std::string& name);
// Throws DataError when a case records no output, or one that is not among `known`.
SADDLE_API void require_outputs(const TensorFile& golden, const std::vector<std::string>& known);
// Throws DataError when metadata `d_phi` is there and not the number of features of Phi at width D.
SADDLE_API void require_features(const TensorFile& golden, const primal::Kernel& kernel, Index D);

// The measure of the golden files: max|a-b| / max(1, max|b|); integers must match exactly, NaN equals NaN.
SADDLE_API double golden_error(const Tensor& computed, const Tensor& expected);

// What computes a whole layer with a declared attention inside, as primal::layer_forward and layer_backward do.
struct DeclaredLayer {
  std::string name;
  std::function<std::vector<std::string>(const kernels::Request&)> refusals;
  std::function<primal::LayerForward(const primal::Layer&, const Tensor& x, const TensorView& key_mask,
                                     const TensorView& mask)>
      forward;
  std::function<std::map<std::string, Tensor>(const primal::Layer&, const Tensor& x, const TensorView& key_mask,
                                              const TensorView& mask, const Tensor& dy)>
      backward;
};

// The check for everything that is a declared attention, and for the regression. Kernels compute the cases of (q, k,
// v), layers those of whole layers: by default the implementations of this library, alone and inside the reference
// layer.
SADDLE_API GoldenReport check_declared(const TensorFile& golden, DType dtype);
SADDLE_API GoldenReport check_declared(const TensorFile& golden, DType dtype,
                                       const std::vector<const kernels::Implementation*>& implementations,
                                       const std::vector<DeclaredLayer>& layers);
SADDLE_API GoldenReport check_svr(const TensorFile& golden, DType dtype);

}  // namespace saddle::mechanisms

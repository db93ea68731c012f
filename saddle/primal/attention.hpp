// An attention mechanism as a value: the primal layer f(x) = W Phi(T x)/h(T x) + b, and the data each head sees.
#pragma once

#include "saddle/base/export.hpp"
#include "saddle/base/shape.hpp"
#include "saddle/primal/kernel.hpp"
#include "saddle/primal/key_set.hpp"
#include "saddle/primal/normaliser.hpp"
#include "saddle/primal/pooling.hpp"
#include "saddle/primal/transform.hpp"

namespace saddle::primal {

// A free bias b, one number per head and output channel. Always added, also where no key is visible.
struct Bias {
  static constexpr std::string_view name = "bias";
  static constexpr std::string_view help = "add a learnable b to every output";
  static void options(auto&, auto&&) {}
  bool operator==(const Bias&) const = default;
};

// A skip connection r(x) added to the output; the regression then fits y - r.
struct Residual {
  static constexpr std::string_view name = "residual";
  static constexpr std::string_view help = "add the layer's input to its output";
  static void options(auto&, auto&&) {}
  bool operator==(const Residual&) const = default;
};
static_assert(Part<Bias> && Part<Residual>);

struct Attention {
  Kernel kernel;
  Normaliser normaliser;              // RowSum{} unless said otherwise
  std::vector<Transform> transforms;  // applied first to last
  std::optional<Pooling> pooling;     // applied before the transforms
  std::vector<KeySet> keys;           // and-ed; empty: all keys
  std::optional<Bias> bias;
  std::optional<Residual> residual;

  bool operator==(const Attention&) const = default;
};

// Throws InvalidArgument, with the reason in the theory, when the value declares no valid primal problem.
SADDLE_API void validate(const Attention& attention);
// The same for given shapes: head count and pooling factors, grids, widths.
SADDLE_API void validate(const Attention& attention, const Dims& dims);

// The choices that `auto` stands for.
SADDLE_API Stats stats_of(const Attention& attention, const BatchNorm& bn);
SADDLE_API Visibility visibility_of(const Attention& attention, const Pooling& pooling);
// Position of the first transform with per-query statistics, or the number of transforms.
SADDLE_API std::size_t first_per_query_transform(const Attention& attention);

// Pooling factor and number of (pooled) keys of a head.
SADDLE_API Index factor_of(const Attention& attention, const Dims& dims, Index head);
SADDLE_API Index keys_of(const Attention& attention, const Dims& dims, Index head);

// The parameters a layer with this attention owns, beyond its projections. shape[0] is 1 when heads share it, else H.
struct ParameterInfo {
  std::string name;
  Shape shape;
  std::vector<double> initial;
  bool learnable = true;
};
SADDLE_API std::vector<ParameterInfo> parameters(const Attention& attention, const Dims& dims);

}  // namespace saddle::primal

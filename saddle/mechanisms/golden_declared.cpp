// Golden cases of declared attentions: metadata to value, then every implementation on every way to state the key sets.
#include <algorithm>
#include <cmath>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/golden.hpp"
#include "saddle/mechanisms/registry.hpp"
#include "saddle/primal/layer.hpp"
#include "saddle/primal/primal_form.hpp"

namespace saddle::mechanisms {

namespace {

using namespace primal;

bool has_part(const std::string& mechanism, const std::string& part) {
  return ("-" + mechanism + "-").find("-" + part + "-") != std::string::npos;
}

[[noreturn]] void unknown(const std::string& key, const std::string& value) {
  throw DataError("", 0, 0, "metadata '" + key + "' has the unknown value '" + value + "'");
}

// One extent of a tensor of a case.
Index extent(const TensorFile& golden, const std::string& name, std::size_t axis) {
  const Shape& shape = golden_tensor(golden, name).shape();
  if (axis >= shape.size())
    throw DataError("", 0, 0,
                    name + " has shape " + saddle::to_string(shape) + " but must have at least " +
                        std::to_string(axis + 1) + " dimensions");
  return shape[axis];
}

template <class E>
E enum_from(const GoldenMetadata& metadata, const std::string& key, E fallback) {
  if (!metadata.has(key)) return fallback;
  const std::string word = metadata.text(key, "");
  for (std::size_t w = 0; w < enum_words<E>.size(); ++w)
    if (enum_words<E>[w] == word) return static_cast<E>(w);
  unknown(key, word);
}

Grid grid_from(const GoldenMetadata& metadata) {
  if (!metadata.has("grid")) return {};
  const auto sides = metadata.list("grid");
  if (sides.size() != 2) unknown("grid", metadata.text("grid", ""));
  return {sides[0], sides[1]};
}

Kernel kernel_from(const GoldenMetadata& metadata, const std::string& mechanism) {
  const std::string name =
      metadata.text("kernel", metadata.text("feature_map", mechanism == "linear" ? "elu1" : "softmax"));
  if (name == "softmax" || name == "expdot") {
    ExpDot kernel;
    if (metadata.has("scale")) kernel.scale = metadata.number("scale", 1);
    return kernel;
  }
  if (name == "rbf") {
    Rbf kernel;
    if (metadata.has("gamma")) kernel.gamma = metadata.number("gamma", 1);
    return kernel;
  }
  Linear kernel;
  kernel.order = metadata.integer("order", kernel.order);
  for (std::size_t w = 0; w < enum_words<FeatureMapKind>.size(); ++w)
    if (enum_words<FeatureMapKind>[w] == name) {
      kernel.map = static_cast<FeatureMapKind>(w);
      return kernel;
    }
  unknown("kernel", name);
}

Normaliser normaliser_from(const GoldenMetadata& metadata) {
  const std::string name = metadata.text("normaliser", "sum");
  if (name == "sum") {
    RowSum sum;
    if (metadata.has("den_eps")) sum.den_eps = metadata.number("den_eps", 0);
    return sum;
  }
  if (name != "none") unknown("normaliser", name);
  const std::string scale = metadata.text("score_scale", "1");
  if (scale == "1/sqrt(N)") return SqrtLength{};
  if (scale == "1") return One{};
  return Constant{1 / metadata.number("score_scale", 1)};
}

std::vector<KeySet> keys_from(const GoldenMetadata& metadata) {
  std::vector<KeySet> keys;
  if (metadata.flag("causal", false)) keys.emplace_back(Causal{});
  if (metadata.has("window_radius")) keys.emplace_back(Window{metadata.integer("window_radius", 0)});
  const std::string pattern = metadata.text("pattern", "");
  if (pattern == "all")
    keys.emplace_back(Causal{});
  else if (pattern == "local")
    keys.emplace_back(Local{metadata.integer("ctx", 1)});
  else if (pattern == "strided")
    keys.emplace_back(Strided{metadata.integer("ctx", 1)});
  else if (pattern == "fixed")
    keys.emplace_back(Fixed{metadata.integer("ctx", 1), metadata.integer("num_verts", 1),
                            metadata.integer("vertsize", 1), metadata.integer("blocksize", 1)});
  else if (pattern == "window")
    keys.emplace_back(Window{metadata.integer("radius", 0)});
  else if (pattern == "global_window")
    keys.emplace_back(GlobalWindow{metadata.integer("radius", 0), metadata.integer("n_global", 0)});
  else if (!pattern.empty() && pattern != "random")
    unknown("pattern", pattern);
  return keys;
}

// The value a case declares. What leaks is recorded on purpose, so it is allowed here.
Attention attention_from(const TensorFile& golden, const GoldenMetadata& metadata) {
  const std::string mechanism = metadata.text("mechanism", "");
  Attention attention;
  attention.kernel = kernel_from(metadata, mechanism);
  attention.normaliser = normaliser_from(metadata);
  attention.keys = keys_from(metadata);
  const Leak leak = is_causal(attention.keys) ? Leak::allow : Leak::forbid;
  if (metadata.flag("residual", false)) attention.residual = Residual{};
  if (has_part(mechanism, "bn")) {
    BatchNorm bn;
    bn.scale = enum_from(metadata, "scale_mode", ScaleMode::none);
    bn.eps = metadata.number("bn_eps", bn.eps);
    bn.stats = enum_from(metadata, "stats", Stats::automatic);
    bn.leak = leak;
    attention.transforms.emplace_back(bn);
  }
  if (has_part(mechanism, "conv1d")) {
    Conv1d conv;
    conv.size = extent(golden, "param.kernel", 1);
    conv.axis = enum_from(metadata, "axis", Axis::feature);
    conv.leak = leak;
    attention.transforms.emplace_back(conv);
  }
  if (has_part(mechanism, "conv2d")) {
    Conv2d conv;
    conv.size = {extent(golden, "param.kernel", 1), extent(golden, "param.kernel", 2)};
    conv.grid = grid_from(metadata);
    conv.axis = enum_from(metadata, "axis", Axis::feature);
    conv.leak = leak;
    attention.transforms.emplace_back(conv);
  }
  if (has_part(mechanism, "sh")) {
    Pooling pooling;
    pooling.factors = metadata.list("scales");
    pooling.pool = enum_from(metadata, "pool", PoolShape::one_d);
    if (pooling.pool == PoolShape::two_d) {
      pooling.grid = grid_from(metadata);
      pooling.prefix = metadata.integer("prefix", 0);
    }
    pooling.tail = enum_from(metadata, "tail", Tail::partial);
    pooling.visibility = enum_from(metadata, "pool_visibility", Visibility::automatic);
    pooling.leak = leak;
    attention.pooling = pooling;
  }
  return attention;
}

// One way to state the key sets of a case: by declaration, or by the mask in the file.
struct Variant {
  std::string name;
  Attention attention;
  TensorView mask;  // [B,H,N,M]
};

// in.mask [H,N,M] for every sample.
TensorView broadcast_mask(const Tensor& mask, Index B) {
  TensorView view = mask.view();
  view.shape.insert(view.shape.begin(), B);
  view.stride.insert(view.stride.begin(), 0);
  return view;
}

// H, N and M by the queries and keys of a case, against the shape of its mask.
void require_mask_shape(const TensorFile& golden, const GoldenMetadata& metadata, bool layer) {
  const Shape& mask = golden_tensor(golden, "in.mask").shape();
  Shape expected;
  if (layer) {
    const Index N = extent(golden, "in.x", 1);
    expected = {metadata.integer("heads", 1), N, N};
  } else {
    expected = {extent(golden, "in.q", 1), extent(golden, "in.q", 2), extent(golden, "in.k", 2)};
  }
  if (mask != expected)
    throw DataError(
        "", 0, 0,
        "in.mask has shape " + saddle::to_string(mask) + " but must be " + saddle::to_string(expected) + " (H,N,M)");
}

bool reproduces(const std::vector<KeySet>& keys, const Tensor& mask) {
  const Index H = mask.shape()[0], N = mask.shape()[1], M = mask.shape()[2];
  for (Index h = 0; h < H; ++h)
    for (Index i = 0; i < N; ++i)
      for (Index j = 0; j < M; ++j)
        if (sees(keys, h, i, j) != (mask.at((h * N + i) * M + j) != 0)) return false;
  return true;
}

// What `auto` stood for under the declared key sets must survive when the mask replaces them.
Attention without_key_sets(const Attention& attention) {
  Attention plain = attention;
  for (Transform& transform : plain.transforms)
    if (auto* bn = std::get_if<BatchNorm>(&transform)) bn->stats = stats_of(attention, *bn);
  if (plain.pooling) plain.pooling->visibility = visibility_of(attention, *plain.pooling);
  plain.keys.clear();
  return plain;
}

struct Case {
  const TensorFile& golden;
  std::map<std::string, Tensor> rounded;  // inputs in the dtype of the run
  DType dtype;
  double tolerance;
  bool weights_compared = false;

  const Tensor& input(const std::string& name) {
    auto& slot = rounded[name];
    if (slot.shape().empty()) {
      const Tensor& given = golden_tensor(golden, name);
      const bool mask = name == "in.mask" || name == "in.key_mask";  // of any type: it keeps where it is not zero
      slot = Tensor(mask ? DType::u8 : is_floating(given.dtype()) ? dtype : given.dtype(), given.shape());
      for (Index i = 0; i < given.size(); ++i) slot.set(i, mask ? given.at(i) != 0 : given.at(i));
    }
    return slot;
  }
  bool has(const std::string& name) const { return golden.tensors.contains(name); }
};

double tolerance_of(const GoldenMetadata& metadata, DType dtype) {
  if (dtype == DType::f64) return 1e-10;
  if (dtype == DType::bf16) return 2e-2;
  return metadata.text("scale_mode", "") == "std" ? 1e-3 : 1e-4;
}

std::string after_dot(const std::string& name) { return name.substr(name.find('.') + 1); }

// Runs one implementation on a kernel-level case.
GoldenResult run_kernel(Case& c, const Variant& variant, const kernels::Implementation& implementation) {
  GoldenComparison comparison(std::string(implementation.name()) + variant.name);
  Call call;
  call.attention = variant.attention;
  call.q = c.input("in.q").view();
  call.k = c.input("in.k").view();
  call.v = c.input("in.v").view();
  if (c.has("in.key_mask")) call.key_mask = c.input("in.key_mask").view();
  call.mask = variant.mask;
  for (const auto& [name, tensor] : c.golden.tensors)
    if (name.starts_with("param.")) call.parameters[after_dot(name)] = c.input(name).view();
  validate(call);
  const bool gradients = c.has("cot.y") && c.dtype != DType::bf16;
  auto request = gradients ? kernels::request_of(call, Gradients{}) : kernels::request_of(call, Outputs{});
  if (auto refusals = implementation.refusals(request); !refusals.empty()) {
    GoldenResult result = comparison.result();
    result.refusals = std::move(refusals);
    return result;
  }
  const Dims dims = call.dims();
  require_features(c.golden, call.attention.kernel, dims.D);
  Tensor y(c.dtype, {dims.B, dims.H, dims.N, dims.E});
  implementation.forward(call, {y.view(), {}, {}, {}});
  comparison.compare("out.y", y, golden_tensor(c.golden, "out.y"), c.tolerance);
  if ((c.has("out.w") || c.has("out.z")) && implementation.name() == "primal") {
    const PrimalWeights weights = primal_weights(call);
    if (c.has("out.w"))
      comparison.compare("out.w", to_tensor(weights.w), golden_tensor(c.golden, "out.w"), c.tolerance);
    if (c.has("out.z"))
      comparison.compare("out.z", to_tensor(weights.z), golden_tensor(c.golden, "out.z"), c.tolerance);
    c.weights_compared = true;
  }
  if (!gradients) return comparison.result();

  std::map<std::string, Tensor> computed;
  const auto place = [&](const std::string& name, const Shape& shape) {
    return computed.emplace(name, Tensor(c.dtype, shape)).first->second.view();
  };
  Gradients out;
  out.dy = c.input("cot.y").view();
  out.dq = place("grad.q", call.q.shape);
  out.dk = place("grad.k", call.k.shape);
  out.dv = place("grad.v", call.v.shape);
  for (const auto& [name, tensor] : call.parameters) out.parameters[name] = place("grad." + name, tensor.shape);
  validate(call, out);
  implementation.backward(call, out);
  for (const auto& [name, expected] : c.golden.tensors)
    if (name.starts_with("grad.")) {
      const auto found = computed.find(name);
      if (found == computed.end())
        comparison.fail(name + " is not computed");
      else
        comparison.compare(name, found->second, expected, c.tolerance);
    }
  return comparison.result();
}

// Whatever computes a whole layer.
GoldenResult run_layer(Case& c, const GoldenMetadata& metadata, const Variant& variant,
                       const DeclaredLayer& implementation) {
  GoldenComparison comparison(implementation.name + variant.name);
  primal::Layer layer{variant.attention, metadata.integer("heads", 1), {}};
  for (const auto& [name, tensor] : c.golden.tensors)
    if (name.starts_with("param.")) layer.parameters[after_dot(name)] = c.input(name);
  kernels::Request request;
  request.attention = variant.attention;
  request.mask = static_cast<bool>(variant.mask);
  if (auto refusals = implementation.refusals(request); !refusals.empty()) {
    GoldenResult result = comparison.result();
    result.refusals = std::move(refusals);
    return result;
  }
  if (layer.heads > 0 && c.has("param.wq"))
    require_features(c.golden, variant.attention.kernel, extent(c.golden, "param.wq", 0) / layer.heads);
  const TensorView key_mask = c.has("in.key_mask") ? c.input("in.key_mask").view() : TensorView{};
  const LayerForward result = implementation.forward(layer, c.input("in.x"), key_mask, variant.mask);
  comparison.compare("out.y", result.y, golden_tensor(c.golden, "out.y"), c.tolerance);
  if (c.has("out.heads"))
    comparison.compare("out.heads", result.heads, golden_tensor(c.golden, "out.heads"), c.tolerance);
  if (c.has("out.head_distance")) {
    Vector distance({1}, result.head_distance);
    comparison.compare("out.head_distance", to_tensor(distance), golden_tensor(c.golden, "out.head_distance"),
                       c.tolerance);
  }
  if (!c.has("cot.y") || c.dtype == DType::bf16) return comparison.result();
  const auto gradients = implementation.backward(layer, c.input("in.x"), key_mask, variant.mask, c.input("cot.y"));
  for (const auto& [name, expected] : c.golden.tensors)
    if (name.starts_with("grad.")) {
      const auto found = gradients.find(after_dot(name));
      if (found == gradients.end())
        comparison.fail(name + " is not computed");
      else
        comparison.compare(name, found->second, expected, c.tolerance);
    }
  return comparison.result();
}

// An implementation inside the reference layer.
DeclaredLayer layer_with(const kernels::Implementation& implementation) {
  const LayerKernel kernel{
      [&](const Call& call, const Outputs& outputs) { implementation.forward(call, outputs); },
      [&](const Call& call, const Gradients& gradients) { implementation.backward(call, gradients); }};
  return {std::string(implementation.name()),
          [&](const kernels::Request& request) { return implementation.refusals(request); },
          [kernel](const primal::Layer& layer, const Tensor& x, const TensorView& key_mask, const TensorView& mask) {
            return layer_forward(layer, x, key_mask, mask, kernel);
          },
          [kernel](const primal::Layer& layer, const Tensor& x, const TensorView& key_mask, const TensorView& mask,
                   const Tensor& dy) { return layer_backward(layer, x, key_mask, mask, dy, kernel); }};
}

bool is_layer(const TensorFile& golden, const GoldenMetadata& metadata) {
  const std::string level = metadata.text("level", golden.tensors.contains("in.x") ? "layer" : "kernel");
  if (level != "layer" && level != "kernel") unknown("level", level);
  return level == "layer";
}

// Gradients belong to a cotangent, and a cotangent to gradients.
void require_gradients(const TensorFile& golden) {
  const bool cotangent = golden.tensors.contains("cot.y");
  const bool gradients = std::any_of(golden.tensors.begin(), golden.tensors.end(),
                                     [](const auto& entry) { return entry.first.starts_with("grad."); });
  if (cotangent && !gradients) throw DataError("", 0, 0, "the case has cot.y but records no gradient 'grad.*'");
  if (gradients && !cotangent) throw DataError("", 0, 0, "the case records gradients but has no cot.y");
}

}  // namespace

GoldenReport check_declared(const TensorFile& golden, DType dtype) {
  std::vector<DeclaredLayer> layers;
  for (const kernels::Implementation* implementation : kernels::generic_implementations())
    layers.push_back(layer_with(*implementation));
  return check_declared(golden, dtype, kernels::generic_implementations(), layers);
}

GoldenReport check_declared(const TensorFile& golden, DType dtype,
                            const std::vector<const kernels::Implementation*>& implementations,
                            const std::vector<DeclaredLayer>& layers) {
  const GoldenMetadata metadata(golden);
  GoldenReport report;
  const bool layer = is_layer(golden, metadata);
  const Attention attention = attention_from(golden, metadata);
  validate(attention);
  report.attention = to_text(attention);
  require_outputs(golden, layer ? std::vector<std::string>{"out.y", "out.heads", "out.head_distance"}
                                : std::vector<std::string>{"out.y", "out.w", "out.z"});
  require_gradients(golden);
  Case c{golden, {}, dtype, tolerance_of(metadata, dtype)};
  std::vector<Variant> variants;
  if (c.has("in.mask")) {
    require_mask_shape(golden, metadata, layer);
    const Tensor& mask = c.input("in.mask");
    const Index B = extent(golden, layer ? "in.x" : "in.q", 0);
    variants.push_back({", explicit mask", without_key_sets(attention), broadcast_mask(mask, B)});
    const bool declared_pattern = !attention.keys.empty();
    if (declared_pattern && !reproduces(attention.keys, mask)) {
      report.problem = "the key set " + report.attention + " differs from in.mask";
      return report;
    }
    if (declared_pattern) variants.push_back({"", attention, {}});
  } else {
    variants.push_back({"", attention, {}});
  }
  bool in_primal_form = false;
  for (const Variant& variant : variants) {
    if (layer)
      for (const DeclaredLayer& each : layers) report.results.push_back(run_layer(c, metadata, variant, each));
    else
      for (const kernels::Implementation* each : implementations) {
        report.results.push_back(run_kernel(c, variant, *each));
        in_primal_form = in_primal_form || each->name() == "primal";
      }
  }
  if ((c.has("out.w") || c.has("out.z")) && in_primal_form && !c.weights_compared)
    report.problem = "out.w and out.z belong to the primal form, which refuses this case";
  return report;
}

}  // namespace saddle::mechanisms

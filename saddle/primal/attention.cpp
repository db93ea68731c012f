#include "saddle/primal/attention.hpp"

#include <fmt/format.h>

#include <cmath>

#include "saddle/base/error.hpp"
#include "saddle/primal/features.hpp"

namespace saddle::primal {

namespace {

// Beyond any sequence, and sums of a few of them do not overflow.
constexpr Index most_extent = Index{1} << 40;

template <class... Args>
[[noreturn]] void refuse(std::string_view hint, fmt::format_string<Args...> format, Args&&... args) {
  throw InvalidArgument(fmt::format(format, std::forward<Args>(args)...), std::string(hint));
}

void check(const ExpDot& kernel) {
  if (kernel.scale && !(*kernel.scale > 0 && std::isfinite(*kernel.scale)))
    refuse("use a positive scale, or leave it out for 1/sqrt(D)",
           "softmax(scale={}): exp(scale <x,x'>) is positive semi-definite only for scale > 0", *kernel.scale);
}

void check(const Rbf& kernel) {
  if (kernel.gamma && !(*kernel.gamma > 0 && std::isfinite(*kernel.gamma)))
    refuse("use a positive gamma, or leave it out for 1/(2 sqrt(D))",
           "rbf(gamma={}): exp(-gamma |x-x'|^2) is positive semi-definite only for gamma > 0", *kernel.gamma);
}

void check(const Dot&) {}

void check(const Polynomial& kernel) {
  if (kernel.degree < 1 || kernel.degree > 100)  // factorials in the feature map overflow above 170
    refuse("use 1 <= degree <= 100", "poly(degree={}): the degree must lie between 1 and 100", kernel.degree);
  if (!(kernel.coef0 >= 0 && std::isfinite(kernel.coef0)))
    refuse("use coef0 >= 0", "poly(coef0={}): (<x,x'> + coef0)^degree has a feature map only for coef0 >= 0",
           kernel.coef0);
}

void check(const Linear& kernel) {
  if (kernel.order < 0 || kernel.order > 20)
    refuse("use 0 <= order <= 20", "linear(taylor,order={}): the order must lie between 0 and 20", kernel.order);
  if (kernel.count < 1 || kernel.count > most_features)
    refuse(fmt::format("use 1 <= count <= {}", most_features),
           "linear(random,count={}): at least one random feature is needed, and at most {}", kernel.count,
           most_features);
  if (kernel.order != Linear{}.order && kernel.map != FeatureMapKind::taylor)
    refuse("leave order out, or use linear(taylor)", "linear(order={}): only the taylor map has an order",
           kernel.order);
  if ((kernel.count != Linear{}.count || kernel.seed != Linear{}.seed) && kernel.map != FeatureMapKind::random)
    refuse("leave them out, or use linear(random)", "linear(count={},seed={}): only random features have them",
           kernel.count, kernel.seed);
  if (kernel.seed < 0) refuse("use seed >= 0", "linear(random,seed={}): the seed must not be negative", kernel.seed);
}

// h must be finite and non-zero at every query and key (primal-dual condition on the normaliser).
void check_normaliser(const Attention& attention) {
  if (const auto* constant = std::get_if<Constant>(&attention.normaliser)) {
    if (constant->constant == 0 || !std::isfinite(constant->constant))
      refuse("use any other number", "constant({}): the normaliser h must be finite and non-zero", constant->constant);
  }
  const auto* sum = std::get_if<RowSum>(&attention.normaliser);
  if (sum == nullptr) return;
  const double eps = den_eps_of(*sum, attention.kernel);
  if (!(eps >= 0 && std::isfinite(eps)))
    refuse("use den_eps >= 0", "sum(den_eps={}): den_eps must be a number that is not negative", eps);
  const Sign sign = sign_of(attention.kernel);
  if (sign != Sign::positive && eps == 0)
    refuse("use sum(den_eps=1e-6), one, constant(c) or a positive kernel",
           "sum(den_eps=0): the row sum h(x) = sum_j kappa(x,k_j) must be non-zero at every query and key, but the "
           "kernel '{}' can {}",
           name_of(attention.kernel), sign == Sign::vanishing ? "vanish" : "change sign");
}

void check_leak(Leak leak, bool causal, std::string_view what, std::string_view instead) {
  if (causal && leak == Leak::forbid)
    refuse(fmt::format("use {}, or say leak=allow to accept it", instead),
           "{} lets a query see keys that its causal key set hides", what);
}

void check_transform(const Attention& attention, const BatchNorm& bn, bool causal) {
  if (!(bn.eps >= 0 && std::isfinite(bn.eps)) || !std::isfinite(bn.beta))
    refuse("use a finite beta and eps >= 0", "bn(beta={},eps={}): beta must be finite and eps not negative", bn.beta,
           bn.eps);
  if (stats_of(attention, bn) == Stats::global) check_leak(bn.leak, causal, "bn(stats=global)", "bn(stats=subset)");
}

void check_transform(const Attention&, const L2&, bool) {}

template <class Conv>
void check_convolution(const Attention& attention, const Conv& conv, Grid size, bool causal) {
  const Index most = 1023;
  if (size.rows < 1 || size.columns < 1 || size.rows % 2 == 0 || size.columns % 2 == 0 || size.rows > most ||
      size.columns > most)
    refuse("use an odd size such as 3 or 3x3", "{}: the kernel size {}x{} must be odd, positive and at most {}",
           conv.name, size.rows, size.columns, most);
  if (conv.axis == Axis::feature) return;
  check_leak(conv.leak, causal, fmt::format("{}(axis=token)", conv.name), "axis=feature");
  if (attention.pooling)
    refuse("use axis=feature, or leave sh out",
           "{}(axis=token) with sh: T must be the same map for queries and keys, but pooling puts the keys on another "
           "token axis than the queries",
           conv.name);
}

void check_transform(const Attention& attention, const Conv1d& conv, bool causal) {
  check_convolution(attention, conv, {1, conv.size}, causal);
}
void check_transform(const Attention& attention, const Conv2d& conv, bool causal) {
  check_convolution(attention, conv, conv.size, causal);
}

void check_transforms(const Attention& attention, bool causal) {
  const std::size_t per_query = first_per_query_transform(attention);
  for (std::size_t t = 0; t < attention.transforms.size(); ++t) {
    const Transform& transform = attention.transforms[t];
    std::visit([&](const TransformPart auto& part) { check_transform(attention, part, causal); }, transform);
    const auto name = std::visit([](const auto& part) { return std::string_view(part.name); }, transform);
    const auto parameter = std::visit([](const auto& part) { return std::string_view(part.parameter); }, transform);
    for (std::size_t earlier = 0; earlier < t; ++earlier)
      std::visit(
          [&](const auto& part) {
            if (part.name == name || (!parameter.empty() && part.parameter == parameter))
              refuse("keep one of them", "the transform holds both '{}' and '{}': each kind may occur once", part.name,
                     name);
          },
          attention.transforms[earlier]);
    if (mixes_tokens(transform) && t > per_query)
      refuse("put the convolution before bn",
             "'{}' over tokens follows bn with per-query statistics: then every query "
             "has its own keys and there is no common token axis to convolve over",
             name);
  }
}

void check_pooling(const Attention& attention, const Pooling& pooling, bool causal) {
  for (Index factor : pooling.factors) {
    if (factor < 1) refuse("use factors of 1 or more", "sh: a pooling factor of {} pools nothing", factor);
    if (factor > most_extent)
      refuse("use a smaller factor", "sh: a pooling factor of {} is above the limit of {}", factor, most_extent);
  }
  if (pooling.prefix < 0) refuse("use prefix >= 0", "sh(prefix={}): must not be negative", pooling.prefix);
  if (pooling.pool == PoolShape::one_d && (pooling.prefix != 0 || !pooling.grid.empty()))
    refuse("add pool=2d", "sh: grid and prefix belong to pool=2d");
  if (visibility_of(attention, pooling) == Visibility::any)
    check_leak(pooling.leak, causal, "sh(visibility=any)", "sh(visibility=all)");
}

void check_keys(const KeySet& part) {
  const auto in_range = [](std::string_view part_name, std::string_view option, Index value, Index least) {
    if (value < least) refuse("use a larger value", "{}({}={}): must be at least {}", part_name, option, value, least);
    if (value > most_extent)
      refuse("use a smaller value", "{}({}={}): must be at most {}", part_name, option, value, most_extent);
  };
  if (const auto* window = std::get_if<Window>(&part)) in_range("window", "radius", window->radius, 0);
  if (const auto* local = std::get_if<Local>(&part)) in_range("local", "ctx", local->ctx, 1);
  if (const auto* strided = std::get_if<Strided>(&part)) in_range("strided", "ctx", strided->ctx, 1);
  if (const auto* global = std::get_if<GlobalWindow>(&part)) {
    in_range("global_window", "radius", global->radius, 0);
    in_range("global_window", "n_global", global->n_global, 0);
  }
  if (const auto* fixed = std::get_if<Fixed>(&part)) {
    in_range("fixed", "blocksize", fixed->blocksize, 1);
    in_range("fixed", "ctx", fixed->ctx, 1);
    in_range("fixed", "vertsize", fixed->vertsize, 1);
    in_range("fixed", "num_verts", fixed->num_verts, 1);
    if (fixed->ctx % fixed->blocksize != 0)
      refuse("use a ctx that is a multiple of blocksize", "fixed(ctx={},blocksize={}): a stride must hold whole blocks",
             fixed->ctx, fixed->blocksize);
    const Index columns = fixed->ctx / fixed->blocksize;
    if (fixed->num_verts > columns / fixed->vertsize)
      refuse("use fewer or smaller groups",
             "fixed(num_verts={},vertsize={}): {} groups of {} columns do not fit into a stride of {}",
             fixed->num_verts, fixed->vertsize, fixed->num_verts, fixed->vertsize, columns);
  }
}

void check_grid(std::string_view what, Grid grid, Index tokens, std::string_view of) {
  if (!grid.empty() && grid.size() != tokens)
    refuse(fmt::format("use a grid whose product is {}", tokens), "{}: the grid {}x{} has {} cells but there are {} {}",
           what, grid.rows, grid.columns, grid.size(), tokens, of);
}

}  // namespace

void validate(const Attention& attention) {
  std::visit([](const KernelPart auto& kernel) { check(kernel); }, attention.kernel);
  check_normaliser(attention);
  for (const KeySet& part : attention.keys) check_keys(part);
  const bool causal = is_causal(attention.keys);
  check_transforms(attention, causal);
  if (attention.pooling) check_pooling(attention, *attention.pooling, causal);
}

void validate(const Attention& attention, const Dims& dims) {
  validate(attention);
  for (const auto& [letter, extent] : {std::pair{"B", dims.B}, {"H", dims.H}, {"D", dims.D}, {"E", dims.E}})
    if (extent < 1) refuse("use a positive extent", "{} = {}: must be at least 1", letter, extent);
  if (dims.N < 0 || dims.M < 0)
    refuse("use extents of 0 or more", "N = {}, M = {}: must not be negative", dims.N, dims.M);
  if (attention.pooling) {
    const auto& factors = attention.pooling->factors;
    if (!factors.empty() && static_cast<Index>(factors.size()) != dims.H)
      refuse(fmt::format("give {} factors, or write sh without any", dims.H),
             "sh has {} pooling factors but there are {} heads: every head is its own regression and needs one",
             factors.size(), dims.H);
    if (attention.pooling->pool == PoolShape::two_d) {
      if (attention.pooling->prefix > dims.M)
        refuse("use a shorter prefix", "sh(prefix={}): there are only {} keys", attention.pooling->prefix, dims.M);
      check_grid("sh(pool=2d)", attention.pooling->grid, dims.M - attention.pooling->prefix, "keys after the prefix");
    }
  }
  for (const Transform& transform : attention.transforms)
    if (const auto* conv = std::get_if<Conv2d>(&transform)) {
      if (conv->axis == Axis::feature) {
        check_grid("conv2d", conv->grid, dims.D, "features");
      } else {
        if (dims.N != dims.M)
          refuse("use self-attention or axis=feature",
                 "conv2d(axis=token): queries and keys must lie on one grid, but N = {} and M = {}", dims.N, dims.M);
        check_grid("conv2d(axis=token)", conv->grid, dims.M, "tokens");
      }
    }
}

Stats stats_of(const Attention& attention, const BatchNorm& bn) {
  if (bn.stats != Stats::automatic) return bn.stats;
  return is_causal(attention.keys) ? Stats::subset : Stats::global;
}

Visibility visibility_of(const Attention& attention, const Pooling& pooling) {
  if (pooling.visibility != Visibility::automatic) return pooling.visibility;
  return is_causal(attention.keys) ? Visibility::all : Visibility::any;
}

std::size_t first_per_query_transform(const Attention& attention) {
  for (std::size_t t = 0; t < attention.transforms.size(); ++t)
    if (const auto* bn = std::get_if<BatchNorm>(&attention.transforms[t]))
      if (stats_of(attention, *bn) == Stats::subset) return t;
  return attention.transforms.size();
}

Index factor_of(const Attention& attention, const Dims& dims, Index head) {
  return attention.pooling ? pooling_factor(*attention.pooling, dims.H, head) : 1;
}

Index keys_of(const Attention& attention, const Dims& dims, Index head) {
  return attention.pooling ? pooled_count(*attention.pooling, factor_of(attention, dims, head), dims.M) : dims.M;
}

std::vector<ParameterInfo> parameters(const Attention& attention, const Dims& dims) {
  std::vector<ParameterInfo> list;
  for (const Transform& transform : attention.transforms)
    std::visit(
        [&]<class P>(const P& part) {
          if constexpr (ParametricTransform<P>) {
            ParameterInfo info{std::string(part.parameter), part.theta_shape(), {}, part.learnable()};
            const Index leading = part.shared() ? 1 : dims.H;
            info.shape.insert(info.shape.begin(), leading);
            const auto initial = part.initial();
            for (Index h = 0; h < leading; ++h) info.initial.insert(info.initial.end(), initial.begin(), initial.end());
            list.push_back(std::move(info));
          }
        },
        transform);
  if (attention.bias) list.push_back({"bias", {dims.H, dims.E}, std::vector<double>(dims.H * dims.E, 0.0)});
  return list;
}

}  // namespace saddle::primal

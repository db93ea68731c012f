// HYLA as a torch module.
#include <torch/autograd.h>
#include <torch/nn/module.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "saddle/mechanisms/hyla/hyla.hpp"
#include "saddle/nn/attention.hpp"
#include "saddle/nn/dense/dropout.hpp"
#include "saddle/nn/dense/linear.hpp"
#include "saddle/nn/layer.hpp"
#include "saddle/nn/plain.hpp"
#include "saddle/nn/taps.hpp"
#include "saddle/nn/tensor.hpp"

namespace saddle::mechanisms::hyla {

namespace {

using kernels::hyla::HylaCall;
using kernels::hyla::PairDropout;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What a call is beside its tensors.
struct Settings : torch::CustomClassHolder {
  Norm norm = Norm::rms_head;
  Network network = Network::mlp_relu;
  bool causal = false;
  double rms_eps = 1e-6;
  PairDropout dropout;
};

template <class T, int Rank>
View<T, Rank> view(const Tensor& x) {
  View<T, Rank> view;
  if (!x.defined()) return view;
  view.data = static_cast<T*>(x.data_ptr());
  for (int i = 0; i < Rank; ++i) {
    view.shape[i] = x.size(i);
    view.stride[i] = x.stride(i);
  }
  return view;
}

// q, k [B,N,H,D], v [B,N,H,E], bias [H,N] or undefined, exists [B,N] of bytes or undefined -> o [B,N,H,E]
class HylaProduct : public torch::autograd::Function<HylaProduct> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& given_q, const Tensor& given_k, const Tensor& given_v,
                        const c10::optional<Tensor>& given_bias, const c10::optional<Tensor>& given_exists,
                        const c10::intrusive_ptr<Settings>& settings) {
    const Tensor q = dense(given_q), k = dense(given_k), v = dense(given_v);
    const Tensor bias = given_bias.value_or(Tensor()), exists = given_exists.value_or(Tensor());
    nn::follow_torch_threads();
    Tensor o = torch::empty(v.sizes(), v.options());
    with_type(
        v, [&]<class T>(T*) { kernels::hyla::forward<T>(call<T>(q, k, v, bias, exists, *settings), view<T, 4>(o)); });
    context->save_for_backward({q, k, v, bias, exists});
    context->saved_data["settings"] = c10::IValue::make_capsule(settings);
    return o;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &bias = saved[3], &exists = saved[4];
    const auto settings = c10::static_intrusive_pointer_cast<Settings>(context->saved_data["settings"].toCapsule());
    const Tensor d_o = dense(gradients[0].to(v.scalar_type()));
    nn::follow_torch_threads();
    const auto like = [](const Tensor& x) { return x.defined() ? torch::empty(x.sizes(), x.options()) : x; };
    Tensor d_q = like(q), d_k = like(k), d_v = like(v), d_bias = like(bias);
    with_type(v, [&]<class T>(T*) {
      kernels::hyla::backward<T>(call<T>(q, k, v, bias, exists, *settings), view<const T, 4>(d_o), view<T, 4>(d_q),
                                 view<T, 4>(d_k), view<T, 4>(d_v), view<T, 2>(d_bias));
    });
    return {d_q, d_k, d_v, d_bias, Tensor(), Tensor()};
  }

 private:
  // The kernel wants the numbers of a head side by side.
  static Tensor dense(const Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }

  // Calls f with a null pointer to the element type.
  template <class F>
  static void with_type(const Tensor& x, F&& f) {
    if (x.scalar_type() == torch::kFloat64) return f(static_cast<double*>(nullptr));
    TORCH_CHECK(x.scalar_type() == torch::kFloat32, "hyla runs in float or double");
    f(static_cast<float*>(nullptr));
  }

  template <class T>
  static HylaCall<T> call(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const Tensor& exists,
                          const Settings& settings) {
    HylaCall<T> call;
    call.shape = {q.size(0), q.size(1), q.size(2), q.size(3), v.size(3)};
    call.norm = settings.norm;
    call.network = settings.network;
    call.causal = settings.causal;
    call.rms_eps = settings.rms_eps;
    call.dropout = settings.dropout;
    call.q = view<const T, 4>(q);
    call.k = view<const T, 4>(k);
    call.v = view<const T, 4>(v);
    call.bias = view<const T, 2>(bias);
    if (exists.defined()) call.exists = exists.data_ptr<std::uint8_t>();
    return call;
  }
};

// A normal distribution cut at two of its deviations, with variance 1/inputs behind the cut.
Tensor cut_normal(at::IntArrayRef shape, Index inputs) {
  constexpr double inside = 0.954499736103642, after_cut = 0.87962566103423978;
  const double deviation = 1 / (std::sqrt(static_cast<double>(inputs)) * after_cut);
  return torch::empty(shape).uniform_(-inside, inside).erfinv_().mul_(std::numbers::sqrt2 * deviation);
}

// A linear layer with axes for the heads: kernel [X,H,W] and bias [H,W], or kernel [H,W,X] and bias [X].
class Projection : public torch::nn::Module {
 public:
  Projection(at::IntArrayRef shape, at::IntArrayRef bias_shape, Index inputs, bool with_bias) {
    kernel = register_parameter("kernel", cut_normal(shape, inputs));
    if (with_bias) bias = register_parameter("bias", torch::zeros(bias_shape));
  }

  // x [B,N,inputs] -> [B,N,outputs]
  Tensor operator()(const Tensor& x) const {
    return nn::linear(x, kernel.view({x.size(2), -1}).t(), bias.defined() ? bias.flatten() : bias);
  }

  Tensor kernel, bias;
};

class Scale : public torch::nn::Module {
 public:
  explicit Scale(Index width) { scale = register_parameter("scale", torch::ones({width})); }
  // LayerNorm of every head of x [B,N,H,W], without a bias.
  Tensor operator()(const Tensor& x) const { return torch::layer_norm(x, {x.size(3)}, scale, {}, 1e-6); }

  Tensor scale;
};

class HylaModule : public nn::AttentionLayer {
 public:
  HylaModule(const Hyla& hyla, const LayerPlace& place) : hyla_(hyla), place_(place) {
    const Index X = place.X, H = place.H, D = hyla.key_width(place), E = hyla.value_width(place);
    const auto projection = [&](const char* name, Index width) {
      return register_module(
          name, std::make_shared<Projection>(at::IntArrayRef{X, H, width}, at::IntArrayRef{H, width}, X, place.bias));
    };
    query_ = projection("query", D);
    key_ = projection("key", D);
    value_ = projection("value", E);
    out_ =
        register_module("out", std::make_shared<Projection>(at::IntArrayRef{H, E, X}, at::IntArrayRef{X}, H * E, true));
    if (hyla.relative_bias) {
      const Index buckets = hyla.buckets(place);
      relative_ =
          register_parameter("rel_embedding", torch::randn({H, buckets}) / std::sqrt(static_cast<double>(buckets)));
    }
    if (hyla.normalize_qk) {
      query_ln_ = register_module("query_ln", std::make_shared<Scale>(D));
      key_ln_ = register_module("key_ln", std::make_shared<Scale>(D));
    }
    declared_ = hyla.declared();
  }

  Tensor forward(const Tensor& x, const Tensor& key_mask) override {
    const auto heads = [&](const Projection& projection) {
      const Tensor y = projection(x);
      // The kernel runs in float at least.
      return (y.scalar_type() == torch::kBFloat16 ? y.to(torch::kFloat32) : y).unflatten(2, {place_.H, -1});
    };
    Tensor q = heads(*query_), k = heads(*key_);
    const Tensor v = heads(*value_);  // [B,N,H,W] all of them
    if (query_ln_) {
      q = (*query_ln_)(q);
      k = (*key_ln_)(k);
    }
    const bool drops = is_training() && place_.dropout > 0;
    const Tensor bias = relative_.defined() ? by_distance(x.size(1)).to(v.scalar_type()) : Tensor();
    const bool plainly = nn::PlainOperations::are_wanted() || !x.is_cpu();
    const Tensor o = declared_ && !drops ? declared(q, k, v, key_mask)
                     : plainly           ? plain_product(weights(q, k, bias, key_mask), v, drops)
                                         : product(q, k, v, bias, key_mask, drops);
    if (nn::Taps::current() != nullptr) {
      const torch::NoGradGuard guard;
      nn::tap(o.transpose(1, 2), nn::tap_wants_weights() ? weights(q, k, bias, key_mask) : Tensor(), key_mask);
    }
    if (auto* const shown = nn::Shown::current())
      shown->values = {{"core", o.flatten(2)}, {"attn", weights(q, k, bias, key_mask)}};
    const Tensor y = (*out_)(o.flatten(2));
    return key_mask.defined() ? y * key_mask.unsqueeze(2) : y;
  }

 private:
  // rel_embedding -> [H,N], one number for each distance.
  Tensor by_distance(Index N) const {
    std::vector<int64_t> buckets;
    for (Index n = 0; n < N; ++n) buckets.push_back(bucket_of(n, relative_.size(1)));
    return relative_.index_select(1, torch::tensor(buckets));
  }

  Tensor product(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const Tensor& key_mask,
                 bool drops) const {
    const auto settings = c10::make_intrusive<Settings>();
    settings->norm = hyla_.norm;
    settings->network = hyla_.network;
    settings->causal = hyla_.sees_past_only;
    settings->rms_eps = hyla_.rms_eps;
    if (drops) settings->dropout = {place_.dropout, nn::next_seed()};
    const auto given = [](const Tensor& x) { return x.defined() ? c10::make_optional(x) : c10::nullopt; };
    const Tensor exists = key_mask.defined() ? key_mask.to(torch::kUInt8).contiguous() : key_mask;
    return HylaProduct::apply(q, k, v, given(bias), given(exists), settings);
  }

  // The same with the codes a [B,H,N,N] and the networks of all pairs written out; dropout like the kernel's, of pairs.
  Tensor plain_product(const Tensor& a, const Tensor& v, bool drops) const {
    const Tensor values = v.transpose(1, 2);  // [B,H,N,E]
    Tensor kept = a;
    if (drops) kept = a * torch::dropout(torch::ones({a.size(2), a.size(3)}, a.options()), place_.dropout, true);
    if (hyla_.network == Network::plain) return torch::matmul(kept, values).transpose(1, 2);
    Tensor inner = (kept.unsqueeze(4) * values.unsqueeze(2)).sum(1);  // [B,N,N,E]
    if (hyla_.network == Network::mlp_relu) inner = inner.relu();
    return torch::matmul(kept.transpose(1, 2), inner);
  }

  Tensor declared(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& key_mask) const {
    nn::AttentionInputs inputs;
    inputs.q = q.transpose(1, 2);
    if (hyla_.norm == Norm::none) inputs.q = inputs.q / std::sqrt(static_cast<double>(q.size(3)));
    inputs.k = k.transpose(1, 2);
    inputs.v = v.transpose(1, 2);
    inputs.key_mask = key_mask;
    return nn::attention(*declared_, inputs).y.transpose(1, 2);
  }

  // [B,H,N,N], the code that generates the value network of each pair.
  Tensor weights(const Tensor& q, const Tensor& k, const Tensor& bias, const Tensor& key_mask) const {
    const Index B = q.size(0), N = q.size(1);
    Tensor a = torch::matmul(q.transpose(1, 2), k.permute({0, 2, 3, 1})) / std::sqrt(static_cast<double>(q.size(3)));
    const Tensor behind = torch::arange(N).view({N, 1}) - torch::arange(N);
    if (bias.defined()) a = a + bias.index_select(1, behind.clamp_min(0).flatten()).view({-1, N, N});
    Tensor hidden = hyla_.sees_past_only ? behind.lt(0).view({1, 1, N, N}) : torch::zeros({1, 1, N, N}, torch::kBool);
    if (key_mask.defined()) {
      const Tensor missing = key_mask.logical_not();
      hidden = hidden.logical_or(missing.view({B, 1, 1, N})).logical_or(missing.view({B, 1, N, 1}));
    }
    if (hyla_.norm == Norm::softmax)
      // A query that sees nothing has no weights.
      return a.masked_fill(hidden, std::numeric_limits<float>::lowest()).softmax(3).masked_fill(hidden, 0);
    a = a.masked_fill(hidden, 0);
    return hyla_.norm == Norm::none ? a : a / (a.square().mean(1, true) + hyla_.rms_eps).sqrt();
  }

  Hyla hyla_;
  LayerPlace place_;
  std::shared_ptr<Projection> query_, key_, value_, out_;
  std::shared_ptr<Scale> query_ln_, key_ln_;
  Tensor relative_;
  std::optional<primal::Attention> declared_;  // computes what is one
};

}  // namespace

nn::AttentionLayerPtr make_module(const Layer& layer, const LayerPlace& place) {
  return std::make_shared<HylaModule>(layer.part<Hyla>(), place);
}

}  // namespace saddle::mechanisms::hyla

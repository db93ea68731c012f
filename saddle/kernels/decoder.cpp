#include "saddle/kernels/decoder.hpp"

#include <fmt/format.h>

#include "saddle/base/parallel.hpp"
#include "saddle/kernels/linear/head_pass.hpp"
#include "saddle/kernels/stages/stage.hpp"
#include "saddle/primal/features.hpp"
#include "saddle/primal/primal_form.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::kernels {

using namespace linear_kernel;

namespace {

// The running sums of all heads in the type they are computed in.
class Sums {
 public:
  virtual ~Sums() = default;
  virtual void run(const primal::Call& call, const TensorView& y) = 0;
  virtual void clear() = 0;
  virtual Decoder::State save() const = 0;
  virtual void load(const Decoder::State& state) = 0;
};

template <class T>
class SumsOf final : public Sums {
 public:
  SumsOf(const primal::Attention& attention, Index heads, Index D, Index E)
      : heads_(heads), plan_(attention.kernel, D), shape_{E, plan_.F}, memory_(heads * shape_.size()) {
    for (Index n = 0; n < heads; ++n) work_.emplace_back(D, E, plan_, false, Workspace<T>::Pass::forward, 1);
    order_.index = order_.arrival = {0};
  }

  void run(const primal::Call& call, const TensorView& y) override {
    const Dims dims = call.dims();
    const OutputRows<T> rows(call, y);
    const Core<T>& kernel = core<T>(best_isa());
    parallel_for(heads_, 1, [&](Index n) {
      const Index b = n / dims.H, h = n % dims.H;
      const Stage<T> stage(call, b, h, Goal::tokens);
      const ScoreProblem<T>& tokens = stage.problem();
      Problem<T> p{tokens.N,       tokens.D,       tokens.E, plan_.F, {tokens.q, {}},
                   {tokens.k, {}}, {tokens.v, {}}, &plan_,   &order_, {}};
      p.normaliser = normaliser_rule(call.attention.normaliser, call.attention.kernel, tokens.N, tokens.K);
      const Rows<T> direct = rows.direct(b, h);
      const auto store = [&](Index i, Index count, Rows<const T> values) { rows.store(b, h, i, count, values); };
      if (tokens.N == 1) {
        step(kernel, p, n, direct, store);
        return;
      }
      const KeyOrder order = key_order(call, b, tokens.K, {}, {});
      Buffer<T> normaliser(tokens.N);
      p.keys = &order;
      run_forward(kernel, p, ForwardPass<T>{normaliser.data(), direct, store, sums(n)}, Tasks::in_order);
    });
  }

  void clear() override { memory_.clear(); }

  Decoder::State save() const override {
    const Index F = plan_.F, E = shape_.E;
    Decoder::State state{Tensor(dtype, {heads_, F, E}), Tensor(dtype, {heads_, F}), 0};
    auto* const w = reinterpret_cast<T*>(state.w.bytes().data());
    auto* const z = reinterpret_cast<T*>(state.z.bytes().data());
    for (Index n = 0; n < heads_; ++n) {
      const T* const from = memory_.data() + n * shape_.size();
      for (Index f = 0; f < F; ++f) std::copy_n(from + f * padded<T>(E), E, w + (n * F + f) * E);
      std::copy_n(from + shape_.w(), F, z + n * F);
    }
    return state;
  }

  void load(const Decoder::State& state) override {
    const Index F = plan_.F, E = shape_.E;
    const auto* const w = reinterpret_cast<const T*>(state.w.bytes().data());
    const auto* const z = reinterpret_cast<const T*>(state.z.bytes().data());
    for (Index n = 0; n < heads_; ++n) {
      const State<T> to = sums(n);
      for (Index f = 0; f < F; ++f) std::copy_n(w + (n * F + f) * E, E, to.w + f * padded<T>(E));
      std::copy_n(z + n * F, F, to.z);
    }
  }

 private:
  static constexpr DType dtype = std::is_same_v<T, double> ? DType::f64 : DType::f32;

  State<T> sums(Index n) { return shape_.at(memory_.data() + n * shape_.size()); }

  // The token joins the sums and reads them.
  template <class Store>
  void step(const Core<T>& kernel, const Problem<T>& p, Index n, Rows<T> y, const Store& store) {
    T h = 0;
    typename Core<T>::Read read;
    read.queries = {0, 1};
    read.before = sums(n);
    read.h = &h;
    read.y = y;
    read.store = store;
    kernel.add_keys(p, {0, 1}, {0, 1}, false, sums(n), work_[static_cast<std::size_t>(n)]);
    kernel.read(p, read, work_[static_cast<std::size_t>(n)]);
  }

  Index heads_;
  FeaturePlan<T> plan_;
  StateShape<T> shape_;
  Buffer<T> memory_;
  std::vector<Workspace<T>> work_;
  KeyOrder order_;  // of a single token
};

Tensor copy_of(const TensorView& from) {
  Tensor to(from.dtype, from.shape);
  std::vector<double> values(element_count(from.shape));
  saddle::detail::copy_to_double(from, values.data());
  saddle::detail::copy_from_double(values.data(), to.view());
  return to;
}

// What every call would refuse is refused before the first one: element type, names and shapes of parameters.
void check_first_token(const primal::Attention& attention, const Dims& dims, DType dtype,
                       const std::map<std::string, TensorView>& parameters) {
  const Tensor q(dtype, {dims.B, dims.H, 1, dims.D}), v(dtype, {dims.B, dims.H, 1, dims.E});
  primal::Call call;
  call.attention = attention;
  call.q = call.k = q.view();
  call.v = v.view();
  if (attention.residual) call.skip = v.view();
  call.parameters = parameters;
  validate(call);
}

}  // namespace

struct Decoder::Memory {
  primal::Attention attention;
  Index B, H, D, E;
  DType dtype;
  std::map<std::string, Tensor> parameters;
  std::unique_ptr<Sums> sums;
  Index length = 0;
};

std::vector<std::string> decoder_refusals(const primal::Attention& attention, Index D) {
  auto list = primal_form_refusals(attention, false);
  if (const auto F = feature_count(attention.kernel, D); F && *F > primal::most_features)
    list.emplace_back("Phi has more features than can be stored at this width");
  if (!is_causal(attention.keys))
    list.emplace_back("without 'causal' a query also sees later keys, which a decoder does not have yet");
  if (attention.pooling) list.emplace_back("pooling: a pooled key is complete only when its whole window has passed");
  for (const primal::Transform& transform : attention.transforms) {
    if (std::holds_alternative<primal::BatchNorm>(transform) &&
        first_per_query_transform(attention) == attention.transforms.size())
      list.emplace_back("bn: its statistics change with every key, and with them all keys in the sums");
    if (mixes_tokens(transform) && !std::holds_alternative<primal::BatchNorm>(transform))
      list.emplace_back("a convolution over tokens also reads later tokens");
  }
  for (const primal::KeySet& part : attention.keys) {
    if (std::holds_alternative<primal::Padding>(part))
      list.emplace_back("padding: a decoder is given tokens that exist");
    if (std::holds_alternative<primal::Explicit>(part))
      list.emplace_back("explicit: a mask of queries by keys gives every query its own sums");
  }
  if (std::holds_alternative<primal::SqrtLength>(attention.normaliser))
    list.emplace_back("sqrt_length: the length is known only after the last token");
  return list;
}

Decoder::Decoder(const primal::Attention& attention, Index B, Index H, Index D, Index E, DType dtype,
                 const std::map<std::string, TensorView>& parameters) {
  primal::validate(attention, {B, H, 1, 1, D, E});
  if (auto refusals = decoder_refusals(attention, D); !refusals.empty())
    throw NotSupported(fmt::format("[{}] has no running state to decode with", to_text(attention)), refusals,
                       "use the forward pass over the whole sequence");
  check_first_token(attention, {B, H, 1, 1, D, E}, dtype, parameters);
  memory_ = std::make_unique<Memory>(Memory{attention, B, H, D, E, dtype, {}, nullptr, 0});
  for (const auto& [name, tensor] : parameters) memory_->parameters[name] = copy_of(tensor);
  if (dtype == DType::f64)
    memory_->sums = std::make_unique<SumsOf<double>>(attention, B * H, D, E);
  else
    memory_->sums = std::make_unique<SumsOf<float>>(attention, B * H, D, E);
}

Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

void Decoder::prefill(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& y,
                      const TensorView& skip) {
  const Memory& m = *memory_;
  primal::Call call;
  call.attention = m.attention;
  call.q = q;
  call.k = k;
  call.v = v;
  call.skip = skip;
  for (const auto& [name, tensor] : m.parameters) call.parameters[name] = tensor.view();
  validate(call);
  const Dims dims = call.dims();
  if (dims != Dims{m.B, m.H, dims.N, dims.N, m.D, m.E})
    throw InvalidArgument(fmt::format("the decoder expects q, k [{},{},n,{}] and v [{},{},n,{}] but got {}, {} and {}",
                                      m.B, m.H, m.D, m.B, m.H, m.E, to_string(q.shape), to_string(k.shape),
                                      to_string(v.shape)));
  if (call.dtype() != m.dtype)
    throw InvalidArgument(
        fmt::format("the decoder was made for {} but the tokens are {}", to_string(m.dtype), to_string(call.dtype())));
  primal::Outputs outputs;
  outputs.y = y;
  validate(call, outputs);
  memory_->sums->run(call, y);
  memory_->length += dims.N;
}

void Decoder::step(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& y,
                   const TensorView& skip) {
  if (q.rank() == 4 && q.shape[2] != 1)
    throw InvalidArgument(fmt::format("step takes one token but q has shape {}: use prefill", to_string(q.shape)));
  prefill(q, k, v, y, skip);
}

Index Decoder::length() const { return memory_->length; }

void Decoder::reset() {
  memory_->sums->clear();
  memory_->length = 0;
}

Decoder::State Decoder::state() const {
  const State flat = memory_->sums->save();
  const Index B = memory_->B, H = memory_->H, F = flat.z.shape()[1];
  State state{Tensor(flat.w.dtype(), {B, H, F, memory_->E}), Tensor(flat.z.dtype(), {B, H, F}), memory_->length};
  state.w.bytes() = flat.w.bytes();
  state.z.bytes() = flat.z.bytes();
  return state;
}

void Decoder::set_state(const State& state) {
  const State own = this->state();
  for (const auto& [name, given, expected] : {std::tuple{"w", &state.w, &own.w}, std::tuple{"z", &state.z, &own.z}})
    if (given->shape() != expected->shape() || given->dtype() != expected->dtype())
      throw InvalidArgument(fmt::format("state {} is {} {} but this decoder has {} {}", name, to_string(given->dtype()),
                                        to_string(given->shape()), to_string(expected->dtype()),
                                        to_string(expected->shape())));
  memory_->sums->load(state);
  memory_->length = state.length;
}

}  // namespace saddle::kernels

#include "saddle/nn/blocks/encoder_block.hpp"

#include <fmt/format.h>

#include "saddle/nn/dense/dropout.hpp"

namespace saddle::nn {

namespace {

// x + y, y left out for whole sequences with probability p.
Tensor add_sometimes(const Tensor& x, const Tensor& y, double p) {
  const Tensor kept = torch::rand({x.size(0), 1, 1}, x.options()).ge(p).to(x.scalar_type());
  return x + y * (kept / (1 - p));
}

}  // namespace

EncoderBlockImpl::EncoderBlockImpl(const EncoderBlockOptions& given) : options(given) { reset(); }

void EncoderBlockImpl::reset() {
  if (!(options.drop_path() >= 0 && options.drop_path() < 1))
    throw InvalidArgument(fmt::format("[EncoderBlock] drop_path is {}: it must lie in [0, 1)", options.drop_path()));
  const Index X = options.width();
  const auto norm = NormOptions(X).kind(options.norm()).eps(options.norm_eps());
  norm1 = register_module("norm1", Norm(norm));
  attn = register_module("attn", SelfAttention(SelfAttentionOptions(X, options.heads())
                                                   .head_width(options.head_width())
                                                   .attention(options.attention())
                                                   .dropout(options.attention_dropout())
                                                   .qkv_bias(options.qkv_bias())
                                                   .tokens(options.tokens())));
  norm2 = register_module("norm2", Norm(norm));
  mlp = register_module("mlp", Mlp(MlpOptions(X, options.hidden() > 0 ? options.hidden() : 4 * X)
                                       .activation(options.activation())
                                       .dropout(options.dropout())));
}

void EncoderBlockImpl::pretty_print(std::ostream& stream) const {
  stream << "saddle::nn::EncoderBlock(" << (options.norm_first() ? "pre" : "post") << "-norm)";
}

// branch(x, out) applies its last layer with `out`, so that a residual costs no pass of its own.
template <class Branch>
Tensor EncoderBlockImpl::added(const Tensor& x, Norm& norm, Branch&& branch) const {
  const auto [seen, stream] = options.norm_first() ? norm->beside(x) : NormedStream{x, x};
  LinearOptions out;
  out.dtype = x.scalar_type();
  Tensor y;
  if (is_training() && options.drop_path() > 0) {
    y = add_sometimes(stream, nn::dropout(branch(seen, out), options.dropout()), options.drop_path());
  } else if (is_training() && options.dropout() > 0) {
    y = nn::dropout(branch(seen, out), options.dropout(), stream);
  } else {
    out.residual = stream;
    y = branch(seen, out);
  }
  return options.norm_first() ? y : norm(y, x.scalar_type());
}

Tensor EncoderBlockImpl::forward(const Tensor& x, const Tensor& key_mask) {
  const Tensor attended =
      added(x, norm1, [&](const Tensor& seen, const LinearOptions& out) { return attn(seen, key_mask, out); });
  return added(attended, norm2, [&](const Tensor& seen, const LinearOptions& out) { return mlp(seen, out); });
}

}  // namespace saddle::nn

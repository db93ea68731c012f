#include "saddle/nn/models/vision_language.hpp"

#include <fmt/format.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/init.h>

#include <cmath>

#include "saddle/nn/dense/dropout.hpp"
#include "saddle/nn/models/options_internal.hpp"
#include "saddle/nn/models/parts_internal.hpp"
#include "saddle/nn/plain.hpp"
#include "saddle/nn/taps.hpp"
#include "saddle/nn/written.hpp"

namespace saddle::nn {

namespace {

constexpr const char* self_name = "VisionLanguage";
constexpr double norm_eps = 1e-12, position_deviation = 0.02;

// Words behind those of the data.
enum Special : int64_t { cls, sep, mask, special_words };

Tensor padded(const Tensor& tokens, int64_t length) {
  return tokens.size(1) < length ? torch::constant_pad_nd(tokens, {0, length - tokens.size(1)}) : tokens;
}

double linear_cost(const torch::nn::Linear& layer, int64_t rows) {
  return static_cast<double>(rows) * static_cast<double>(layer->weight.numel());
}

double blocks_cost(Encoder blocks, int64_t N) {
  double sum = 0;
  for (std::size_t layer = 0; layer < blocks->size(); ++layer) {
    EncoderBlock& block = blocks[layer];
    sum += block->attn->multiply_adds(N) + linear_cost(block->mlp->fc1, N) + linear_cost(block->mlp->fc2, N);
  }
  return sum;
}

}  // namespace

void VisionLanguageImpl::check() const {
  require_positive(self_name, {{"vocab", options.vocab()},
                               {"max_len", options.max_len()},
                               {"classes", options.classes()},
                               {"mfr_top", options.mfr_top()}});
  if (options.parser_depth() < 0)
    throw InvalidArgument(
        fmt::format("[{}] parser_depth is {}: it must be 0 or more", self_name, options.parser_depth()));
  for (const auto& [name, weight] :
       {std::pair{"mlm", options.mlm()}, std::pair{"itm", options.itm()}, std::pair{"mfr", options.mfr()}})
    if (!(weight >= 0 && std::isfinite(weight)))
      throw InvalidArgument(
          fmt::format("[{}] {} is {}: the weight of a loss must be 0 or more", self_name, name, weight));
  require_probability(self_name, "mlm_share", options.mlm_share());
  if (options.mlm() > 0 && options.vocab() < 2)
    throw InvalidArgument(fmt::format("[{}] a vocabulary of padding alone has no words to mask", self_name));
  if (options.mfr() == 0) return;
  if (options.parser_depth() == 0)
    throw InvalidArgument(
        fmt::format("[{}] masked feature regression masks by the attention of the parser, which has no layers",
                    self_name),
        "give a parser_depth of 1 or more, or mfr=0");
  const std::string last = attention_of_layers(options.parser_attention(), "", options.parser_depth()).back();
  if (mechanisms::find_layer(last) || parsed(last).pooling)
    throw InvalidArgument(
        fmt::format("[{}] masked feature regression masks by the attention between all pieces of the image, and '{}' "
                    "in the parser's last layer does not have it",
                    self_name, last),
        "a parser_attention such as softmax has, or mfr=0");
}

VisionLanguageImpl::VisionLanguageImpl(const VisionLanguageOptions& given) : Model("vision_language"), options(given) {
  check();
  const int64_t X = options.width(), L = options.max_len();
  EncoderOptions fusion = encoder_of(options, self_name);
  fusion.block().norm_first(false).norm_eps(norm_eps);
  const double deviation = 0.6 / std::sqrt(static_cast<double>(X));
  const auto drawn = [&](const char* name, at::IntArrayRef shape, double own) {
    return register_parameter(name, torch::empty(shape).normal_(0, own));
  };
  const auto normed = [&](const char* name) { return register_module(name, Norm(NormOptions(X).eps(norm_eps))); };

  patch_embed = register_module("patch_embed",
                                PatchEmbed(PatchEmbedOptions(options.image(), options.patch(), options.channels(), X)));
  const int64_t V = visual_tokens();
  const primal::Grid grid{options.image().rows / options.patch().rows,
                          options.image().columns / options.patch().columns};
  pos_embed = drawn("pos_embed", {1, V, X}, position_deviation);
  if (options.parser_depth() > 0) {
    EncoderOptions own = fusion;
    own.depth(options.parser_depth())
        .heads(std::vector<int64_t>())
        .attention(attention_of_layers(options.parser_attention(), "", options.parser_depth()));
    own.block().tokens({.most = V, .grid = grid});
    parser = register_module("parser", Encoder(own));
  }
  visual_proj = register_module("visual_proj", torch::nn::Linear(X, X));
  visual_norm = normed("visual_norm");
  visual_pos = drawn("visual_pos", {1, V, X}, 1);  // as large as the normed tokens: else places are learned late
  word_embed = register_module("word_embed", torch::nn::Embedding(options.vocab() + special_words, X));
  text_pos = drawn("text_pos", {1, L + 2, X}, deviation);
  type_embed = drawn("type_embed", {2, X}, deviation);
  text_norm = normed("text_norm");
  fusion.block().tokens({.most = tokens(), .grid = grid, .prefix = L + 2});
  blocks = register_module("blocks", Encoder(fusion));
  head = register_module("head", torch::nn::Linear(X, options.classes()));
  if (options.mlm() > 0) {
    mlm_hidden = register_module("mlm_hidden", torch::nn::Linear(X, X));
    mlm_norm = normed("mlm_norm");
    mlm_bias = register_parameter("mlm_bias", torch::zeros({options.vocab() + special_words}));
  }
  if (options.itm() > 0)
    itm_head = register_module("itm_head", torch::nn::Linear(torch::nn::LinearOptions(X, 2).bias(false)));
  if (options.mfr() > 0) {
    mfr_head = register_module("mfr_head", torch::nn::Linear(X, X));
    mask_feature = drawn("mask_feature", {1, 1, X}, deviation);
  }
  initialise_linears(*this, deviation);
  torch::nn::init::normal_(patch_embed->proj->weight, 0, deviation);
  torch::nn::init::zeros_(patch_embed->proj->bias);
  torch::nn::init::normal_(word_embed->weight, 0, deviation);
}

VisionLanguageImpl::Parsed VisionLanguageImpl::parse(const Tensor& images, bool with_weights) {
  Tensor x = patch_embed(images) + pos_embed;
  if (is_training()) x = nn::dropout(x, options.dropout());
  Tensor weights;
  if (!parser.is_empty()) {
    const Taps own(with_weights);  // those of others are to see the layers of `blocks`
    x = parser(x);
    weights = own.layers.back().weights;
  }
  LinearOptions out;
  out.dtype = x.scalar_type();
  const Tensor projected = nn::linear(x, visual_proj->weight, visual_proj->bias, out);
  return {visual_norm(projected, x.scalar_type()), weights};
}

Tensor VisionLanguageImpl::fuse(const Tensor& given, const Tensor& given_exist, const Tensor& visual,
                                const Tensor& hidden) {
  require_tokens(self_name, given, options.max_len());
  const int64_t B = given.size(0), L = options.max_len(), V = visual_tokens();
  Tensor exist = checked_mask(self_name, given_exist, B, given.size(1));
  if (!exist.defined()) exist = given.ne(0);
  const auto whole = [&](int64_t word) { return torch::full({B, 1}, options.vocab() + word, given.options()); };
  const Tensor words = torch::cat({whole(cls), padded(given, L), whole(sep)}, 1);
  Tensor text = embed(word_embed, words, self_name) + text_pos + type_embed[0];
  text = text_norm(text, text.scalar_type());
  Tensor seen = visual;
  if (hidden.defined()) seen = torch::where(hidden.unsqueeze(2), mask_feature.to(visual.scalar_type()), visual);
  Tensor x = torch::cat({text, seen + visual_pos + type_embed[1]}, 1);
  if (is_training()) x = nn::dropout(x, options.dropout());
  Tensor keys;
  // A mask that hides nothing would only cost; exporters may not look at it.
  if (given.size(1) < L || PlainOperations::are_wanted() || !exist.all().item<bool>()) {
    const auto all = [&](int64_t n) { return torch::ones({B, n}, exist.options()); };
    keys = torch::cat({all(1), padded(exist, L), all(1 + V)}, 1);
  }
  return blocks(x, keys);
}

Tensor VisionLanguageImpl::word_logits(const Tensor& fused) {
  const Tensor text = fused.narrow(1, 1, options.max_len());
  const Tensor hidden = torch::gelu(classify(text, mlm_hidden->weight, mlm_hidden->bias));
  return classify(mlm_norm(hidden, hidden.scalar_type()), word_embed->weight, mlm_bias);
}

Tensor VisionLanguageImpl::match_logits(const Tensor& fused) {
  return classify(fused.select(1, 0), itm_head->weight, {});
}

Tensor VisionLanguageImpl::feature_predictions(const Tensor& fused) {
  return classify(fused.narrow(1, options.max_len() + 2, visual_tokens()), mfr_head->weight, mfr_head->bias);
}

// Words and features are masked in pairs that do not match, too: else the masks would tell that they do.
VisionLanguageImpl::Pretraining VisionLanguageImpl::pretrain(const Tensor& given, const Tensor& given_exist,
                                                             const Parsed& parsed) {
  const int64_t B = given.size(0);
  Pretraining pass;
  pass.matches = options.itm() > 0 ? draw_matches(B) : Matches{torch::arange(B), torch::ones({B}, torch::kBool)};
  pass.tokens = padded(given, options.max_len()).index_select(0, pass.matches.texts);
  const Tensor known = given_exist.defined() ? given_exist : given.ne(0);
  const Tensor exist = padded(known, options.max_len()).index_select(0, pass.matches.texts);
  pass.words = options.mlm() > 0
                   ? mask_words(pass.tokens, exist, options.mlm_share(), options.vocab(), options.vocab() + mask)
                   : MaskedWords{pass.tokens, torch::zeros_like(exist)};
  if (options.mfr() > 0)
    pass.hidden = feature_mask(parsed.weights, pick_features(B, visual_tokens(), options.mfr_top()), options.mfr_top());
  pass.fused = fuse(pass.words.tokens, exist, parsed.tokens, pass.hidden);
  return pass;
}

Tensor VisionLanguageImpl::pretraining_loss(const Pretraining& pass, const Parsed& parsed) {
  const Tensor matching = pass.matches.match.unsqueeze(1);
  Tensor loss = torch::zeros({}, pass.fused.options());
  if (options.mlm() > 0)
    loss = loss + options.mlm() *
                      masked_word_loss(word_logits(pass.fused), pass.tokens, pass.words.chosen.logical_and(matching));
  if (options.itm() > 0)
    loss = loss + options.itm() * torch::nn::functional::cross_entropy(match_logits(pass.fused),
                                                                       pass.matches.match.to(torch::kInt64));
  if (options.mfr() > 0)
    loss = loss + options.mfr() * masked_feature_loss(feature_predictions(pass.fused), parsed.tokens,
                                                      pass.hidden.logical_and(matching));
  return loss;
}

Tensor VisionLanguageImpl::forward(const Tensor& images, const Tensor& tokens, const Tensor& exist) {
  ExtraLosses* const losses = is_training() && pretrains() ? ExtraLosses::current() : nullptr;
  const Parsed parsed = parse(images, losses != nullptr && options.mfr() > 0);
  const Tensor fused = fuse(tokens, exist, parsed.tokens);
  if (losses != nullptr) losses->add_whole(pretraining_loss(pretrain(tokens, exist, parsed), parsed));
  return classify(fused.select(1, 0), head->weight, head->bias);
}

Tensor VisionLanguageImpl::logits(const Batch& batch) {
  refuse_second(self_name, batch);
  if (!batch.images.defined())
    throw InvalidArgument(fmt::format("[{}] no images are given beside the text", self_name),
                          "inputs are the tokens, images a field of their own");
  if (batch.inputs.defined() && batch.inputs.size(0) != batch.images.size(0))
    throw InvalidArgument(
        fmt::format("[{}] {} texts are given for {} images", self_name, batch.inputs.size(0), batch.images.size(0)));
  return forward(batch.images, batch.inputs, batch.mask);
}

Tensor VisionLanguageImpl::modalities(const Batch& batch) const {
  const int64_t B = batch.inputs.size(0), L = options.max_len();
  const Tensor exist = batch.mask.defined() ? batch.mask.to(torch::kBool) : batch.inputs.ne(0);
  Tensor kinds = torch::zeros({B, tokens()}, batch.inputs.options());
  kinds.narrow(1, 1, L).copy_(padded(exist, L));
  kinds.narrow(1, L + 2, visual_tokens()).fill_(2);
  return kinds;
}

double VisionLanguageImpl::multiply_adds() const {
  const double patches = static_cast<double>(visual_tokens()) * static_cast<double>(patch_embed->proj->weight.numel());
  return patches + (parser.is_empty() ? 0.0 : blocks_cost(parser, visual_tokens())) +
         linear_cost(visual_proj, visual_tokens()) + blocks_cost(blocks, tokens()) + linear_cost(head, 1);
}

std::vector<OptionValue> VisionLanguageImpl::option_values() const { return option_values_of(options); }

std::shared_ptr<Model> VisionLanguageImpl::fresh() const { return std::make_shared<VisionLanguageImpl>(options); }

}  // namespace saddle::nn

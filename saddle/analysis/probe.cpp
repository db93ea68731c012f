// What a model did, read from named tensors.
#include "saddle/analysis/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/mechanisms/layer.hpp"
#include "saddle/mechanisms/registry.hpp"
#include "saddle/primal/pooling.hpp"

namespace saddle::analysis {

namespace {

constexpr Index most_layers = 4096;

constexpr std::array part_names{"keys", "values", "escore", "rscore", "phi_q", "phi_k", "sample", "lambda"};

bool is_part(const std::string& name) {
  return std::find(part_names.begin(), part_names.end(), name) != part_names.end();
}

[[noreturn]] void refuse(const std::string& file, const std::string& what, const std::string& hint = {}) {
  throw DataError(file, 0, 0, what, hint);
}

// The tensor with this rank, leading dimensions of 1 added; of a higher rank it is refused.
template <int Rank>
Array<double, Rank> with_rank(const std::string& file, const std::string& name, const Tensor& tensor) {
  const auto rank = static_cast<int>(tensor.shape().size());
  if (rank > Rank || rank < 1)
    refuse(file, fmt::format("tensor '{}' has shape {}, at most {} dimensions are expected", name,
                             to_string(tensor.shape()), Rank));
  if (tensor.size() == 0)
    refuse(file, fmt::format("tensor '{}' has shape {}, which holds nothing", name, to_string(tensor.shape())));
  std::array<Index, Rank> shape;
  shape.fill(1);
  std::copy(tensor.shape().begin(), tensor.shape().end(), shape.end() - rank);
  Array<double, Rank> values(shape);
  for (Index i = 0; i < values.size(); ++i) values.data()[i] = tensor.at(i);
  return values;
}

// Index i of the first dimension.
template <int Rank>
Array<double, Rank - 1> slice(const Array<double, Rank>& all, Index i) {
  std::array<Index, Rank - 1> shape;
  std::copy(all.shape().begin() + 1, all.shape().end(), shape.begin());
  Array<double, Rank - 1> part(shape);
  std::copy_n(all.data() + i * part.size(), part.size(), part.data());
  return part;
}

// How a layer pools its keys; a file may say anything about its attention.
std::optional<primal::Pooling> pooling_of(const std::string& attention) {
  try {
    if (!mechanisms::find_layer(attention)) return mechanisms::parse(attention).pooling;
  } catch (const Error&) {
  }
  return std::nullopt;
}

class ProbeReader {
 public:
  ProbeReader(const TensorFile& file, const std::string& name, std::string split)
      : name_(name), metadata_(file.metadata) {
    probe_.split = std::move(split);
  }

  void take(const std::string& name, const Tensor& tensor) {
    if (name == "weights" || name == "attention") {
      put(name, tensor, &ProbedLayer::weights);
    } else if (name == "heads") {
      put(name, tensor, &ProbedLayer::heads);
    } else if (name == "keys" || name == "values") {
      const auto all = with_rank<5>(name_, name, tensor);
      for (Index l = 0; l < all.shape()[0]; ++l) layer(l).parts[name] = slice(all, l);
    } else if (name == "tokens") {
      const auto all = with_rank<4>(name_, name, tensor);
      probe_.tokens = slice(all, 0);
      for (Index t = 1; t < all.shape()[0]; ++t) layer(t - 1).tokens = slice(all, t);
    } else if (name == "kinds") {
      probe_.kinds = with_rank<2>(name_, name, tensor);
      for (const double kind : probe_.kinds)
        if (kind != 0 && kind != 1 && kind != 2)
          refuse(name_, fmt::format("kinds holds {}", kind), "kinds are 0 special or padding, 1 language, 2 vision");
    } else if (name == "labels" || name == "lengths") {
      const auto values = with_rank<1>(name_, name, tensor);
      auto& list = name == "labels" ? probe_.labels : probe_.lengths;
      for (const double value : values) {
        if (!(std::fabs(value) <= 1e15) || value != std::floor(value))
          refuse(name_, fmt::format("{} holds {}, whole numbers are expected", name, value));
        list.push_back(static_cast<Index>(value));
      }
    } else if (!take_layer(name, tensor)) {
      refuse(name_, fmt::format("tensor '{}' has no place in what a model did", name),
             "names are weights, heads, tokens, keys, values, labels, lengths, kinds and layers.0.weights, "
             "layers.0.heads, layers.0.tokens, layers.0.keys, layers.0.values");
    }
  }

  Probe finish() {
    std::optional<Index> B, N;
    const auto agree = [&](std::optional<Index>& known, Index value, const char* what) {
      if (known && *known != value) refuse(name_, fmt::format("the tensors have {} and {} {}", *known, value, what));
      known = value;
    };
    if (!probe_.kinds.empty()) {
      agree(B, probe_.kinds.shape()[0], "samples");
      agree(N, probe_.kinds.shape()[1], "tokens");
    }
    if (!probe_.tokens.empty()) {
      agree(B, probe_.tokens.shape()[0], "samples");
      agree(N, probe_.tokens.shape()[1], "tokens");
    }
    for (const ProbedLayer& own : probe_.layers) {
      for (const auto* tensor : {&own.heads, &own.weights}) {
        if (tensor->empty()) continue;
        agree(B, tensor->shape()[0], "samples");
        agree(N, tensor->shape()[2], "tokens");
      }
      if (!own.heads.empty() && !own.weights.empty() && own.heads.shape()[1] != own.weights.shape()[1])
        refuse(name_, fmt::format("a layer has outputs of {} heads and weights of {}", own.heads.shape()[1],
                                  own.weights.shape()[1]));
      check_parts(own);
      for (const auto& [part, values] : own.parts) {
        if (part == "lambda") continue;
        agree(B, values.shape()[0], "samples");
        if (part != "sample") agree(N, values.shape()[2], "tokens");
      }
      if (own.tokens.empty()) continue;
      agree(B, own.tokens.shape()[0], "samples");
      agree(N, own.tokens.shape()[1], "tokens");
    }
    if (!B || !N) refuse(name_, "there are no weights, heads or tokens");
    if (probe_.lengths.empty()) probe_.lengths.assign(static_cast<std::size_t>(*B), *N);
    if (probe_.labels.empty()) probe_.labels.assign(static_cast<std::size_t>(*B), -1);
    for (const auto* list : {&probe_.lengths, &probe_.labels})
      if (static_cast<Index>(list->size()) != *B)
        refuse(name_, fmt::format("{} labels or lengths for {} samples", list->size(), *B));
    for (const Index length : probe_.lengths)
      if (length < 1 || length > *N)
        refuse(name_, fmt::format("a sample has {} tokens, from 1 to {} are possible", length, *N));
    for (Index b = 0; b < *B; ++b) probe_.samples.push_back(b);
    for (const ProbedLayer& own : probe_.layers) check_pooling(own);
    if (const auto readout = metadata_.find("readout"); readout != metadata_.end()) {
      probe_.first_token = readout->second == "first_token";
      probe_.last_token = readout->second == "last_token";
    }
    return std::move(probe_);
  }

 private:
  // All parts have the same heads, and those that are multiplied with each other have the same widths.
  void check_parts(const ProbedLayer& own) const {
    std::optional<Index> heads;
    for (const auto* tensor : {&own.heads, &own.weights})
      if (!tensor->empty()) heads = tensor->shape()[1];
    for (const auto& [part, values] : own.parts) {
      const bool lambda = part == "lambda";
      if (lambda && (values.shape()[0] != 1 || values.shape()[1] != 1))
        refuse(name_, "lambda has more than the dimensions [H,s]");
      const Index H = values.shape()[lambda ? 2 : 1];
      if (heads && *heads != H) refuse(name_, fmt::format("a layer has {} heads, its {} {}", *heads, part, H));
      heads = H;
    }
    for (const auto& [a, b] :
         {std::pair{"escore", "rscore"}, {"escore", "lambda"}, {"phi_q", "phi_k"}, {"phi_q", "sample"}}) {
      const auto left = own.parts.find(a), right = own.parts.find(b);
      if (left == own.parts.end() || right == own.parts.end()) continue;
      if (const Index D = left->second.shape()[3], other = right->second.shape()[3]; D != other)
        refuse(name_, fmt::format("{} of a layer has width {}, {} has {}", a, D, b, other));
    }
  }

  // A layer that says how it pools has a factor for every head, and a weight for every pooled key.
  void check_pooling(const ProbedLayer& own) const {
    const std::optional<primal::Pooling> pooling = pooling_of(own.attention);
    if (own.weights.empty() || !pooling) return;
    const auto [B, H, N, K] = own.weights.shape();
    if (!pooling->factors.empty() && static_cast<Index>(pooling->factors.size()) != H)
      refuse(name_, fmt::format("'{}' has {} factors for {} heads", own.attention, pooling->factors.size(), H));
    for (Index h = 0; h < H; ++h)
      if (const Index keys = primal::pooled_count(*pooling, primal::pooling_factor(*pooling, H, h), N); keys > K)
        refuse(name_, fmt::format("head {} of '{}' has {} keys for {} tokens, the weights have {}", h, own.attention,
                                  keys, N, K));
  }

  ProbedLayer& layer(Index l) {
    if (l >= most_layers) refuse(name_, fmt::format("layer {} is too many", l));
    while (static_cast<Index>(probe_.layers.size()) <= l) {
      const std::string own = fmt::format("layers.{}.attention", probe_.layers.size());
      auto text = metadata_.find(own);
      if (text == metadata_.end()) text = metadata_.find("attention");
      probe_.layers.emplace_back().attention = text != metadata_.end() ? text->second : "attention";
    }
    return probe_.layers[static_cast<std::size_t>(l)];
  }

  void put(const std::string& name, const Tensor& tensor, Array<double, 4> ProbedLayer::*member) {
    const auto all = with_rank<5>(name_, name, tensor);
    for (Index l = 0; l < all.shape()[0]; ++l) layer(l).*member = slice(all, l);
  }

  // layers.<number>.weights, .heads, .tokens or a part
  bool take_layer(const std::string& name, const Tensor& tensor) {
    if (!name.starts_with("layers.")) return false;
    const auto dot = name.find('.', 7);
    if (dot == std::string::npos) return false;
    const auto number = parse_number(name.substr(7, dot - 7));
    if (!number || *number < 0 || *number >= most_layers || *number != static_cast<double>(static_cast<Index>(*number)))
      return false;
    const std::string what = name.substr(dot + 1);
    if (what != "weights" && what != "heads" && what != "tokens" && !is_part(what)) return false;
    ProbedLayer& own = layer(static_cast<Index>(*number));
    if (what == "tokens")
      own.tokens = with_rank<3>(name_, name, tensor);
    else if (is_part(what))
      own.parts[what] = with_rank<4>(name_, name, tensor);
    else
      (what == "weights" ? own.weights : own.heads) = with_rank<4>(name_, name, tensor);
    return true;
  }

  std::string name_;
  std::map<std::string, std::string> metadata_;
  Probe probe_;
};

}  // namespace

Array<double, 4> token_weights(const Probe& probe, const ProbedLayer& layer) {
  if (layer.weights.empty()) return {};
  const auto [B, H, N, K] = layer.weights.shape();
  const std::optional<primal::Pooling> pooling = pooling_of(layer.attention);
  if (!pooling && K != N) return {};
  Array<double, 4> maps({B, H, N, N});
  for (Index h = 0; h < H; ++h) {
    primal::Windows windows;
    if (pooling) windows = primal::pooling_windows(*pooling, primal::pooling_factor(*pooling, H, h), N);
    for (Index j = 0; !pooling && j < N; ++j) windows.push_back({j});
    for (Index b = 0; b < B; ++b) {
      const Index length = std::min(N, probe.lengths[static_cast<std::size_t>(b)]);
      for (std::size_t key = 0; key < windows.size(); ++key) {
        const auto& window = windows[key];
        const auto kept = std::count_if(window.begin(), window.end(), [&](Index token) { return token < length; });
        for (const Index token : window)
          for (Index i = 0; token < length && i < length; ++i)
            maps(b, h, i, token) = layer.weights(b, h, i, static_cast<Index>(key)) / static_cast<double>(kept);
      }
    }
  }
  return maps;
}

const Probe& ProbedModel::probe(const std::string& split) const {
  std::vector<std::string> known;
  for (const Probe& each : probes) {
    if (each.split == split) return each;
    known.push_back(each.split);
  }
  throw InvalidArgument(fmt::format("the model was not probed on the split '{}'", split),
                        known.empty() ? "" : "there is " + join(known));
}

ProbedModel probed_model(const TensorFile& file, const std::string& name) {
  ProbedModel model;
  model.name = name;
  std::map<std::string, ProbeReader> readers;
  for (const auto& [full, tensor] : file.tensors) {
    const bool train = full.starts_with("train."), test = full.starts_with("test.");
    const std::string split = train ? "train" : "test";
    auto& reader = readers.try_emplace(split, file, name, split).first->second;
    reader.take(full.substr(train ? 6 : test ? 5 : 0), tensor);
  }
  if (readers.empty()) refuse(name, "there are no tensors");
  for (const char* split : {"train", "test"})
    if (const auto found = readers.find(split); found != readers.end()) model.probes.push_back(found->second.finish());
  return model;
}

}  // namespace saddle::analysis

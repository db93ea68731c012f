// saddle explain: who would compute an attention of this shape, who refuses and why, and what it costs.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "argument.hpp"
#include "command.hpp"
#include "cost_table.hpp"
#include "output.hpp"
#include "saddle/base/error.hpp"
#include "saddle/mechanisms/select.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::cli {

namespace {

struct ExplainOptions {
  std::string attention, shape, dtype = "f32";
  Index keys = 0, value_width = 0, width = 0;
  bool backward = false, padding = false, mask = false;
};

template <class P>
bool declares(const primal::Attention& attention) {
  for (const primal::KeySet& keys : attention.keys)
    if (std::holds_alternative<P>(keys)) return true;
  return false;
}

kernels::Request request_of(const ExplainOptions& options) {
  kernels::Request request;
  request.attention = read_attention(options.attention);
  request.dims = read_dims(options.shape, options.keys, options.value_width);
  primal::validate(request.attention, request.dims);
  request.dtype = read_dtype(options.dtype);
  request.key_mask = options.padding || declares<primal::Padding>(request.attention);
  request.mask = options.mask || declares<primal::Explicit>(request.attention);
  request.backward = options.backward;
  return request;
}

std::string title(const kernels::Request& request) {
  const Dims& d = request.dims;
  std::string text =
      fmt::format("{}  B={} H={} N={} M={} D={} E={}  {}  {}", bold(primal::to_text(request.attention)), d.B, d.H, d.N,
                  d.M, d.D, d.E, to_string(request.dtype), request.backward ? "backward" : "forward");
  if (request.key_mask) text += "  padding";
  if (request.mask) text += "  mask";
  return text + "\n";
}

std::string candidates_text(const mechanisms::Selection& selection) {
  Table table({"", "implementation", "ISA", "time", "multiply-adds", "exps", "bytes", "memory"}, "lllrrrrr");
  for (const mechanisms::Candidate& candidate : selection.candidates) {
    const std::string name(candidate.implementation->name());
    const std::string isa = to_string(candidate.implementation->isa());
    if (!candidate.refusals.empty()) {
      table.add({red("-"), name, isa, "refuses", "", "", "", ""});
      for (const std::string& refusal : candidate.refusals) table.note(refusal);
      continue;
    }
    const kernels::Estimate& e = candidate.estimate;
    table.add({candidate.implementation == selection.chosen ? green("*") : " ", name, isa, seconds_text(e.seconds),
               count_text(e.cost.multiply_adds), count_text(e.cost.exps), bytes_text(e.cost.bytes),
               bytes_text(e.memory)});
  }
  return table.text();
}

Json candidates_json(const mechanisms::Selection& selection) {
  Json list = Json::array();
  for (const mechanisms::Candidate& candidate : selection.candidates) {
    const bool accepts = candidate.refusals.empty();
    const kernels::Estimate& e = candidate.estimate;
    Json entry{{"name", candidate.implementation->name()},
               {"summary", candidate.implementation->summary()},
               {"isa", to_string(candidate.implementation->isa())},
               {"reference", candidate.implementation->is_reference()},
               {"accepts", accepts},
               {"refusals", candidate.refusals}};
    if (accepts) {
      entry["seconds"] = e.seconds;
      entry["memory"] = e.memory;
      entry["cost"] = cost_json(e.cost);
    }
    list.push_back(std::move(entry));
  }
  return list;
}

std::string passes_text(const primal::Cost& forward, const primal::Cost& backward, const char* functions) {
  Table table({"pass", "multiply-adds", functions, "bytes", "memory"}, "lrrrr");
  for (const auto& [name, cost] : {std::pair{"forward", forward}, std::pair{"backward", backward}})
    table.add(
        {name, count_text(cost.multiply_adds), count_text(cost.exps), bytes_text(cost.bytes), bytes_text(cost.memory)});
  return table.text();
}

// A mechanism of the layer level: one way to compute it, forward and backward, projections included.
int explain_layer(const mechanisms::Layer& layer, const ExplainOptions& options, const Context& context) {
  const Dims dims = read_dims(options.shape, options.keys, options.value_width);
  if (dims.M != dims.N || dims.E != dims.D || options.mask)
    throw InvalidArgument(
        fmt::format("'{}' maps tokens to tokens: --keys, --value-width and --mask mean nothing to it", layer.text()));
  mechanisms::LayerPlace place;
  place.X = options.width > 0 ? options.width : dims.H * dims.D;
  place.H = dims.H;
  place.N = dims.N;
  // Tokens of an image are taken to be a square, if they can be.
  if (const auto side = static_cast<Index>(std::lround(std::sqrt(static_cast<double>(dims.N)))); side * side == dims.N)
    place.grid = {side, side};
  layer.check(place);
  const DType dtype = read_dtype(options.dtype);
  const primal::Cost forward = layer.cost(place, dims.B, primal::Pass::forward, dtype);
  const primal::Cost backward = layer.cost(place, dims.B, primal::Pass::backward, dtype);
  if (context.json) {
    print_json("saddle.explain/1", {{"attention", layer.text()},
                                    {"level", "layer"},
                                    {"dims", {{"B", dims.B}, {"H", dims.H}, {"N", dims.N}, {"X", place.X}}},
                                    {"dtype", to_string(dtype)},
                                    {"causal", layer.causal()},
                                    {"costs", {{"forward", cost_json(forward)}, {"backward", cost_json(backward)}}}});
    return Exit::ok;
  }
  print(
      fmt::format("{}  B={} H={} N={} X={}  {}{}\n\n", bold(layer.text()), dims.B, dims.H, dims.N, place.X,
                  to_string(dtype), layer.causal() ? "  causal" : "") +
      passes_text(forward, backward, "exps") + "\n" +
      wrap("A layer of its own: projections are counted, and one module computes it. Memory is what it has at most at "
           "once beyond x, y and its weights; that of the backward pass is a whole training step, with what the "
           "forward pass keeps for it and the gradients of x and the weights.",
           0));
  return Exit::ok;
}

// An encoding of times: no attention, but a vector of width X for each of B N times.
int explain_times(const mechanisms::time_attention::TimeEncoder& encoder, const ExplainOptions& options,
                  const Context& context) {
  const Dims dims = read_dims(options.shape, options.keys, options.value_width);
  if (dims.M != dims.N || dims.E != dims.D || options.mask)
    throw InvalidArgument(
        "an encoding of times takes times alone: --keys, --value-width and --mask mean nothing to it");
  const Index X = options.width > 0 ? options.width : dims.H * dims.D;
  mechanisms::time_attention::check(encoder, X);
  const DType dtype = read_dtype(options.dtype);
  const std::string text = "time_" + to_text(encoder);
  const auto times = static_cast<double>(dims.B * dims.N), numbers = times * static_cast<double>(X);
  primal::Cost forward;
  forward.multiply_adds = mechanisms::time_attention::cost(encoder, dims.B * dims.N, X);
  forward.exps = numbers;
  forward.memory = numbers * static_cast<double>(size_of(dtype));
  forward.bytes = forward.memory + times * sizeof(double);
  primal::Cost backward = forward;
  backward.multiply_adds *= 2;
  if (context.json) {
    print_json("saddle.explain/1", {{"attention", text},
                                    {"level", "encoding"},
                                    {"dims", {{"B", dims.B}, {"N", dims.N}, {"X", X}}},
                                    {"dtype", to_string(dtype)},
                                    {"costs", {{"forward", cost_json(forward)}, {"backward", cost_json(backward)}}}});
    return Exit::ok;
  }
  print(fmt::format("{}  B={} N={} X={}  {}\n\n", bold(text), dims.B, dims.N, X, to_string(dtype)) +
        passes_text(forward, backward, "sines") + "\n" +
        wrap("An encoding of times, which stands beside the embedding of events; any attention follows. Memory counts "
             "the encoding itself, not the phases in double that it is made of.",
             0));
  return Exit::ok;
}

int explain(const ExplainOptions& options, const Context& context) {
  constexpr Index widest = Index{1} << 26;
  if (options.width < 0 || options.width > widest)
    throw InvalidArgument(fmt::format("--width must be a whole number from 0 to {}, found {}", widest, options.width));
  if (const auto encoder = read_time_encoding(options.attention)) return explain_times(*encoder, options, context);
  if (const auto layer = read_layer(options.attention)) return explain_layer(*layer, options, context);
  const kernels::Request request = request_of(options);
  const mechanisms::Selection selection = mechanisms::select(request);
  const Index width = options.width > 0 ? options.width : request.dims.H * request.dims.D;
  const CostTable costs = cost_table(request, width);
  if (context.json) {
    const Dims& d = request.dims;
    print_json("saddle.explain/1",
               {{"attention", primal::to_text(request.attention)},
                {"dims", {{"B", d.B}, {"H", d.H}, {"N", d.N}, {"M", d.M}, {"D", d.D}, {"E", d.E}, {"X", width}}},
                {"dtype", to_string(request.dtype)},
                {"backward", request.backward},
                {"padding", request.key_mask},
                {"mask", request.mask},
                {"implementations", candidates_json(selection)},
                {"chosen", selection.chosen != nullptr ? Json(selection.chosen->name()) : Json()},
                {"reason", selection.reason},
                {"costs", to_json(costs)}});
  } else {
    std::string text = title(request) + "\n" + candidates_text(selection) + "\n";
    text += wrap("choice: " + selection.reason, 0);
    if (context.verbose)
      for (const mechanisms::Candidate& candidate : selection.candidates)
        text += wrap(fmt::format("{}: {}", candidate.implementation->name(), candidate.implementation->summary()), 0);
    print(text + "\n" + to_text(costs));
  }
  if (selection.chosen != nullptr) return Exit::ok;
  print_error("no implementation accepts this call", "the refusals above say what would work");
  return Exit::not_supported;
}

}  // namespace

Command explain_command() {
  const auto o = std::make_shared<ExplainOptions>();
  return {"explain",
          "Show which implementation runs for a shape, who refuses and why, and the cost of both evaluation forms.",
          {{"batch 1, 8 heads, 1024 tokens, head width 64", "saddle explain softmax --shape 1,8,1024,64"},
           {"primal form against dual form", "saddle explain 'linear(elu1)' --shape 1,8,4096,64"},
           {"the saving of pooled heads in a layer of width 512",
            "saddle explain 'softmax+sh(1,1,2,2,4,4,8,8)' --shape 1,8,1024,64 --width 512"},
           {"gradients, with padding, 300 keys for 100 queries",
            "saddle explain attention_bn --shape 4,8,100,64 --keys 300 --padding --backward"}},
          {{"attention", "", attention_help, &o->attention, true},
           {"--shape", "B,H,N,D", "batch, heads, queries, head width", &o->shape, true},
           {"--keys", "M", "number of keys; default N", &o->keys},
           {"--value-width", "E", "width of the values; default D", &o->value_width},
           {"--dtype", "TYPE", "element type; default f32", &o->dtype, false, {"f32", "f64", "bf16"}},
           {"--width", "X", "model width of the layer; default H*D", &o->width},
           {"--backward", "", "gradients are asked for", &o->backward},
           {"--padding", "", "the call brings a key mask", &o->padding},
           {"--mask", "", "the call brings a mask of queries by keys", &o->mask}},
          [o](const Context& context) { return explain(*o, context); }};
}

}  // namespace saddle::cli

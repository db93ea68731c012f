#include "row.hpp"

#include <fmt/format.h>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/mechanisms/registry.hpp"
#include "saddle/primal/cost.hpp"

namespace saddle::bench {

namespace {

double count(Index n) { return static_cast<double>(n); }

template <class E, std::size_t Count>
E parse_word(const std::string& text, const char* what, const std::pair<const char*, E> (&words)[Count]) {
  std::vector<std::string> known;
  for (const auto& [word, value] : words) {
    if (text == word) return value;
    known.emplace_back(word);
  }
  const std::string close = nearest(text, known);
  throw InvalidArgument(fmt::format("unknown {} '{}', expected {}", what, text, join(known, ", ")),
                        close.empty() ? "" : fmt::format("did you mean '{}'?", close));
}

}  // namespace

std::string to_string(Pass pass) { return pass == Pass::forward ? "forward" : "forward+backward"; }
std::string to_string(Layout layout) { return layout == Layout::contiguous ? "contiguous" : "qkv"; }

std::string shape_text(const Dims& d) {
  return d.N == d.M && d.D == d.E ? fmt::format("{},{},{},{}", d.B, d.H, d.N, d.D)
                                  : fmt::format("{},{},{},{},{},{}", d.B, d.H, d.N, d.M, d.D, d.E);
}

std::string to_string(const Row& row) {
  return fmt::format("{} {} {} {}{}, {} thread{}", row.attention, shape_text(row.dims), to_string(row.dtype),
                     to_string(row.pass), row.layout == Layout::qkv ? " qkv" : "", row.threads,
                     row.threads == 1 ? "" : "s");
}

Pass parse_pass(const std::string& text) {
  return parse_word<Pass>(text, "pass", {{"forward", Pass::forward}, {"forward+backward", Pass::training}});
}

Layout parse_layout(const std::string& text) {
  return parse_word<Layout>(text, "layout", {{"contiguous", Layout::contiguous}, {"qkv", Layout::qkv}});
}

DType parse_dtype(const std::string& text) {
  return parse_word<DType>(text, "element type", {{"f32", DType::f32}, {"f64", DType::f64}, {"bf16", DType::bf16}});
}

Dims dims_of(const std::vector<Index>& n, const std::string& where) {
  constexpr Index most = Index{1} << 20;
  if (n.size() != 4 && n.size() != 6)
    throw InvalidArgument(
        fmt::format("{}: expected four numbers B,H,N,D or six B,H,N,M,D,E, found {}", where, n.size()),
        "batch 1, 8 heads, 1024 tokens, head width 64: 1,8,1024,64");
  for (Index extent : n)
    if (extent < 1 || extent > most)
      throw InvalidArgument(fmt::format("{}: every extent must be from 1 to {}, found {}", where, most, extent));
  const Dims d = n.size() == 4 ? Dims{n[0], n[1], n[2], n[2], n[3], n[3]} : Dims{n[0], n[1], n[2], n[3], n[4], n[5]};
  const double elements = count(d.B) * count(d.H) * count(std::max(d.N, d.M)) * count(std::max(d.D, d.E));
  if (elements > 1e9) throw InvalidArgument(fmt::format("{}: a tensor would have {:.2g} elements", where, elements));
  return d;
}

void validate(const Row& row) {
  const primal::Attention attention = mechanisms::parse(row.attention);
  primal::validate(attention, row.dims);
  for (const primal::KeySet& keys : attention.keys)
    if (std::holds_alternative<primal::Explicit>(keys))
      throw InvalidArgument(
          fmt::format("{}: an explicit mask comes with data, there is none to measure with", to_string(row)));
  if (row.layout == Layout::qkv && (row.dims.N != row.dims.M || row.dims.D != row.dims.E))
    throw InvalidArgument(fmt::format("{}: one projection of q, k and v needs N = M and D = E", to_string(row)));
  if (row.threads < 1 || row.threads > 1024)
    throw InvalidArgument(fmt::format("{}: threads must be from 1 to 1024", to_string(row)));
}

double flops(const Row& row) {
  const primal::Attention attention = mechanisms::parse(row.attention);
  double pairs = 0;
  for (Index h = 0; h < row.dims.H; ++h) pairs += primal::visible_pairs(attention, row.dims, h);
  const double D = count(row.dims.D), E = count(row.dims.E);
  // Backward: scores again and dQ, dK over D, dP and dV over E.
  const double products = 2 * (D + E) + (row.pass == Pass::training ? 6 * D + 4 * E : 0);
  return count(row.dims.B) * pairs * products;
}

bool counts_equivalent(const Row& row) {
  return primal::cheaper_form(mechanisms::parse(row.attention), row.dims) == primal::Form::primal;
}

double bytes(const Row& row) {
  const Dims& d = row.dims;
  const double queries = count(d.N) * (count(d.D) + count(d.E)), keys = count(d.M) * (count(d.D) + count(d.E));
  const double tensors = count(d.B) * count(d.H) * (queries + keys) * static_cast<double>(size_of(row.dtype));
  // Backward reads q, k, v, y and dy and writes dq, dk, dv.
  return row.pass == Pass::forward ? tensors : 3 * tensors;
}

}  // namespace saddle::bench

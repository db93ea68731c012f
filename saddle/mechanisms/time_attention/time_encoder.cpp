#include "saddle/mechanisms/time_attention/time_encoder.hpp"

#include <algorithm>
#include <cctype>

#include "saddle/base/error.hpp"
#include "saddle/primal/written/part_text.hpp"

namespace saddle::mechanisms::time_attention {

namespace {

template <class P>
bool take(const primal::Term& term, TimeEncoder& into) {
  if (term.name != P::name && term.name != "time_" + std::string(P::name)) return false;
  into = primal::make<P>(term);
  return true;
}

}  // namespace

TimeEncoder parse_time_encoder(std::string_view text) {
  const std::vector<std::string> names{"mercer", "bochner", "positions"};
  try {
    const std::size_t start = std::min(text.find_first_not_of(" \t\n"), text.size());
    if (start == text.size() || std::isalpha(static_cast<unsigned char>(text[start])) == 0)
      throw primal::Mistake{start + 1, fmt::format("expected one of {}", fmt::join(names, ", ")), ""};
    const auto terms = primal::read_terms(text);
    if (terms.size() > 1)
      throw primal::Mistake{terms[1].position, "a time encoding is one term, nothing can be added to it", ""};
    TimeEncoder encoder;
    if (take<time_mercer::Mercer>(terms[0], encoder) || take<time_bochner::Bochner>(terms[0], encoder) ||
        take<Positions>(terms[0], encoder))
      return encoder;
    throw primal::Mistake{
        terms[0].position,
        fmt::format("unknown time encoding '{}', known are {}", terms[0].name, fmt::join(names, ", ")),
        primal::did_you_mean(terms[0].name, names)};
  } catch (const primal::Mistake& mistake) {
    throw InvalidArgument(fmt::format("time encoding '{}', position {}: {}{}{}", text, mistake.position,
                                      mistake.message, mistake.hint.empty() ? "" : "; ", mistake.hint),
                          mistake.hint);
  }
}

std::string to_text(const TimeEncoder& encoder) {
  return std::visit([](const auto& part) { return primal::print(part); }, encoder);
}

void check(const TimeEncoder& encoder, Index T) {
  if (const auto* mercer = std::get_if<time_mercer::Mercer>(&encoder)) static_cast<void>(mercer->frequencies(T));
  if (const auto* bochner = std::get_if<time_bochner::Bochner>(&encoder)) bochner->check(T);
  if (T < 1) throw InvalidArgument(fmt::format("a time encoding of width {} has nothing to say", T));
}

double cost(const TimeEncoder& encoder, Index N, Index T) {
  if (const auto* mercer = std::get_if<time_mercer::Mercer>(&encoder)) return mercer->cost(N, T);
  if (const auto* bochner = std::get_if<time_bochner::Bochner>(&encoder)) return bochner->cost(N, T);
  return 0;
}

}  // namespace saddle::mechanisms::time_attention

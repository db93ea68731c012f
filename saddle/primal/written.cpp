#include "saddle/primal/written.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/primal/written/part_text.hpp"

namespace saddle::primal {

namespace {

// Calls visit.operator()<P>(role) for every part there is.
template <class Visit>
void for_each_part(Visit&& visit) {
  const auto alternatives = [&]<class... P>(std::string_view role, const std::variant<P...>*) {
    (visit.template operator()<P>(role), ...);
  };
  alternatives("kernel", static_cast<Kernel*>(nullptr));
  alternatives("normaliser", static_cast<Normaliser*>(nullptr));
  alternatives("transform", static_cast<Transform*>(nullptr));
  visit.template operator()<Pooling>("reduction");
  alternatives("keys", static_cast<KeySet*>(nullptr));
  visit.template operator()<Bias>("offset");
  visit.template operator()<Residual>("offset");
}

std::vector<std::string> part_names(std::string_view role = {}) {
  std::vector<std::string> names;
  for_each_part([&]<class P>(std::string_view r) {
    if (role.empty() || role == r) names.emplace_back(P::name);
  });
  return names;
}

// Builds the value term by term.
class Builder {
 public:
  explicit Builder(const Presets& presets) : presets_(presets) {}

  void first(const Term& term) {
    if (std::find(presets_.names.begin(), presets_.names.end(), term.name) != presets_.names.end() &&
        !has_kernel(term.name)) {
      value_ = presets_.resolve(term);
      has_kernel_ = normaliser_given_ = true;
      return;
    }
    if (term.name == "cosine") {  // the dot product of unit vectors
      if (!term.arguments.empty()) throw Mistake{term.arguments[0].position, "cosine takes no options", ""};
      value_.kernel = Dot{};
      value_.transforms = {L2{}};
      has_kernel_ = true;
      return;
    }
    if (!has_kernel(term.name)) {
      std::vector<std::string> known = part_names("kernel");
      known.emplace_back("cosine");
      known.insert(known.end(), presets_.names.begin(), presets_.names.end());
      const auto all = part_names();
      const bool misplaced = std::find(all.begin(), all.end(), term.name) != all.end();
      throw Mistake{term.position,
                    fmt::format("{} '{}', expected a kernel or a mechanism first: {}",
                                misplaced ? "found the part" : "unknown name", term.name, fmt::join(known, ", ")),
                    misplaced ? fmt::format("write softmax+{}", term.name) : did_you_mean(term.name, known)};
    }
    add(term);
  }

  void add(const Term& term) {
    bool known = false;
    for_each_part([&]<class P>(std::string_view) {
      if (!known && P::name == term.name) {
        known = true;
        put(make<P>(term), term);
      }
    });
    if (!known && term.name == "full") {
      if (!term.arguments.empty()) throw Mistake{term.arguments[0].position, "full takes no options", ""};
      return;
    }
    if (!known) {
      auto names = part_names();
      std::erase_if(names, [](const std::string& name) { return has_kernel(name); });
      throw Mistake{term.position,
                    fmt::format("unknown part '{}', expected one of {}", term.name, fmt::join(names, ", ")),
                    did_you_mean(term.name, names)};
    }
  }

  Attention finish() && {
    if (!normaliser_given_) value_.normaliser = default_normaliser(value_.kernel);
    validate(value_);
    return std::move(value_);
  }

 private:
  static bool has_kernel(const std::string& name) {
    const auto kernels = part_names("kernel");
    return std::find(kernels.begin(), kernels.end(), name) != kernels.end();
  }

  template <class P>
  void put(P part, const Term& term) {
    const auto once = [&](bool present, std::string_view what) {
      if (present)
        throw Mistake{term.position, fmt::format("'{}' is a second {}", term.name, what), "keep one of them"};
    };
    if constexpr (std::is_constructible_v<Kernel, P>) {
      once(has_kernel_, "kernel");
      value_.kernel = part;
      has_kernel_ = true;
    } else if constexpr (std::is_constructible_v<Normaliser, P>) {
      once(normaliser_written_, "normaliser");
      value_.normaliser = part;
      normaliser_given_ = normaliser_written_ = true;
    } else if constexpr (std::is_constructible_v<Transform, P>) {
      value_.transforms.push_back(part);
    } else if constexpr (std::is_same_v<P, Pooling>) {
      once(value_.pooling.has_value(), "reduction");
      value_.pooling = std::move(part);
    } else if constexpr (std::is_constructible_v<KeySet, P>) {
      value_.keys.push_back(part);
    } else if constexpr (std::is_same_v<P, Bias>) {
      once(value_.bias.has_value(), "bias");
      value_.bias = part;
    } else {
      once(value_.residual.has_value(), "residual");
      value_.residual = part;
    }
  }

  const Presets& presets_;
  Attention value_;
  bool has_kernel_ = false, normaliser_given_ = false, normaliser_written_ = false;
};

Attention build_terms(const std::vector<Term>& terms, const Presets& presets) {
  if (terms.empty()) throw Mistake{0, "expected a kernel or a mechanism, found nothing", ""};
  Builder builder(presets);
  builder.first(terms[0]);
  for (std::size_t t = 1; t < terms.size(); ++t) builder.add(terms[t]);
  return std::move(builder).finish();
}

}  // namespace

[[noreturn]] void report(const Mistake& mistake, std::string_view text) {
  std::string where = text.empty() ? "" : fmt::format("attention '{}'", text);
  if (mistake.position > 0) where += fmt::format("{}position {}", where.empty() ? "" : ", ", mistake.position);
  if (!where.empty()) where += ": ";
  throw InvalidArgument(where + mistake.message + (mistake.hint.empty() ? "" : "; " + mistake.hint), mistake.hint);
}

std::vector<Term> parse_terms(std::string_view text) {
  try {
    return read_terms(text);
  } catch (const Mistake& mistake) {
    report(mistake, text);
  }
}

Attention parse(std::string_view text, const Presets& presets) {
  try {
    return build_terms(read_terms(text), presets);
  } catch (const Mistake& mistake) {
    report(mistake, text);
  } catch (const InvalidArgument& error) {  // from a preset or the theory, which do not know the text
    const bool positioned = std::string_view(error.what()).starts_with("position ");
    throw InvalidArgument(fmt::format("attention '{}'{} {}", text, positioned ? "," : ":", error.what()), error.hint());
  }
}

Attention build(const std::vector<Term>& terms, const Presets& presets) {
  try {
    return build_terms(terms, presets);
  } catch (const Mistake& mistake) {
    report(mistake, "");
  }
}

Attention build_preset(std::string_view composition, const Term& preset) {
  auto terms = read_terms(composition);
  std::vector<std::string> known;
  const auto has_option = [&](const Term& term, const std::string& option) {
    for (const PartHelp& part : all_parts())
      if (part.name == term.name)
        for (const OptionHelp& o : part.options) {
          known.push_back(o.name);
          if (o.name == option) return true;
        }
    return false;
  };
  std::vector<Argument> positional;
  for (const Argument& argument : preset.arguments) {
    if (argument.key.empty()) {
      positional.push_back(argument);
      continue;
    }
    auto target =
        std::find_if(terms.rbegin(), terms.rend(), [&](const Term& t) { return has_option(t, argument.key); });
    if (target == terms.rend()) {
      report({argument.position,
              fmt::format("{}: unknown option '{}', expected {}", preset.name, argument.key, fmt::join(known, ", ")),
              did_you_mean(argument.key, known)},
             "");
    }
    target->arguments.push_back(argument);
  }
  auto& last = terms.back().arguments;
  last.insert(last.begin(), positional.begin(), positional.end());
  return build(terms);
}

std::string to_text(const Attention& attention) {
  std::vector<std::string> parts;
  const auto add = [&](const auto& variant) {
    parts.push_back(std::visit([](const auto& part) { return print(part); }, variant));
  };
  add(attention.kernel);
  if (attention.normaliser != default_normaliser(attention.kernel)) add(attention.normaliser);
  for (const Transform& transform : attention.transforms) add(transform);
  if (attention.pooling) parts.push_back(print(*attention.pooling));
  for (const KeySet& keys : attention.keys) add(keys);
  if (attention.bias) parts.push_back(print(*attention.bias));
  if (attention.residual) parts.push_back(print(*attention.residual));
  return fmt::format("{}", fmt::join(parts, "+"));
}

const std::vector<PartHelp>& all_parts() {
  static const std::vector<PartHelp> parts = [] {
    std::vector<PartHelp> list;
    for_each_part([&]<class P>(std::string_view role) {
      list.push_back({std::string(role), std::string(P::name), std::string(P::help), options_of(P{})});
    });
    return list;
  }();
  return parts;
}

}  // namespace saddle::primal

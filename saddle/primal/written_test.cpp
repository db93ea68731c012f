// The written form, its TOML and JSON forms: round trips of any value.
#include "saddle/primal/written.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "saddle/primal/testing_internal.hpp"

namespace saddle::primal {
namespace {

Index between(Index low, Index high) { return *rc::gen::inRange<Index>(low, high + 1); }

// Numbers of every size, sign, and number of digits.
double number(bool positive) {
  const double digits = static_cast<double>(*rc::gen::arbitrary<std::int64_t>());
  double value = *rc::gen::element(0.1, 0.6, 1.0, 2.0, 1e-6, 1e16, 12345678901234567890.0, 5e-324, digits,
                                   std::ldexp(digits, static_cast<int>(between(-200, 200))));
  if (positive) value = value == 0 ? 1 : std::fabs(value);
  return value;
}

template <class E>
E any_of() {
  return static_cast<E>(between(0, static_cast<Index>(enum_words<E>.size()) - 1));
}

Grid any_grid(bool odd, bool may_be_empty) {
  if (may_be_empty && *rc::gen::arbitrary<bool>()) return {};
  const auto side = [&] { return odd ? 2 * between(0, 4) + 1 : between(1, 40); };
  const Index rows = side();
  return {rows, side()};
}

Index any_count(Index low) {
  return *rc::gen::oneOf(rc::gen::inRange<Index>(low, low + 20), rc::gen::just((Index{1} << 53) + 1),
                         rc::gen::just(std::numeric_limits<Index>::max()));
}

// Reaches, strides and factors: up to the largest that is accepted.
Index any_extent(Index low) {
  return *rc::gen::oneOf(rc::gen::inRange<Index>(low, low + 20), rc::gen::just(Index{1} << 40));
}

Kernel any_kernel() {
  switch (between(0, 4)) {
    case 0: return *rc::gen::arbitrary<bool>() ? ExpDot{} : ExpDot{number(true)};
    case 1: return *rc::gen::arbitrary<bool>() ? Rbf{} : Rbf{number(true)};
    case 2: return Dot{};
    case 3: return Polynomial{between(1, 6), *rc::gen::arbitrary<bool>() ? 0 : number(true)};
    default: {  // options of a map that is not used must keep their defaults
      Linear linear{any_of<FeatureMapKind>()};
      if (linear.map == FeatureMapKind::taylor) linear.order = between(0, 20);
      if (linear.map == FeatureMapKind::random) linear.count = between(1, 5000), linear.seed = any_count(0);
      return linear;
    }
  }
}

Normaliser any_normaliser() {
  switch (between(0, 4)) {
    case 0: return RowSum{};
    case 1: return RowSum{number(true)};
    case 2: return One{};
    case 3: return SqrtLength{};
    default: {
      const double value = number(false);
      return Constant{value == 0 ? -1 : value};
    }
  }
}

// Leaks are always allowed here, so that every other option may take any value.
Transform any_transform(int kind, bool tokens) {
  const Axis axis = tokens ? any_of<Axis>() : Axis::feature;
  const bool share = *rc::gen::arbitrary<bool>();
  switch (kind) {
    case 0:
      return BatchNorm{number(false),   any_of<ScaleMode>(), std::fabs(number(false)),
                       any_of<Stats>(), any_of<Learn>(),     Leak::allow};
    case 1: return L2{};
    case 2: return Conv1d{2 * between(0, 5) + 1, axis, share, Leak::allow};
    default: return Conv2d{any_grid(true, false), any_grid(false, true), axis, share, Leak::allow};
  }
}

Pooling any_pooling() {
  Pooling pooling;
  for (Index heads = between(0, 4); heads > 0; --heads) pooling.factors.push_back(any_extent(1));
  pooling.pool = any_of<PoolShape>();
  if (pooling.pool == PoolShape::two_d) {
    pooling.grid = any_grid(false, true);
    pooling.prefix = any_count(0);
  }
  pooling.tail = any_of<Tail>();
  pooling.visibility = any_of<Visibility>();
  pooling.leak = Leak::allow;
  return pooling;
}

KeySet any_keys() {
  switch (between(0, 7)) {
    case 0: return Causal{};
    case 1: return Window{any_extent(0)};
    case 2: return Local{any_extent(1)};
    case 3: return Strided{any_extent(1)};
    case 4: {
      const Index verts = between(1, 3), size = between(1, 3), block = between(1, 4);
      return Fixed{verts * size * block * between(1, 3), verts, size, block};
    }
    case 5: return GlobalWindow{any_extent(0), any_extent(0)};
    case 6: return Padding{};
    default: return Explicit{};
  }
}

// Any valid value: all parts, all options.
Attention any_attention() {
  Attention attention;
  attention.kernel = any_kernel();
  attention.normaliser = *rc::gen::arbitrary<bool>() ? default_normaliser(attention.kernel) : any_normaliser();
  if (*rc::gen::arbitrary<bool>()) attention.pooling = any_pooling();
  for (Index count = between(0, 2); count > 0; --count) attention.keys.push_back(any_keys());
  auto kinds =
      *rc::gen::element(std::vector<int>{}, std::vector<int>{0}, std::vector<int>{1}, std::vector<int>{2},
                        std::vector<int>{3}, std::vector<int>{2, 0}, std::vector<int>{3, 1, 0}, std::vector<int>{1, 2});
  for (int kind : kinds) attention.transforms.push_back(any_transform(kind, !attention.pooling));
  if (*rc::gen::arbitrary<bool>()) attention.bias = Bias{};
  if (*rc::gen::arbitrary<bool>()) attention.residual = Residual{};
  return attention;
}

RC_GTEST_PROP(Written, TextJsonAndTomlCarryAnyValue, ()) {
  const Attention value = any_attention();
  validate(value);
  const std::string text = to_text(value);
  RC_LOG() << text << "\n" << to_json(value) << "\n" << to_toml(value);
  RC_ASSERT(parse(text) == value);
  RC_ASSERT(to_text(parse(text)) == text);
  RC_ASSERT(parse_json(to_json(value)) == value);
  RC_ASSERT(parse_json(to_json(value, -1)) == value);
  RC_ASSERT(parse_toml(to_toml(value)) == value);
}

// The order of parts does not matter, but that of transforms does.
RC_GTEST_PROP(Written, PartsComeInAnyOrder, ()) {
  const Attention value = any_attention();
  auto terms = parse_terms(to_text(value));
  std::vector<Term> others, transforms;
  for (std::size_t t = 1; t < terms.size(); ++t) {
    const bool transform = terms[t].name == "bn" || terms[t].name == "l2" || terms[t].name.starts_with("conv");
    (transform ? transforms : others).push_back(terms[t]);
  }
  std::vector<Term> reversed{terms[0]};
  reversed.insert(reversed.end(), others.rbegin(), others.rend());
  reversed.insert(reversed.end(), transforms.begin(), transforms.end());
  Attention again = build(reversed);
  std::reverse(again.keys.begin(), again.keys.end());
  RC_ASSERT(again == value);
}

TEST(Written, CanonicalTextsPrintAsThemselves) {
  for (const char* text : {"softmax",
                           "softmax+bn(beta=0.6)",
                           "softmax+bn(beta=0.6)+sh(1,1,2,2)",
                           "softmax+bn+sh(1,1,2,2,4,4,8,8)",
                           "linear(elu1)+sh(1,2)",
                           "rbf(gamma=0.5)+window(16)",
                           "softmax+conv1d(3)+causal",
                           "softmax(scale=0.25)",
                           "dot+l2",
                           "dot+sum",
                           "poly(degree=3,coef0=0)",
                           "poly(degree=3)+sum(den_eps=0.001)",
                           "linear(taylor,order=4)",
                           "linear(random,count=64,seed=7)+sqrt_length",
                           "softmax+one",
                           "rbf+constant(2.5)",
                           "softmax+l2",
                           "softmax+conv2d(3x5,grid=4x8)",
                           "softmax+conv1d(3,axis=token,share=true)",
                           "softmax+sh",
                           "softmax+sh(1,2,pool=2d,grid=14x14,prefix=1,tail=drop,visibility=all)",
                           "softmax+local(8)",
                           "softmax+strided(4)",
                           "softmax+fixed(16,num_verts=2,vertsize=2,blocksize=4)",
                           "softmax+global_window(3,n_global=2)",
                           "softmax+causal+window(16)",
                           "softmax+padding+explicit",
                           "softmax+bias+residual",
                           "linear(elu1)+bn(scale=std,eps=0.001,stats=subset,learn=head)+causal+bias",
                           "softmax+bn(stats=global,leak=allow)+causal",
                           "softmax+sh(2,2,visibility=any,leak=allow)+causal",
                           "softmax+conv1d(3,axis=token,leak=allow)+causal"})
    EXPECT_EQ(to_text(parse(text)), text);
}

TEST(Written, OtherSpellingsMeanTheSame) {
  const std::pair<const char*, const char*> spellings[] = {
      {"linear", "linear(elu1)"},
      {" softmax + bn ( beta = 0.6 ) ", "softmax+bn(beta=0.6)"},
      {"softmax()+bn()", "softmax+bn"},
      {"softmax+bn(beta=1.0)", "softmax+bn"},
      {"softmax+bn(0.6)", "softmax+bn(beta=0.6)"},
      {"poly(3,0)", "poly(degree=3,coef0=0)"},
      {"softmax+window(radius=16)", "softmax+window(16)"},
      {"softmax+window", "softmax+window(16)"},
      {"softmax+sh(pool=2d,1,2)", "softmax+sh(1,2,pool=2d)"},
      {"softmax+causal+bn", "softmax+bn+causal"},
      {"softmax+full", "softmax"},
      {"softmax+sum", "softmax"},
      {"dot+one", "dot"},
      {"cosine", "dot+l2"},
      {"softmax+global-window(3)", "softmax+global_window(3)"},
      {"softmax+residual+bias", "softmax+bias+residual"},
      {"softmax+bn(beta=6e-1)", "softmax+bn(beta=0.6)"},
  };
  for (const auto& [written, canonical] : spellings) EXPECT_EQ(to_text(parse(written)), canonical) << written;
}

TEST(Written, OrderOfTransformsIsKept) {
  EXPECT_EQ(to_text(parse("softmax+l2+bn")), "softmax+l2+bn");
  EXPECT_EQ(to_text(parse("softmax+bn+l2")), "softmax+bn+l2");
  EXPECT_NE(parse("softmax+l2+bn"), parse("softmax+bn+l2"));
}

TEST(Written, DocumentsOfTheSameValue) {
  const Attention value = parse("linear(random,count=8)+sum(den_eps=0.5)+bn(beta=0.6)+sh(1,2)+window(3)+causal+bias");
  EXPECT_EQ(parse_json(R"({"kernel": {"name": "linear", "map": "random", "count": 8},
                           "normaliser": {"name": "sum", "den_eps": 0.5},
                           "transform": [{"name": "bn", "beta": 0.6}],
                           "reduction": {"name": "sh", "factors": [1, 2]},
                           "keys": [{"name": "window", "radius": 3}, "causal"], "offset": "bias"})"),
            value);
  EXPECT_EQ(parse_toml("kernel = { name = 'linear', map = 'random', count = 8 }\n"
                       "normaliser = { name = 'sum', den_eps = 0.5 }\n"
                       "keys = [{ name = 'window', radius = 3 }, 'causal']\n"
                       "offset = 'bias'\n"
                       "[[transform]]\nname = 'bn'\nbeta = 0.6\n"
                       "[reduction]\nname = 'sh'\nfactors = [1, 2]\n"),
            value);
  EXPECT_EQ(parse_json(R"("softmax+bn")"), parse("softmax+bn"));
  EXPECT_EQ(parse_json(R"({"attention": "softmax+bn"})"), parse("softmax+bn"));
  EXPECT_EQ(parse_toml("attention = 'softmax+bn'"), parse("softmax+bn"));
  EXPECT_EQ(parse_toml("[attention]\nkernel = 'softmax'"), parse("softmax"));
  EXPECT_EQ(parse_json(R"({"kernel": "cosine"})"), parse("cosine"));
}

TEST(Written, HelpListsEveryPartOnce) {
  std::vector<std::string> names;
  for (const PartHelp& part : all_parts()) {
    names.push_back(part.name);
    EXPECT_FALSE(part.help.empty()) << part.name;
    for (const OptionHelp& option : part.options) EXPECT_FALSE(option.help.empty() || option.kind.empty());
  }
  EXPECT_EQ(names.size(), 24u);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace saddle::primal

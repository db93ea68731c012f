// What the written form and its documents refuse, and what they say about it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saddle/primal/testing_internal.hpp"

namespace saddle::primal {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

struct Mistake {
  const char* text;
  int position;  // 0: the value as a whole
  std::vector<const char*> says;
};

// Position, what was expected, and the nearest name.
TEST(WrittenErrors, NamePositionExpectationAndNearestName) {
  const std::vector<Mistake> mistakes{
      {"   ", 4, {"expected a kernel or a mechanism", "the end"}},
      {"softmx", 1, {"unknown name 'softmx'", "softmax, rbf, dot, poly, linear, cosine", "did you mean 'softmax'?"}},
      {"Softmax", 1, {"'Softmax'", "did you mean 'softmax'?"}},
      {"zzzzz", 1, {"unknown name 'zzzzz'", "softmax"}},
      {"bn", 1, {"found the part 'bn'", "expected a kernel", "write softmax+bn"}},
      {"softmax+bm", 9, {"unknown part 'bm'", "did you mean 'bn'?"}},
      {"softmax + windw(3)", 11, {"unknown part 'windw'", "did you mean 'window'?"}},
      {"softmax+", 9, {"expected a part after '+'", "the end"}},
      {"softmax++bn", 9, {"expected a part after '+'", "'+'"}},
      {"softmax bn", 9, {"expected '+' or the end", "'b'"}},
      {"softmax)", 8, {"expected '+' or the end", "')'"}},
      {"softmax(", 9, {"expected a value", "the end"}},
      {"softmax(scale=1", 16, {"expected ',' or ')'", "the end"}},
      {"softmax(scale=)", 15, {"expected a value", "')'"}},
      {"softmax(,)", 9, {"expected a value", "','"}},
      {"softmax(scale=1,)", 17, {"expected a value", "')'"}},
      {"softmax(scale=1=2)", 16, {"expected ',' or ')'", "'='"}},
      {"softmax+bn(bata=0.6)", 12, {"unknown option 'bata'", "beta, scale, eps", "did you mean 'beta'?"}},
      {"softmax+bn(beta=x)", 12, {"'beta' takes a number", "'x'"}},
      {"softmax+bn(beta=0.6,beta=0.7)", 21, {"'beta' is given twice"}},
      {"softmax+bn(0.6,beta=0.7)", 16, {"'beta' is given twice"}},
      {"softmax+window(2,radius=3)", 18, {"'radius' is given twice"}},
      {"softmax+window(radius=3,2)", 25, {"'radius' is given twice"}},
      {"softmax+sh(1,factors=2)", 14, {"'factors' is given twice"}},
      {"softmax+sh(factors=1,2)", 22, {"'factors' is given twice"}},
      {"softmax+sh(1,two)", 14, {"a list of whole numbers", "two"}},
      {"softmax+bn(scale=sdt)", 12, {"none or std", "did you mean 'std'?"}},
      {"softmax+bn(stats=globl)", 12, {"auto, global or subset", "did you mean 'global'?"}},
      {"linear(elu)", 8, {"elu1, relu, taylor or random", "did you mean 'elu1'?"}},
      {"linear(taylor,order=2.5)", 15, {"a whole number", "'2.5'"}},
      {"linear(taylor,order=99999999999999999999)", 15, {"a whole number"}},
      {"softmax+window(3,4)", 18, {"a value '4' too many", "radius"}},
      {"softmax+causal(1)", 16, {"a value '1' too many", "no options"}},
      {"softmax+causal(x=1)", 16, {"unknown option 'x'", "expected none"}},
      {"softmax+full(1)", 14, {"full takes no options"}},
      {"cosine(1)", 8, {"cosine takes no options"}},
      {"softmax+conv2d(3)", 16, {"rows x columns such as 4x5", "'3'"}},
      {"softmax+conv2d(0x3)", 16, {"rows x columns"}},
      {"softmax+conv2d(3x3x3)", 16, {"rows x columns"}},
      {"softmax+sh(pool=2d,grid=4294967296x4294967296)", 20, {"rows x columns"}},
      {"softmax+conv1d(3,share=yes)", 18, {"true or false", "'yes'"}},
      {"softmax+rbf", 9, {"'rbf' is a second kernel"}},
      {"softmax+one+sum", 13, {"'sum' is a second normaliser"}},
      {"softmax+sh(1)+sh(2)", 15, {"'sh' is a second reduction"}},
      {"softmax+bias+bias", 14, {"'bias' is a second bias"}},
      {"softmax+residual+residual", 18, {"'residual' is a second residual"}},
      {"softmax(scale=nan)", 0, {"scale > 0"}},
      {"softmax(scale=inf)", 0, {"scale > 0"}},
  };
  for (const Mistake& mistake : mistakes) {
    const std::string message = message_of([&] { parse(mistake.text); });
    EXPECT_THAT(message, HasSubstr(std::string("attention '") + mistake.text + "'"));
    const std::string at = mistake.position > 0 ? "position " + std::to_string(mistake.position) + ":" : ": ";
    EXPECT_THAT(message, HasSubstr(at)) << mistake.text;
    for (const char* part : mistake.says) EXPECT_THAT(message, HasSubstr(part)) << mistake.text;
  }
}

// Values that declare no primal problem, with the reason from the theory.
TEST(WrittenErrors, RefusalsGiveTheReason) {
  const std::vector<std::pair<const char*, std::vector<const char*>>> refusals{
      {"linear(relu)+sum(den_eps=0)", {"non-zero at every query and key", "'linear' can vanish"}},
      {"poly(degree=2)+sum(den_eps=0)", {"'poly' can vanish"}},
      {"poly(degree=3)+sum(den_eps=0)", {"'poly' can change sign"}},
      {"dot+sum(den_eps=0)", {"'dot' can change sign"}},
      {"cosine+sum(den_eps=0)", {"'dot' can change sign"}},
      {"linear(taylor,order=3)+sum(den_eps=0)", {"'linear' can change sign"}},
      {"softmax+sum(den_eps=-1)", {"den_eps must be a number that is not negative"}},
      {"softmax+sum(den_eps=nan)", {"den_eps"}},
      {"softmax+constant(0)", {"finite and non-zero"}},
      {"softmax+constant(inf)", {"finite and non-zero"}},
      {"softmax(scale=-1)", {"positive semi-definite only for scale > 0"}},
      {"softmax(scale=0)", {"scale > 0"}},
      {"rbf(gamma=-0.5)", {"positive semi-definite only for gamma > 0"}},
      {"poly(coef0=-1)", {"feature map only for coef0 >= 0"}},
      {"poly(degree=0)", {"between 1 and 100"}},
      {"linear(taylor,order=-1)", {"between 0 and 20"}},
      {"linear(random,count=0)", {"at least one random feature"}},
      {"linear(random,seed=-1)", {"seed must not be negative"}},
      {"linear(elu1,order=3)", {"only the taylor map has an order"}},
      {"linear(relu,count=5)", {"only random features"}},
      {"softmax+bn(eps=-1)", {"eps not negative"}},
      {"softmax+bn(beta=nan)", {"beta must be finite"}},
      {"softmax+bn+bn", {"both 'bn' and 'bn'", "once"}},
      {"softmax+conv1d(3)+conv2d(3x3)", {"'conv1d' and 'conv2d'", "once"}},
      {"softmax+conv1d(4)", {"odd"}},
      {"softmax+conv1d(-3)", {"odd, positive and at most 1023"}},
      {"softmax+conv1d(1025)", {"at most 1023"}},
      {"linear(random,count=99999999)", {"at most 16777216"}},
      {"softmax+conv2d(3x2)", {"3x2", "odd"}},
      {"softmax+conv1d(3,axis=token)+sh", {"same map for queries and keys", "another token axis"}},
      {"softmax+conv2d(3x3,axis=token)+sh", {"same map for queries and keys"}},
      {"softmax+bn(stats=subset)+conv1d(3,axis=token)", {"per-query statistics", "no common token axis"}},
      {"softmax+sh(1,0)", {"pooling factor of 0"}},
      {"softmax+sh(prefix=1)", {"grid and prefix belong to pool=2d"}},
      {"softmax+sh(grid=2x2)", {"grid and prefix belong to pool=2d"}},
      {"softmax+sh(pool=2d,prefix=-1)", {"must not be negative"}},
      {"softmax+window(-1)", {"radius=-1", "at least 0"}},
      {"softmax+local(0)", {"ctx=0", "at least 1"}},
      {"softmax+window(9223372036854775807)", {"radius=9223372036854775807", "at most 1099511627776"}},
      {"softmax+local(9223372036854775807)", {"ctx=9223372036854775807", "at most 1099511627776"}},
      {"softmax+strided(1099511627777)", {"ctx=1099511627777", "at most 1099511627776"}},
      {"softmax+global_window(9223372036854775807)", {"radius=9223372036854775807", "at most 1099511627776"}},
      {"softmax+global_window(1,n_global=9223372036854775807)", {"n_global=", "at most 1099511627776"}},
      {"softmax+fixed(9223372036854775807)", {"ctx=", "at most 1099511627776"}},
      {"softmax+sh(9223372036854775807)", {"factor of 9223372036854775807", "limit of 1099511627776"}},
      {"softmax+strided(0)", {"ctx=0", "at least 1"}},
      {"softmax+global_window(1,n_global=-1)", {"n_global=-1"}},
      {"softmax+fixed(16,blocksize=3)", {"whole blocks"}},
      {"softmax+fixed(4,num_verts=3,vertsize=2)", {"3 groups of 2 columns", "a stride of 4"}},
      {"softmax+fixed(4,num_verts=4294967296,vertsize=4294967296)", {"fixed(num_verts="}},
      {"softmax+fixed(0)", {"at least 1"}},
  };
  for (const auto& [text, says] : refusals) {
    const std::string message = message_of([&, t = text] { parse(t); });
    EXPECT_THAT(message, HasSubstr(text));
    for (const char* part : says) EXPECT_THAT(message, HasSubstr(part)) << text;
  }
}

// Under a causal key set what leaks the future must be asked for; the defaults do not leak.
TEST(WrittenErrors, LeaksMustBeAskedFor) {
  for (const char* keys : {"causal", "local(4)", "strided(4)", "fixed(4)", "window(3)+causal"}) {
    const std::string with = std::string("+") + keys;
    const auto written = [](const char* leaking, const std::string& rest) { return parse(leaking + rest); };
    for (const char* leaking : {"softmax+bn(stats=global", "softmax+sh(1,2,visibility=any",
                                "softmax+conv1d(3,axis=token", "softmax+conv2d(3x3,axis=token"}) {
      EXPECT_THAT(message_of([&] { written(leaking, ")" + with); }),
                  HasSubstr("see keys that its causal key set hides"));
      EXPECT_NO_THROW(written(leaking, ",leak=allow)" + with)) << leaking << with;
      EXPECT_NO_THROW(written(leaking, ")")) << leaking;
      EXPECT_NO_THROW(written(leaking, ")+window(3)+padding+explicit")) << leaking;
    }
    const Attention value = parse("softmax+bn+sh(1,2)" + with);
    EXPECT_EQ(stats_of(value, std::get<BatchNorm>(value.transforms[0])), Stats::subset);
    EXPECT_EQ(visibility_of(value, *value.pooling), Visibility::all);
    EXPECT_NO_THROW(parse("softmax+bn(stats=subset)+sh(visibility=all)" + with));
  }
  const Attention value = parse("softmax+bn+sh(1,2)+window(3)");
  EXPECT_EQ(stats_of(value, std::get<BatchNorm>(value.transforms[0])), Stats::global);
  EXPECT_EQ(visibility_of(value, *value.pooling), Visibility::any);
}

TEST(WrittenErrors, DocumentsSayWhatIsWrong) {
  const std::vector<std::pair<std::string, std::vector<const char*>>> documents{
      {"{", {"not valid JSON"}},
      {"", {"not valid JSON"}},
      {"1e999", {"not valid JSON"}},
      {"3", {"expected a written form or an object", "3"}},
      {"[]", {"expected a written form or an object"}},
      {"{}", {"\"kernel\""}},
      {R"({"kernel": 3})", {"a kernel must be", "3"}},
      {R"({"kernel": {"scale": 2}})", {"\"name\""}},
      {R"({"kernel": {"name": "softmx"}})", {"unknown name 'softmx'", "did you mean 'softmax'?"}},
      {R"({"kernel": "softmax", "transforms": []})", {"unknown member 'transforms'", "did you mean 'transform'?"}},
      {R"({"kernel": "softmax", "transform": {"name": "causal"}})", {"'causal' is a keys, not a transform"}},
      {R"({"kernel": "softmax", "transform": "causal"})", {"'causal' is a keys, not a transform"}},
      {R"({"kernel": {"name": "softmax", "scale": {}}})", {"kernel.scale", "{}"}},
      {R"({"kernel": {"name": "softmax", "scale": null}})", {"kernel.scale", "null"}},
      {R"({"kernel": {"name": "softmax", "scal": 1}})", {"unknown option 'scal'", "did you mean 'scale'?"}},
      {R"({"kernel": {"name": "linear", "seed": 18446744073709551615}})", {"a whole number", "18446744073709551615"}},
      {R"("softmax+bm")", {"position 9", "did you mean 'bn'?"}},
      {R"({"kernel": "dot", "normaliser": {"name": "sum", "den_eps": 0}})", {"can change sign"}},
  };
  for (const auto& [text, says] : documents) {
    const std::string message = message_of([&, t = text] { parse_json(t); });
    for (const char* part : says) EXPECT_THAT(message, HasSubstr(part)) << text;
  }
  EXPECT_THAT(message_of([] { parse_toml("kernel = "); }), HasSubstr("not valid TOML, line 1, column"));
  EXPECT_THAT(message_of([] { parse_toml("kernel = 2020-01-01"); }), HasSubstr("dates"));
}

// A number keeps its value whatever the document's integer type: here it is far above 2^63.
TEST(WrittenErrors, LargeNumbersOfDocumentsAreNotWrapped) {
  const Attention value =
      parse_json(R"({"kernel": "softmax", "transform": [{"name": "bn", "beta": 18446744073709551615}]})");
  EXPECT_EQ(std::get<BatchNorm>(value.transforms[0]).beta, 18446744073709551615.0);
}

// Hostile nesting ends in an error, not in a stack overflow.
TEST(WrittenErrors, DeepNestingIsRefused) {
  std::string wrapped = "\"softmax\"";
  const std::string opening = "{\"attention\":";
  std::string before, after;
  for (int depth = 0; depth < 100000; ++depth) before += opening, after += "}";
  wrapped = before + wrapped + after;
  EXPECT_FALSE(message_of([] { parse_json(std::string(1000000, '[')); }).empty());
  EXPECT_FALSE(message_of([] { parse_json(std::string(1000000, '[') + std::string(1000000, ']')); }).empty());
  EXPECT_FALSE(message_of([&] { parse_json(wrapped); }).empty());
  EXPECT_FALSE(message_of([] { parse_toml("kernel = " + std::string(100000, '[')); }).empty());
}

}  // namespace
}  // namespace saddle::primal

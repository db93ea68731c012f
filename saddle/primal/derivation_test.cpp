#include "saddle/primal/derivation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"
#include "saddle/primal/derivation/formula.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::primal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string derived(const std::string& written, Format format = Format::text, bool certificate = false) {
  const Attention attention = parse(written);
  DerivationOptions options;
  options.format = format;
  options.dims = fitting_dims(attention);
  options.certificate = certificate;
  return derive(attention, options);
}

// With every run of blanks and line ends as one blank, so that wrapping and alignment do not matter.
std::string squeezed(const std::string& text) {
  std::string out;
  for (char c : text)
    if (c != ' ' && c != '\n') {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  return out;
}

const std::vector<std::string> kernels{"softmax",
                                       "softmax(scale=0.3)",
                                       "rbf",
                                       "rbf(gamma=2)",
                                       "dot",
                                       "poly",
                                       "poly(degree=3,coef0=0)",
                                       "linear(elu1)",
                                       "linear(relu)",
                                       "linear(taylor,order=3)",
                                       "linear(random,count=16)"};
const std::vector<std::string> normalisers{"", "+sum(den_eps=0.01)", "+one", "+constant(2.5)", "+sqrt_length"};
const std::vector<std::string> transforms{"",        "+bn(beta=0.6)", "+bn(scale=std,learn=head)", "+l2",
                                          "+conv1d", "+conv2d",       "+conv1d(5)+bn+l2"};
const std::vector<std::string> poolings{"", "+sh", "+sh(1,3,tail=drop)", "+sh(1,2,pool=2d,grid=2x4,prefix=1)"};
const std::vector<std::string> key_sets{"",
                                        "+causal",
                                        "+window(2)",
                                        "+local(3)",
                                        "+strided(3)",
                                        "+fixed(4,blocksize=2)",
                                        "+global_window(1)",
                                        "+padding",
                                        "+explicit",
                                        "+causal+window(3)+padding"};
const std::vector<std::string> offsets{"", "+bias", "+residual", "+bias+residual"};

void expect_well_formed_latex(const std::string& text) {
  EXPECT_THAT(text, AllOf(HasSubstr("\\begin{document}"), HasSubstr("\\end{document}")));
  int depth = 0, left = 0;
  bool math = false;
  std::vector<std::string> environments;
  for (std::size_t i = 0; i < text.size(); ++i) {
    ASSERT_LT(static_cast<unsigned char>(text[i]), 0x80) << "not ASCII";
    if (text[i] == '\\') {
      const auto begins = [&](std::string_view word) { return text.compare(i, word.size(), word) == 0; };
      if (begins("\\begin{")) environments.push_back(text.substr(i + 7, text.find('}', i) - i - 7));
      if (begins("\\end{")) {
        ASSERT_FALSE(environments.empty());
        EXPECT_EQ(text.substr(i + 5, text.find('}', i) - i - 5), environments.back());
        environments.pop_back();
      }
      left += begins("\\left(") ? 1 : begins("\\right)") ? -1 : 0;
      ++i;  // an escaped brace or dollar counts as text
      continue;
    }
    depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
    ASSERT_GE(depth, 0);
    if (text[i] == '$') math = !math;
  }
  EXPECT_EQ(depth, 0);
  EXPECT_EQ(left, 0);
  EXPECT_FALSE(math);
  EXPECT_TRUE(environments.empty());
}

// Every tag is closed in order, and every < and & is markup.
void expect_well_formed_html(const std::string& text) {
  const std::vector<std::string> empty_elements{"meta", "wbr", "!DOCTYPE", "mspace"};
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const std::size_t end = text.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = text.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (std::find(empty_elements.begin(), empty_elements.end(), name) != empty_elements.end()) continue;
    if (name[0] == '/') {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(tag.substr(1), open.back());
      open.pop_back();
    } else {
      ASSERT_TRUE(std::isalpha(static_cast<unsigned char>(name[0]))) << tag;
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
  for (const char* network : {"http:", "https:", "src=", "url("}) EXPECT_THAT(text, Not(HasSubstr(network)));
}

void expect_derives(const std::string& written) {
  SCOPED_TRACE(written);
  const std::string text = derived(written), markdown = derived(written, Format::markdown);
  for (const char* step : {"0 The value", "1 The primal problem", "2 The Lagrangian", "3 Stationarity",
                           "4 The expansion", "5 Two ways", "6 What it costs"})
    EXPECT_THAT(text, HasSubstr(step));
  EXPECT_THAT(text, AllOf(HasSubstr("y_i = "), Not(HasSubstr("\\")), Not(HasSubstr("$"))));
  EXPECT_THAT(markdown, AllOf(HasSubstr("## 4. The expansion"), HasSubstr("$$\n")));
  expect_well_formed_latex(derived(written, Format::latex));
  expect_well_formed_html(derived(written, Format::html));
}

TEST(Derivation, CoversEveryKernelAndNormaliser) {
  for (const auto& kernel : kernels)
    for (const auto& normaliser : normalisers) expect_derives(kernel + normaliser);
}

TEST(Derivation, CoversEveryKernelAndTransform) {
  for (const auto& kernel : kernels)
    for (const auto& transform : transforms) expect_derives(kernel + transform);
}

TEST(Derivation, CoversTransformsPoolingsAndKeySets) {
  for (const std::string kernel : {"softmax", "linear(elu1)"})
    for (const auto& transform : transforms)
      for (const auto& pooling : poolings)
        for (const auto& keys : key_sets) expect_derives(kernel + transform + pooling + keys);
}

TEST(Derivation, CoversOffsetsAndTokenConvolutions) {
  for (const auto& offset : offsets)
    for (const std::string value :
         {"softmax", "dot+causal", "softmax+conv1d(axis=token)+bn", "rbf+bn+conv2d(axis=token)"})
      expect_derives(value + offset);
}

TEST(Derivation, WritesTheFormulaOfThisValue) {
  const auto expect = [](const std::string& written, const std::string& formula) {
    EXPECT_THAT(squeezed(derived(written)), HasSubstr(formula)) << written;
  };
  expect("softmax", "y_i = Σ_{j < M} softmax_j((q_i · k_j)/√D) v_j");
  expect("softmax(scale=0.3)", "softmax_j(0.3 q_i · k_j) v_j");
  expect("softmax+bn(beta=0.6)", "softmax_j(((q_i - βμ) · (k_j - βμ))/√D) v_j");
  expect("softmax+bn(beta=0.6)", "q̃_i = q_i - βμ y_i");
  expect("softmax+bn(beta=0.6)", "y_i = Σ_{j < M} softmax_j((q̃_i · k_j)/√D) v_j");
  expect("softmax+bn(beta=0.6)", "β = 0.6 ");
  expect("softmax+bn(scale=std)", "q̃_i = (q_i - βμ)/σ²");
  expect("softmax+bn+causal", "q̃_i = q_i - βμ_i");
  expect("softmax+sh(1,2)", "y_i = Σ_{J < N_s} softmax_J((q_i · k̄_J)/√D) v̄_J");
  expect("softmax+sh(1,2)", "N_s = ⌈M/f_s⌉");
  expect("softmax+sh+causal", "M̄_i = {J : P_J ⊆ M_i}");
  expect("softmax+sh+window(2)", "M̄_i = {J : P_J ∩ M_i ≠ ∅}");
  expect("softmax+conv1d(3)", "softmax_j(((c ∗ q_i) · (c ∗ k_j))/√D) v_j");
  expect("softmax+conv1d(3)", "(c ∗ x)(d) = Σ_{f<3} c_f x(d + f - 1)");
  expect("softmax+conv1d(3,axis=token)", "((c ∗ q)_i · (c ∗ k)_j)/√D");
  expect("rbf(gamma=0.5)", "softmax_j(q_i · k_j - 0.5 ‖k_j‖²) v_j");
  expect("rbf", "softmax_j((q_i · k_j - 1/2 ‖k_j‖²)/√D) v_j");
  expect("rbf+bn", "bn changes nothing");
  expect("poly(degree=3)", "y_i = Σ_{j < M} (q_i · k_j + 1)³ v_j");
  expect("dot", "y_i = Σ_{j < M} (q_i · k_j) v_j");
  expect("softmax+constant(2.5)", "y_i = 1/2.5 Σ_{j < M} exp((q_i · k_j)/√D) v_j");
  expect("linear(elu1)", "y_i = (Σ_{j < M} Φ(q_i) · Φ(k_j) v_j)/(Σ_{j < M} Φ(q_i) · Φ(k_j) + 10^-6)");
  expect("linear(elu1)+bn", "do not cancel");
  expect("softmax+window(2)", "M_i = {j : |i - j| ≤ 2}");
  expect("softmax+window(2)", "shares one v_j among all queries");
  expect("softmax+bias+residual", "v_j + b + r_i");
  expect("softmax+bias+residual", "y - r");
  expect("softmax+bias", "∂L_e/∂b_e = 0");
}

TEST(Derivation, WritesTheWholeOfTheStandardSteps) {
  const std::string text = squeezed(derived("softmax"));
  EXPECT_THAT(text, AllOf(HasSubstr("f(x) = W Φ(x)/h(x)"), HasSubstr("1/2 ‖w_e‖² + C Σ_{j < M} (ξ_je + ξ̃_je)"),
                          HasSubstr("∂L_e/∂w_e = 0 ⇒ w_e = Σ_{j < M} (a_je - ã_je) Φ(k_j)/h(k_j)"),
                          HasSubstr("v_j = (a_j - ã_j)/h(k_j)"), Not(HasSubstr("∂b_e"))));
}

TEST(Derivation, NamesBothFormsOrTheReason) {
  EXPECT_THAT(squeezed(derived("linear(elu1)")),
              AllOf(HasSubstr("W = Σ_{j < M} v_j Φ(k_j)ᵀ"), HasSubstr("z = Σ_{j < M} Φ(k_j)"),
                    HasSubstr("F = 4 features"), HasSubstr("break even")));
  EXPECT_THAT(squeezed(derived("linear(elu1)+causal")), HasSubstr("running sum"));
  EXPECT_THAT(squeezed(derived("softmax")), AllOf(HasSubstr("There is no primal form"), HasSubstr("is infinite")));
  EXPECT_THAT(squeezed(derived("linear(elu1)+explicit")), HasSubstr("mask of queries by keys"));
}

TEST(Derivation, EndsWithTheVerdict) {
  for (const std::string written : {"softmax+bn(beta=0.6)+sh(1,2)", "linear(elu1)+conv1d+padding+bias", "rbf+explicit",
                                    "poly(degree=3)+residual", "dot+causal"})
    for (Format format : {Format::text, Format::markdown, Format::latex, Format::html}) {
      const std::string text = derived(written, format, true);
      EXPECT_THAT(text, AllOf(HasSubstr("The certificate"), HasSubstr("duality gap"), HasSubstr("support vectors"),
                              HasSubstr("The certificate holds")))
          << written;
    }
  EXPECT_THAT(derived("softmax", Format::text, true), AllOf(HasSubstr("truncation error"), HasSubstr("Taylor degree")));
  EXPECT_THAT(derived("linear(elu1)", Format::text, true), Not(HasSubstr("truncation error")));
}

TEST(Derivation, IsAFunctionOfItsSeed) {
  DerivationOptions options;
  options.seed = 7;
  const Attention attention = parse("softmax+conv1d+explicit");
  const std::string first = derive(attention, options);
  EXPECT_EQ(first, derive(attention, options));
  options.seed = 8;
  EXPECT_NE(first, derive(attention, options));
}

TEST(Derivation, IsAlsoData) {
  const auto json = nlohmann::json::parse(derive_json(parse("linear(elu1)+sh(1,2)"), {}));
  EXPECT_EQ(json["written"], "linear(elu1)+sh(1,2)");
  EXPECT_EQ(json["dims"]["N"], 8);
  ASSERT_EQ(json["steps"].size(), 8u);
  EXPECT_EQ(json["steps"][4]["title"], "The expansion");
  bool formula = false;
  for (const auto& block : json["steps"][4]["blocks"])
    if (block["type"] == "formula") formula = formula || block["latex"].size() == block["text"].size();
  EXPECT_TRUE(formula);
  ASSERT_EQ(json["cost"]["rows"].size(), 12u);  // two heads and all of them, two passes, two forms
  EXPECT_GT(json["cost"]["rows"][0]["multiply_adds"], 0);
  EXPECT_EQ(json["cost"]["cheaper"], "primal");
  EXPECT_TRUE(json["certificate"]["holds"]);
  EXPECT_TRUE(json["certificate"]["converged"]);
  EXPECT_LE(json["certificate"]["gap"], 1e-8);

  // A failing certificate, and one that does not exist, say so in the same place.
  const auto beyond = nlohmann::json::parse(derive_json(parse("softmax(scale=5)"), {}));
  EXPECT_FALSE(beyond["certificate"]["holds"]);
  const auto none = nlohmann::json::parse(derive_json(parse("cosine+bn(stats=subset)+window(0)"), {}));
  EXPECT_FALSE(none["certificate"]["holds"]);
  EXPECT_THAT(none["certificate"]["reason"], HasSubstr("Gram matrix is zero"));

  DerivationOptions without;
  without.certificate = false;
  EXPECT_TRUE(nlohmann::json::parse(derive_json(parse("softmax"), without))["certificate"].is_null());
}

TEST(Derivation, EscapesWhatItPrints) {
  EXPECT_EQ(escape_html("a<b & \"c\">"), "a&lt;b &amp; &quot;c&quot;&gt;");
  EXPECT_EQ(to_mathml("j < M"), "<mrow><mi>j</mi><mo>&lt;</mo><mi>M</mi></mrow>");
  EXPECT_THAT(derived("linear(elu1)+global_window(1)", Format::latex), HasSubstr("global\\_window(1)"));
  EXPECT_THAT(derived("linear(elu1)+global_window(1)", Format::markdown), HasSubstr("`global_window(1)`"));
}

TEST(Derivation, RefusesShapesThatDoNotFit) {
  EXPECT_THROW(derive(parse("softmax+sh(1,1,2)"), {}), InvalidArgument);
  const Dims dims = fitting_dims(parse("softmax+sh(1,1,2,pool=2d,grid=3x4,prefix=1)+conv2d(3x3,grid=2x3)"));
  EXPECT_EQ(dims, (Dims{1, 3, 13, 13, 6, 4}));
}

TEST(Derivation, ParsesFormats) {
  EXPECT_EQ(parse_format("text"), Format::text);
  EXPECT_EQ(parse_format("html"), Format::html);
  try {
    parse_format("markdwon");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("text, markdown, latex, html"));
    EXPECT_EQ(error.hint(), "did you mean 'markdown'?");
  }
}

TEST(Formula, PrintsPlainText) {
  EXPECT_EQ(to_plain("\\frac{a + b}{\\sqrt{D}}"), "(a + b)/√D");
  EXPECT_EQ(to_plain("\\frac{W \\Phi(x)}{h(x)}"), "W Φ(x)/h(x)");
  EXPECT_EQ(to_plain("q'_i \\cdot \\tilde k_{je}"), "q'_i · k̃_je");
  EXPECT_EQ(to_plain("10^{-6}"), "10^-6");
  EXPECT_EQ(to_plain("D^{1/4}"), "D^(1/4)");
  EXPECT_EQ(to_plain("\\sqrt{\\frac{a}{b}}"), "√(a/b)");
  EXPECT_EQ(display_width("k̄'_J ≤ 3"), 8u);
}

TEST(Formula, RefusesWhatItCannotRead) {
  EXPECT_THROW(to_plain("\\unknown"), Error);
  EXPECT_THROW(to_plain("(a"), Error);
  EXPECT_THROW(to_plain("a)"), Error);
  EXPECT_THROW(to_plain("\\frac{a}{b"), Error);
}

}  // namespace
}  // namespace saddle::primal

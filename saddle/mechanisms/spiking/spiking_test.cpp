#include "saddle/mechanisms/spiking/spiking.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "places.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/io/safetensors.hpp"
#include "saddle/mechanisms/spiking/energy.hpp"
#include "saddle/mechanisms/spiking/shiftmax.hpp"

namespace saddle::mechanisms::spiking {
namespace {

using tape::Value;

Value drawn(const Shape& shape, std::string_view name, double scale = 1) {
  Stream stream(5, name);
  std::vector<double> data(static_cast<std::size_t>(element_count(shape)));
  for (double& number : data) number = scale * stream.normal();
  return {shape, std::move(data)};
}

TEST(SpikingNeuron, OfSpikingJellyIsThePrintedOneAtHalfTheInput) {
  const Value x = drawn({6, 50}, "x", 2);
  Neuron printed = Neuron::ternary();
  printed.form = Form::binary;
  const Value s = fire(x, Neuron()).s;
  EXPECT_EQ(s.data(), fire(x * Value(0.5), printed).s.data());
  double sum = 0;
  for (const double spike : s.data()) sum += spike;
  EXPECT_GT(sum, 20);
  EXPECT_LT(sum, 250);
}

TEST(SpikingNeuron, FiresOnItsThreshold) {
  const Value x({1, 5}, {1.0, -1.0, 0.999999, 0.0, -3.0});
  EXPECT_EQ(fire(x, Neuron::ternary()).s.data(), (std::vector<double>{1, -1, 0, 0, -1}));
  EXPECT_EQ(fire(x * Value(2.0), Neuron()).s.data(), (std::vector<double>{1, 0, 0, 0, 0}));
  EXPECT_EQ(spike(Neuron::ternary().with_threshold(0), 0.0), 0.0);
}

TEST(SpikingNeuron, LeavesWhatItsFormSays) {
  const Value x({2, 1}, {3.0, 1.0});
  EXPECT_EQ(fire(x, Neuron()).v.data(), (std::vector<double>{0, 0.5}));
  Neuron soft;
  soft.reset = std::nullopt;
  EXPECT_EQ(fire(x, soft).v.data(), (std::vector<double>{0.5, 0.75}));
  Neuron reset = Neuron::ternary();
  reset.reset = 0.25;
  EXPECT_EQ(fire(Value({2, 1}, {-3.0, 1.0}), reset).v.data(), (std::vector<double>{-0.25, 0.375}));
}

TEST(SpikingNeuron, RefusesWhatMakesNone) {
  const Value x = drawn({2, 3}, "x");
  Neuron neuron = Neuron::ternary();
  neuron.reset = std::nullopt;
  EXPECT_THROW(fire(x, neuron), InvalidArgument);
  neuron = {};
  neuron.tau = 0;
  EXPECT_THROW(fire(x, neuron), InvalidArgument);
  neuron = {};
  neuron.surrogate = Surrogate::clamp;
  EXPECT_THROW(fire(x, neuron), InvalidArgument);
}

TEST(SpikingShiftmax, RoundsLogarithmsUpExactly) {
  for (int e = -40; e <= 40; ++e) {
    const double power = std::ldexp(1.0, e);
    EXPECT_EQ(ceil_log2(power), e);
    EXPECT_EQ(ceil_log2(std::nextafter(power, 1e30)), e + 1);
    EXPECT_EQ(ceil_log2(std::nextafter(power, 0.0)), e);
    EXPECT_EQ(ceil_log2(static_cast<float>(power)), e);
    EXPECT_EQ(ceil_log2(std::nextafter(static_cast<float>(power), 1e30F)), e + 1);
  }
}

TEST(SpikingShiftmax, WeightsArePowersOfTwoThatHalfFillARow) {
  Value score = drawn({40, 7}, "score", 3);
  std::vector<double> whole = score.data();
  for (double& number : whole) number = std::round(number);
  const Shiftmax result = shiftmax(Value({40, 7}, whole));
  for (const double sum : result.row_sum.data()) EXPECT_TRUE(sum > 0.5 && sum <= 1) << sum;
  for (const double weight : result.weight.data()) {
    int exponent = 0;
    EXPECT_EQ(std::frexp(weight, &exponent), 0.5);
  }
}

TEST(SpikingShiftmax, LeavesMaskedKeysOut) {
  const double none = -std::numeric_limits<double>::infinity();
  const Shiftmax result = shiftmax(Value({2, 3}, {1, none, 1, none, none, none}));
  EXPECT_EQ(result.weight.data(), (std::vector<double>{0.5, 0, 0.5, 0, 0, 0}));
  EXPECT_EQ(result.gamma.data(), (std::vector<double>{2, 0}));
}

TEST(SpikingEnergy, GivesTheFigureOfSpikingformer) {
  // Spikingformer-8-512: its first convolution at four steps and its head, and what its spikes cost.
  EXPECT_EQ(4.0 * 3 * 64 * 9 * 224 * 224 + 513 * 1000, 0.347329512e9);
  const Operations operations{0.347329512e9, 6.51754094076244e9, 0};
  EXPECT_NEAR(operations.millijoules(), 7.463502601886196, 1e-12);
}

TEST(SpikingEnergy, CountsProducts) {
  EXPECT_EQ(synaptic(0.25, 4, 100).acs, 100);
  const Operations ssa = ssa_product(4, 8, 196, 64, 0.2, 0.1, 0.3);
  EXPECT_NEAR(ssa.acs, 4.0 * 8 * 196 * 64 * 64 * 0.3, 1e-3);
  const Operations bsa = bsa_product(4, 8, 196, 64, 0.2, 0.1);
  const double pairs = 4.0 * 8 * 196 * 196 * 64;
  EXPECT_NEAR(bsa.acs, 1.1 * pairs, 1e-3);
  EXPECT_EQ(bsa.shifts, pairs);
  EXPECT_NEAR(bsa.picojoules(), (0.9 * 1.1 + 0.045) * pairs, 1e-3);
  const EnergyReport report{{{"one", 1, {3, 0, 0}}, {"two", 0.5, {0, 5, 7}}}};
  EXPECT_EQ(report.total().acs, 5);
  EXPECT_NE(report.text().find("two"), std::string::npos);
}

std::map<std::string, Value> weights_of(Index C) {
  std::map<std::string, Value> weights;
  for (const std::string name : {"q", "k", "v", "proj"}) {
    weights[name + ".weight"] = drawn({C, C}, name);
    weights[name + "_bn.weight"] = tape::full({C}, 1.5);
    weights[name + "_bn.bias"] = drawn({C}, name + " bias", 0.3);
    weights[name + "_bn.running_mean"] = tape::zeros({C});
    weights[name + "_bn.running_var"] = tape::full({C}, static_cast<double>(C));
  }
  weights["proj.bias"] = tape::zeros({C});
  return weights;
}

Plan plan_of(Variant variant) {
  Spiking spiking;
  spiking.variant = variant;
  return Plan(spiking);
}

constexpr Variant variants[] = {Variant::bsa,          Variant::spikformer,     Variant::spikingformer,
                                Variant::qkformer_ssa, Variant::qkformer_token, Variant::sdsa};

// The membrane of one sample knows nothing of the next.
TEST(SpikingAttend, KeepsSamplesApart) {
  const Value x = drawn({4, 3, 5, 8}, "x", 2);
  for (const Variant variant : variants) {
    const Value all = attend(plan_of(variant), x, {}, 2, weights_of(8)).at("y");
    const Value one = attend(plan_of(variant), tape::slice(x, 1, 1, 1), {}, 2, weights_of(8)).at("y");
    EXPECT_EQ(tape::slice(all, 1, 1, 1).data(), one.data());
  }
}

// Without biases of q, k and v both are the same.
TEST(SpikingAttend, GivesTheSsaOfQkformerAsThatOfSpikformer) {
  const Value x = drawn({4, 2, 30, 8}, "x", 2);
  const auto one = attend(plan_of(Variant::spikformer), x, {}, 2, weights_of(8));
  const auto other = attend(plan_of(Variant::qkformer_ssa), x, {}, 2, weights_of(8));
  EXPECT_EQ(one.at("y").data(), other.at("y").data());
  double spikes = 0;
  for (const double s : other.at("spikes.attn_lif").data()) spikes += s;
  EXPECT_GT(spikes, 0);
}

TEST(SpikingAttend, LeavesPaddingOut) {
  const Value x = drawn({4, 1, 6, 8}, "x", 2), mask({1, 6}, {1, 1, 1, 1, 0, 0});
  for (const Variant variant : variants) {
    const Value masked = attend(plan_of(variant), x, mask, 2, weights_of(8)).at("y");
    const Value shorter = attend(plan_of(variant), tape::slice(x, 2, 0, 4), {}, 2, weights_of(8)).at("y");
    EXPECT_EQ(tape::slice(masked, 2, 0, 4).data(), shorter.data());
    EXPECT_EQ(tape::slice(masked, 2, 4, 2).data(), std::vector<double>(4 * 2 * 8, 0.0));
  }
}

TEST(SpikingAttend, NamesAMissingWeight) {
  auto weights = weights_of(8);
  weights.erase("v_bn.bias");
  try {
    attend(plan_of(Variant::bsa), drawn({2, 1, 3, 8}, "x"), {}, 2, weights);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "[spiking] the weight 'v_bn.bias' is missing");
  }
}

std::string complaint(const std::string& text, Index X = 8, Index H = 2) {
  LayerPlace place;
  place.X = X;
  place.H = H;
  try {
    find_layer(text)->check(place);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(Spiking, SaysWhatItCannotBe) {
  EXPECT_EQ(complaint("spiking(product=bmp,constraint=none)"), "");
  EXPECT_EQ(complaint("spiking", 8, 3), "[spiking] width 8 cannot be cut into 3 heads");
  EXPECT_EQ(complaint("spiking(steps=0)"), "[spiking] 0 time steps are asked for, at least 1 is needed");
  EXPECT_EQ(complaint("spiking(steps=1024)"), "");
  EXPECT_EQ(complaint("spiking(steps=100000000)"), "[spiking] 100000000 time steps are asked for, at most 1024 can be");
  EXPECT_EQ(complaint("spiking(variant=sdsa,product=bmp)"),
            "[spiking] 'product' belongs to variant=bsa, found variant=sdsa");
  EXPECT_EQ(complaint("spiking(variant=spikformer,constraint=softmax)"),
            "[spiking] 'constraint' belongs to variant=bsa, found variant=spikformer");
  EXPECT_EQ(complaint("spiking(variant=spikingformer,surrogate=clamp)"),
            "[spiking] 'surrogate' belongs to variant=bsa, found variant=spikingformer");
  EXPECT_THROW(find_layer("spiking(variant=softmax)"), InvalidArgument);
}

TEST(Spiking, GivesItsNumbersToTheNeurons) {
  const auto plan = [](const std::string& text) {
    EXPECT_EQ(find_layer(text)->text(), text);
    return Plan(find_layer(text)->part<Spiking>());
  };
  for (const auto& [text, tau] : {std::pair{"spiking", 0.5}, {"spiking(variant=sdsa)", 2.0}}) {
    const Plan usual = plan(text);
    EXPECT_EQ(usual.neuron.tau, tau);
    EXPECT_EQ(usual.attention.tau, tau);
    EXPECT_EQ(usual.neuron.threshold, 1);
    EXPECT_EQ(usual.attention.threshold, 0.5);
    EXPECT_EQ(usual.neuron.reset, 0);
  }
  const Plan other = plan("spiking(variant=sdsa,tau=3,threshold=2,attention_threshold=0.75,reset=-0.5)");
  for (const Neuron& neuron : {other.neuron, other.attention}) {
    EXPECT_EQ(neuron.tau, 3);
    EXPECT_EQ(neuron.reset, -0.5);
  }
  EXPECT_EQ(other.neuron.threshold, 2);
  EXPECT_EQ(other.attention.threshold, 0.75);
  EXPECT_FALSE(plan("spiking(variant=sdsa,soft_reset=true)").attention.reset);
  EXPECT_EQ(plan("spiking(product=bmp,tau=0.25)").neuron.tau, 0.25);
}

TEST(Spiking, SaysWhatNoNeuronCanBe) {
  EXPECT_EQ(complaint("spiking(tau=1,threshold=10,reset=-0.4)"), "");
  EXPECT_EQ(complaint("spiking(variant=sdsa,tau=1,reset=-3)"), "");
  EXPECT_EQ(complaint("spiking(tau=2)"), "[spiking] tau is 2: the factor of bsa lies above 0 and not above 1");
  EXPECT_EQ(complaint("spiking(tau=0)"), "[spiking] tau is 0: the factor of bsa lies above 0 and not above 1");
  EXPECT_EQ(complaint("spiking(variant=sdsa,tau=0.5)"), "[spiking] tau is 0.5: the divisor of sdsa must be at least 1");
  EXPECT_EQ(complaint("spiking(threshold=0)"), "[spiking] threshold is 0: it must lie above 0 and not above 10");
  EXPECT_EQ(complaint("spiking(attention_threshold=11)"),
            "[spiking] attention_threshold is 11: it must lie above 0 and not above 10");
  EXPECT_EQ(complaint("spiking(reset=-0.5)"),
            "[spiking] reset is -0.5: a neuron that fired would fire for ever, it must lie between -0.5 and 0.5");
  EXPECT_EQ(complaint("spiking(variant=sdsa,reset=0.75)"),
            "[spiking] reset is 0.75: a neuron that fired would fire for ever, it must lie below 0.5");
  EXPECT_EQ(complaint("spiking(soft_reset=true)"),
            "[spiking] 'soft_reset' belongs to the neuron of the binary variants, bsa has another");
  EXPECT_EQ(complaint("spiking(variant=sdsa,soft_reset=true,reset=0.25)"),
            "[spiking] a soft reset has no value to reset to, but 'reset' is given");
}

TEST(Spiking, CostsWhatItsOrderCosts) {
  LayerPlace place;
  place.X = 512;
  place.H = 8;
  const auto work = [&](const std::string& text, Index N) {
    place.N = N;
    return find_layer(text)->cost(place, 1, primal::Pass::forward, DType::f32).multiply_adds;
  };
  const auto growth = [&](const std::string& text) { return work(text, 65536) / work(text, 32768); };
  for (const char* text : {"spiking(variant=spikformer)", "spiking(variant=sdsa)", "spiking(constraint=none)"})
    EXPECT_NEAR(growth(text), 2, 1e-9) << text;
  EXPECT_GT(growth("spiking"), 3.8);
}

TEST(SpikingGolden, SaysWhatIsWrongWithACase) {
  const auto problem = [](const std::string& file, const std::string& key, const std::string& value) {
    TensorFile golden = io::read_safetensors(SADDLE_SOURCE_DIR "/tests/golden/" + file + ".safetensors");
    golden.metadata[key] = value;
    return check_golden(golden, file).problem;
  };
  const auto has = [](const std::string& text, const std::string& part) { return text.find(part) != text.npos; };
  EXPECT_TRUE(has(problem("bsa/bsa_eval", "kind", "other"), "known are shiftmax"));
  EXPECT_TRUE(has(problem("bsa/bsa_eval", "T", "7"), "metadata 'T' says otherwise"));
  EXPECT_TRUE(has(problem("ssa/sdsa_eval", "layout", "TBNC"), "does not have the layout"));
  EXPECT_TRUE(has(problem("ssa/sdsa_eval", "variant", "nobody"), "metadata 'variant' must be"));
}

}  // namespace
}  // namespace saddle::mechanisms::spiking

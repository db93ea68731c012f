#include "saddle/eval/statistics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "saddle/base/error.hpp"

namespace saddle::eval {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Numbers that Python makes in the same way, with `levels` different values:
//   def table(seed, rows, columns, levels):
//       s = seed; t = np.zeros((rows, columns))
//       for i in range(rows):
//           for j in range(columns): s = (s*1103515245 + 12345) % 2**31; t[i,j] = ((s >> 16) % levels)/100
Scores table(std::uint64_t seed, std::size_t rows, std::size_t columns, std::uint64_t levels) {
  Scores scores(rows, std::vector<double>(columns));
  for (auto& row : scores)
    for (double& value : row) {
      seed = (seed * 1103515245 + 12345) % (std::uint64_t{1} << 31);
      value = static_cast<double>((seed >> 16) % levels) / 100;
    }
  return scores;
}

std::vector<double> column(const Scores& scores, std::size_t j) {
  std::vector<double> values;
  for (const auto& row : scores) values.push_back(row[j]);
  return values;
}

void expect_close(double value, double expected, const std::string& what) {
  EXPECT_NEAR(value, expected, 1e-12 * expected) << what;
}

// scipy 1.10.1: t = table(seed, n, 2, levels); scipy.stats.wilcoxon(t[:,0], t[:,1]). Few levels make ties and zeros.
// Where all pairs are equal scipy raises ValueError; ours gives 0 and 1.
const struct {
  std::uint64_t seed;
  std::size_t n;
  std::uint64_t levels;
  double statistic, p;
} wilcoxon_golden[] = {{1, 1, 3, 0.0, 1.0},
                       {2, 1, 10, 0.0, 1.0},
                       {3, 1, 100, 0.0, 1.0},
                       {4, 1, 30000, 0.0, 1.0},
                       {5, 2, 3, 0.0, 0.31731050786291415},
                       {6, 2, 10, 1.0, 1.0},
                       {7, 2, 100, 1.0, 1.0},
                       {8, 2, 30000, 0.0, 0.5},
                       {9, 3, 3, 0.0, 0.31731050786291415},
                       {10, 3, 10, 1.0, 0.5},
                       {11, 3, 100, 0.0, 0.25},
                       {12, 3, 30000, 2.0, 0.75},
                       {13, 4, 3, 1.5, 0.25},
                       {14, 4, 10, 1.0, 0.25},
                       {15, 4, 100, 0.0, 0.125},
                       {16, 4, 30000, 1.0, 0.25},
                       {17, 5, 3, 4.5, 0.625},
                       {18, 5, 10, 3.0, 0.4652088184521418},
                       {19, 5, 100, 5.0, 0.625},
                       {20, 5, 30000, 7.0, 1.0},
                       {21, 6, 3, 6.5, 0.7825279247400674},
                       {22, 6, 10, 6.0, 0.4375},
                       {23, 6, 100, 2.0, 0.09375},
                       {24, 6, 30000, 0.0, 0.03125},
                       {25, 8, 3, 5.0, 0.23419430487921455},
                       {26, 8, 10, 10.5, 0.553403856847181},
                       {27, 8, 100, 13.0, 0.8657723749926214},
                       {28, 8, 30000, 11.0, 0.3828125},
                       {29, 10, 3, 4.0, 0.33399825582199794},
                       {30, 10, 10, 10.0, 0.26085804823031744},
                       {31, 10, 100, 15.0, 0.232421875},
                       {32, 10, 30000, 19.0, 0.431640625},
                       {33, 13, 3, 25.0, 0.4484228516453874},
                       {34, 13, 10, 28.5, 0.40939548620991884},
                       {35, 13, 100, 40.0, 0.7353515625},
                       {36, 13, 30000, 40.0, 0.7353515625},
                       {37, 20, 3, 21.0, 0.26980090082799224},
                       {38, 20, 10, 61.5, 0.11398696899414062},
                       {39, 20, 100, 103.5, 0.9854354858398438},
                       {40, 20, 30000, 104.0, 0.9854354858398438},
                       {41, 30, 3, 58.5, 0.037831248086469524},
                       {42, 30, 10, 143.0, 0.8412726808275693},
                       {43, 30, 100, 212.5, 0.7000329215079546},
                       {44, 30, 30000, 206.0, 0.5978077705949545},
                       {45, 49, 3, 154.0, 0.031567197331794195},
                       {46, 49, 10, 444.0, 0.9252400216485522},
                       {47, 49, 100, 515.5, 0.337686529201072},
                       {48, 49, 30000, 562.0, 0.6218805624718833},
                       {49, 50, 3, 294.0, 0.5119764628906877},
                       {50, 50, 10, 405.5, 0.13995736232868042},
                       {51, 50, 100, 591.0, 0.6596977023333945},
                       {52, 50, 30000, 593.0, 0.6736344940466168},
                       {53, 51, 3, 200.5, 0.018396419781038616},
                       {54, 51, 10, 439.5, 0.5169640868299384},
                       {55, 51, 100, 603.5, 0.7427445458794095},
                       {56, 51, 30000, 632.0, 0.7713744910172167},
                       {57, 52, 3, 392.0, 0.7998946746710969},
                       {58, 52, 10, 503.5, 0.6855191692020343},
                       {59, 52, 100, 646.0, 0.873385694004367},
                       {60, 52, 30000, 663.0, 0.812827596487347},
                       {61, 80, 3, 632.5, 0.7673340381526061},
                       {62, 80, 10, 1306.0, 0.8065579271217589},
                       {63, 80, 100, 1470.0, 0.47185649325463785},
                       {64, 80, 30000, 1380.0, 0.24968742625168028},
                       {65, 200, 3, 4092.0, 0.5811144827273298},
                       {66, 200, 10, 8912.0, 0.8324203415162506},
                       {67, 200, 100, 9458.5, 0.6272790471323154},
                       {68, 200, 30000, 9514.0, 0.5131045782834551}};

TEST(Wilcoxon, AsScipy) {
  for (const auto& golden : wilcoxon_golden) {
    const Scores scores = table(golden.seed, golden.n, 2, golden.levels);
    const TestResult result = wilcoxon(column(scores, 0), column(scores, 1));
    const std::string what = "seed " + std::to_string(golden.seed);
    expect_close(result.statistic, golden.statistic, what);
    expect_close(result.p, golden.p, what);
  }
}

// The example in scipy's documentation, from Darwin.
TEST(Wilcoxon, CornPlants) {
  const std::vector<double> d{6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75}, zero(15);
  EXPECT_EQ(wilcoxon(d, zero).statistic, 24);
  EXPECT_EQ(wilcoxon(d, zero).p, 0.041259765625);
  EXPECT_EQ(wilcoxon(zero, d).p, 0.041259765625);
}

TEST(Wilcoxon, EqualColumnsAreNotTold) {
  const std::vector<double> a{0.1, 0.2, 0.3};
  EXPECT_EQ(wilcoxon(a, a).p, 1);
  EXPECT_EQ(wilcoxon(a, a).statistic, 0);
}

TEST(Wilcoxon, RefusesWhatIsNoTest) {
  const std::vector<double> two{1, 2}, three{1, 2, 3}, broken{1, nan}, infinite{INFINITY, 1};
  EXPECT_THROW(wilcoxon(two, three), InvalidArgument);
  EXPECT_THROW(wilcoxon({}, {}), InvalidArgument);
  EXPECT_THROW(wilcoxon(two, broken), InvalidArgument);
  EXPECT_THROW(wilcoxon(broken, two), InvalidArgument);
  EXPECT_THROW(wilcoxon(infinite, infinite), InvalidArgument);
}

// scipy 1.10.1: scipy.stats.friedmanchisquare(*table(seed, n, k, levels).T); 0 and 1 where scipy gives NaN.
const struct {
  std::uint64_t seed;
  std::size_t n, k;
  std::uint64_t levels;
  double statistic, p;
} friedman_golden[] = {{69, 1, 3, 2, 2.0, 0.36787944117144245},
                       {70, 1, 3, 10, 2.0, 0.36787944117144245},
                       {71, 1, 3, 30000, 2.0, 0.36787944117144245},
                       {72, 1, 4, 2, 2.9999999999999982, 0.3916251762710893},
                       {73, 1, 4, 10, 3.0, 0.3916251762710877},
                       {74, 1, 4, 30000, 3.0, 0.3916251762710877},
                       {75, 1, 5, 2, 4.0, 0.40600584970983794},
                       {76, 1, 5, 10, 4.0, 0.40600584970983794},
                       {77, 1, 5, 30000, 4.0, 0.40600584970983794},
                       {78, 1, 8, 2, 7.0, 0.42887985755305486},
                       {79, 1, 8, 10, 7.0, 0.42887985755305486},
                       {80, 1, 8, 30000, 7.0, 0.42887985755305486},
                       {81, 1, 13, 2, 11.999999999999996, 0.4456796413646117},
                       {82, 1, 13, 10, 12.000000000000002, 0.4456796413646109},
                       {83, 1, 13, 30000, 12.0, 0.44567964136461097},
                       {84, 2, 3, 2, 1.0, 0.6065306597126334},
                       {85, 2, 3, 10, 4.0, 0.1353352832366127},
                       {86, 2, 3, 30000, 3.0, 0.22313016014842982},
                       {87, 2, 4, 2, 1.999999999999999, 0.57240670447088},
                       {88, 2, 4, 10, 1.7999999999999972, 0.614934935782538},
                       {89, 2, 4, 30000, 0.5999999999999979, 0.896432373341912},
                       {90, 2, 5, 2, 6.666666666666667, 0.1545873045047604},
                       {91, 2, 5, 10, 6.526315789473688, 0.16313980943282816},
                       {92, 2, 5, 30000, 4.0, 0.40600584970983794},
                       {93, 2, 8, 2, 11.2, 0.13012991728403578},
                       {94, 2, 8, 10, 9.450000000000001, 0.22194119977379845},
                       {95, 2, 8, 30000, 6.166666666666664, 0.520429108112821},
                       {96, 2, 13, 2, 12.300000000000008, 0.421897003110021},
                       {97, 2, 13, 10, 15.438297872340435, 0.21833757189216457},
                       {98, 2, 13, 30000, 13.120879120879124, 0.3603162647618751},
                       {99, 3, 3, 2, 4.666666666666667, 0.09697196786440507},
                       {100, 3, 3, 10, 4.999999999999997, 0.08208499862389891},
                       {101, 3, 3, 30000, 0.6666666666666643, 0.71653131057379},
                       {102, 3, 4, 2, 2.0000000000000107, 0.5724067044708776},
                       {103, 3, 4, 10, 1.0714285714285714, 0.7839754278909145},
                       {104, 3, 4, 30000, 5.800000000000004, 0.1217566197112535},
                       {105, 3, 5, 2, 5.777777777777781, 0.21636999330272172},
                       {106, 3, 5, 10, 8.689655172413792, 0.06934242967810883},
                       {107, 3, 5, 30000, 8.533333333333331, 0.07388325879671166},
                       {108, 3, 8, 2, 7.304347826086949, 0.3978938699685712},
                       {109, 3, 8, 10, 5.050632911392405, 0.6537841748498532},
                       {110, 3, 8, 30000, 2.555555555555557, 0.9228559010325819},
                       {111, 3, 13, 2, 9.096774193548397, 0.6946431546090577},
                       {112, 3, 13, 10, 9.802656546489583, 0.6332686498407667},
                       {113, 3, 13, 30000, 15.164835164835182, 0.23254564288340915},
                       {114, 5, 3, 2, 0.5000000000000071, 0.7788007830714021},
                       {115, 5, 3, 10, 1.0000000000000062, 0.6065306597126316},
                       {116, 5, 3, 30000, 1.2000000000000028, 0.5488116360940257},
                       {117, 5, 4, 2, 1.9411764705882255, 0.5847050594204302},
                       {118, 5, 4, 10, 2.872340425531918, 0.41172942089735487},
                       {119, 5, 4, 30000, 2.519999999999996, 0.47168747629307395},
                       {120, 5, 5, 2, 3.200000000000017, 0.5249309467861012},
                       {121, 5, 5, 10, 6.333333333333332, 0.17559934795531845},
                       {122, 5, 5, 30000, 1.1200000000000045, 0.8910861396041505},
                       {123, 5, 8, 2, 2.5789473684210633, 0.9210358623958518},
                       {124, 5, 8, 10, 9.720297029702964, 0.20498579025201621},
                       {125, 5, 8, 30000, 5.400000000000006, 0.6112715429395785},
                       {126, 5, 13, 2, 10.268041237113422, 0.5924582959116607},
                       {127, 5, 13, 10, 9.692832764505129, 0.6428880632722203},
                       {128, 5, 13, 30000, 11.472527472527474, 0.48891463364251175},
                       {129, 10, 3, 2, 3.000000000000019, 0.22313016014842774},
                       {130, 10, 3, 10, 0.7027027027027088, 0.7037364516598965},
                       {131, 10, 3, 30000, 1.4000000000000057, 0.496585303791408},
                       {132, 10, 4, 2, 1.0645161290322527, 0.785646187501955},
                       {133, 10, 4, 10, 8.09677419354839, 0.044053446436949896},
                       {134, 10, 4, 30000, 4.9199999999999875, 0.17774974398191704},
                       {135, 10, 5, 2, 8.545454545454575, 0.073521342925311},
                       {136, 10, 5, 10, 7.896907216494842, 0.09542845420914256},
                       {137, 10, 5, 30000, 0.2400000000000091, 0.9933508891232159},
                       {138, 10, 8, 2, 4.586206896551752, 0.7103131848923163},
                       {139, 10, 8, 10, 8.549815498154958, 0.2866122574038175},
                       {140, 10, 8, 30000, 11.300000000000011, 0.12605795224946167},
                       {141, 10, 13, 2, 9.671641791044747, 0.6447424348090589},
                       {142, 10, 13, 10, 7.799830364715846, 0.800570805201827},
                       {143, 10, 13, 30000, 9.69230769230768, 0.6429340187940529},
                       {144, 30, 3, 2, 2.7999999999999545, 0.24659696394161204},
                       {145, 30, 3, 10, 0.6666666666666919, 0.7165313105737802},
                       {146, 30, 3, 30000, 1.3999999999999773, 0.4965853037914151},
                       {147, 30, 4, 2, 1.3333333333333524, 0.7212333746277558},
                       {148, 30, 4, 10, 5.904929577464823, 0.11632834091096694},
                       {149, 30, 4, 30000, 8.04000000000002, 0.04519221940437096},
                       {150, 30, 5, 2, 1.4705882352941846, 0.8318383080301905},
                       {151, 30, 5, 10, 4.181184668989547, 0.38204015123850465},
                       {152, 30, 5, 30000, 1.9466666666667152, 0.7455678224662441},
                       {153, 30, 8, 2, 7.902222222222304, 0.3412948351470805},
                       {154, 30, 8, 10, 7.526789366053198, 0.37616142348548254},
                       {155, 30, 8, 30000, 5.011111111111177, 0.6586072155774495},
                       {156, 30, 13, 2, 16.52054794520545, 0.16853981336129378},
                       {157, 30, 13, 10, 13.30200962354932, 0.3474768584530425},
                       {158, 30, 13, 30000, 14.509890109890193, 0.2693385961138809}};

TEST(Friedman, AsScipy) {
  for (const auto& golden : friedman_golden) {
    const TestResult result = friedman(table(golden.seed, golden.n, golden.k, golden.levels));
    const std::string what = "seed " + std::to_string(golden.seed);
    EXPECT_NEAR(result.statistic, golden.statistic, 1e-9) << what;
    EXPECT_NEAR(result.p, golden.p, 1e-10) << what;
  }
}

TEST(Friedman, RefusesSmallAndBrokenTables) {
  EXPECT_THROW(friedman({{1, 2}, {2, 1}}), InvalidArgument);
  EXPECT_THROW(friedman({}), InvalidArgument);
  EXPECT_THROW(friedman({{1, 2, 3}, {1, 2}}), InvalidArgument);
  EXPECT_THROW(friedman({{1, 2, nan}}), InvalidArgument);
}

TEST(Ranks, TiesShareTheirMean) {
  EXPECT_THAT(ranks(std::vector<double>{0.5, 0.1, 0.5, 0.9, 0.5}), ElementsAre(3, 1, 3, 5, 3));
  EXPECT_THAT(ranks({}), IsEmpty());
  EXPECT_THAT(average_ranks({{0.9, 0.8, 0.8}, {0.7, 0.9, 0.8}}), ElementsAre(2, 1.75, 2.25));
  EXPECT_THROW(ranks(std::vector<double>{1, nan}), InvalidArgument);
  EXPECT_THROW(average_ranks({{1, 2}, {1}}), InvalidArgument);
  EXPECT_THROW(average_ranks({{1, nan}}), InvalidArgument);
}

TEST(Holm, ByItsFormula) {
  EXPECT_THAT(
      holm(std::vector<double>{0.01, 0.04, 0.03, 0.005}),
      ElementsAre(testing::DoubleEq(0.03), testing::DoubleEq(0.06), testing::DoubleEq(0.06), testing::DoubleEq(0.02)));
  EXPECT_THAT(holm(std::vector<double>{0.9, 0.8}), ElementsAre(1, 1));
  EXPECT_THAT(holm({}), IsEmpty());
  EXPECT_THROW(holm(std::vector<double>{nan}), InvalidArgument);
}

// scipy 1.10.1: scipy.stats.studentized_range.ppf(1 - alpha, k, inf) and .sf(q, k, inf)
TEST(Range, AsScipy) {
  const struct {
    std::size_t k;
    double alpha, q;
  } quantiles[] = {{2, 0.05, 2.77180764869936},  {2, 0.1, 2.32617430735335},  {3, 0.05, 3.31449315539812},
                   {3, 0.1, 2.90238021342825},   {5, 0.05, 3.85765551037862}, {5, 0.1, 3.47828055070307},
                   {10, 0.05, 4.47412422172591}, {10, 0.1, 4.12934639823687}, {20, 0.05, 5.01168879411844},
                   {20, 0.1, 4.69410440949051}};
  for (const auto& golden : quantiles) EXPECT_NEAR(range_quantile(1 - golden.alpha, golden.k), golden.q, 1e-8);
  const struct {
    double q;
    std::size_t k;
    double tail;
  } tails[] = {{1, 2, 0.479500122186953},
               {2, 3, 0.33349932504015},
               {4, 5, 0.0376960682205416},
               {3, 10, 0.512184073970807},
               {6, 20, 0.00360243376493075}};
  for (const auto& golden : tails) EXPECT_NEAR(range_tail(golden.q, golden.k), golden.tail, 1e-10);
  EXPECT_EQ(range_tail(0, 3), 1);
}

// Demsar (2006), section 3.2.2 and its example: four classifiers, 14 data sets.
TEST(Nemenyi, CriticalDifferenceOfDemsar) {
  EXPECT_NEAR(critical_difference(4, 14, 0.05), 1.25, 0.005);
  EXPECT_NEAR(critical_difference(4, 14, 0.1), 1.12, 0.005);
  EXPECT_THROW(critical_difference(1, 14, 0.1), InvalidArgument);
  EXPECT_THROW(critical_difference(4, 14, 0), InvalidArgument);
  EXPECT_THROW(critical_difference(4, 14, 1), InvalidArgument);
}

TEST(Spread, MeanDeviationCount) {
  const Spread three = spread(std::vector<double>{1, 2, 6});
  EXPECT_EQ(three.mean, 3);
  EXPECT_DOUBLE_EQ(three.deviation.value_or(0), std::sqrt(7));
  EXPECT_EQ(three.count, 3U);
  EXPECT_FALSE(spread(std::vector<double>{4}).deviation.has_value());
  EXPECT_THROW(spread({}), InvalidArgument);
  EXPECT_THROW(spread(std::vector<double>{nan}), InvalidArgument);
}

// Quantiles as printed in tables of Student's distribution, which give three or four digits.
TEST(Student, TailsOfTheTables) {
  struct Row {
    std::size_t degrees;
    double at5, at1;  // two-sided
  };
  for (const auto& [degrees, at5, at1] : {Row{1, 12.706, 63.657},
                                          {2, 4.303, 9.925},
                                          {3, 3.182, 5.841},
                                          {4, 2.776, 4.604},
                                          {9, 2.262, 3.250},
                                          {10, 2.228, 3.169},
                                          {30, 2.042, 2.750}}) {
    EXPECT_NEAR(student_tail(at5, degrees), 0.05, 1e-4) << degrees;
    EXPECT_NEAR(student_tail(-at1, degrees), 0.01, 2e-5) << degrees;
  }
  EXPECT_EQ(student_tail(0, 5), 1);
  EXPECT_THROW(student_tail(1, 0), InvalidArgument);
}

TEST(Student, IntervalOfAMean) {
  const auto interval = mean_interval(spread(std::vector<double>{1, 2, 3, 4, 5}));
  ASSERT_TRUE(interval.has_value());
  EXPECT_NEAR(interval->low, 3 - 2.776445 * std::sqrt(0.5), 1e-5);
  EXPECT_NEAR(interval->high, 3 + 2.776445 * std::sqrt(0.5), 1e-5);
  const auto pair = mean_interval(spread(std::vector<double>{0, 2}), 0.5);
  ASSERT_TRUE(pair.has_value());
  EXPECT_NEAR(pair->high, 2, 1e-12);  // the quartiles of Cauchy's distribution are -1 and 1
  const auto point = mean_interval(spread(std::vector<double>{7, 7}));
  ASSERT_TRUE(point.has_value());
  EXPECT_EQ(point->low, 7);
  EXPECT_EQ(point->high, 7);
  EXPECT_FALSE(mean_interval(spread(std::vector<double>{4})).has_value());
  EXPECT_THROW(mean_interval(spread(std::vector<double>{1, 2}), 1), InvalidArgument);
}

TEST(WinDrawLoss, Counts) {
  const WinDrawLoss count = win_draw_loss(std::vector<double>{1, 2, 3, 4}, std::vector<double>{0, 2, 5, 1});
  EXPECT_EQ(count.win, 2U);
  EXPECT_EQ(count.draw, 1U);
  EXPECT_EQ(count.loss, 1U);
  EXPECT_THROW(win_draw_loss(std::vector<double>{1}, {}), InvalidArgument);
}

std::vector<PairResult> significant(const std::vector<std::pair<std::size_t, std::size_t>>& pairs) {
  std::vector<PairResult> results;
  for (const auto& [a, b] : pairs) results.push_back({a, b, 0.001, 0.001, true, {}});
  return results;
}

TEST(Cliques, LongestRunsWithoutSignificantPair) {
  using Groups = std::vector<std::vector<std::size_t>>;
  const std::vector<double> by_rank{1, 2, 3, 4};
  EXPECT_EQ(cliques(by_rank, {}), (Groups{{0, 1, 2, 3}}));
  EXPECT_EQ(cliques(by_rank, significant({{0, 3}})), (Groups{{0, 1, 2}, {1, 2, 3}}));
  // The pair in the middle cuts every longer run, although the first differs from none but the last.
  EXPECT_EQ(cliques(by_rank, significant({{1, 2}, {0, 3}})), (Groups{{0, 1}, {2, 3}}));
  EXPECT_EQ(cliques(by_rank, significant({{0, 1}, {0, 2}, {0, 3}})), (Groups{{1, 2, 3}}));
  EXPECT_EQ(cliques(by_rank, significant({{0, 1}, {1, 2}, {2, 3}})), Groups{});
  // Groups stand in the order of ranks, whatever the order of columns.
  EXPECT_EQ(cliques(std::vector<double>{3, 1, 2}, significant({{0, 1}})), (Groups{{1, 2}, {2, 0}}));
}

TEST(Compare, TellsAClearWinner) {
  Scores scores;
  for (std::size_t i = 0; i < 10; ++i) {
    const double level = 0.5 + 0.013 * static_cast<double>(i), wobble = 0.001 * static_cast<double>(i);
    scores.push_back({level + 0.1 + wobble, level, i % 2 == 0 ? level + 0.011 + wobble : level - 0.012 - wobble});
  }
  const Comparison result = compare(scores);
  EXPECT_EQ(result.alpha, 0.1);
  EXPECT_THAT(result.ranks, ElementsAre(1, 2.5, 2.5));
  ASSERT_TRUE(result.friedman.has_value());
  EXPECT_LT(result.friedman->p, 0.01);
  ASSERT_EQ(result.pairs.size(), 3U);
  EXPECT_EQ(result.pairs[0].p, 2 / 1024.0);
  EXPECT_EQ(result.pairs[0].adjusted, 6 / 1024.0);
  EXPECT_TRUE(result.pairs[0].significant);
  EXPECT_EQ(result.pairs[0].wins.win, 10U);
  EXPECT_FALSE(result.pairs[2].significant);
  EXPECT_THAT(result.cliques, ElementsAre(ElementsAre(1, 2)));

  const Comparison nemenyi = compare(scores, Posthoc::nemenyi, 0.05);
  EXPECT_NEAR(nemenyi.critical_difference.value_or(0), critical_difference(3, 10, 0.05), 1e-12);
  EXPECT_TRUE(nemenyi.pairs[0].significant);
  EXPECT_EQ(nemenyi.pairs[2].p, 1);
  EXPECT_THAT(nemenyi.cliques, ElementsAre(ElementsAre(1, 2)));
}

TEST(Compare, TwoMethodsHaveNoFriedman) {
  const Comparison result = compare({{0.5, 0.6}, {0.7, 0.8}});
  EXPECT_FALSE(result.friedman.has_value());
  EXPECT_EQ(result.pairs.front().p, 0.5);  // the smallest there is for two pairs
  EXPECT_THAT(result.cliques, ElementsAre(ElementsAre(1, 0)));
}

TEST(Compare, RefusesWhatCannotBeCompared) {
  EXPECT_THROW(compare({{0.5, 0.6}}), InvalidArgument);
  EXPECT_THROW(compare({{0.5}, {0.6}}), InvalidArgument);
  EXPECT_THROW(compare({{0.5, nan}, {0.6, 0.7}}), InvalidArgument);
  EXPECT_THROW(compare({{0.5, 0.6}, {0.6, 0.7}}, Posthoc::wilcoxon_holm, 1.5), InvalidArgument);
}

}  // namespace
}  // namespace saddle::eval

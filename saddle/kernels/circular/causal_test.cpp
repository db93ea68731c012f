#include "saddle/kernels/circular/circular.hpp"

#include <functional>

#include "saddle/kernels/circular/reference.hpp"
#include "saddle/kernels/circular/testing_internal.hpp"

namespace saddle::kernels::circular {
namespace {

using namespace testing;

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Case {
  CircularShape shape;
  std::vector<Index> lengths;
  std::function<double(Index)> score;  // of token i; none: normal numbers
  double least = 0;                    // size of dz that errors are measured by, if all of dz is smaller

  const Index* length_data() const { return lengths.empty() ? nullptr : lengths.data(); }
};

template <class T>
struct Data {
  Block<T> z, v, dy, y, dz, dv;

  CausalCall<T> call(const Case& c, Form form = Form::automatic) const {
    return {c.shape, c.length_data(), z.flat(), v.view(), form};
  }
};

Data<double> judged(const Case& c) {
  Data<double> d{random_block(c.shape, 1, c.lengths, "z"),          random_block(c.shape, c.shape.D, c.lengths, "v"),
                 random_block(c.shape, c.shape.D, c.lengths, "dy"), Block<double>(c.shape, c.shape.D, Layout::bhnd),
                 Block<double>(c.shape, 1, Layout::bhnd),           Block<double>(c.shape, c.shape.D, Layout::bhnd)};
  if (c.score)
    d.z.each([&](Index, Index, Index i, Index, double& z) {
      if (!std::isnan(z)) z = static_cast<double>(static_cast<float>(c.score(i)));
    });
  reference::causal_forward(d.call(c), d.y.view());
  reference::causal_backward(d.call(c), d.dy.view(), d.dz.flat(), d.dv.view());
  return d;
}

template <class T>
Data<T> computed(const Case& c, const Data<double>& judge, Layout layout, Form form) {
  Data<T> d{judge.z.as<T>(layout),        judge.v.as<T>(layout),
            judge.dy.as<T>(layout),       Block<T>(c.shape, c.shape.D, layout),
            Block<T>(c.shape, 1, layout), Block<T>(c.shape, c.shape.D, layout)};
  causal_forward(d.call(c, form), d.y.view());
  causal_backward(d.call(c, form), View<const T, 4>(d.y.view()), View<const T, 4>(d.dy.view()), d.dz.flat(),
                  d.dv.view());
  return d;
}

template <class T>
void check(const Case& c, Data<double>& judge, Layout layout, Form form, const std::string& what) {
  Data<T> d = computed<T>(c, judge, layout, form);
  const std::string text = what + " N " + std::to_string(c.shape.N) + " D " + std::to_string(c.shape.D) + " form " +
                           std::to_string(static_cast<int>(form)) + " " + to_string(best_isa());
  EXPECT_LE(error_of(d.y, judge.y), tolerance<T>) << "y " << text;
  EXPECT_LE(error_of(d.dz, judge.dz, c.least), tolerance<T>) << "dz " << text;
  EXPECT_LE(error_of(d.dv, judge.dv), tolerance<T>) << "dv " << text;
  EXPECT_TRUE(d.y.gaps_untouched() && d.dz.gaps_untouched() && d.dv.gaps_untouched()) << text;
}

void check_all(const Case& c, const std::string& what) {
  Data<double> judge = judged(c);
  for (Isa isa : isas()) {
    const AtMost limit(isa);
    for (Form form : {Form::direct, Form::fft, Form::automatic}) {
      check<float>(c, judge, Layout::bnhd, form, what);
      check<double>(c, judge, Layout::bhnd, form, what);
    }
  }
}

TEST(CausalCircular, MatchesTheReference) {
  for (Index D : {1, 2, 3, 8, 16, 17, 64})
    for (Index N : {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 97, 128, 210, 257})
      check_all({{N <= 33 ? 2 : 1, N <= 128 ? 2 : 1, N, D}, {}, {}}, "normal");
  check_all({{1, 1, 1000, 17}, {}, {}}, "normal");
}

TEST(CausalCircular, Lengths) {
  for (Index D : {3, 40}) check_all({{5, 2, 70, D}, {70, 0, 31, 1, 64}, {}}, "lengths");
}

TEST(CausalCircular, ExtremeScores) {
  const std::vector<std::pair<const char*, std::function<double(Index)>>> scores{
      {"steep", [](Index i) { return 20.0 * static_cast<double>(i); }},
      {"rising", [](Index i) { return 0.5 * static_cast<double>(i); }},
      {"falling", [](Index i) { return -3.0 * static_cast<double>(i); }},
      {"jump", [](Index i) { return i < 150 ? -400.0 : 400.0; }},
      {"last", [](Index i) { return i == 199 ? 300.0 : std::sin(static_cast<double>(i)); }},
      {"steps", [](Index i) { return 90.0 * std::floor(static_cast<double>(i) / 50.0); }},
      {"alternating", [](Index i) { return i % 2 ? 200.0 : -200.0; }},
      {"large", [](Index i) { return 1e4 + std::cos(static_cast<double>(i)); }},
      {"hidden first", [](Index i) { return i < 37 ? -infinity : std::cos(static_cast<double>(i)); }},
      {"hidden", [](Index) { return -infinity; }}};
  // Where one weight of a row is nearly 1, dz is a small difference of numbers of size 1.
  for (const auto& [name, score] : scores)
    for (Index D : {4, 40}) check_all({{1, 2, 200, D}, {}, score, 1}, name);
}

// Scores that the float transform of all rows at once would get wrong by far: rows of every size stay right, each
// relative to itself.
TEST(CausalCircular, EachRowIsAccurate) {
  const Case c{{1, 1, 600, 8}, {}, [](Index i) { return 0.1 * static_cast<double>(i); }};
  Data<double> judge = judged(c);
  const Data<float> d = computed<float>(c, judge, Layout::bhnd, Form::fft);
  for (Index i = 0; i < 600; ++i)
    for (Index k = 0; k < 8; ++k) EXPECT_NEAR(d.y.view()(0, 0, i, k), judge.y.view()(0, 0, i, k), 2e-5) << i;
}

TEST(CausalCircular, NothingSeesTheFuture) {
  const Case c{{1, 1, 300, 20}, {}, {}};
  Data<double> d = judged(c);
  const Data<double> before = computed<double>(c, d, Layout::bhnd, Form::direct);
  d.z.each([](Index, Index, Index i, Index, double& x) { x += i >= 180 ? 2.0 : 0.0; });
  d.v.each([](Index, Index, Index i, Index, double& x) { x += i >= 180 ? 5.0 : 0.0; });
  const Data<double> after = computed<double>(c, d, Layout::bhnd, Form::fft);
  for (Index i = 0; i < 180; ++i)
    for (Index k = 0; k < 20; ++k) EXPECT_NEAR(before.y.view()(0, 0, i, k), after.y.view()(0, 0, i, k), 1e-13);
}

TEST(CausalCircular, GradientsAreDerivatives) {
  for (Form form : {Form::direct, Form::fft}) {
    const Case c{{2, 1, 13, 5}, {}, {}};
    const Data<double> judge = judged(c);
    const Block<double> a = random_block(c.shape, 1, {}, "a"), b = random_block(c.shape, 5, {}, "b");
    const auto value = [&](double t) {
      Data<double> d = judge;
      d.z.each([&](Index i, Index h, Index n, Index k, double& x) { x += t * a.view()(i, h, n, k); });
      d.v.each([&](Index i, Index h, Index n, Index k, double& x) { x += t * b.view()(i, h, n, k); });
      causal_forward(d.call(c, form), d.y.view());
      double sum = 0;
      d.y.each([&](Index i, Index h, Index n, Index k, double& x) { sum += x * d.dy.view()(i, h, n, k); });
      return sum;
    };
    Data<double> d = computed<double>(c, judge, Layout::bhnd, form);
    double slope = 0;
    d.dz.each([&](Index i, Index h, Index n, Index k, double& x) { slope += x * a.view()(i, h, n, k); });
    d.dv.each([&](Index i, Index h, Index n, Index k, double& x) { slope += x * b.view()(i, h, n, k); });
    EXPECT_NEAR((value(1e-4) - value(-1e-4)) / 2e-4, slope, 1e-6 * (1 + std::fabs(slope)));
  }
}

TEST(CausalCircular, GradientsMayBeLeftOut) {
  for (Form form : {Form::direct, Form::fft}) {
    const Case c{{2, 2, 50, 20}, {50, 33}, {}};
    const Data<double> judge = judged(c);
    Data<double> all = computed<double>(c, judge, Layout::bhnd, form), some = all;
    const View<const double, 4> y = all.y.view(), dy = all.dy.view();
    causal_backward(some.call(c, form), y, dy, {}, some.dv.view());
    EXPECT_LE(error_of(some.dv, all.dv), 1e-14);
    causal_backward(some.call(c, form), y, dy, some.dz.flat(), {});
    EXPECT_EQ(some.dz, all.dz);
    causal_backward(some.call(c, form), y, dy, {}, {});
  }
}

TEST(CausalCircular, ThreadsGiveTheSameBits) {
  const Case c{{4, 3, 300, 20}, {300, 299, 8, 150}, {}};
  const Data<double> judge = judged(c);
  std::vector<Data<float>> results;
  for (int count : {1, 2, 5}) {
    set_threads(count);
    results.push_back(computed<float>(c, judge, Layout::bnhd, Form::automatic));
  }
  set_threads(0);
  for (const Data<float>& r : results)
    EXPECT_TRUE(r.y == results[0].y && r.dz == results[0].dz && r.dv == results[0].dv);
}

}  // namespace
}  // namespace saddle::kernels::circular

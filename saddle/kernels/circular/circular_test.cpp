#include "saddle/kernels/circular/circular.hpp"

#include "saddle/base/error.hpp"
#include "saddle/kernels/circular/reference.hpp"
#include "saddle/kernels/circular/testing_internal.hpp"

namespace saddle::kernels::circular {
namespace {

using namespace testing;

enum class Kernels { head, channel, channel_shared };

// Inputs in double, and what the reference makes of them.
struct Case {
  CircularShape shape;
  Direction direction = Direction::convolution;
  std::vector<Index> lengths;
  Kernels kernels = Kernels::head;

  Index channels() const { return kernels == Kernels::head ? 1 : shape.D; }
  CircularShape kernel_shape() const {
    return {kernels == Kernels::channel_shared ? 1 : shape.B, shape.H, shape.N, channels()};
  }
  const Index* length_data() const { return lengths.empty() ? nullptr : lengths.data(); }
  std::string text() const {
    std::string s = std::to_string(shape.B) + "," + std::to_string(shape.H) + "," + std::to_string(shape.N) + "," +
                    std::to_string(shape.D) + (direction == Direction::convolution ? " convolution" : " correlation");
    for (Index n : lengths) s += " " + std::to_string(n);
    return s;
  }
};

// The kernel as the call sees it: strides of 0 where one serves many.
template <class T>
View<T, 4> broadcast(View<T, 4> w, const Case& c) {
  w.shape = {c.shape.B, c.shape.H, c.shape.N, c.shape.D};
  if (c.kernels == Kernels::channel_shared) w.stride[0] = 0;
  if (c.kernels == Kernels::head) w.stride[3] = 0;
  return w;
}

template <class T>
struct Data {
  Block<T> w, v, dy, y, dw, dv;

  CircularCall<T> call(const Case& c, Form form = Form::automatic) const {
    return {c.shape, c.direction, c.length_data(), broadcast(w.view(), c), v.view(), form};
  }
};

Data<double> judged(const Case& c) {
  // A kernel that sequences of all lengths share is as long as the longest.
  const std::vector<Index> none;
  const bool shared = c.kernels == Kernels::channel_shared;
  Data<double> d{random_block(c.kernel_shape(), c.channels(), shared ? none : c.lengths, "w"),
                 random_block(c.shape, c.shape.D, c.lengths, "v"),
                 random_block(c.shape, c.shape.D, c.lengths, "dy"),
                 Block<double>(c.shape, c.shape.D, Layout::bhnd),
                 Block<double>(c.kernel_shape(), c.channels(), Layout::bhnd),
                 Block<double>(c.shape, c.shape.D, Layout::bhnd)};
  reference::forward(d.call(c), d.y.view());
  reference::backward(d.call(c), d.dy.view(), broadcast(d.dw.view(), c), d.dv.view());
  return d;
}

template <class T>
Data<T> computed(const Case& c, const Data<double>& judge, Layout layout, Form form) {
  Data<T> d{judge.w.as<T>(layout),
            judge.v.as<T>(layout),
            judge.dy.as<T>(layout),
            Block<T>(c.shape, c.shape.D, layout),
            Block<T>(c.kernel_shape(), c.channels(), layout),
            Block<T>(c.shape, c.shape.D, layout)};
  forward(d.call(c, form), d.y.view());
  backward(d.call(c, form), View<const T, 4>(d.dy.view()), broadcast(d.dw.view(), c), d.dv.view());
  return d;
}

template <class T>
void check(const Case& c, Data<double>& judge, Layout layout, Form form) {
  Data<T> d = computed<T>(c, judge, layout, form);
  EXPECT_LE(error_of(d.y, judge.y), tolerance<T>) << "y " << c.text() << " " << to_string(best_isa());
  EXPECT_LE(error_of(d.dw, judge.dw), tolerance<T>) << "dw " << c.text() << " " << to_string(best_isa());
  EXPECT_LE(error_of(d.dv, judge.dv), tolerance<T>) << "dv " << c.text() << " " << to_string(best_isa());
  EXPECT_TRUE(d.y.gaps_untouched() && d.dw.gaps_untouched() && d.dv.gaps_untouched()) << c.text();
}

void check_all(const Case& c, std::vector<Form> forms = {Form::direct, Form::fft}) {
  Data<double> judge = judged(c);
  for (Isa isa : isas()) {
    const AtMost limit(isa);
    for (Form form : forms) {
      check<float>(c, judge, Layout::bnhd, form);
      check<double>(c, judge, Layout::bhnd, form);
    }
  }
}

const std::vector<Index> all_lengths{1,  2,  3,  4,  5,   6,   7,   8,   9,   15,  16,  17,  31,
                                     32, 33, 64, 97, 100, 128, 197, 210, 255, 256, 257, 1000};
const std::vector<Index> all_widths{1, 2, 3, 8, 16, 17, 64};

class CircularWidth : public ::testing::TestWithParam<Index> {};

TEST_P(CircularWidth, BothFormsMatchTheReference) {
  for (Index N : all_lengths)
    for (Direction direction : {Direction::convolution, Direction::correlation}) {
      const Index B = N <= 33 ? 3 : 1, H = N <= 257 ? 2 : 1;
      check_all({{B, H, N, GetParam()}, direction, {}, Kernels::head});
    }
}

TEST_P(CircularWidth, EachSequenceHasItsModulus) {
  for (Direction direction : {Direction::convolution, Direction::correlation}) {
    check_all({{5, 2, 12, GetParam()}, direction, {12, 0, 7, 1, 7}, Kernels::head});
    check_all({{3, 3, 130, GetParam()}, direction, {128, 97, 130}, Kernels::head});
  }
}

TEST_P(CircularWidth, KernelsOfChannels) {
  for (Kernels kernels : {Kernels::channel, Kernels::channel_shared})
    for (Direction direction : {Direction::convolution, Direction::correlation}) {
      for (Index N : {1, 2, 7, 16, 33, 97, 100})
        check_all({{3, 2, N, GetParam()}, direction, {}, kernels}, {Form::fft});
      check_all({{5, 2, 40, GetParam()}, direction, {31, 40, 0, 31, 1}, kernels}, {Form::fft});
    }
}
INSTANTIATE_TEST_SUITE_P(All, CircularWidth, ::testing::ValuesIn(all_widths));

TEST(Circular, AutomaticMatchesTheReference) {
  for (Index N : {1, 8, 40, 48, 64, 97, 120, 197, 256})
    check_all({{2, 2, N, 64}, Direction::convolution, {}, Kernels::head}, {Form::automatic});
}

// A kernel per head that all sequences share: its gradient is summed over them.
TEST(Circular, SharedKernelOfAHead) {
  for (Form form : {Form::direct, Form::fft}) {
    Case c{{3, 2, 30, 20}, Direction::correlation, {30, 11, 29}, Kernels::head};
    Data<double> judge = judged(c);
    View<const double, 4> w = broadcast(View<const double, 4>(judge.w.view()), c);
    w.stride[0] = 0;
    const CircularCall<double> call{c.shape, c.direction, c.length_data(), w, judge.v.view(), form};
    Block<double> expected({1, 2, 30, 1}, 1, Layout::bhnd), found = expected;
    const auto place = [&](Block<double>& x) {
      View<double, 4> dw = broadcast(x.view(), c);
      dw.stride[0] = 0;
      return dw;
    };
    reference::backward(call, judge.dy.view(), place(expected), {});
    backward(call, View<const double, 4>(judge.dy.view()), place(found), {});
    EXPECT_LE(error_of(found, expected), 1e-12);
  }
}

TEST(Circular, GradientsMayBeLeftOut) {
  for (Kernels kernels : {Kernels::head, Kernels::channel_shared})
    for (Index D : {4, 64})
      for (Form form : {Form::direct, Form::fft}) {
        const Case c{{2, 2, 50, D}, Direction::convolution, {50, 33}, kernels};
        const Data<double> judge = judged(c);
        Data<double> all = computed<double>(c, judge, Layout::bhnd, form), some = all;
        backward(some.call(c, form), View<const double, 4>(some.dy.view()), {}, some.dv.view());
        EXPECT_LE(error_of(some.dv, all.dv), 1e-14);
        backward(some.call(c, form), View<const double, 4>(some.dy.view()), broadcast(some.dw.view(), c), {});
        EXPECT_EQ(some.dw, all.dw);
        backward(some.call(c, form), View<const double, 4>(some.dy.view()), {}, {});
      }
}

// The reference too: <dy, y(w + t a, v + t b)> along a random direction.
TEST(Circular, GradientsAreDerivatives) {
  for (Kernels kernels : {Kernels::head, Kernels::channel, Kernels::channel_shared})
    for (Direction direction : {Direction::convolution, Direction::correlation})
      for (Index N : {6, 11}) {
        const Case c{{2, 2, N, 5}, direction, {}, kernels};
        const Data<double> judge = judged(c);
        const Block<double> a = random_block(c.kernel_shape(), c.channels(), {}, "a"),
                            b = random_block(c.shape, 5, {}, "b");
        const auto value = [&](double t) {
          Data<double> d = judge;
          d.w.each([&](Index i, Index h, Index n, Index k, double& x) { x += t * a.view()(i, h, n, k); });
          d.v.each([&](Index i, Index h, Index n, Index k, double& x) { x += t * b.view()(i, h, n, k); });
          forward(d.call(c, Form::fft), d.y.view());
          double sum = 0;
          d.y.each([&](Index i, Index h, Index n, Index k, double& x) { sum += x * d.dy.view()(i, h, n, k); });
          return sum;
        };
        Data<double> d = computed<double>(c, judge, Layout::bhnd, Form::fft);
        double slope = 0;
        d.dw.each([&](Index i, Index h, Index n, Index k, double& x) { slope += x * a.view()(i, h, n, k); });
        d.dv.each([&](Index i, Index h, Index n, Index k, double& x) { slope += x * b.view()(i, h, n, k); });
        EXPECT_NEAR((value(1e-3) - value(-1e-3)) / 2e-3, slope, 1e-8 * (1 + std::fabs(slope))) << c.text();
      }
}

TEST(Circular, ThreadsGiveTheSameBits) {
  for (Kernels kernels : {Kernels::head, Kernels::channel_shared})
    for (Index D : {3, 70})
      for (Form form : {Form::direct, Form::fft}) {
        const Case c{{5, 3, 60, D}, Direction::convolution, {60, 59, 8, 60, 1}, kernels};
        const Data<double> judge = judged(c);
        std::vector<Data<float>> results;
        for (int count : {1, 2, 5}) {
          set_threads(count);
          results.push_back(computed<float>(c, judge, Layout::bnhd, form));
        }
        set_threads(0);
        for (const Data<float>& r : results)
          EXPECT_TRUE(r.y == results[0].y && r.dw == results[0].dw && r.dv == results[0].dv) << c.text();
      }
}

TEST(Circular, LengthsBeyondTheBatchAreRefused) {
  for (Index wrong : {-1, 9}) {
    const Case c{{2, 1, 8, 4}, Direction::convolution, {8, wrong}, Kernels::head};
    Data<float> d{Block<float>(c.shape, 1, Layout::bhnd), Block<float>(c.shape, 4, Layout::bhnd),
                  Block<float>(c.shape, 4, Layout::bhnd), Block<float>(c.shape, 4, Layout::bhnd),
                  Block<float>(c.shape, 1, Layout::bhnd), Block<float>(c.shape, 4, Layout::bhnd)};
    EXPECT_THROW(forward(d.call(c), d.y.view()), InvalidArgument);
    EXPECT_THROW(backward(d.call(c), View<const float, 4>(d.dy.view()), broadcast(d.dw.view(), c), d.dv.view()),
                 InvalidArgument);
  }
}

TEST(Circular, NothingToDo) {
  for (const CircularShape& shape : {CircularShape{0, 2, 4, 8}, {2, 0, 4, 8}, {2, 2, 0, 8}, {2, 2, 4, 0}}) {
    const Case c{shape, Direction::convolution, {}, Kernels::head};
    Data<float> d{Block<float>(shape, 1, Layout::bhnd),       Block<float>(shape, shape.D, Layout::bhnd),
                  Block<float>(shape, shape.D, Layout::bhnd), Block<float>(shape, shape.D, Layout::bhnd),
                  Block<float>(shape, 1, Layout::bhnd),       Block<float>(shape, shape.D, Layout::bhnd)};
    forward(d.call(c), d.y.view());
    backward(d.call(c), View<const float, 4>(d.dy.view()), broadcast(d.dw.view(), c), d.dv.view());
  }
}

}  // namespace
}  // namespace saddle::kernels::circular

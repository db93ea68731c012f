// A time series of two scales: the class is where in a slow wave the bursts of a fast one stand.
#pragma once

#include "saddle/base/random.hpp"
#include "saddle/data/generate/generate.hpp"

namespace saddle::data {

// Channel "slow" holds a wave of 2 to 4 periods, cos(theta(t)); channel "fast" a wave with periods of 5 to 9 steps,
// whose amplitude is exp(3 (cos(theta(t) - place) - 1)). Its bursts stand at the crests of the slow wave (class 0,
// place 0), where it falls (1, pi/2), where it rises (2, 3 pi/2) or in its troughs (3, pi). Channel "other" has bursts
// of the same kind at any place, and a slow wave of its own. All periods and phases are drawn for every sample, all
// channels have noise of the given deviation. No value and no single channel tells the class, only the relation of the
// two scales.
// With the defaults a ridge classifier on raw values reaches 26.4 % (chance is 25 %), a rule of two numbers that knows
// the question 93.6 % (generate_test.cpp).
struct MultiscaleSample {
  std::vector<float> values;  // length x 3
  int label = 0;
};
MultiscaleSample draw_multiscale(Stream& stream, Index length, double noise);

Generator multiscale_generator();

}  // namespace saddle::data

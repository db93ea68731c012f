#include "saddle/data/generate/pathfinder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <set>
#include <sstream>
#include <string>

#include "places.hpp"
#include "saddle/data/contents.hpp"
#include "saddle/data/generate/pathfinder_stamps.hpp"

namespace saddle::data {
namespace {

namespace fs = std::filesystem;

// The folder with the images made by another program; empty when it is not here.
fs::path reference_folder() {
  const char* named = std::getenv("SADDLE_DATA");
  for (const fs::path& place :
       {fs::path(named == nullptr ? "" : named), fs::path(SADDLE_SOURCE_DIR) / "../shared/data"})
    if (fs::exists(place / "pathfinder32" / "stamps.txt")) return place / "pathfinder32";
  return {};
}

int as_byte(float share) { return static_cast<int>(std::lround(share * 255)); }

TEST(PathfinderStamps, StrokeUpwards) {
  const Stamp& stamp = stamp_of(-std::numbers::pi / 2);
  const int line[] = {116, 147, 102, 0, 2};
  for (int y = 0; y < 5; ++y) EXPECT_EQ(as_byte(stamp.line[static_cast<std::size_t>((y + 2) * 9 + 4)]), line[y]);
  const int mask[] = {0, 2, 0, 193, 255, 193, 0, 2, 0};
  for (int x = 0; x < 9; ++x) EXPECT_EQ(as_byte(stamp.mask[static_cast<std::size_t>(2 * 9 + x)]), mask[x]);
  EXPECT_FALSE(stamp.usable);
}

TEST(PathfinderStamps, OnlyTheUpperLeftIsUsable) {
  for (int degree = -180; degree < 180; ++degree)
    EXPECT_EQ(stamp_of(degree * std::numbers::pi / 180).usable, degree >= -150 && degree <= -121) << degree;
}

TEST(PathfinderStamps, Disc) {
  const int expected[9][9] = {
      {0, 0, 0, 1, 3, 0, 0, 0, 0},        {0, 0, 0, 0, 0, 0, 0, 0, 0},        {0, 0, 0, 28, 65, 3, 1, 0, 0},
      {1, 0, 28, 228, 254, 133, 2, 4, 0}, {3, 0, 66, 255, 255, 190, 6, 3, 0}, {0, 0, 0, 132, 178, 55, 1, 3, 0},
      {0, 0, 1, 0, 0, 0, 1, 0, 0},        {0, 0, 0, 3, 1, 2, 0, 0, 0},        {0, 0, 0, 0, 0, 0, 0, 0, 0}};
  const Bytes disc = disc_at({15, 12});
  for (int y = 0; y < 9; ++y)
    for (int x = 0; x < 9; ++x)
      EXPECT_EQ(disc[static_cast<std::size_t>((y + 11) * 32 + x + 8)], expected[y][x]) << y << " " << x;
}

TEST(PathfinderStamps, LanczosKeepsAConstant) {
  EXPECT_EQ(reduce_lanczos(Bytes(17 * 17, 93), 17, 9), Bytes(81, 93));
  EXPECT_EQ(reduce_lanczos(Bytes(64 * 64, 255), 64, 32), Bytes(1024, 255));
}

TEST(PathfinderStamps, AllAsInTheReferenceTable) {
  const fs::path folder = reference_folder();
  if (folder.empty()) GTEST_SKIP() << "no pathfinder32/stamps.txt in $SADDLE_DATA or ../shared/data";
  std::ifstream in(folder / "stamps.txt");
  int seen = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    int hy = 0, hx = 0, usable = 0;
    if (!(words >> word >> hy >> hx >> usable) || word != "stamp") continue;
    const Stamp* stamp = nullptr;
    for (int degree = -1800; degree < 1800 && stamp == nullptr; ++degree) {
      const double t = degree * std::numbers::pi / 1800;
      if (std::ceil(8 + 4 * std::sin(t)) == hy && std::ceil(8 + 4 * std::cos(t)) == hx) stamp = &stamp_of(t);
    }
    ASSERT_NE(stamp, nullptr);
    EXPECT_EQ(stamp->usable, usable == 1) << line;
    for (const auto* drawing : {&stamp->line, &stamp->mask})
      for (const float cell : *drawing) {
        int expected = -1;
        in >> expected;
        ASSERT_EQ(as_byte(cell), expected) << line;
      }
    ++seen;
  }
  EXPECT_EQ(seen, 30);
}

struct Statistics {
  double count = 0, ones = 0, mean[2] = {}, black = 0, faint = 0, bright = 0, full = 0, distractors = 0;
};

template <class Pixels>
void add(Statistics& s, const Pixels& pixels, int label) {
  ++s.count;
  s.ones += label;
  double sum = 0;
  for (const auto pixel : pixels) {
    const int p = static_cast<unsigned char>(pixel);
    sum += p;
    s.black += p == 0;
    s.faint += p >= 1 && p <= 15;
    s.bright += p >= 128;
    s.full += p == 255;
  }
  s.mean[label] += sum / 1024;
}

void expect_alike(const Statistics& a, const Statistics& b) {
  const auto pixels = [](const Statistics& s, double value) { return value / s.count / 1024; };
  EXPECT_NEAR(a.mean[1] / a.ones, b.mean[1] / b.ones, 0.25);
  EXPECT_NEAR(a.mean[0] / (a.count - a.ones), b.mean[0] / (b.count - b.ones), 0.25);
  EXPECT_NEAR(pixels(a, a.black), pixels(b, b.black), 0.004);
  EXPECT_NEAR(pixels(a, a.faint), pixels(b, b.faint), 0.004);
  EXPECT_NEAR(pixels(a, a.bright), pixels(b, b.bright), 0.002);
  EXPECT_NEAR(a.full / a.count, b.full / b.count, 0.15);
}

const Statistics& ours() {
  static const Statistics statistics = [] {
    Statistics s;
    std::set<std::string> seen;
    for (int i = 0; i < 1500; ++i) {
      Stream stream(9, "test/" + std::to_string(i));
      const PathfinderImage image = draw_pathfinder(stream);
      EXPECT_TRUE(seen.emplace(image.pixels.begin(), image.pixels.end()).second);
      add(s, image.pixels, image.label);
      s.distractors += image.distractors;
    }
    return s;
  }();
  return statistics;
}

// Of 6000 images made by another program.
TEST(Pathfinder, Statistics) {
  Statistics reference;
  reference.count = 6000;
  reference.ones = 3000;
  reference.mean[0] = reference.mean[1] = 20.1 * 3000;
  reference.black = 0.659 * 1024 * 6000;
  reference.faint = 0.184 * 1024 * 6000;
  reference.bright = 0.085 * 1024 * 6000;
  reference.full = 2.3 * 6000;
  expect_alike(ours(), reference);
  EXPECT_NEAR(ours().distractors / ours().count, 1.2, 0.15);
  EXPECT_NEAR(ours().ones / ours().count, 0.5, 5 * 0.5 / std::sqrt(ours().count));
}

TEST(Pathfinder, AlikeToTheReferenceImages) {
  const fs::path folder = reference_folder();
  if (folder.empty()) GTEST_SKIP() << "no pathfinder32 in $SADDLE_DATA or ../shared/data";
  const ContentsPtr file = read_contents((folder / "pathfinder32_hard_train.bin.gz").string(), Index{1} << 30);
  const std::string_view bytes = file->bytes();
  Statistics reference;
  for (std::size_t at = 0; at + 1025 <= bytes.size(); at += 1025) add(reference, bytes.substr(at + 1, 1024), bytes[at]);
  ASSERT_EQ(reference.count, 6000);
  expect_alike(ours(), reference);
}

TEST(Pathfinder, PixelsAreTheImage) {
  const DatasetPtr image = generated("pathfinder32(train=3,seed=2)").train();
  const DatasetPtr pixels = generated("pathfinder32_pixels(train=3,seed=2)").train();
  for (Index i = 0; i < 3; ++i) {
    Sample a, b;
    image->read(i, a);
    pixels->read(i, b);
    EXPECT_EQ(a.label, b.label);
    ASSERT_EQ(b.tokens.size(), 1024U);
    for (std::size_t p = 0; p < 1024; ++p) EXPECT_EQ(static_cast<int>(std::lround(a.values[p] * 255)) + 1, b.tokens[p]);
  }
  EXPECT_EQ(pixels->description().vocabulary, 257);
}

// More samples do not change the first: each has a stream of its own.
TEST(Pathfinder, PrefixStays) {
  const DatasetPtr few = generated("pathfinder32(train=2)").train(), more = generated("pathfinder32(train=4)").train();
  for (Index i = 0; i < 2; ++i) {
    Sample a, b;
    few->read(i, a);
    more->read(i, b);
    EXPECT_EQ(a.values, b.values);
  }
}

}  // namespace
}  // namespace saddle::data

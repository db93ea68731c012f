#include "saddle/data/generate/shapes_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "saddle/base/error.hpp"
#include "saddle/data/generate/generate.hpp"
#include "saddle/eval/baseline.hpp"

namespace saddle::data {
namespace {

constexpr Index side = shapes_cells * shapes_cell;

std::vector<ShapesScene> scenes(int count, Index objects, Index shapes, bool relations = true) {
  std::vector<ShapesScene> all;
  for (int i = 0; i < count; ++i) {
    Stream stream(7, "scene/" + std::to_string(i));
    all.push_back(draw_scene(stream, objects, shapes, relations));
  }
  return all;
}

TEST(ShapesText, QuestionsMeanOneObject) {
  // Two squares in a row and a plus below the right one.
  const std::vector<PlacedShape> objects{{0, 0, 0, 0}, {0, 3, 0, 1}, {2, 3, 1, 2}};
  EXPECT_THAT(objects_meant(objects, {0, 0, 0}), testing::ElementsAre(0));     // square left of a square
  EXPECT_THAT(objects_meant(objects, {0, 1, 0}), testing::ElementsAre(1));     // right of
  EXPECT_THAT(objects_meant(objects, {0, 2, 1}), testing::ElementsAre(0, 1));  // above the plus: both
  EXPECT_THAT(objects_meant(objects, {0, 0, 1}), testing::ElementsAre(0));     // left of the plus: strictly
  EXPECT_THAT(objects_meant(objects, {1, 3, 0}), testing::ElementsAre(2));     // plus below a square
  EXPECT_THAT(objects_meant(objects, {0, 2, 0}), testing::IsEmpty());
  EXPECT_THAT(objects_meant(objects, {1, 0, 1}), testing::IsEmpty());  // nothing stands left of itself
}

TEST(ShapesText, ScenesAreSound) {
  for (const bool relations : {false, true})
    for (Index objects = relations ? 2 : 1; objects <= 4; ++objects)
      for (Index shapes = 2; shapes <= 4; ++shapes)
        for (const ShapesScene& scene : scenes(200, objects, shapes, relations)) {
          std::set<Index> colours, cells;
          for (const PlacedShape& each : scene.objects) {
            colours.insert(each.colour);
            cells.insert(each.row * shapes_cells + each.column);
            EXPECT_LT(each.shape, shapes);
          }
          EXPECT_EQ(static_cast<Index>(colours.size()), objects);
          EXPECT_LT(*colours.rbegin(), 4);
          EXPECT_EQ(static_cast<Index>(cells.size()), objects);
          ASSERT_EQ(scene.question.has_value(), relations);
          if (!relations) continue;
          EXPECT_THAT(objects_meant(scene.objects, *scene.question), testing::ElementsAre(scene.target));
        }
}

// Chi-square of counts against all being equal.
double spread(const std::vector<double>& counts) {
  double sum = 0, square = 0;
  for (const double count : counts) sum += count;
  const double mean = sum / static_cast<double>(counts.size());
  for (const double count : counts) square += (count - mean) * (count - mean) / mean;
  return square;
}

// The words that a scene is asked with, apart from those that are always the same.
std::array<Index, 3> asked_of(const ShapesScene& scene) {
  if (scene.question) return {scene.question->shape, scene.question->relation, scene.question->reference};
  const PlacedShape& target = scene.objects[static_cast<std::size_t>(scene.target)];
  return {target.shape, target.row, target.column};
}

// The text says nothing of the colour, and the image, in which every colour stands once, nothing of the one asked for:
// whatever is seen of it, every object is asked for equally often.
void expect_nothing_told(bool relations, std::size_t texts) {
  std::map<std::array<Index, 3>, std::vector<double>> by_text;
  std::map<Index, std::vector<double>> by_image;
  for (const ShapesScene& scene : scenes(24000, 4, 3, relations)) {
    std::vector<double>& counts = by_text[asked_of(scene)];
    counts.resize(4);
    ++counts[static_cast<std::size_t>(scene.objects[static_cast<std::size_t>(scene.target)].colour)];
    // Of the image the shapes in reading order, and where among them the asked one stands.
    std::vector<Index> order{0, 1, 2, 3};
    std::sort(order.begin(), order.end(), [&](Index a, Index b) {
      const auto cell = [&](Index i) {
        const PlacedShape& object = scene.objects[static_cast<std::size_t>(i)];
        return object.row * shapes_cells + object.column;
      };
      return cell(a) < cell(b);
    });
    Index pattern = 0;
    for (const Index i : order) pattern = 3 * pattern + scene.objects[static_cast<std::size_t>(i)].shape;
    std::vector<double>& places = by_image[pattern];
    places.resize(4);
    ++places[static_cast<std::size_t>(std::find(order.begin(), order.end(), scene.target) - order.begin())];
  }
  EXPECT_EQ(by_text.size(), texts);
  // Sums of chi-squares with 3 degrees of freedom each: mean 3 n, variance 6 n.
  const auto expect_even = [](const auto& groups, double fewest) {
    double sum = 0, n = 0;
    for (const auto& [seen, counts] : groups) {
      if (std::accumulate(counts.begin(), counts.end(), 0.0) < 100) continue;  // too few for a chi-square
      sum += spread(counts);
      ++n;
    }
    EXPECT_GE(n, fewest);
    EXPECT_LT(std::abs(sum - 3 * n), 4 * std::sqrt(6 * n));
  };
  expect_even(by_text, static_cast<double>(texts));
  expect_even(by_image, 50);
}

TEST(ShapesText, OneModalityTellsNothing) {
  expect_nothing_told(false, 3 * 16);
  expect_nothing_told(true, 36);
}

// Reads objects out of the pixels: the colour of a cell by its channels, the shape by the nearest clean picture.
std::vector<PlacedShape> seen_in(const Sample& sample) {
  const auto at = [&](Index c, Index y, Index x) {
    return static_cast<double>(sample.values[static_cast<std::size_t>((c * side + y) * side + x)]);
  };
  std::vector<PlacedShape> objects;
  for (Index row = 0; row < shapes_cells; ++row)
    for (Index column = 0; column < shapes_cells; ++column) {
      std::array<double, 3> light{};
      for (Index c = 0; c < 3; ++c)
        for (Index y = 0; y < shapes_cell; ++y)
          for (Index x = 0; x < shapes_cell; ++x)
            light[static_cast<std::size_t>(c)] += at(c, row * shapes_cell + y, column * shapes_cell + x);
      const double most = *std::max_element(light.begin(), light.end());
      if (most < 2) continue;
      PlacedShape object{row, column, 0,
                         light[2] > most / 2   ? 0
                         : light[0] < most / 2 ? 1
                         : light[1] > most / 2 ? 3
                                               : 2};
      double best = std::numeric_limits<double>::infinity();
      for (Index shape = 0; shape < 4; ++shape)
        for (int draw = 0; draw < 16; ++draw) {  // all places in the cell
          Stream stream(static_cast<std::uint64_t>(draw), "template");
          const auto clean = paint_scene(stream, {{row, column, shape, object.colour}}, 0);
          double distance = 0;
          for (Index c = 0; c < 3; ++c)
            for (Index y = row * shapes_cell; y < (row + 1) * shapes_cell; ++y)
              for (Index x = column * shapes_cell; x < (column + 1) * shapes_cell; ++x)
                distance += std::abs(at(c, y, x) - clean[static_cast<std::size_t>((c * side + y) * side + x)] / 255.0);
          if (distance < best) {
            best = distance;
            object.shape = shape;
          }
        }
      objects.push_back(object);
    }
  return objects;
}

TEST(ShapesText, BothModalitiesTellEverything) {
  for (const bool relations : {false, true}) {
    const std::string options = relations ? "relations=1," : "";
    const DatasetPtr data = generated("shapes_text(" + options + "objects=4,train=60,test=1,shapes=4)").train();
    EXPECT_EQ(data->description().max_length, 5);
    const auto& names = data->description().token_names;
    for (Index i = 0; i < data->size(); ++i) {
      Sample sample;
      data->read(i, sample);
      ASSERT_EQ(sample.tokens.size(), 5u);
      for (const std::int32_t token : sample.tokens) EXPECT_TRUE(token > 0 && token < data->description().vocabulary);
      const std::vector<PlacedShape> objects = seen_in(sample);
      ASSERT_EQ(objects.size(), 4u) << i;
      // What the text means, by the names of its words.
      const auto word = [&](std::size_t at) { return names[static_cast<std::size_t>(sample.tokens[at])]; };
      const auto place = [&](const std::vector<std::string>& list, std::size_t at) {
        return static_cast<Index>(std::find(list.begin(), list.end(), word(at)) - list.begin());
      };
      const std::vector<std::string> shapes{"square", "plus", "cross", "triangle"};
      std::vector<Index> meant;
      if (relations) {
        meant = objects_meant(
            objects, {place(shapes, 2), place({"left_of", "right_of", "above", "below"}, 3), place(shapes, 4)});
      } else {
        for (std::size_t n = 0; n < objects.size(); ++n)
          if (objects[n].shape == place(shapes, 2) && word(3) == "row_" + std::to_string(objects[n].row + 1) &&
              word(4) == "column_" + std::to_string(objects[n].column + 1))
            meant.push_back(static_cast<Index>(n));
      }
      ASSERT_EQ(meant.size(), 1u) << i;
      EXPECT_EQ(objects[static_cast<std::size_t>(meant[0])].colour, sample.label) << i;
    }
  }
}

TEST(ShapesText, SimpleMethodsAreAtChance) {
  for (const char* task :
       {"shapes_text(objects=4,train=3000,test=2000)", "shapes_text(objects=4,relations=1,train=3000,test=2000)"})
    for (const eval::Baseline& each : eval::baselines(generated(task)))
      EXPECT_NEAR(each.accuracy, 0.25, 0.04) << task << " " << each.name;
}

TEST(ShapesText, WrongOptions) {
  for (const char* text :
       {"shapes_text(objects=5)", "shapes_text(objects=0)", "shapes_text(objects=1,relations=1)",
        "shapes_text(shapes=1)", "shapes_text(noise=-1)", "shapes_text(colours=3)", "shapes_text(relations=2)"})
    EXPECT_THROW(static_cast<void>(generated(text)), InvalidArgument) << text;
}

}  // namespace
}  // namespace saddle::data

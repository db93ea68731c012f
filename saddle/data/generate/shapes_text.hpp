// Coloured shapes on a grid and a question in words about one of them, which neither the image nor the words answer
// alone.
#pragma once

#include <optional>
#include <vector>

#include "saddle/base/random.hpp"
#include "saddle/data/generate/generate.hpp"

namespace saddle::data {

inline constexpr Index shapes_cells = 4;  // rows and columns of the grid
inline constexpr Index shapes_cell = 4;   // pixels of a side

struct PlacedShape {
  Index row = 0, column = 0, shape = 0, colour = 0;
};

// "colour of SHAPE RELATION REFERENCE": relations are left of, right of, above and below.
struct ShapeQuestion {
  Index shape = 0, relation = 0, reference = 0;
};

struct ShapesScene {
  std::vector<PlacedShape> objects;
  Index target = 0;                       // the object that is asked for
  std::optional<ShapeQuestion> question;  // which means it alone; none: it is asked for by shape, row and column
};

// The objects of the question's shape that stand in its relation to some other object of the reference's shape.
std::vector<Index> objects_meant(const std::vector<PlacedShape>& objects, const ShapeQuestion& question);

// No colour occurs twice, every object can be asked for, and each is asked for equally often: of four objects and four
// colours neither the image nor the question says anything of the answer.
ShapesScene draw_scene(Stream& stream, Index objects, Index shapes, bool relations);

// [3,rows,columns] bytes: shapes of one cell, moved by a pixel at most, with noise of this standard deviation (of 1).
std::vector<std::uint8_t> paint_scene(Stream& stream, const std::vector<PlacedShape>& objects, double noise);

// Images of 3 x 16 x 16 with five tokens; classes are the colours.
Generator shapes_text_generator();

}  // namespace saddle::data

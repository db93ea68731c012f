#include "saddle/data/generate/shapes_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>

#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/data/generate/settings.hpp"
#include "saddle/data/records.hpp"

namespace saddle::data {

namespace {

constexpr Index side = shapes_cells * shapes_cell, pixels = side * side, channels = 3, words = 5;
constexpr Index stamp_side = 3, relation_words = 4;

constexpr std::array<std::array<const char*, stamp_side>, 4> stamps{
    {{"###", "#.#", "###"}, {".#.", "###", ".#."}, {"#.#", ".#.", "#.#"}, {"..#", ".##", "###"}}};
constexpr double colours[][channels] = {{0, 0, 1}, {0, 1, 0}, {1, 0, 0}, {1, 1, 0}};
constexpr std::array colour_names{"blue", "green", "red", "yellow"};
constexpr Index most = std::size(colours);

// Tokens: 0 is padding.
const std::vector<std::string>& token_names() {
  static const std::vector<std::string> names{
      "padding", "colour", "of",    "square", "plus",  "cross",    "triangle", "left_of",  "right_of", "above",
      "below",   "row_1",  "row_2", "row_3",  "row_4", "column_1", "column_2", "column_3", "column_4"};
  return names;
}
constexpr Index word_colour = 1, word_of = 2, first_shape = 3, first_relation = 7, first_row = 11, first_column = 15;

bool stands(const PlacedShape& a, Index relation, const PlacedShape& b) {
  switch (relation) {
    case 0: return a.column < b.column;
    case 1: return a.column > b.column;
    case 2: return a.row < b.row;
    default: return a.row > b.row;
  }
}

std::vector<Index> permutation(Stream& stream, Index count) {
  std::vector<Index> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), Index{0});
  stream.shuffle(order);
  return order;
}

std::vector<PlacedShape> draw_objects(Stream& stream, Index count, Index shapes) {
  const std::vector<Index> cells = permutation(stream, shapes_cells * shapes_cells), order = permutation(stream, most);
  std::vector<PlacedShape> objects;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    objects.push_back({cells[i] / shapes_cells, cells[i] % shapes_cells,
                       static_cast<Index>(stream.below(static_cast<std::uint64_t>(shapes))), order[i]});
  return objects;
}

// For every object the questions that mean it alone.
std::vector<std::vector<ShapeQuestion>> questions_for(const std::vector<PlacedShape>& objects, Index shapes) {
  std::vector<std::vector<ShapeQuestion>> questions(objects.size());
  for (Index shape = 0; shape < shapes; ++shape)
    for (Index relation = 0; relation < relation_words; ++relation)
      for (Index reference = 0; reference < shapes; ++reference) {
        const ShapeQuestion question{shape, relation, reference};
        const std::vector<Index> meant = objects_meant(objects, question);
        if (meant.size() == 1) questions[static_cast<std::size_t>(meant.front())].push_back(question);
      }
  return questions;
}

std::array<Index, words> text_of(const ShapesScene& scene) {
  if (!scene.question) {
    const PlacedShape& target = scene.objects[static_cast<std::size_t>(scene.target)];
    return {word_colour, word_of, first_shape + target.shape, first_row + target.row, first_column + target.column};
  }
  return {word_colour, word_of, first_shape + scene.question->shape, first_relation + scene.question->relation,
          first_shape + scene.question->reference};
}

DatasetPtr dataset(Description description, Index count, const Settings& settings) {
  constexpr Index size = channels * pixels + words;
  std::string bytes(static_cast<std::size_t>(count * size), '\0');
  std::vector<Record> list(static_cast<std::size_t>(count));
  const Index objects = settings.whole("objects"), shapes = settings.whole("shapes");
  const bool relations = settings.whole("relations") == 1;
  parallel_for(count, 64, [&](Index i) {
    Stream stream(settings.seed(), "shapes_text/" + description.split + "/" + std::to_string(i));
    const ShapesScene scene = draw_scene(stream, objects, shapes, relations);
    const std::vector<std::uint8_t> image = paint_scene(stream, scene.objects, settings.number("noise"));
    const auto offset = static_cast<std::size_t>(i * size);
    const auto text = std::copy(image.begin(), image.end(), bytes.begin() + static_cast<std::ptrdiff_t>(offset));
    const std::array<Index, words> tokens = text_of(scene);
    std::transform(tokens.begin(), tokens.end(), text, [](Index token) { return static_cast<char>(token); });
    list[static_cast<std::size_t>(i)] = {offset, static_cast<std::size_t>(size), words,
                                         scene.objects[static_cast<std::size_t>(scene.target)].colour};
  });
  Checksum checksum;
  checksum.add(bytes);
  description.checksum = checksum.text();
  description.kind = Kind::image_text;
  description.channels = channels;
  description.rows = description.columns = side;
  description.token_names = token_names();
  description.vocabulary = static_cast<Index>(token_names().size());
  description.classes.assign(colour_names.begin(), colour_names.end());
  const std::string name = description.name;
  return records(std::move(description), contents_of(std::move(bytes), name), std::move(list),
                 [](std::string_view text, const Record&, Sample& into) {
                   for (const char c : text.substr(0, channels * pixels))
                     into.values.push_back(static_cast<float>(static_cast<unsigned char>(c)) / 255);
                   const std::string_view asked = text.substr(channels * pixels);
                   into.tokens.assign(asked.begin(), asked.end());
                 });
}

}  // namespace

std::vector<Index> objects_meant(const std::vector<PlacedShape>& objects, const ShapeQuestion& question) {
  std::vector<Index> meant;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const bool related = std::any_of(objects.begin(), objects.end(), [&](const PlacedShape& other) {
      return &other != &objects[i] && other.shape == question.reference && stands(objects[i], question.relation, other);
    });
    if (related && objects[i].shape == question.shape) meant.push_back(static_cast<Index>(i));
  }
  return meant;
}

ShapesScene draw_scene(Stream& stream, Index objects, Index shapes, bool relations) {
  ShapesScene scene;
  std::vector<std::vector<ShapeQuestion>> questions;
  do {
    scene.objects = draw_objects(stream, objects, shapes);
    if (relations) questions = questions_for(scene.objects, shapes);
  } while (std::any_of(questions.begin(), questions.end(), [](const auto& own) { return own.empty(); }));
  scene.target = static_cast<Index>(stream.below(static_cast<std::uint64_t>(objects)));
  if (!relations) return scene;
  const std::vector<ShapeQuestion>& own = questions[static_cast<std::size_t>(scene.target)];
  scene.question = own[stream.below(own.size())];
  return scene;
}

std::vector<std::uint8_t> paint_scene(Stream& stream, const std::vector<PlacedShape>& objects, double noise) {
  std::vector<double> image(static_cast<std::size_t>(channels * pixels), 0.0);
  for (const PlacedShape& object : objects) {
    const Index top = object.row * shapes_cell + static_cast<Index>(stream.below(2));
    const Index left = object.column * shapes_cell + static_cast<Index>(stream.below(2));
    const double brightness = 0.7 + 0.3 * stream.uniform();
    const auto& stamp = stamps[static_cast<std::size_t>(object.shape)];
    for (Index c = 0; c < channels; ++c)
      for (Index y = 0; y < stamp_side; ++y)
        for (Index x = 0; x < stamp_side; ++x)
          if (stamp[static_cast<std::size_t>(y)][x] == '#')
            image[static_cast<std::size_t>(c * pixels + (top + y) * side + left + x)] =
                brightness * colours[object.colour][c];
  }
  std::vector<std::uint8_t> bytes;
  bytes.reserve(image.size());
  for (const double value : image)
    bytes.push_back(
        static_cast<std::uint8_t>(std::lround(std::clamp(value + noise * stream.normal(), 0.0, 1.0) * 255)));
  return bytes;
}

Generator shapes_text_generator() {
  std::vector<GeneratorOption> options{
      {"objects", "shapes in an image, each of another colour; 1: the image alone tells the answer", 2, 1, most},
      {"shapes", "different shapes; fewer make words for place matter more", 3, 2, 4},
      {"relations", "1: questions name a neighbour, 0: row and column", 0, 0, 1},
      {"noise", "standard deviation, beside colours of 1", 0.05, 0, 1, false}};
  for (GeneratorOption& option : split_options(16000, 1000, 2000)) options.push_back(std::move(option));
  return {"shapes_text",
          "what colour has the square in row 2, column 3, or left of the cross? images with questions; chance 25 %",
          Kind::image_text, options, [options](const std::map<std::string, std::string>& given) {
            const Settings settings("shapes_text", options, given);
            if (settings.whole("relations") == 1 && settings.whole("objects") == 1)
              throw InvalidArgument("[shapes_text] one object alone has no neighbour that a question could name",
                                    "objects=2 or more, or relations=0");
            const auto part = [settings](const char* split) {
              return [settings, split] {
                Description description;
                description.name = settings.name();
                description.split = split;
                return dataset(std::move(description), settings.whole(split), settings);
              };
            };
            Task task{settings.name(), part("train"), {}, part("test")};
            if (settings.whole("validation") > 0) task.validation = part("validation");
            return task;
          }};
}

}  // namespace saddle::data

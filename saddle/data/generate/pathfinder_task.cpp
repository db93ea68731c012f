// Pathfinder images as a data set.
#include <algorithm>
#include <string>

#include "saddle/base/parallel.hpp"
#include "saddle/data/generate/pathfinder.hpp"
#include "saddle/data/generate/settings.hpp"
#include "saddle/data/records.hpp"

namespace saddle::data {

namespace {

constexpr Index side = 32, pixels = side * side;

// Every image has a stream of its own: they are drawn in parallel, and more of them do not change the first.
DatasetPtr dataset(Description description, Index count, std::uint64_t seed, bool tokens) {
  std::string bytes(static_cast<std::size_t>(count * pixels), '\0');
  std::vector<Record> list(static_cast<std::size_t>(count));
  parallel_for(count, 16,
               [&](Index i) {
                 Stream stream(seed, "pathfinder32/" + description.split + "/" + std::to_string(i));
                 const PathfinderImage image = draw_pathfinder(stream);
                 const auto offset = static_cast<std::size_t>(i * pixels);
                 std::copy(image.pixels.begin(), image.pixels.end(),
                           bytes.begin() + static_cast<std::ptrdiff_t>(offset));
                 list[static_cast<std::size_t>(i)] = {offset, pixels, tokens ? pixels : 1, image.label};
               },
               {Schedule::dynamic});
  Checksum checksum;
  checksum.add(bytes);
  description.checksum = checksum.text();
  description.classes = {"0", "1"};
  if (tokens) {
    description.kind = Kind::tokens;
    description.vocabulary = 257;
    description.notes.emplace_back("tokens are grey values plus 1: black is a pixel like any other, not padding");
  } else {
    description.kind = Kind::image;
    description.channels = 1;
    description.rows = description.columns = side;
  }
  const auto decode = [tokens](std::string_view text, const Record&, Sample& into) {
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (tokens)
        into.tokens.push_back(byte + 1);
      else
        into.values.push_back(static_cast<float>(byte) / 255);
    }
  };
  const std::string name = description.name;
  return records(std::move(description), contents_of(std::move(bytes), name), std::move(list), decode);
}

Generator generator(const std::string& name, const std::string& summary, bool tokens) {
  const std::vector<GeneratorOption> options = split_options(6000, 1000, 2000);
  return {name, summary, tokens ? Kind::tokens : Kind::image, options,
          [name, options, tokens](const std::map<std::string, std::string>& given) {
            const Settings settings(name, options, given);
            const auto part = [settings, tokens](const char* split) {
              return [settings, tokens, split] {
                Description description;
                description.name = settings.name();
                description.split = split;
                return dataset(std::move(description), settings.whole(split), settings.seed(), tokens);
              };
            };
            Task task{settings.name(), part("train"), {}, part("test")};
            if (settings.whole("validation") > 0) task.validation = part("validation");
            return task;
          }};
}

}  // namespace

Generator pathfinder_generator() {
  return generator("pathfinder32", "two discs among dashed curves: on the same one? images of 32 x 32; chance 50 %",
                   false);
}

Generator pathfinder_pixels_generator() {
  return generator("pathfinder32_pixels", "the images of pathfinder32 as sequences of 1024 pixels; chance 50 %", true);
}

}  // namespace saddle::data

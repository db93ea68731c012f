#include "saddle/data/catalogue.hpp"

#include "saddle/data/files.hpp"
#include "saddle/data/images.hpp"
#include "saddle/data/task.hpp"

namespace saddle::data {

namespace fs = std::filesystem;

namespace {

// The four files of MNIST and its like.
auto idx_task(const std::string& name, std::vector<std::string> classes) {
  return [=](const fs::path& folder, const Where& where) {
    const auto open = [=](const char* split, const std::string& prefix) {
      return [=] {
        const auto part = [&](const char* what) {
          const fs::path plain = folder / (prefix + what);
          return read_contents(packed_or_not(plain).value_or(plain).string(), where.stream_above);
        };
        return read_idx(part("-images-idx3-ubyte"), part("-labels-idx1-ubyte"), {.name = name, .split = split},
                        classes);
      };
    };
    const auto test = open("test", "t10k");
    return make_task(name, open("train", "train"), nullptr, [test](const Description&) { return test(); });
  };
}

}  // namespace

const std::vector<Known>& catalogue() {
  static const std::vector<Known> all = {
      {"fashion-mnist", "28 x 28 grey images of clothing", Kind::image, "fashion-mnist",
       "/usr/share/datasets/fashion-mnist", "train-images-idx3-ubyte",
       idx_task("fashion-mnist", {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker",
                                  "Bag", "Ankle boot"}),
       "install Debian's package dataset-fashion-mnist"},
      {"mnist", "28 x 28 grey images of digits", Kind::image, "mnist", "", "train-images-idx3-ubyte",
       idx_task("mnist", numbered_classes(10)), "put its four IDX files into a folder mnist"},
  };
  return all;
}

std::optional<fs::path> folder_of(const Known& known, const Where& where) {
  std::vector<fs::path> folders;
  for (const fs::path& place : places(where)) folders.push_back(place / known.folder);
  if (!known.package.empty()) folders.emplace_back(known.package);
  for (const fs::path& folder : folders)
    if (packed_or_not(folder / known.key_file)) return folder;
  return std::nullopt;
}

}  // namespace saddle::data

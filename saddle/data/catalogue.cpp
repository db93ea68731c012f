#include "saddle/data/catalogue.hpp"

#include <fmt/format.h>

#include <numeric>

#include "saddle/base/error.hpp"
#include "saddle/data/csv.hpp"
#include "saddle/data/events.hpp"
#include "saddle/data/files.hpp"
#include "saddle/data/images.hpp"
#include "saddle/data/number.hpp"
#include "saddle/data/records.hpp"
#include "saddle/data/table.hpp"
#include "saddle/data/task.hpp"
#include "saddle/data/token_text.hpp"

namespace saddle::data {

namespace fs = std::filesystem;

namespace {

// The four files of MNIST and its like.
auto idx_task(const std::string& name, const std::vector<std::string>& classes) {
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

// Records of label and pixels, one file or several for each split; all found are read, in this order.
struct PixelFiles {
  std::vector<std::string> train, test;
};

auto pixel_task(const std::string& name, const PixelRecord& format, const std::vector<std::string>& classes,
                const PixelFiles& files) {
  return [=](const fs::path& folder, const Where& where) {
    const auto open = [=](const char* split, const std::vector<std::string>& names) {
      return [=] {
        std::vector<DatasetPtr> parts;
        Checksum checksum;
        for (const std::string& file : names) {
          const auto found = packed_or_not(folder / file);
          if (!found) continue;
          const ContentsPtr contents = read_contents(found->string(), where.stream_above);
          checksum.add(contents->bytes());
          parts.push_back(read_pixel_records(contents, {.name = name, .split = split}, format, classes));
        }
        if (parts.empty())
          throw IoError(
              fmt::format("cannot read {}: there is no such file, packed or not", (folder / names[0]).string()));
        return parts.size() == 1 ? parts[0] : concatenated(std::move(parts), checksum.text());
      };
    };
    const auto test = open("test", files.test);
    return make_task(name, open("train", files.train), nullptr, [test](const Description&) { return test(); });
  };
}

auto cifar_task(const std::string& name, Pixels pixels, Index shrink = 1) {
  return pixel_task(
      name, {3, 32, 32, 255, pixels, shrink},
      {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"},
      {{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
       {"test_batch.bin", "test_batch_first5000.bin"}});
}

auto pathfinder_task(const std::string& name, Pixels pixels) {
  return pixel_task(name, {1, 32, 32, 255, pixels}, {"0", "1"},
                    {{"pathfinder32_hard_train.bin"}, {"pathfinder32_hard_test.bin"}});
}

// 64 pixels from 0 to 16 and the digit in every line; the usual split takes the last 600 for the test.
Task digits_task(const fs::path& folder, const Where& where) {
  const auto all = [=] {
    const ContentsPtr contents =
        read_contents(packed_or_not(folder / "digits.csv").value().string(), where.stream_above);
    std::string bytes;
    CsvReader reader(contents->bytes(), contents->file());
    CsvRow row;
    while (!reader.done()) {
      reader.next(row);
      check_width(row, 65, contents->file());
      std::string record(65, '\0');
      for (std::size_t i = 0; i < row.size(); ++i) {
        double value = 0;
        const double most = i == 64 ? 9 : 16;
        if (read_field(row[i].text, value) != Found::number || value < 0 || value > most)
          throw DataError(contents->file(), row[i].line, row[i].column,
                          fmt::format("expected a number from 0 to {}, found '{}'", most, row[i].text));
        record[i == 64 ? 0 : i + 1] = static_cast<char>(value);
      }
      bytes += record;
    }
    return read_pixel_records(contents_of(std::move(bytes), contents->file()), {.name = "digits8x8", .split = "all"},
                              {1, 8, 8, 16, Pixels::image}, numbered_classes(10));
  };
  const auto part = [all](const char* split, bool test) {
    return [=] {
      const DatasetPtr data = all();
      std::vector<Index> samples(static_cast<std::size_t>(data->size()));
      std::iota(samples.begin(), samples.end(), Index{0});
      const auto border = samples.begin() + std::max<Index>(0, data->size() - 600);
      return subset(data, test ? std::vector(border, samples.end()) : std::vector(samples.begin(), border), split);
    };
  };
  return make_task("digits8x8", part("train", false), nullptr,
                   [open = part("test", true)](const Description&) { return open(); });
}

// One file of lines for each split; an empty name means that there is no such split.
struct TextFiles {
  std::string train, validation, test;
};

auto text_task(const std::string& name, TextForm form, Index skip, Index usual_length, const TextFiles& files) {
  return [=](const fs::path& folder, const Where& where) {
    const auto open = [=](const char* split, const std::string& file, const Description* train) {
      const fs::path plain = folder / file;
      const ContentsPtr contents = read_contents(packed_or_not(plain).value_or(plain).string(), where.stream_above);
      TextOptions options{form, skip, {}, true, nullptr};
      if (train != nullptr) options.classes = train->classes;
      return read_token_text(contents, {.name = name, .split = split, .usual_length = usual_length}, options);
    };
    const auto other = [=](const char* split, const std::string& file) -> OpenOther {
      if (file.empty() || !packed_or_not(folder / file)) return nullptr;
      return [=](const Description& train) { return open(split, file, &train); };
    };
    return make_task(
        name, [=] { return open("train", files.train, nullptr); }, other("validation", files.validation),
        other("test", files.test));
  };
}

const TextFiles listops_files{"listops_train.tsv", "listops_val.tsv", "listops_test.tsv"};
const TextFiles imdb_files{"imdb_train.tsv", "", "imdb_test.tsv"};
const TextFiles retrieval_files{"new_aan_pairs.train.tsv", "new_aan_pairs.eval.tsv", "new_aan_pairs.test.tsv"};

// "4, Popular Question" for every type, after a header, in any order.
std::vector<std::string> event_names(const fs::path& file) {
  const ContentsPtr contents = read_contents(file.string(), Index{1} << 30);
  const CsvTable table = parse_csv(contents->bytes(), contents->file());
  std::vector<std::string> names(table.rows.size());
  for (const CsvRow& row : table.rows) {
    double number = 0;
    if (read_field(row[0].text, number) != Found::number || number < 1 || number > static_cast<double>(names.size()))
      throw DataError(table.file, row[0].line, row[0].column,
                      fmt::format("expected a type from 1 to {}, found '{}'", names.size(), row[0].text));
    names[static_cast<std::size_t>(number) - 1] = trimmed(row[1].text);
  }
  return names;
}

Task badges_task(const fs::path& folder, const Where& where) {
  const auto open = [=](const std::string& split) {
    return [=] {
      const auto part = [&](const char* what) {
        const fs::path plain = folder / fmt::format("so_{}_{}.txt", split, what);
        return read_contents(packed_or_not(plain).value_or(plain).string(), where.stream_above);
      };
      return read_events(part("event"), part("time"), {.name = "stackoverflow-badges", .split = split},
                         event_names(folder / "badges.csv"));
    };
  };
  return make_task("stackoverflow-badges", open("train"), nullptr,
                   [test = open("test")](const Description&) { return test(); });
}

TableOptions adult_options() {
  TableOptions options;
  options.header = {
      "age",          "workclass", "fnlwgt", "education",    "education-num", "marital-status", "occupation",
      "relationship", "race",      "sex",    "capital-gain", "capital-loss",  "hours-per-week", "native-country",
      "income"};
  options.label_end = ".";
  return options;
}

TableOptions cancer_options() {
  TableOptions options;
  options.skip_lines = 1;  // counts and names of the classes
  for (const char* kind : {"mean", "error", "worst"})
    for (const char* what : {"radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity",
                             "concave points", "symmetry", "fractal dimension"})
      options.header.push_back(fmt::format("{} {}", kind, what));
  options.header.emplace_back("benign");
  return options;
}

// A CSV file in a form of its own.
auto table_task(const std::string& name) {
  const auto& all = known_tables();
  const KnownTable& table =
      *std::find_if(all.begin(), all.end(), [&](const KnownTable& each) { return each.name == name; });
  return [&table](const fs::path& folder, const Where& where) {
    const auto open = [=, &table](const char* split, const std::string& file, const Description* like) {
      const fs::path plain = folder / file;
      TableOptions own = table.options;
      own.missing = where.missing;
      own.like = like;
      return read_table(read_contents(packed_or_not(plain).value_or(plain).string(), where.stream_above),
                        {.name = table.name, .split = split}, own);
    };
    if (table.test.empty())
      return hold_out(
          table.name, [=, &table] { return open("all", table.train, nullptr); }, where.test_share);
    return make_task(
        table.name, [=, &table] { return open("train", table.train, nullptr); }, nullptr,
        [=, &table](const Description& like) { return open("test", table.test, &like); });
  };
}

}  // namespace

const std::vector<KnownTable>& known_tables() {
  static const std::vector<KnownTable> all{
      {"adult", "adult.data", "adult.test", adult_options()},
      {"breast-cancer-wdbc", "breast_cancer.csv", "", cancer_options()},
      {"poker-hand", "poker-hand-training-true.data", "", {}},
  };
  return all;
}

const std::vector<Known>& catalogue() {
  const auto put = [](const std::string& files) {
    return fmt::format("put {} into a folder of the data folder", files);
  };
  const std::string pathfinder_hint = put("pathfinder32_hard_train.bin and pathfinder32_hard_test.bin");
  static const std::vector<Known> all = {
      {"fashion-mnist", "28 x 28 grey images of clothing", Kind::image, "fashion-mnist",
       "/usr/share/datasets/fashion-mnist", "train-images-idx3-ubyte",
       idx_task("fashion-mnist", {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker",
                                  "Bag", "Ankle boot"}),
       "install Debian's package dataset-fashion-mnist"},
      {"mnist", "28 x 28 grey images of digits", Kind::image, "mnist", "", "train-images-idx3-ubyte",
       idx_task("mnist", numbered_classes(10)), put("its four IDX files")},
      {"digits8x8", "8 x 8 grey images of digits", Kind::image, "digits8x8", "", "digits.csv", digits_task,
       put("digits.csv")},
      {"cifar10", "32 x 32 colour images", Kind::image, "cifar10", "", "data_batch_1.bin",
       cifar_task("cifar10", Pixels::image), put("the binary files of CIFAR-10")},
      {"cifar10-grey", "CIFAR-10 as 1024 grey pixels in a row", Kind::tokens, "cifar10", "", "data_batch_1.bin",
       cifar_task("cifar10-grey", Pixels::shifted), put("the binary files of CIFAR-10")},
      {"cifar10-grey16", "CIFAR-10 as 256 grey pixels in a row, each the mean of 2 x 2", Kind::tokens, "cifar10", "",
       "data_batch_1.bin", cifar_task("cifar10-grey16", Pixels::shifted, 2), put("the binary files of CIFAR-10")},
      {"lra-image", "CIFAR-10 as 1024 grey pixels in a row, black masked as published", Kind::tokens, "cifar10", "",
       "data_batch_1.bin", cifar_task("lra-image", Pixels::published), put("the binary files of CIFAR-10")},
      {"pathfinder32", "do two dots lie on the same curve? 32 x 32 grey images", Kind::image, "pathfinder32", "",
       "pathfinder32_hard_train.bin", pathfinder_task("pathfinder32", Pixels::image), pathfinder_hint},
      {"pathfinder32_pixels", "the images of pathfinder32 as 1024 pixels in a row", Kind::tokens, "pathfinder32", "",
       "pathfinder32_hard_train.bin", pathfinder_task("pathfinder32_pixels", Pixels::shifted), pathfinder_hint},
      {"lra-pathfinder", "pathfinder32_pixels, black masked as published", Kind::tokens, "pathfinder32", "",
       "pathfinder32_hard_train.bin", pathfinder_task("lra-pathfinder", Pixels::published), pathfinder_hint},
      {"listops", "nested lists of digits with MIN, MAX, MED and SM", Kind::tokens, "listops", "", "listops_train.tsv",
       text_task("listops", TextForm::listops, 0, 2000, listops_files), put("listops_train.tsv and listops_test.tsv")},
      {"lra-listops", "the same as listops", Kind::tokens, "listops", "", "listops_train.tsv",
       text_task("lra-listops", TextForm::listops, 0, 2000, listops_files),
       put("listops_train.tsv and listops_test.tsv")},
      {"imdb", "is a film review positive? byte by byte", Kind::tokens, "imdb", "", "imdb_train.tsv",
       text_task("imdb", TextForm::bytes, 1, 1000, imdb_files), put("imdb_train.tsv and imdb_test.tsv")},
      {"lra-text", "the same as imdb", Kind::tokens, "imdb", "", "imdb_train.tsv",
       text_task("lra-text", TextForm::bytes, 1, 1000, imdb_files), put("imdb_train.tsv and imdb_test.tsv")},
      {"lra-retrieval", "do two papers cite each other? byte by byte", Kind::pair, "retrieval", "",
       "new_aan_pairs.train.tsv", text_task("lra-retrieval", TextForm::pairs, 0, 4000, retrieval_files),
       put("the files new_aan_pairs.*.tsv of Long Range Arena")},
      {"stackoverflow-badges", "badges that users earn, with their times", Kind::events, "stackoverflow-badges", "",
       "so_train_event.txt", badges_task, put("so_train_event.txt, so_train_time.txt and the same for test")},
      {"adult", "does a person earn more than 50000 dollars? 14 columns, numbers and categories", Kind::series, "adult",
       "", "adult.data", table_task("adult"), put("adult.data and adult.test")},
      {"breast-cancer-wdbc", "is a tumour benign? 30 numbers", Kind::series, "breast-cancer-wdbc", "",
       "breast_cancer.csv", table_task("breast-cancer-wdbc"), put("breast_cancer.csv")},
      {"poker-hand", "which hand do five cards make? 10 numbers", Kind::series, "poker-hand", "",
       "poker-hand-training-true.data", table_task("poker-hand"), put("poker-hand-training-true.data")},
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

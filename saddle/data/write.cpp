#include "saddle/data/write.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/data/files.hpp"
#include "saddle/data/image_text.hpp"
#include "saddle/data/token_text.hpp"
#include "saddle/io/atomic_file.hpp"

namespace saddle::data {

namespace {

// Collects text and passes it on in large pieces.
class Writer {
 public:
  explicit Writer(const std::filesystem::path& file) : file_(file) {}
  std::string text;

  void flush_if_large() {
    if (text.size() > (std::size_t{1} << 20)) flush();
  }
  void commit() {
    flush();
    file_.commit();
  }

 private:
  void flush() {
    file_.write(std::as_bytes(std::span(text)));
    text.clear();
  }
  io::AtomicFile file_;
};

void put(std::string& text, float value) {
  std::array<char, 32> buffer{};
  text.append(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr);
}

// The label as text; "?" where it is not known.
std::string label_of(const Description& description, Index label) {
  return label < 0 ? "?" : description.classes.at(static_cast<std::size_t>(label));
}

void check_labels(const Description& description, const char* separators, const char* format) {
  for (const std::string& name : description.classes)
    if (name.empty() || name.find_first_of(separators) != std::string::npos)
      throw InvalidArgument(fmt::format("the class label '{}' cannot stand in a {} file", name, format),
                            "labels are single words");
}

void write_ts(const Dataset& data, Writer& out) {
  const Description& description = data.description();
  check_labels(description, " \t,:\r\n", ".ts");
  const bool labelled = !description.classes.empty(), equal = description.min_length == description.max_length;
  out.text = fmt::format(
      "@problemName {}\n@timeStamps false\n@missing false\n@univariate {}\n@dimensions {}\n@equalLength {}\n",
      description.name, description.channels == 1, description.channels, equal);
  if (equal) out.text += fmt::format("@seriesLength {}\n", description.max_length);
  out.text += labelled ? fmt::format("@classLabel true {}\n", join(description.classes, " ")) : "@classLabel false\n";
  out.text += "@data\n";
  Sample sample;
  for (Index i = 0; i < data.size(); ++i) {
    data.read(i, sample);
    for (Index c = 0; c < description.channels; ++c) {
      if (c > 0) out.text += ':';
      for (Index t = 0; t < sample.length; ++t) {
        if (t > 0) out.text += ',';
        put(out.text, sample.values[static_cast<std::size_t>(t * description.channels + c)]);
      }
    }
    if (labelled) out.text += ":" + label_of(description, sample.label);
    out.text += '\n';
    out.flush_if_large();
  }
}

void write_tokens(const Dataset& data, Writer& out) {
  const Description& description = data.description();
  check_labels(description, "\t\r\n", ".tsv");
  const bool listops = description.token_names == listops_names();
  if (!listops) {
    out.text = fmt::format("# saddle tokens {}\n", description.vocabulary);
    if (!description.token_names.empty()) out.text += fmt::format("# names\t{}\n", join(description.token_names, "\t"));
    if (!description.classes.empty()) out.text += fmt::format("# classes\t{}\n", join(description.classes, "\t"));
  }
  constexpr std::string_view letters = "?0123456789mMds]";
  Sample sample;
  for (Index i = 0; i < data.size(); ++i) {
    data.read(i, sample);
    out.text += label_of(description, sample.label) + '\t';
    for (std::size_t t = 0; t < sample.tokens.size(); ++t) {
      if (listops)
        out.text += letters.at(static_cast<std::size_t>(sample.tokens[t]));
      else
        out.text += (t > 0 ? " " : "") + std::to_string(sample.tokens[t]);
    }
    out.text += '\n';
    out.flush_if_large();
  }
}

std::string word(Index value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

// Labels are their numbers: IDX has no names.
void write_idx(const Dataset& data, Writer& images, Writer& labels) {
  const Description& description = data.description();
  if (description.channels != 1)
    throw NotSupported("images with several channels cannot be written", {"IDX files hold grey images"});
  images.text = word(2051) + word(data.size()) + word(description.rows) + word(description.columns);
  labels.text = word(2049) + word(data.size());
  Sample sample;
  for (Index i = 0; i < data.size(); ++i) {
    data.read(i, sample);
    if (sample.label < 0) throw InvalidArgument(fmt::format("image {} has no label", i));
    for (const float value : sample.values)
      images.text += static_cast<char>(std::lround(std::clamp(value, 0.F, 1.F) * 255));
    labels.text += static_cast<char>(sample.label);
    images.flush_if_large();
  }
}

[[noreturn]] void refuse(Kind kind) {
  throw NotSupported(fmt::format("data of the kind '{}' cannot be written", to_string(kind)), {},
                     "series, tokens, grey images and images with texts can be");
}

}  // namespace

std::string file_name_for(Kind kind, const std::string& name, const std::string& split) {
  const std::string word_for_split = split == "validation" ? "val" : split;
  std::string capitals = word_for_split;
  for (char& c : capitals) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (kind == Kind::series) return fmt::format("{}_{}.ts", name, capitals);
  if (kind == Kind::tokens) return fmt::format("{}_{}.tsv", name, word_for_split);
  if (kind == Kind::image_text) return fmt::format("{}_{}.safetensors", name, word_for_split);
  if (kind == Kind::image) return fmt::format("{}-images-idx3-ubyte", split == "test" ? "t10k" : word_for_split);
  refuse(kind);
}

void write_dataset(const Dataset& data, const std::filesystem::path& file) {
  const Kind kind = data.description().kind;
  if (kind == Kind::image_text) return write_image_text(data, file);
  if (kind != Kind::series && kind != Kind::tokens && kind != Kind::image) refuse(kind);
  Writer out(file);
  if (kind == Kind::image) {
    Writer labels(labels_of(file));
    write_idx(data, out, labels);
    labels.commit();
  } else {
    kind == Kind::series ? write_ts(data, out) : write_tokens(data, out);
  }
  out.commit();
}

}  // namespace saddle::data

// saddle weights: what a safetensors file holds, whether it is sound, and other names for vision transformers.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "output.hpp"
#include "saddle/base/error.hpp"
#include "saddle/io/names.hpp"
#include "saddle/io/safetensors_stream.hpp"
#include "saddle/io/vit_names.hpp"

namespace saddle::cli {

namespace {

struct WeightsArguments {
  std::string file, out;
  std::string to, prefix = "auto";
  bool keep_unknown = false;
};

// A file may hold anything, but not everything may reach the terminal: other than plain words are quoted and escaped.
std::string printable(const std::string& text, bool whole) {
  const bool plain = !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
  constexpr std::size_t longest = 80;
  const bool cut = !whole && text.size() > longest;
  const std::string shown = cut ? text.substr(0, longest) : text;
  return (plain ? shown : Json(shown).dump(-1, ' ', true, Json::error_handler_t::replace)) + (cut ? "..." : "");
}

// Elements of the tensor. The reader does not check the size of dtypes that saddle does not hold; the smallest of them
// takes half a byte, and a shape that asks for more than there is counts as nothing.
Index value_count(const io::TensorInfo& tensor) {
  Index count = 1;
  for (const Index extent : tensor.shape)
    if (__builtin_mul_overflow(count, extent, &count)) return 0;
  return count / 2 <= tensor.end - tensor.begin ? count : 0;
}

struct Totals {
  Index values = 0, bytes = 0;
};

Totals totals_of(const io::SafetensorsReader& reader) {
  Totals totals;
  for (const auto& [name, tensor] : reader.tensors()) {
    totals.values += value_count(tensor);
    totals.bytes += tensor.end - tensor.begin;
  }
  return totals;
}

std::string summary(const io::SafetensorsReader& reader) {
  const Totals totals = totals_of(reader);
  return fmt::format("{} tensors, {} values, {}", reader.tensors().size(),
                     count_text(static_cast<double>(totals.values)), bytes_text(static_cast<double>(totals.bytes)));
}

int show(const WeightsArguments& arguments, const Context& context) {
  const io::SafetensorsReader reader(arguments.file);
  if (context.json) {
    Json tensors = Json::array();
    for (const auto& [name, tensor] : reader.tensors())
      tensors.push_back({{"name", name},
                         {"dtype", tensor.dtype_name},
                         {"shape", tensor.shape},
                         {"bytes", tensor.end - tensor.begin}});
    const Totals totals = totals_of(reader);
    print_json("saddle.weights.show/1", {{"file", reader.file()},
                                         {"tensors", tensors},
                                         {"metadata", Json(reader.metadata())},
                                         {"values", totals.values},
                                         {"bytes", totals.bytes}});
    return Exit::ok;
  }
  Table table({"name", "dtype", "shape", "size"}, "lllr");
  for (const auto& [name, tensor] : reader.tensors())
    table.add({printable(name, context.verbose), tensor.dtype_name, to_string(tensor.shape),
               bytes_text(static_cast<double>(tensor.end - tensor.begin))});
  std::string text = table.text();
  if (!reader.metadata().empty()) {
    text += "\n" + bold("metadata") + "\n";
    for (const auto& [key, value] : reader.metadata())
      text += fmt::format("  {}: {}\n", printable(key, context.verbose), printable(value, context.verbose));
  }
  print(text + "\n" + summary(reader) + "\n");
  return Exit::ok;
}

int check(const WeightsArguments& arguments, const Context& context) {
  const io::SafetensorsReader reader(arguments.file);
  io::require_held(reader.tensors(), reader.file());
  if (context.json) {
    const Totals totals = totals_of(reader);
    print_json("saddle.weights.check/1", {{"file", reader.file()},
                                          {"tensors", reader.tensors().size()},
                                          {"values", totals.values},
                                          {"bytes", totals.bytes}});
  } else {
    print(fmt::format("{}  {}: {}\n", green("OK"), reader.file(), summary(reader)));
  }
  return Exit::ok;
}

int convert(const WeightsArguments& arguments, const Context& context) {
  io::VitConversion conversion;
  conversion.to = arguments.to == "timm" ? io::VitNames::timm : io::VitNames::hugging_face;
  if (arguments.prefix != "auto") conversion.prefix = arguments.prefix;
  conversion.keep_unknown = arguments.keep_unknown;
  const io::VitReport report = io::convert_vit(arguments.file, arguments.out, conversion);
  if (context.json) {
    print_json("saddle.weights.convert/1", {{"file", arguments.file},
                                            {"out", arguments.out},
                                            {"to", arguments.to},
                                            {"prefix", report.prefix},
                                            {"tensors", report.tensors},
                                            {"ignored", report.ignored},
                                            {"unknown", report.unknown}});
    return Exit::ok;
  }
  print(fmt::format("{}: {} tensors with the names of {}\n", arguments.out, report.tensors,
                    arguments.to == "timm" ? "timm" : "Hugging Face"));
  if (!context.quiet && !report.ignored.empty())
    print_message("note: left out, timm has no such layer: " + io::list_of(report.ignored) + "\n");
  if (!context.quiet && !report.unknown.empty())
    print_message("note: kept under their own names: " + io::list_of(report.unknown) + "\n");
  return Exit::ok;
}

}  // namespace

Command weights_command() {
  const auto a = std::make_shared<WeightsArguments>();
  const Option file{"file", "", "a safetensors file", &a->file, true};
  const Command show_command{"show",
                             "List the tensors of a safetensors file: names, dtypes, shapes, sizes, metadata.",
                             {{"what is in it", "saddle weights show tests/vit/small.safetensors"},
                              {"for scripts", "saddle weights show tests/vit/small.safetensors --json"}},
                             {file},
                             [a](const Context& context) { return show(*a, context); }};
  const Command check_command{"check",
                              "Check a safetensors file strictly: header, names, offsets, sizes, dtypes. Exit code 3: "
                              "damaged; 4: a valid dtype "
                              "that saddle does not read.",
                              {{"is it sound?", "saddle weights check tests/vit/small.safetensors"}},
                              {file},
                              [a](const Context& context) { return check(*a, context); }};
  const Command convert_command{
      "convert",
      "Rename the weights of a vision transformer (ViT, DeiT) between timm and Hugging Face; values keep their bits.",
      {{"for Hugging Face's ViTForImageClassification",
        "saddle weights convert tests/vit/small.safetensors hf.safetensors --to hf"},
       {"and back", "saddle weights convert hf.safetensors timm.safetensors --to timm"},
       {"for its ViTModel, whose names have no prefix",
        "saddle weights convert tests/vit/small.safetensors base.safetensors --to hf --prefix ''"}},
      {file,
       {"out", "", "the file to write; it may be the same", &a->out, true},
       {"--to", "NAMES", "the names to give", &a->to, true, {"timm", "hf"}},
       {"--prefix", "PREFIX",
        "of Hugging Face's names; default: to timm that of the file, to hf deit. where there is a distillation token, "
        "else vit.",
        &a->prefix},
       {"--keep-unknown", "", "copy tensors with other names as they are; without, they are an error",
        &a->keep_unknown}},
      [a](const Context& context) { return convert(*a, context); }};
  return {"weights",
          "Safetensors files: what they hold, whether they are sound, names of other libraries.",
          {{"what is in a file", "saddle weights show tests/vit/small.safetensors"}},
          {},
          nullptr,
          {show_command, check_command, convert_command}};
}

}  // namespace saddle::cli

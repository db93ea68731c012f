#include "saddle/io/vit_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "saddle/base/error.hpp"
#include "saddle/io/names.hpp"
#include "saddle/io/safetensors_stream.hpp"
#include "saddle/io/vit/name_table.hpp"

namespace saddle::io {

namespace {

using Types = std::map<std::string, TensorType>;

// Bytes of the input that make a tensor of the output, in order.
struct Source {
  std::string name;
  Index from = 0, bytes = 0;
};

struct Plan {
  Types types;
  std::map<std::string, std::vector<Source>> sources;  // of each tensor of the output
  VitReport report;
};

bool any_starts_with(const Types& tensors, std::string_view prefix) {
  const auto at = tensors.lower_bound(std::string(prefix));
  return at != tensors.end() && at->first.starts_with(prefix);
}

std::string chosen_prefix(const Types& tensors, const VitConversion& conversion) {
  if (conversion.prefix) return *conversion.prefix;
  if (conversion.to == VitNames::hugging_face) return tensors.contains("dist_token") ? "deit." : "vit.";
  for (const char* prefix : {"vit.", "deit."})
    if (any_starts_with(tensors, prefix)) return prefix;
  return "";
}

Index byte_count(const TensorType& tensor) {
  return element_count(tensor.shape) * static_cast<Index>(size_of(tensor.dtype));
}

std::string hint_for(const Types& tensors, VitNames to) {
  const bool timm = any_starts_with(tensors, "blocks.");
  if (timm && to == VitNames::timm) return "these names look like timm's already";
  if (!timm && to == VitNames::hugging_face) return "is this a vision transformer with timm's names?";
  return "keep_unknown (--keep-unknown) copies them under their own names";
}

class Planner {
 public:
  Planner(const Types& tensors, const VitConversion& conversion, const std::string& file)
      : tensors_(tensors),
        file_(file),
        names_(conversion.to, plan_.report.prefix = chosen_prefix(tensors, conversion),
               any_starts_with(tensors, conversion.to == VitNames::timm ? "distillation_classifier." : "head_dist.")) {
    for (const auto& [name, type] : tensors) {
      if (const auto target = names_.renamed(name)) {
        put(*target, type, {{name, 0, byte_count(type)}});
      } else if (conversion.to == VitNames::timm ? join(name) : split(name, type)) {
        continue;
      } else if (names_.is_pooler(name)) {
        plan_.report.ignored.push_back(name);
      } else {
        plan_.report.unknown.push_back(name);
      }
    }
    if (!conversion.keep_unknown && !plan_.report.unknown.empty()) refuse_unknown(conversion.to);
    for (const std::string& name : plan_.report.unknown)
      put(name, tensors.at(name), {{name, 0, byte_count(tensors.at(name))}});
    plan_.report.tensors = plan_.types.size();
  }

  Plan take() { return std::move(plan_); }

 private:
  [[noreturn]] void fail(const std::string& message, std::string hint = {}) const {
    throw DataError(file_, 0, 0, message, std::move(hint));
  }

  void put(const std::string& name, TensorType type, std::vector<Source> sources) {
    if (const auto [at, added] = plan_.sources.emplace(name, std::move(sources)); !added)
      fail(fmt::format("{} would be made of {} and of another tensor", in_quotes(name),
                       in_quotes(at->second.front().name)));
    plan_.types.emplace(name, std::move(type));
  }

  // Rows of a qkv tensor: a third each.
  bool split(const std::string& name, const TensorType& type) {
    const std::vector<std::string> targets = names_.split(name);
    if (targets.empty()) return false;
    if (type.shape.empty() || type.shape.front() % 3 != 0)
      fail(fmt::format("tensor {} has the shape {}: its rows cannot be cut into query, key and value", in_quotes(name),
                       to_string(type.shape)));
    TensorType third = type;
    third.shape.front() /= 3;
    const Index bytes = byte_count(third);
    for (std::size_t part = 0; part < targets.size(); ++part)
      put(targets[part], third, {{name, static_cast<Index>(part) * bytes, bytes}});
    return true;
  }

  // Query, key and value below each other, when the query comes by.
  bool join(const std::string& name) {
    const auto joined = names_.joined(name);
    if (!joined) return false;
    std::vector<std::string> missing;
    for (const std::string& part : joined->parts)
      if (!tensors_.contains(part)) missing.push_back(part);
    if (!missing.empty())
      fail(fmt::format("there is {} but not {}: query, key and value are joined", in_quotes(name), list_of(missing)));
    if (name != joined->parts.front()) return true;

    TensorType whole = tensors_.at(name);
    std::vector<Source> sources;
    for (const std::string& part : joined->parts) {
      const TensorType& type = tensors_.at(part);
      if (type != whole || type.shape.empty())
        fail(fmt::format("tensor {} is {} {} but {} is {} {}: query, key and value are joined by rows", in_quotes(name),
                         to_string(whole.dtype), to_string(whole.shape), in_quotes(part), to_string(type.dtype),
                         to_string(type.shape)));
      sources.push_back({part, 0, byte_count(type)});
    }
    if (__builtin_mul_overflow(whole.shape.front(), Index{3}, &whole.shape.front()))
      fail(fmt::format("three tensors like {} are too large to join", in_quotes(name)));
    put(joined->name, whole, std::move(sources));
    return true;
  }

  [[noreturn]] void refuse_unknown(VitNames to) const {
    const std::vector<std::string>& unknown = plan_.report.unknown;
    std::vector<std::string> candidates = names_.known(unknown.front());
    std::erase_if(candidates, [&](const std::string& name) { return tensors_.contains(name); });
    fail(fmt::format("{} of {} names are not those of a vision transformer {}: {}", unknown.size(), tensors_.size(),
                     to == VitNames::timm ? "of Hugging Face" : "of timm", list_of(unknown, candidates)),
         hint_for(tensors_, to));
  }

  const Types& tensors_;
  const std::string& file_;
  Plan plan_;
  NameTable names_;
};

std::map<std::string, std::string> with_format(std::map<std::string, std::string> metadata, VitNames to) {
  if (to == VitNames::hugging_face) metadata.emplace("format", "pt");
  return metadata;
}

}  // namespace

VitReport convert_vit(const std::filesystem::path& from, const std::filesystem::path& to,
                      const VitConversion& conversion) {
  const SafetensorsReader reader(from);
  require_held(reader.tensors(), reader.file());
  Types types;
  for (const auto& [name, tensor] : reader.tensors()) types.emplace(name, TensorType{*tensor.dtype, tensor.shape});
  Plan plan = Planner(types, conversion, reader.file()).take();

  SafetensorsWriter writer(to, plan.types, with_format(reader.metadata(), conversion.to));
  std::vector<std::byte> bytes;
  for (const std::string& name : writer.order())
    for (const Source& source : plan.sources.at(name)) {
      bytes.resize(static_cast<std::size_t>(source.bytes));
      reader.read(reader.tensors().at(source.name), bytes, source.from);
      writer.write(bytes);
    }
  writer.commit();
  return plan.report;
}

TensorFile convert_vit(const TensorFile& from, const VitConversion& conversion, const std::string& file) {
  Types types;
  for (const auto& [name, tensor] : from.tensors) types.emplace(name, TensorType{tensor.dtype(), tensor.shape()});
  const Plan plan = Planner(types, conversion, file).take();

  TensorFile result{{}, with_format(from.metadata, conversion.to)};
  for (const auto& [name, type] : plan.types) {
    Tensor tensor(type.dtype, type.shape);
    auto to = tensor.bytes().begin();
    for (const Source& source : plan.sources.at(name))
      to = std::copy_n(from.tensors.at(source.name).bytes().begin() + source.from, source.bytes, to);
    result.tensors.emplace(name, std::move(tensor));
  }
  return result;
}

}  // namespace saddle::io

#include "saddle/nn/weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "saddle/base/error.hpp"
#include "saddle/io/names.hpp"
#include "saddle/io/safetensors_stream.hpp"
#include "saddle/nn/tensor.hpp"

namespace saddle::nn {

namespace {

using io::in_quotes;
using io::list_of;
using Tensors = std::map<std::string, torch::Tensor>;

Tensors tensors_of(const torch::nn::Module& module) {
  Tensors tensors;
  for (const auto& item : module.named_parameters()) tensors.emplace(item.key(), item.value());
  for (const auto& item : module.named_buffers()) tensors.emplace(item.key(), item.value());
  return tensors;
}

// The same values in the same memory, now and after any change.
bool tied(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.is_same(b)) return true;
  return a.has_storage() && b.has_storage() && a.numel() > 0 && a.is_alias_of(b) &&
         a.storage_offset() == b.storage_offset() && a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

// Every name, with the first one of the same tensor.
std::map<std::string, std::string> first_names(const Tensors& tensors) {
  std::map<std::string, std::string> first;
  std::multimap<const void*, std::string> seen;  // by address: only tensors that begin there can be the same
  for (const auto& [name, tensor] : tensors) {
    const void* address = tensor.has_storage() ? tensor.data_ptr() : nullptr;
    const auto [begin, end] = seen.equal_range(address);
    const auto same =
        std::find_if(begin, end, [&](const auto& other) { return tied(tensors.at(other.second), tensor); });
    first[name] = same == end ? name : same->second;
    if (same == end) seen.emplace(address, name);
  }
  return first;
}

io::TensorType type_of(const std::string& name, const torch::Tensor& tensor) {
  try {
    return {dtype_of(tensor.scalar_type()), Shape(tensor.sizes().begin(), tensor.sizes().end())};
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("[weights] {} has no counterpart in a file: {}", in_quotes(name), error.what()),
                          "convert the module to float32, bfloat16 or float64 first");
  }
}

std::span<std::byte> bytes_of(const torch::Tensor& dense) {
  return {static_cast<std::byte*>(dense.data_ptr()), dense.nbytes()};
}

// The tensors of a file that a module takes, and what is wrong with the rest.
class Match {
 public:
  Match(const Tensors& own, const io::SafetensorsReader& reader, const LoadWeightsOptions& options)
      : own_(own), reader_(reader), options_(options), first_(first_names(own)) {
    std::set<std::string> found;  // first names
    for (const auto& [name, tensor] : own)
      if (const io::TensorInfo* info = find(name)) {
        check(name, tensor, *info);
        found.insert(first_.at(name));
      }
    for (const auto& [name, tensor] : own)
      if (!found.contains(first_.at(name))) missing.push_back(name);
    for (const auto& [name, info] : reader.tensors())
      if (name.starts_with(options.prefix()) && !own.contains(name.substr(options.prefix().size())))
        unexpected.push_back(name);
    if (!wrong_.empty() || (options.strict() && !(missing.empty() && unexpected.empty()))) refuse();
  }

  // The file's tensor for a name of the module: its own, or the one that the file says is the same.
  const io::TensorInfo* find(const std::string& name) const {
    const std::string& prefix = options_.prefix();
    const auto& tensors = reader_.tensors();
    if (const auto at = tensors.find(prefix + name); at != tensors.end()) return &at->second;
    const auto alias = reader_.metadata().find(prefix + name);
    if (alias == reader_.metadata().end() || !alias->second.starts_with(prefix)) return nullptr;
    const auto at = tensors.find(alias->second);
    return at != tensors.end() ? &at->second : nullptr;
  }

  const std::string& first(const std::string& name) const { return first_.at(name); }

  std::vector<std::string> missing, unexpected;

 private:
  void check(const std::string& name, const torch::Tensor& tensor, const io::TensorInfo& info) {
    const auto [dtype, shape] = type_of(name, tensor);
    const bool castable = options_.cast() && is_floating(dtype) && info.dtype && is_floating(*info.dtype);
    if (shape == info.shape && (info.dtype == dtype || castable)) return;
    castable_ |= shape == info.shape && info.dtype && is_floating(dtype) && is_floating(*info.dtype);
    wrong_.push_back(fmt::format("{} is {} {} in the file, {} {} in the module", in_quotes(name), info.dtype_name,
                                 to_string(info.shape), to_string(dtype), to_string(shape)));
  }

  std::string hint() const {
    for (const std::string& name : unexpected)
      if (name.find("encoder.layer.") != std::string::npos)
        return "if these are Hugging Face's names, saddle weights convert --to timm gives them ours";
    if (castable_) return "the option cast takes floating values of another dtype";
    if (wrong_.empty()) return "strict(false) loads what fits; prefix(...) loads a part of a larger model";
    return "is the file that of a model of another size?";
  }

  [[noreturn]] void refuse() const {
    std::string message = "the weights do not fit the module";
    if (options_.strict() && !missing.empty())
      message += fmt::format("\n  missing in the file, {} of {}: {}", missing.size(), own_.size(), list_of(missing));
    if (options_.strict() && !unexpected.empty()) {
      std::vector<std::string> candidates;
      for (const std::string& name : missing) candidates.push_back(options_.prefix() + name);
      message += fmt::format("\n  unexpected in the file, {} of {}: {}", unexpected.size(), reader_.tensors().size(),
                             list_of(unexpected, candidates));
    }
    constexpr std::size_t most = 8;
    for (std::size_t i = 0; i < std::min(wrong_.size(), most); ++i) message += "\n  " + wrong_[i];
    if (wrong_.size() > most) message += fmt::format("\n  and {} more of another shape or dtype", wrong_.size() - most);
    throw DataError(reader_.file(), 0, 0, message, hint());
  }

  const Tensors& own_;
  const io::SafetensorsReader& reader_;
  const LoadWeightsOptions& options_;
  std::map<std::string, std::string> first_;
  std::vector<std::string> wrong_;  // shapes and dtypes, one line each
  bool castable_ = false;
};

// The values as they stand in the file. Booleans as bytes: a file may hold others than 0 and 1.
torch::Tensor staged(const io::SafetensorsReader& reader, const io::TensorInfo& info) {
  const DType dtype = *info.dtype == DType::boolean ? DType::u8 : *info.dtype;
  torch::Tensor tensor = torch::empty(info.shape, scalar_type(dtype));
  reader.read(info, bytes_of(tensor));
  return tensor;
}

}  // namespace

void save_weights(const torch::nn::Module& module, const std::filesystem::path& path,
                  const std::map<std::string, std::string>& metadata) {
  const Tensors tensors = tensors_of(module);
  std::map<std::string, std::string> notes = metadata;
  notes.emplace("format", "pt");
  std::map<std::string, io::TensorType> types;
  for (const auto& [name, first] : first_names(tensors)) {
    if (name == first) {
      types.emplace(name, type_of(name, tensors.at(name)));
    } else if (!notes.emplace(name, first).second) {
      throw InvalidArgument(
          fmt::format("[save_weights] the metadata key {} is needed for a tied weight of that name", in_quotes(name)));
    }
  }
  io::SafetensorsWriter writer(path, types, notes);
  for (const std::string& name : writer.order())
    writer.write(bytes_of(tensors.at(name).detach().to(torch::kCPU).contiguous()));
  writer.commit();
}

LoadedWeights load_weights(torch::nn::Module& module, const std::filesystem::path& path,
                           const LoadWeightsOptions& options) {
  const torch::NoGradGuard no_grad;
  const io::SafetensorsReader reader(path);
  const Tensors own = tensors_of(module);
  const Match match(own, reader, options);

  // All is read before anything is changed.
  std::map<std::string, std::pair<std::string, torch::Tensor>> values;  // by first name: where from, and what
  for (const auto& [name, tensor] : own) {
    const io::TensorInfo* info = match.find(name);
    if (info == nullptr) continue;
    torch::Tensor value = staged(reader, *info);
    const auto [at, added] = values.try_emplace(match.first(name), name, value);
    const auto& [before, other] = at->second;
    if (!added && !std::ranges::equal(bytes_of(value), bytes_of(other)))
      throw DataError(reader.file(), 0, 0,
                      fmt::format("{} and {} are one tensor in the module but have different values in the file",
                                  in_quotes(before), in_quotes(name)));
  }
  for (const auto& [name, value] : values) own.at(name).copy_(value.second);
  return {match.missing, match.unexpected, reader.metadata()};
}

}  // namespace saddle::nn

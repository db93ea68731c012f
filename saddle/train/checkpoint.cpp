#include "saddle/train/checkpoint.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <span>

#include "saddle/base/error.hpp"
#include "saddle/io/safetensors_stream.hpp"

namespace saddle::train {

namespace fs = std::filesystem;
using torch::Tensor;

namespace {

struct TypePair {
  DType ours;
  torch::ScalarType theirs;
};
constexpr std::array<TypePair, 7> types{{{DType::f64, torch::kFloat64},
                                         {DType::f32, torch::kFloat32},
                                         {DType::bf16, torch::kBFloat16},
                                         {DType::i64, torch::kInt64},
                                         {DType::i32, torch::kInt32},
                                         {DType::u8, torch::kUInt8},
                                         {DType::boolean, torch::kBool}}};

DType type_of(const Tensor& tensor) {
  for (const TypePair& type : types)
    if (type.theirs == tensor.scalar_type()) return type.ours;
  throw InvalidArgument(
      fmt::format("a checkpoint cannot hold tensors of type {}", c10::toString(tensor.scalar_type())));
}

torch::ScalarType type_of(DType dtype) {
  for (const TypePair& type : types)
    if (type.ours == dtype) return type.theirs;
  throw InvalidArgument("a checkpoint with a dtype that torch does not have");
}

std::span<const std::byte> bytes_of(const Tensor& dense) {
  return {static_cast<const std::byte*>(dense.data_ptr()), dense.nbytes()};
}

std::string checksum(const NamedTensors& dense, const std::string& state) {
  uLong sum = crc32(0, nullptr, 0);
  const auto add = [&](const void* data, std::size_t size) {
    sum = crc32_z(sum, static_cast<const Bytef*>(data), size);
  };
  add(state.data(), state.size());
  for (const auto& [name, tensor] : dense) {
    add(name.data(), name.size());
    const auto bytes = bytes_of(tensor);
    add(bytes.data(), bytes.size());
  }
  return fmt::format("{:08x}", sum);
}

}  // namespace

void write_checkpoint(const fs::path& path, const NamedTensors& tensors, const std::string& state) {
  NamedTensors dense;
  std::map<std::string, io::TensorType> header;
  for (const auto& [name, tensor] : tensors) {
    dense[name] = tensor.detach().contiguous();
    header[name] = {type_of(tensor), {tensor.sizes().begin(), tensor.sizes().end()}};
  }
  io::SafetensorsWriter writer(path, header,
                               {{"format", "pt"}, {"saddle", state}, {"checksum", checksum(dense, state)}});
  for (const std::string& name : writer.order()) writer.write(bytes_of(dense.at(name)));
  writer.commit();
}

Checkpoint read_checkpoint(const fs::path& path) {
  const io::SafetensorsReader reader(path);
  io::require_held(reader.tensors(), reader.file());
  Checkpoint checkpoint{reader.file(), {}, {}};
  const auto own = [&](const char* key) {
    const auto found = reader.metadata().find(key);
    if (found == reader.metadata().end())
      throw DataError(reader.file(), 0, 0, fmt::format("is no checkpoint of saddle: its metadata have no '{}'", key));
    return found->second;
  };
  checkpoint.state = own("saddle");
  for (const auto& [name, info] : reader.tensors()) {
    const Tensor tensor =
        torch::empty(std::vector<int64_t>(info.shape.begin(), info.shape.end()), type_of(*info.dtype));
    reader.read(info, {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()});
    checkpoint.tensors[name] = tensor;
  }
  if (checksum(checkpoint.tensors, checkpoint.state) != own("checksum"))
    throw DataError(reader.file(), 0, 0, "is damaged: its contents do not have the checksum they were written with");
  return checkpoint;
}

void restore(const Checkpoint& checkpoint, const std::string& prefix, const NamedTensors& into) {
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (const auto& [name, tensor] : into) {
    const auto found = checkpoint.tensors.find(prefix + name);
    if (found == checkpoint.tensors.end())
      throw DataError(checkpoint.file, 0, 0, fmt::format("has no tensor '{}{}'", prefix, name));
    if (found->second.sizes() != tensor.sizes() || found->second.scalar_type() != tensor.scalar_type())
      throw DataError(checkpoint.file, 0, 0, fmt::format("holds '{}{}' in another shape or type", prefix, name));
    copies.emplace_back(tensor, found->second);
  }
  const torch::NoGradGuard guard;
  for (auto& [to, from] : copies) to.copy_(from);
}

}  // namespace saddle::train

// Safetensors files one tensor at a time: for those that need not be in memory as a whole, and for tensors that live
// elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "saddle/base/tensor.hpp"
#include "saddle/io/atomic_file.hpp"

namespace saddle::io {

struct Layout;

// One tensor as the header of a file describes it.
struct TensorInfo {
  std::string dtype_name;      // as the format has it: "F32"
  std::optional<DType> dtype;  // nothing: saddle does not hold it
  Shape shape;
  Index begin = 0, end = 0;  // its bytes, counted from the first one after the header
};

// Throws NotSupported if saddle cannot hold one of the tensors. `file` stands for the file in the message.
SADDLE_API void require_held(const std::map<std::string, TensorInfo>& tensors, const std::string& file);

// The constructor checks the whole header as read_safetensors does, but takes any dtype of the format.
class SADDLE_API SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::filesystem::path& path);
  ~SafetensorsReader();
  SafetensorsReader(const SafetensorsReader&) = delete;
  SafetensorsReader& operator=(const SafetensorsReader&) = delete;

  const std::string& file() const { return file_; }
  const std::map<std::string, TensorInfo>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // Fills `to` with the tensor's bytes from byte `from` on. Throws IoError.
  void read(const TensorInfo& tensor, std::span<std::byte> to, Index from = 0) const;

 private:
  void read_at(std::uint64_t position, std::span<std::byte> to) const;

  std::string file_;
  std::map<std::string, TensorInfo> tensors_;
  std::map<std::string, std::string> metadata_;
  std::uint64_t data_begin_ = 0;
  int descriptor_ = -1;
};

// What is to be written of a tensor, apart from its bytes.
struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const TensorType&) const = default;
};

// Contents the format cannot hold throw InvalidArgument before anything is written. Without commit() the file stays as
// it was.
class SADDLE_API SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, const std::map<std::string, TensorType>& tensors,
                    const std::map<std::string, std::string>& metadata);

  // The names in the order in which their bytes are to follow, dense and row-major, in any number of pieces.
  const std::vector<std::string>& order() const { return order_; }
  void write(std::span<const std::byte> bytes);
  // Throws InvalidArgument unless all bytes were written and no more.
  void commit();

 private:
  SafetensorsWriter(const std::filesystem::path& path, Layout&& layout);

  std::vector<std::string> order_;
  std::uint64_t missing_;  // bytes
  AtomicFile file_;
};

}  // namespace saddle::io

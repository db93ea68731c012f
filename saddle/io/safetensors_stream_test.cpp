#include "saddle/io/safetensors_stream.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "saddle/base/error.hpp"
#include "saddle/io/safetensors.hpp"

namespace saddle::io {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class SafetensorsStream : public testing::Test {
 protected:
  SafetensorsStream() {
    std::string name = (fs::path(testing::TempDir()) / "saddle-XXXXXX").string();
    folder = ::mkdtemp(name.data());
    path = folder / "w.safetensors";
  }
  ~SafetensorsStream() override { fs::remove_all(folder); }

  static TensorFile contents() {
    TensorFile file{{{"a", Tensor(DType::bf16, {3})}, {"none", Tensor(DType::f32, {0, 2})}}, {{"k", "v"}}};
    Tensor x(DType::f64, {2, 2});
    for (Index i = 0; i < 4; ++i) x.set(i, 0.5 + static_cast<double>(i));
    file.tensors["x"] = x;
    return file;
  }

  void write_bytes(const std::string& bytes) const { std::ofstream(path, std::ios::binary) << bytes; }
  std::string bytes() const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path folder, path;
};

TEST_F(SafetensorsStream, ReadsPiecesOfTensors) {
  write_safetensors(path, contents());
  const SafetensorsReader reader(path);
  EXPECT_EQ(reader.file(), path.string());
  EXPECT_EQ(reader.metadata().at("k"), "v");
  ASSERT_EQ(reader.tensors().size(), 3u);
  const TensorInfo& x = reader.tensors().at("x");
  EXPECT_EQ(x.dtype_name, "F64");
  EXPECT_EQ(x.dtype, DType::f64);
  EXPECT_EQ(x.shape, (Shape{2, 2}));
  double row[2];
  reader.read(x, std::as_writable_bytes(std::span(row)), 16);
  EXPECT_EQ(row[0], 2.5);
  EXPECT_EQ(row[1], 3.5);
  reader.read(reader.tensors().at("none"), {});
}

TEST_F(SafetensorsStream, WritesTheSameFileInPieces) {
  const TensorFile file = contents();
  write_safetensors(path, file);
  const std::string whole = bytes();
  std::map<std::string, TensorType> types;
  for (const auto& [name, tensor] : file.tensors) types[name] = {tensor.dtype(), tensor.shape()};
  SafetensorsWriter writer(path, types, file.metadata);
  EXPECT_THAT(writer.order(), ElementsAre("x", "none", "a"));
  for (const std::string& name : writer.order())
    for (const std::byte& byte : file.tensors.at(name).bytes()) writer.write(std::span(&byte, 1));
  writer.commit();
  EXPECT_EQ(bytes(), whole);
}

TEST_F(SafetensorsStream, AWrongNumberOfBytesIsNotCommitted) {
  write_safetensors(path, contents());
  const std::string before = bytes();
  const std::map<std::string, TensorType> types{{"w", {DType::f32, {2}}}};
  const std::vector<std::byte> some(9);
  {
    SafetensorsWriter writer(path, types, {});
    writer.write(std::span(some).first(7));
    EXPECT_THAT([&] { writer.write(std::span(some).first(2)); },
                ThrowsMessage<InvalidArgument>(HasSubstr("2 bytes were to be written")));
    EXPECT_THAT([&] { writer.commit(); }, ThrowsMessage<InvalidArgument>(HasSubstr("1 bytes of the announced")));
  }
  EXPECT_EQ(bytes(), before);
  EXPECT_THROW(SafetensorsWriter(path, {{"w", {DType::f32, {-1}}}}, {}), InvalidArgument);
  EXPECT_THROW(
      SafetensorsWriter(path, {{"w", {DType::u8, {Index{1} << 62}}}, {"v", {DType::u8, {Index{1} << 62}}}}, {}),
      InvalidArgument);
  EXPECT_EQ(bytes(), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
}

// The header alone says it; the data are never looked at.
TEST_F(SafetensorsStream, EveryTruncatedFileIsRefusedWhenOpened) {
  write_safetensors(path, contents());
  const std::string whole = bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_bytes(whole.substr(0, size));
    EXPECT_THROW(SafetensorsReader{path}, DataError) << size << " of " << whole.size() << " bytes";
  }
}

TEST_F(SafetensorsStream, AFileThatShrinksIsAnError) {
  write_safetensors(path, contents());
  const SafetensorsReader reader(path);
  fs::resize_file(path, fs::file_size(path) - 8);
  const TensorInfo& last = reader.tensors().at("a");
  std::vector<std::byte> to(6);
  EXPECT_THAT([&] { reader.read(last, to); }, ThrowsMessage<IoError>(HasSubstr("became shorter")));
}

// Seen, but not held.
TEST_F(SafetensorsStream, ForeignDtypesAreListed) {
  const std::string header = R"({"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})";
  write_bytes(std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header + "abcd");
  const SafetensorsReader reader(path);
  EXPECT_EQ(reader.tensors().at("h").dtype_name, "F16");
  EXPECT_FALSE(reader.tensors().at("h").dtype.has_value());
  EXPECT_THROW(require_held(reader.tensors(), reader.file()), NotSupported);
}

}  // namespace
}  // namespace saddle::io
